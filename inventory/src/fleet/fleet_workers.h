#ifndef STOCKADE_INVENTORY_FLEET_FLEET_WORKERS_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fleet_calls.h"
#include "fleet_lane.h"
#include "fleet_plan.h"
#include "fleet_shared.h"
#include "stockade/base/instant.h"

// The workers of a lane's thread: they read, let fleet_plan.h decide, run the packet, and answer. Each worker belongs
// to one lane, and only its thread uses it. A function that returns a bool returns false if the ledger cannot be used;
// the calls without an answer are in the queues again then, unless the comment says otherwise.
namespace stockade::inventory_internal {

// Ends orders, each once: it commits or cancels them, or lets them expire; or last longer before that.
class FleetEnder {
 public:
  FleetEnder(FleetShared& shared, FleetLane& lane) : shared_(shared), lane_(lane) {}

  bool Serve(FleetEnds calls);
  bool ServeLarge(FleetEnds calls);
  // Sets `lines` of each call, and answers those whose orders have more lines than any order may have. The calls stay
  // in the vector.
  bool CountLines(FleetEnds& calls);
  // Ends large orders, each of which has one call, and which fit into one packet.
  bool EndLarge(FleetEnds calls);

 private:
  bool EndOrders(FleetEndPlanner& ending, bool is_large);
  // Puts the calls back. Returns false.
  bool GoneAway(FleetEndPlanner& ending);

  FleetShared& shared_;
  FleetLane& lane_;
  absl::flat_hash_set<uint64_t> damaged_;  // SKUs that were logged as damaged.
};

// Latches SKUs without units, and puts the units that come back to them on sale: see FleetSoldOut.
class FleetLatcher {
 public:
  FleetLatcher(FleetShared& shared, FleetLane& lane) : shared_(shared), lane_(lane) {}

  // Latches those of `short_skus` that had no units when `skus` was read, unless units have come back.
  void LatchEmpty(const FleetSkuRows& skus, const absl::flat_hash_set<uint64_t>& short_skus);
  // Moves limbo, renews leases and loads ids, as far as they are due.
  void ServeSoldOut();

 private:
  // The request ids that took units of a SKU, as far as they were read.
  struct IdsLoad {
    int64_t epoch = 0;
    bool in_baskets = false;  // Those of other orders were read.
    OrderId last = 0;         // The next page begins after it.
    bool read_all = false;
    std::optional<FleetSoldOut::Ids> ids = FleetSoldOut::Ids();  // nullopt: there are too many.

    bool is_done() const { return read_all || !ids.has_value(); }
  };

  bool MoveLimbo(const FleetSoldOut::Move& move);
  // Reads the next page of request ids.
  bool LoadIds(uint64_t sku, IdsLoad& load);

  FleetShared& shared_;
  FleetLane& lane_;
  std::map<uint64_t, IdsLoad> loads_;  // By SKU.
};

// Takes units from a Redis node, and fills it.
//
// A transaction moves units to the node's row before the node has them to give. If the node gives out more than the row
// has, or under a generation that is over, the payment fails and the requests are tried again. If it gives out less,
// for whatever reason, the rest stays in the row until a packet finds the ledger's segments too small: that packet
// merges all rows of the SKU into segment 0, and raises the fences of the nodes' rows. A refusal counts the units of
// all rows. tests/models/fleet_redis.pml is the model.
class FleetNodeClient {
 public:
  FleetNodeClient(FleetShared& shared, FleetLane& lane) : shared_(shared), lane_(lane) {}

  // Takes the units of the SKUs `asks` from the lane's node. The payments of those that it gets name the node's row.
  // Blocks for at most one round trip.
  void Ask(const std::set<uint64_t>& asks, FleetGrantBatch& trial);
  // Keeps the units that the node gave, after the packet was rolled back, perhaps by the payment of `sku`.
  void NoteUnpaid(const FleetGrantBatch& trial, std::optional<uint64_t> sku);
  // Moves units from the ledger's segments to the node, of SKUs of which the node has too few.
  bool Fill();
  // Notes a row that was read, and that a packet merges the segments of a SKU.
  void NoteRow(uint64_t sku, const FleetSkuRow& row);
  void NoteMerged(uint64_t sku);

 private:
  // What a lane knows of a SKU at its node.
  struct Share {
    // The oldest generation that may still be valid.
    int64_t generation = 0;
    // Units that the node has given this lane under `generation`, and that no order was paid with.
    int64_t spare = 0;
    // The node is not asked before then: it is empty, and the ledger has too few units to fill it; or its counter
    // cannot be used.
    Instant ask_after = Instant::InfinitePast();

    // Notes that this generation is over.
    void End(int64_t ended) {
      if (ended < generation) return;
      generation = ended + 1;
      spare = 0;
    }
  };

  size_t node() const { return static_cast<size_t>(lane_.index()) % shared_.dispenser->size(); }
  bool Fill(uint64_t sku);

  FleetShared& shared_;
  FleetLane& lane_;
  absl::flat_hash_map<uint64_t, Share> shares_;
  absl::flat_hash_set<uint64_t> filling_;  // SKUs of which the node has too little.
};

// Grants requests their units: many in one transaction, each once.
class FleetGranter {
 public:
  FleetGranter(FleetShared& shared, FleetLane& lane, FleetLatcher& latcher)
      : shared_(shared), lane_(lane), latcher_(latcher), node_(shared, lane) {}

  bool Serve(FleetGrants calls);

 private:
  // Whether the rows are read before a transaction tries to take the units.
  bool LooksFirst(const FleetGrantCall& call) const STOCKADE_REQUIRES(shared_.hints_mutex);
  // Reads rows, and answers the calls that they can answer. `trying` gets those that one packet may grant.
  bool Look(FleetGrants calls, FleetGrants& trying);
  void NoteRows(const FleetGrantPlanner& planner);
  // The order that the call repeats is due: ends it, and puts the call into the queue again.
  void Expire(std::unique_ptr<FleetGrantCall> call, OrderId order);
  bool Try(FleetGrants calls);
  // From which segment the units of each SKU are to come.
  FleetGrantBatch Plan(const FleetGrants& calls);
  // Puts the calls back, or answers that their outcome is not known.
  bool TryFailed(FleetGrants calls, const FleetOutcome& outcome, const FleetGrantBatch& trial);

  FleetShared& shared_;
  FleetLane& lane_;
  FleetLatcher& latcher_;
  FleetNodeClient node_;
  int look_batches_ = 0;  // So many packets read rows first, because repeats were met lately.
  // SKUs whose segments the next payment merges, because its own has too little.
  absl::flat_hash_set<uint64_t> merging_;
};

// Does what no call asks for, in one process for all: lets reservations expire, forgets orders that ended long ago, and
// reads the metrics of the stock. Times that are integers are the database's, in microseconds.
class FleetJanitor {
 public:
  FleetJanitor(FleetShared& shared, FleetLane& lane, FleetEnder& ender) : shared_(shared), lane_(lane), ender_(ender) {}

  // Does what is due, unless another process does it. Returns when to come again.
  absl::Duration Run();

 private:
  using Order = std::pair<int64_t, OrderId>;  // When it is due, and its id.
  // Reservations that are due, as they were found.
  struct Due {
    Instant watch_until = Instant::InfinitePast();  // Then it says again in the tables that it does the upkeep.
    std::deque<Order> small = {};                   // Orders that cannot be ended are found again in the next search.
    std::set<Order> large = {};
    // The last large one that was tried, until all were: those before it are not tried again meanwhile.
    Order large_tried = {};
    // Of the search: where it began, and the last order that it has found. Zeros between searches.
    int64_t from = 0;
    Order found = {};
    int64_t began = 0;      // When the search began.
    bool is_whole = false;  // It begins with the oldest order of all.
    int64_t swept_at = 0;   // When the last one began that did, and has ended.
    int64_t forgot_at = 0;  // The same of the search for orders to be forgotten.
    size_t forgets = 16;    // How many of each state that looks at.
    int64_t now = 0;        // When the last page was read.
    int64_t next = 0;       // The first one that was not due.
    // The oldest one of the last whole search, which others need not find.
    std::optional<Order> oldest = {};
    Instant logged = Instant::InfinitePast();

    bool is_searching() const { return found.first != 0; }
  };

  // Whether this process does it. False also if another one does, or nobody can.
  bool KeepWatch();
  // Reads the next orders that are due.
  bool FindDue();
  void NoteOverdue(std::optional<Order> oldest);
  // Ends the orders that were found.
  bool EndDue();
  bool EndLargeDue();
  FleetEnds Expiries(std::span<const OrderId> ids) const;
  // Does the rest of the upkeep. Sets `is_more` if some of it is left.
  void Tidy(bool& is_more);
  // Forgets orders that ended between these times. Sets `is_more` if some may be left.
  bool Forget(int64_t from, int64_t before, bool& is_more);
  // Reads what the metrics show.
  bool ReadStock();

  FleetShared& shared_;
  FleetLane& lane_;
  FleetEnder& ender_;
  Due due_;
  Instant next_sign_ = Instant::InfinitePast();  // Of life, for the retention of the orders.
  Instant missing_logged_ = Instant::InfinitePast();
  // Of the metrics: when to read them, the last row of buyers that was checked, and how many of the rows up to it are
  // over their limit, and of all, when they were last checked.
  Instant next_reading_ = Instant::InfinitePast();
  std::pair<uint64_t, FleetHash> checked_ = {};
  int64_t over_limit_ = 0;
  int64_t over_limit_of_all_ = 0;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_WORKERS_H_
