#ifndef STOCKADE_INVENTORY_FLEET_FLEET_RULES_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_RULES_H_

#include <atomic>
#include <cstdint>

namespace stockade::inventory_internal {

// Takes the place of inventory/src/fleet/rules/fleet_rules.h in the library stockade_fleet_with_defects. The rules that
// a test can leave out are named after the broken variants of tests/models.
enum class FleetDefect : uint8_t {
  kNone,
  kSecondToPool,
  kLateMover,
  kLookFirst,
  kIdsFirst,
  kFromReply,
  kNoWait,
  kNoLimboCheck,
  kEmptyIsSoldOut,
  kNoIds,
  kNoCheck,
  kRefuseByPool,
  kReturnEarly,
};

inline std::atomic<FleetDefect> fleet_defect{FleetDefect::kNone};

struct FleetRules {
  static bool Holds(FleetDefect without) { return fleet_defect.load(std::memory_order_relaxed) != without; }

  static bool DrainingStaysInLimbo() { return Holds(FleetDefect::kSecondToPool); }
  static bool MovesInItsEpoch() { return Holds(FleetDefect::kLateMover); }
  static bool LooksOnce() { return Holds(FleetDefect::kLookFirst); }
  static bool IdsAfterLatch() { return Holds(FleetDefect::kIdsFirst); }
  static bool LeaseBeginsWhenSent() { return Holds(FleetDefect::kFromReply); }
  static bool LimboWaits() { return Holds(FleetDefect::kNoWait); }
  static bool LatchesOpenOnly() { return Holds(FleetDefect::kNoLimboCheck); }
  static bool CountsAllSegments() { return Holds(FleetDefect::kEmptyIsSoldOut); }
  static bool KnowsIds() { return Holds(FleetDefect::kNoIds); }
  static bool ChecksNodeRow() { return Holds(FleetDefect::kNoCheck); }
  static bool CountsNodes() { return Holds(FleetDefect::kRefuseByPool); }
  static bool AnswersOnceMoved() { return Holds(FleetDefect::kReturnEarly); }
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_RULES_H_
