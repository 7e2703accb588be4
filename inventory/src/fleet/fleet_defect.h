#ifndef STOCKADE_INVENTORY_FLEET_FLEET_DEFECT_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_DEFECT_H_

#include <atomic>
#include <cstdint>

#include "stockade/base/export.h"

namespace stockade::inventory_internal {

// The rules that a test can leave out, to see that its checker notices: broken variants of tests/models, by their names
// there.
enum class FleetDefect : uint8_t {
  kNone,
  // fleet_sold_out.pml
  kSecondToPool,
  kLateMover,
  kLookFirst,
  kIdsFirst,
  kFromReply,
  kNoWait,
  kNoLimboCheck,
  kEmptyIsSoldOut,
  kNoIds,
  // fleet_redis.pml
  kNoCheck,  // Of the generation and of the units of a node's row.
  kRefuseByPool,
};

// Places at which a test may make a thread wait, so that others act meanwhile.
enum class FleetPause : uint8_t { kLookReplied, kLeaseReplied, kIdsLoading, kIdsLoaded, kBeforeMove, kBeforeFill };

// Tests are built with STOCKADE_CRASH_POINTS. In other builds nothing is left out, and no thread waits.
#ifdef STOCKADE_CRASH_POINTS
STOCKADE_EXPORT extern std::atomic<FleetDefect> fleet_defect;
STOCKADE_EXPORT extern std::atomic<void (*)(FleetPause)> fleet_pause;
inline bool Has(FleetDefect defect) { return fleet_defect.load(std::memory_order_relaxed) == defect; }
inline void Pause(FleetPause place) {
  if (const auto pause = fleet_pause.load(std::memory_order_relaxed)) pause(place);
}
#else
constexpr bool Has(FleetDefect) { return false; }
inline void Pause(FleetPause) {}
#endif

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_DEFECT_H_
