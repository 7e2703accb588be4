#ifndef STOCKADE_INVENTORY_FLEET_FLEET_PLAN_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "fleet_calls.h"
#include "fleet_rows.h"
#include "fleet_sql.h"
#include "fleet_statements.h"
#include "request_checks.h"

// The planner decides for the lanes: it gets rows and calls, and makes packets and answers. It is pure, except that it
// invokes `done` of a call with the answer: it reads no clock, no lock and no table. Rows may have any values.
namespace stockade::inventory_internal {

// Unavailable if the row is damaged: rows of the SKU's stock are missing, so that it cannot pay or be paid; or a value
// is one that this code never writes.
absl::Status CheckWhole(const RequestChecks& checks, const FleetSkuRow& row);
absl::Status CheckWhole(const RequestChecks& checks, const FleetOrderRow& row);

// Keeps the first calls that together have at most `most_lines`, and at least one. Returns the others.
FleetEnds SplitOff(FleetEnds& calls, size_t most_lines);

// Plans one packet that ends orders, or lets them last longer. Each call is about another order.
class FleetEndPlanner {
 public:
  FleetEndPlanner(FleetEnds of, const RequestChecks& checks, absl::Duration max_hold)
      : calls(std::move(of)), checks_(checks), max_hold_us_(FleetMicros(max_hold)) {}

  // Answers the calls that change no order, by the rows of the orders and the database's time.
  void Decide(FleetOrderRows orders, int64_t now);
  // Those of the orders that end.
  std::vector<uint64_t> Skus() const;
  // Answers the calls whose SKUs are damaged, by the rows of Skus(). Returns what is wrong with each.
  std::map<uint64_t, absl::Status> DecideSkus(FleetSkuRows skus);
  FleetPacket Packet(int32_t lane_index) const;

  // What the packet has done: the latches of SKUs whose limbo got units, and the states of the orders.
  std::map<uint64_t, FleetLatch> Limbo() const;
  OrderState StateOf(const FleetEndCall& call) const { return changes_.at(call.id).state; }
  // Answers a call about an order in this state; nullopt: there is no such order. `at`: when a held one expires.
  // `all_returned`: see FleetOrderRow.
  void Answer(FleetEndCall& call, std::optional<OrderState> state, int64_t at, bool all_returned = false) const;
  void AnswerDone(FleetEndCall& call) const { Answer(call, StateOf(call), changes_.at(call.id).at); }

  size_t lines() const;

  FleetEnds calls;  // Those without an answer.

 private:
  // What the packet changes of a SKU.
  struct Effect {
    int64_t sold = 0;
    int64_t back = 0;
    std::map<FleetHash, int64_t> buyers = {};  // Units that no longer count towards a limit.
  };

  const RequestChecks& checks_;
  const int64_t max_hold_us_;
  FleetOrderRows orders_ = {};
  FleetSkuRows skus_ = {};
  std::map<OrderId, statements::EndOrders::Row> changes_ = {};  // What the orders become.
  std::map<uint64_t, Effect> effects_ = {};                     // By SKU.
};

// Plans one packet that takes units of a sold order back.
class FleetReturnPlanner {
 public:
  FleetReturnPlanner(const FleetReturnCall& call, const RequestChecks& checks) : call_(call), checks_(checks) {}

  // Not OK: the answer, by the row of the order. Otherwise Skus() are to be read.
  absl::Status Decide(FleetOrderRow order);
  std::vector<uint64_t> Skus() const;
  // Not OK: the answer, by the rows of Skus().
  absl::Status DecideSkus(FleetSkuRows skus);
  FleetPacket Packet(int32_t lane_index) const;

  // What the packet has done: the answer, and the latches of SKUs whose limbo got units.
  std::vector<ReturnedLine> Returned() const;
  std::map<uint64_t, FleetLatch> Limbo() const;

 private:
  bool ToStock(const FleetSkuRow& row) const { return call_.kind == ChangeKind::kReturn && !row.removed; }

  const FleetReturnCall& call_;
  const RequestChecks& checks_;
  FleetOrderRow order_ = {};
  FleetSkuRows skus_ = {};
  std::map<uint64_t, int64_t> units_ = {};  // That come back, by SKU.
};

FleetGrantQuery GrantQueryOf(const FleetGrants& calls, bool is_imported);

// Decides about requests, one after another, by the rows that were read for them.
class FleetGrantPlanner {
 public:
  // Invoked before a call gets the answer of an order that is there.
  using NoteFound = std::function<void(const FleetGrantCall&, OrderId)>;
  FleetGrantPlanner(FleetGrantRows rows, const RequestChecks& checks, NoteFound note_found);

  // Answers the call, or adds it to one of these vectors.
  void Decide(std::unique_ptr<FleetGrantCall> call);
  FleetGrants trying = {};  // One packet may grant all of them.
  FleetGrants later = {};   // Whether they can be granted depends on `trying`.
  // Repeats of orders that have to expire before the repeats are answered.
  std::vector<std::pair<std::unique_ptr<FleetGrantCall>, OrderId>> due = {};

  const FleetGrantRows& rows() const { return rows_; }
  // SKUs that had too few units for a request.
  const absl::flat_hash_set<uint64_t>& short_skus() const { return short_skus_; }
  // The units of a SKU that `trying` takes.
  int64_t Wanted(uint64_t sku) const { return rows_.skus.at(sku).units - units_left_.at(sku); }
  bool found_repeat() const { return found_repeat_; }

 private:
  void AnswerRepeat(std::unique_ptr<FleetGrantCall> call, const FleetOrderRow& order);
  absl::Status CheckSame(const FleetGrantCall& call, const FleetOrderRow& order) const;
  // Null: it is unknown, or was removed.
  const FleetSkuRow* RowOf(const FleetGrantCall& call, size_t line) const;
  // Each sets `is_first` to false if the answer depends on `trying`.
  absl::Status CheckBuyers(const FleetGrantCall& call, bool& is_first);
  absl::Status CheckSkus(const FleetGrantCall& call) const;
  absl::Status CheckUnits(const FleetGrantCall& call, bool& is_first);

  const FleetGrantRows rows_;
  const RequestChecks& checks_;
  const NoteFound note_found_;
  // What `trying` leaves of the units, and takes of the limits.
  std::map<uint64_t, int64_t> units_left_ = {};
  std::map<std::pair<uint64_t, FleetHash>, int64_t> taken_by_buyer_ = {};
  absl::flat_hash_set<uint64_t> short_skus_ = {};
  bool found_repeat_ = false;
};

// Plans one packet that grants requests. Each has another id; they are ascending by its hash.
struct FleetGrantBatch {
  // The tags of the statements. The payment of the SKU number i has kStock + i.
  enum Tag : size_t { kRequests, kBuyers, kOrders, kStock = 4 };
  // All units of a SKU in this packet.
  struct Payment : statements::Pay {
    int64_t limit = 0;  // Per buyer.
  };

  // Adds up what the calls take.
  void Add(const FleetGrants& calls);
  // `first`: the id of the first call's order. `is_imported`: the fleet may have fingerprints of forgotten ids.
  FleetPacket Packet(const FleetGrants& calls, OrderId first, bool is_imported) const;
  // The SKU whose payment has this tag; nullopt: the tag is of another statement.
  std::optional<uint64_t> SkuOf(size_t tag) const;

  std::map<uint64_t, Payment> payments = {};  // By SKU, of all calls.
};
// Answers a request with its order.
void AnswerGranted(FleetGrantCall& call, OrderId id, OrderState state, int64_t created_at, int64_t ttl_us);

// Restocks a SKU, which must be whole. `request`: the hash of the id, and the order that stands for it.
FleetPacket RestockPacket(uint64_t sku, const FleetSkuRow& row, int64_t units,
                          const std::optional<std::pair<FleetHash, OrderId>>& request);
// Latches a SKU. nullopt: it has units, or is latched.
std::optional<FleetPacket> LatchPacket(uint64_t sku, const FleetSkuRow& row, absl::Duration lease);
FleetPacket MovePacket(const FleetSoldOut::Move& move);
// Forgets those of the orders that are not damaged. Empty if there are none.
FleetPacket ForgetPacket(const FleetOrderRows& orders);
// Moves at most `most` units of a SKU, which must be whole, to one of `nodes` nodes. nullopt: it has too few units. The
// row of the node gets `least_generation`, or a later one.
std::optional<statements::FillNode> PlanFill(uint64_t sku, const FleetSkuRow& row, int32_t lane_index, size_t nodes,
                                             int32_t node_segment, int64_t most, int64_t least_generation);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_PLAN_H_
