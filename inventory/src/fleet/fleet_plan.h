#ifndef STOCKADE_INVENTORY_FLEET_FLEET_PLAN_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_PLAN_H_

#include <cstddef>
#include <cstdint>
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

// What lanes decide: rows and calls go in, packets and answers come out. Pure, except that a call's `done` is called
// with its answer: there is no clock, no lock and no table here, and rows may have any values.
namespace stockade::inventory_internal {

// Unavailable: rows of its stock are missing, so that nothing may be paid from it or into it; or a value is one that
// this code never writes. Nothing has changed.
absl::Status CheckWhole(const RequestChecks& checks, const FleetSkuRow& row);
absl::Status CheckWhole(const RequestChecks& checks, const FleetOrderRow& row);

// Takes those away that are not among the first ones that together have at most `most_lines`, and at least one.
FleetEnds SplitOff(FleetEnds& calls, size_t most_lines);

// Calls that end orders in one packet, each of another one.
class FleetEnding {
 public:
  FleetEnding(FleetEnds of, const RequestChecks& checks) : calls(std::move(of)), checks_(checks) {}

  // As the rows of the orders and the database's time say: answers the calls whose orders do not end by them.
  void Judge(FleetOrderRows orders, int64_t now);
  std::vector<uint64_t> Skus() const;
  // As the rows of Skus() say: answers the calls that cannot be done. Returns what is wrong with each damaged SKU.
  std::map<uint64_t, absl::Status> JudgeSkus(FleetSkuRows skus);
  FleetPacket Packet(int32_t lane_index) const;

  // After the packet: what SKUs are like whose limbo has got units, and what orders have become.
  std::map<uint64_t, FleetLatch> Limbo() const;
  OrderState StateOf(const FleetEndCall& call) const { return states_.at(call.id); }
  // `state`: that of the order; nullopt: there is none.
  void Answer(FleetEndCall& call, std::optional<OrderState> state) const;

  size_t lines() const;

  FleetEnds calls;  // Those that have no answer.

 private:
  // What the ends change of a SKU.
  struct Effect {
    int64_t sold = 0;
    int64_t back = 0;
    std::map<FleetHash, int64_t> buyers = {};  // Units that no longer count against a limit.
  };

  const RequestChecks& checks_;
  FleetOrderRows orders_ = {};
  FleetSkuRows skus_ = {};
  std::map<OrderId, OrderState> states_ = {};  // What the orders become.
  std::map<uint64_t, Effect> effects_ = {};    // By SKU.
};

FleetQuestion QuestionOf(const FleetGrants& calls, bool is_imported);

// Judges requests, one after another, by what a look has shown.
class FleetJudge {
 public:
  FleetJudge(FleetLook look, const RequestChecks& checks);

  // Answers the call, or puts it into one of these.
  void Judge(std::unique_ptr<FleetGrantCall> call);
  FleetGrants trying = {};  // May be tried together.
  FleetGrants later = {};   // Calls that are tried may stand in their way.
  // Repeats, and the orders that have to expire before they are answered.
  std::vector<std::pair<std::unique_ptr<FleetGrantCall>, OrderId>> due = {};

  const FleetLook& look() const { return look_; }
  // SKUs that had too few units for a request.
  const absl::flat_hash_set<uint64_t>& short_skus() const { return short_skus_; }
  // What the calls that are tried take of a SKU.
  int64_t Wanted(uint64_t sku) const { return look_.skus.at(sku).units - units_left_.at(sku); }
  bool found_repeat() const { return found_repeat_; }
  uint64_t repeats() const { return repeats_; }  // That got the first answer.

 private:
  void AnswerRepeat(std::unique_ptr<FleetGrantCall> call, const FleetOrderRow& order);
  absl::Status CheckSame(const FleetGrantCall& call, const FleetOrderRow& order) const;
  // Null: it is unknown, or was removed.
  const FleetSkuRow* RowOf(const FleetGrantCall& call, size_t line) const;
  // Each sets `is_first` to false if calls before this one stand in its way.
  absl::Status CheckBuyers(const FleetGrantCall& call, bool& is_first);
  absl::Status CheckSkus(const FleetGrantCall& call) const;
  absl::Status CheckUnits(const FleetGrantCall& call, bool& is_first);

  const FleetLook look_;
  const RequestChecks& checks_;
  // What requests that may be tried together leave of the units and of the limits.
  std::map<uint64_t, int64_t> units_left_ = {};
  std::map<std::pair<uint64_t, FleetHash>, int64_t> taken_by_buyer_ = {};
  absl::flat_hash_set<uint64_t> short_skus_ = {};
  bool found_repeat_ = false;
  uint64_t repeats_ = 0;
};

// Requests that are tried in one packet, each with another id, ascending by its hash.
struct FleetTrial {
  // The tags of the statements. The payment of the SKU number i has kStock + i.
  enum Tag : size_t { kRequests, kBuyers, kOrders, kStock = 4 };
  // From where units come, and the limit per buyer. The fence is that of a node.
  struct Payment : statements::Pay {
    int64_t limit = 0;
  };

  // Adds up what the calls take.
  void Add(const FleetGrants& calls);
  // `first`: the id of the first call's order. `is_imported`: ids may be forgotten.
  FleetPacket Packet(const FleetGrants& calls, OrderId first, bool is_imported) const;
  // Of the statement that has failed; nullopt: it was no payment.
  std::optional<uint64_t> SkuOf(size_t tag) const;

  std::map<uint64_t, Payment> payments = {};  // By SKU, of all calls.
};
// The answer to a request: its order.
void AnswerGranted(FleetGrantCall& call, OrderId id, OrderState state, int64_t created_at, int64_t ttl_us);
int64_t TtlUs(absl::Duration ttl);

// The restock of a SKU that can take it. `request`: the hash of its id, and the order that stands for it.
FleetPacket RestockPacket(uint64_t sku, const FleetSkuRow& row, int64_t units,
                          const std::optional<std::pair<FleetHash, OrderId>>& request);
// A SKU that may be latched, because it is without units. nullopt: it is not.
std::optional<FleetPacket> LatchPacket(uint64_t sku, const FleetSkuRow& row, absl::Duration lease);
FleetPacket MovePacket(const FleetSoldOut::Move& move);
// Orders that have ended, and none that is damaged; empty if there is none.
FleetPacket ForgetPacket(const FleetOrderRows& orders);
// Moves units of a SKU to one of `nodes` nodes, at most `most`. nullopt: it has too few. The row of the node gets
// `least_generation`, or a later one.
std::optional<statements::FillNode> PlanFill(uint64_t sku, const FleetSkuRow& row, int32_t lane_index, size_t nodes,
                                             int32_t node_segment, int64_t most, int64_t least_generation);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_PLAN_H_
