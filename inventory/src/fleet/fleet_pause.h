#ifndef STOCKADE_INVENTORY_FLEET_FLEET_PAUSE_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_PAUSE_H_

#include <atomic>
#include <cstdint>

#include "stockade/base/export.h"

namespace stockade::inventory_internal {

// Places at which a test may make a thread wait, so that others act meanwhile.
enum class FleetPause : uint8_t { kLookReplied, kLeaseReplied, kIdsLoading, kIdsLoaded, kBeforeMove, kBeforeFill };

// Tests are built with STOCKADE_CRASH_POINTS. In other builds no thread waits.
#ifdef STOCKADE_CRASH_POINTS
STOCKADE_EXPORT extern std::atomic<void (*)(FleetPause)> fleet_pause;
inline void Pause(FleetPause place) {
  if (const auto pause = fleet_pause.load(std::memory_order_relaxed)) pause(place);
}
#else
inline void Pause(FleetPause) {}
#endif

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_PAUSE_H_
