#ifndef STOCKADE_INVENTORY_FLEET_FLEET_RULES_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_RULES_H_

namespace stockade::inventory_internal {

// The rules without which a fleet sells or refuses falsely. All of them hold. Tests compile the fleet again with a
// header of their own in place of this one, in which one can be left out, to see that their checkers notice. Behind
// each is the name of the broken variant in tests/models.
struct FleetRules {
  // fleet_sold_out.pml
  // Units that come back go to limbo until the SKU is open again, also while limbo waits to be moved.
  static constexpr bool DrainingStaysInLimbo() { return true; }  // SECOND_TO_POOL
  // Limbo is moved only in the epoch in which it was waited for.
  static constexpr bool MovesInItsEpoch() { return true; }  // LATE_MOVER
  // A look reads units and requests in one query.
  static constexpr bool LooksOnce() { return true; }  // LOOK_FIRST
  // The ids that have taken units are read after the latch.
  static constexpr bool IdsAfterLatch() { return true; }  // IDS_FIRST
  // A lease begins when its read is sent.
  static constexpr bool LeaseBeginsWhenSent() { return true; }  // FROM_REPLY
  // Limbo waits until all leases have ended.
  static constexpr bool LimboWaits() { return true; }  // NO_WAIT
  // Only an open SKU is latched.
  static constexpr bool LatchesOpenOnly() { return true; }  // NO_LIMBO_CHECK
  // A refusal counts the units of all segments.
  static constexpr bool CountsAllSegments() { return true; }  // EMPTY_IS_SOLD_OUT
  // A lease does not refuse a request that has taken units.
  static constexpr bool KnowsIds() { return true; }  // NO_IDS

  // fleet_redis.pml
  // A node's row pays only what it has, and under its generation.
  static constexpr bool ChecksNodeRow() { return true; }  // NO_CHECK
  // A refusal counts the units at nodes.
  static constexpr bool CountsNodes() { return true; }  // REFUSE_BY_POOL

  // fleet_after_sale.pml
  // A return and a restock answer when their units have left limbo.
  static constexpr bool AnswersOnceMoved() { return true; }  // RETURN_EARLY
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_RULES_H_
