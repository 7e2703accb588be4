#ifndef STOCKADE_INVENTORY_FLEET_FLEET_CORE_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_CORE_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fleet_calls.h"
#include "fleet_dispenser.h"
#include "fleet_lane.h"
#include "fleet_metrics.h"
#include "fleet_rows.h"
#include "fleet_schema.h"
#include "fleet_sold_out.h"
#include "fleet_stock.h"
#include "inventory_core.h"
#include "inventory_metrics.h"
#include "request_checks.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/base/mutex.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::inventory_internal {

// An inventory over the tables of a fleet. Callers put their calls into queues; each lane takes as many as it can,
// makes one transaction of them, and answers. What memory says (which SKUs are scarce, which segment has units) only
// decides what a transaction tries: the tables decide what is so.
//
// The segments of a SKU are rows of stock: those of the ledger, 0, 1, 2, ..., from which any lane pays; and one per
// Redis node (fleet_nodes.cc), from which a lane pays what that node has given it.
//
// Lock order of the tables, in every transaction: lanes, skus, requests, existing orders, buyers, new orders,
// order_lines, stock; within a table ascending by primary key. A transaction that puts units into stock has locked the
// rows of their SKUs.
class FleetCore final : public InventoryCore {
 public:
  // `dispenser`: null without Redis nodes.
  FleetCore(FleetInventoryOptions options, FleetLedger ledger, std::unique_ptr<FleetDispenser> dispenser);
  // Answers the calls that still wait.
  ~FleetCore() override;
  // Once, before any call. ResourceExhausted: a thread cannot be started.
  absl::Status Start();

  void Await(std::span<OrderCall* const> calls) override;
  void Notify(std::shared_ptr<OrderCall> call) override;
  absl::Status ChangeSku(const SkuCall& call) override;
  absl::Status Read(ReadCall& call) override;
  absl::Status Health() const override;

  void CheckNotForked() const override { fork_guard_.Check("Inventory", options_.name); }
  bool InForkedChild() const override { return fork_guard_.InForkedChild(); }
  const absl::Status& NoMemory() const override { return checks_.NoMemory(); }

 private:
  // What a process remembers of a SKU for sale. Only hints, except for the limit, which never changes.
  struct Sku {
    int64_t per_buyer_limit = 0;
    int32_t segments = 1;
    // Requests look before they try, because the last look found fewer units than a request wanted.
    bool scarce = false;
    // A lane's own segment had too little: lanes pay from segment 0, into which the others are merged.
    bool merged = false;
    // It may have segments of Redis nodes.
    bool has_nodes = false;
  };
  // What a lane knows of a SKU at its node.
  struct NodeShare {
    // The oldest one that may not be over.
    int64_t generation = 0;
    // Units that the node has given this lane under `generation`, and that no order was paid with.
    int64_t spare = 0;
    // Not asked before then: the node is empty, and the ledger has too few units to fill it; or its counter cannot be
    // used.
    Instant ask_after = Instant::InfinitePast();

    // That generation is over.
    void End(int64_t ended) {
      if (ended < generation) return;
      generation = ended + 1;
      spare = 0;
    }
  };
  // The request ids that took units of a SKU, as far as they were read.
  struct IdsLoad {
    int64_t epoch = 0;
    bool in_baskets = false;  // Those of other orders were read.
    OrderId last = 0;         // The next page begins after it.
    bool read_all = false;
    std::optional<FleetSoldOut::Ids> ids = FleetSoldOut::Ids();  // nullopt: there are too many.

    bool is_done() const { return read_all || !ids.has_value(); }
  };
  // Reservations that are due, as the process that lets them expire has found them. Times are the database's, in
  // microseconds.
  struct Due {
    Instant watch_until = Instant::InfinitePast();  // Then it says again in the tables that it does the upkeep.
    // By time and id. Orders that cannot be ended are found again in the next search.
    std::deque<std::pair<int64_t, OrderId>> small = {};
    std::set<std::pair<int64_t, OrderId>> large = {};
    // The last large one that was tried, until all were: those before it are not tried again meanwhile.
    std::pair<int64_t, OrderId> large_tried = {};
    // Of the search: where it began, and the last order that it has found. Zeros between searches.
    int64_t from = 0;
    std::pair<int64_t, OrderId> found = {};
    int64_t began = 0;      // When the search began.
    bool is_whole = false;  // It begins with the oldest order of all.
    int64_t swept_at = 0;   // When the last one began that did, and has ended.
    int64_t forgot_at = 0;  // The same of the search for orders to be forgotten.
    size_t forgets = 16;    // How many of each state that looks at.
    int64_t now = 0;        // When the last page was read.
    int64_t next = 0;       // The first one that was not due.
    // The oldest one of the last whole search, which others need not find.
    std::optional<std::pair<int64_t, OrderId>> oldest = {};
    Instant logged = Instant::InfinitePast();

    bool is_searching() const { return found.first != 0; }
  };
  // Of the metrics of the stock.
  struct StockReading {
    Instant next = Instant::InfinitePast();
    std::pair<uint64_t, FleetHash> buyer = {};  // The last row of buyers that was checked.
    int64_t over_limit = 0;                     // Among the rows up to it, and when all were last checked.
    int64_t over_limit_of_all = 0;
  };
  // A thread's own.
  struct Lane {
    FleetLane writer;
    int32_t index;         // It pays from this segment, and asks this node, modulo their number.
    int turn = 0;          // Of the queues.
    int look_batches = 0;  // Grants look before they try: repeats were seen lately.
    // Lines that a packet may have: fewer after a packet or its reply was lost, for which its size may be the reason.
    size_t most_lines = kMaxLines;
    Due due = {};
    StockReading stock = {};
    Instant next_sign = Instant::InfinitePast();  // Of life, for the retention of the orders.
    absl::flat_hash_set<uint64_t> damaged = {};   // SKUs that were logged as damaged.
    // SKUs whose segments the next payment merges, because its own has too little.
    absl::flat_hash_set<uint64_t> merging = {};
    std::map<uint64_t, IdsLoad> loads = {};  // By SKU.
    absl::flat_hash_map<uint64_t, NodeShare> shares = {};
    // SKUs of which the lane's node has too little.
    absl::flat_hash_set<uint64_t> filling = {};
  };
  struct Queues {
    std::deque<std::unique_ptr<FleetStepCall>> steps = {};
    std::deque<std::unique_ptr<FleetEndCall>> ends = {};
    std::deque<std::unique_ptr<FleetEndCall>> large_ends = {};  // Those of `ends` whose orders are large.
    std::deque<std::unique_ptr<FleetGrantCall>> grants = {};
    size_t size() const { return steps.size() + ends.size() + large_ends.size() + grants.size(); }
  };
  using EndQueue = std::deque<std::unique_ptr<FleetEndCall>> Queues::*;
  struct Looked;
  struct Trial;
  struct Ending;
  // A payment from the row of a node.
  struct NodePayment {
    int64_t generation;
    int64_t units;
  };
  using NodePayments = std::map<uint64_t, NodePayment>;

  // fleet_core.cc
  void Stop();
  void RunLane(int32_t index);
  // There is work that lanes may not know of.
  void WakeUp() {
    called_.NotifyAll();
    changed_.NotifyAll();
  }
  // Before a lane takes calls, so that they are in the queues while it connects, and given up there. False: it cannot.
  bool Connect(Lane& lane) STOCKADE_REQUIRES(mutex_);
  // How long until it is to be called again.
  absl::Duration GiveUpWhileConnecting();
  // Handles calls that are ready; if there are none, waits for some until then. False: the ledger cannot be used.
  bool ServeNext(Lane& lane, Instant until) STOCKADE_REQUIRES(mutex_);
  // A packet of large orders may end them now: one at a time, and after each one a packet of small orders, if any wait.
  bool BeginLargeEnds(bool by_upkeep) STOCKADE_REQUIRES(mutex_);
  void EndLargeEnds() STOCKADE_REQUIRES(mutex_);
  bool ServeStep(Lane& lane, std::unique_ptr<FleetStepCall> call) STOCKADE_EXCLUDES(mutex_);
  // Those at the front that go into one packet.
  template <typename Call>
  std::vector<std::unique_ptr<Call>> TakeCalls(const Lane& lane, std::deque<std::unique_ptr<Call>> Queues::*queue)
      STOCKADE_REQUIRES(mutex_);
  // A packet with so many lines, or its reply, was lost.
  static void NoteLost(Lane& lane, size_t lines) {
    lane.most_lines = std::max<size_t>(std::min(lines, lane.most_lines) / 2, 1);
  }
  static void NotePassed(Lane& lane) { lane.most_lines = std::min(2 * lane.most_lines, kMaxLines); }
  static void NoteSize(Lane& lane, size_t lines, const FleetOutcome& outcome);
  // After a surprise: to be tried again, except for those that are given up.
  template <typename Call>
  void TryAgain(std::deque<std::unique_ptr<Call>> Queues::*queue, std::vector<std::unique_ptr<Call>> calls) {
    std::erase_if(calls, [&](std::unique_ptr<Call>& call) {
      if (++call->surprises < call->max_surprises) return false;
      AnswerUnavailable(*call, TooManySurprises());
      return true;
    });
    PutBack(queue, std::move(calls));
  }
  // After a transaction that has changed nothing. False: the ledger cannot be used.
  template <typename Call>
  bool PutBackUndone(std::deque<std::unique_ptr<Call>> Queues::*queue, std::vector<std::unique_ptr<Call>> calls,
                     const FleetOutcome& outcome) {
    const bool is_away = outcome.kind == FleetOutcome::Kind::kAway;
    const bool is_large = calls.size() == 1 && LinesOf(*calls[0]) > kSmallLines;
    if (is_large && outcome.error == FleetOutcome::kPacketTooLarge) {
      AnswerUnavailable(*calls[0], NotDone(*calls[0], Concat(outcome.status.message())));
      return true;
    }
    if (!is_large || !outcome.is_lost()) {
      PutBack(queue, std::move(calls));
      return !is_away;
    }
    // Perhaps something between here and the server does not pass a packet of that size.
    if (!is_away && ++calls[0]->surprises >= FleetCall::kSurprisesInCompany) {
      AnswerUnavailable(*calls[0], NotDone(*calls[0], "the connection is lost whenever its packet is sent"));
      return true;
    }
    const MutexLock lock(mutex_);
    (queues_.*queue).push_back(std::move(calls[0]));  // Others go first.
    return !is_away;
  }
  FleetOutcome RunUntilKnown(FleetLane& writer, const FleetPacket& packet);
  // Waits after the ledger could not be used, and gives up the calls whose patience ends.
  void WaitAway(absl::Duration pause) STOCKADE_REQUIRES(mutex_);
  void GiveUpLate() STOCKADE_REQUIRES(mutex_);
  template <typename Call>
  void GiveUpLate(std::deque<std::unique_ptr<Call>> Queues::*queue) STOCKADE_REQUIRES(mutex_);
  Instant EndOfPatience() const STOCKADE_REQUIRES(mutex_);
  template <typename Calls>
  Instant EndOfPatience(const Calls& queue) const {
    return queue.empty() ? Instant::InfiniteFuture() : queue.front()->start + options_.patience;
  }
  bool IsLate(const FleetCall& call) const { return clock_.Now() >= call.start + options_.patience; }
  absl::Status NotDone(const FleetCall& call, std::string_view why) const;
  absl::Status TooManySurprises() const;
  // Of a call that was in a transaction.
  absl::Status InDoubt(const absl::Status& why) const;
  void AnswerUnavailable(FleetCall& call, absl::Status status) STOCKADE_EXCLUDES(mutex_) {
    call.done(std::move(status));
  }
  void AnswerUnavailable(FleetGrantCall& call, absl::Status status) STOCKADE_EXCLUDES(mutex_) {
    Answer(call, std::move(status));
  }
  template <typename Call>
  void Enqueue(std::deque<std::unique_ptr<Call>> Queues::*queue, std::unique_ptr<Call> call) {
    bool has_room = false;
    {
      const MutexLock lock(mutex_);
      has_room = queues_.size() < static_cast<size_t>(options_.max_waiting_calls);
      if (has_room) (queues_.*queue).emplace_back().swap(call);
    }
    // One lane, and without the lock, so that nobody wakes up to wait again.
    if (has_room) return called_.NotifyOne();
    AnswerUnavailable(*call, NotDone(*call, Concat(options_.max_waiting_calls, " calls wait for the ledger")));
  }
  // To the front, in their order.
  template <typename Call>
  void PutBack(std::deque<std::unique_ptr<Call>> Queues::*queue, std::vector<std::unique_ptr<Call>> calls) {
    const MutexLock lock(mutex_);
    std::move(calls.rbegin(), calls.rend(), std::front_inserter(queues_.*queue));
  }
  void NoteHealth(const absl::Status& status);
  static int32_t SegmentOf(const Sku& sku, const Lane& lane) { return sku.merged ? 0 : lane.index % sku.segments; }

  // fleet_calls.cc
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Has `done` called once, perhaps at once, with the answer to the call, of which Make() may have made the rest.
  // Throws std::bad_alloc if it was not asked for.
  void Ask(OrderCall& asker, Done done);
  // Not OK: a refusal, because the request is not valid, or by a lease.
  absl::StatusOr<std::unique_ptr<FleetGrantCall>> NewGrant(OrderCall& asker);
  void End(OrderId id, OrderState to, Done done);
  absl::Status RunStep(std::function<std::optional<absl::Status>(FleetLane&)> step, bool reads = false);
  absl::Status ReadState(ReadCall& read);

  // fleet_grants.cc. Each returns false if the ledger cannot be used.
  bool ServeGrants(Lane& lane, FleetGrants calls) STOCKADE_EXCLUDES(mutex_);
  // Answers the calls that a read can answer. Those that may be tried together go to `trying`.
  bool Look(Lane& lane, FleetGrants calls, FleetGrants& trying);
  std::string InImported(const FleetGrants& calls) const;
  bool ReadLooked(FleetLane& writer, const FleetGrants& calls, Looked& looked);
  void Judge(std::unique_ptr<FleetGrantCall> call, Looked& looked, FleetGrants& trying, FleetGrants& later);
  void AnswerRepeat(std::unique_ptr<FleetGrantCall> call, const FleetOrderRow& order, int64_t now);
  absl::Status CheckSame(const FleetGrantCall& call, const FleetOrderRow& order) const;
  void NoteLook(Lane& lane, const Looked& looked);
  bool Try(Lane& lane, FleetGrants calls);
  // `skus`: gets the SKUs of the payments, in the order of their tags.
  FleetPacket GrantsPacket(Lane& lane, const FleetGrants& calls, const Trial& trial, const NodePayments& from_node,
                           std::vector<uint64_t>& skus) const;
  bool TryFailed(Lane& lane, FleetGrants calls, const FleetOutcome& outcome, std::span<const uint64_t> skus,
                 const NodePayments& from_node);
  void Answer(FleetGrantCall& call, absl::StatusOr<FleetGrant> grant);

  // fleet_nodes.cc
  size_t NodeOf(const Lane& lane) const { return static_cast<size_t>(lane.index) % dispenser_->size(); }
  // Takes what a packet wants of each SKU, `units`, from the lane's node. Returns the payments that the packet makes
  // from the node's rows; all others are made from those of the ledger. Blocks for one round trip, or does not.
  NodePayments AskNode(Lane& lane, const std::map<uint64_t, int64_t>& units);
  // The packet was rolled back, by the payment of `sku` unless that is 0: what the node has given is spare.
  void NoteUnpaid(Lane& lane, const NodePayments& payments, uint64_t sku);
  // Moves units of the SKUs that are `filling` from the ledger's segments to the lane's node.
  bool FillNode(Lane& lane);
  bool FillNode(Lane& lane, uint64_t sku);

  // fleet_ends.cc
  // Each returns false if the ledger cannot be used.
  bool ServeEnds(Lane& lane, FleetEnds calls) STOCKADE_EXCLUDES(mutex_);
  bool ServeLargeEnds(Lane& lane, FleetEnds calls) STOCKADE_EXCLUDES(mutex_);
  // Of large orders, each once, which fit into one packet.
  bool EndLarge(Lane& lane, FleetEnds calls);
  static FleetEnds SplitOff(const Lane& lane, FleetEnds& calls);
  // Sets `lines` of each, and answers those whose orders have more than any order may have.
  bool CountLines(Lane& lane, FleetEnds& calls);
  void JudgeEnds(Ending& ending, int64_t now);
  bool EndOrders(Lane& lane, EndQueue queue, Ending& ending);
  static void SumUpEnds(Ending& ending);
  FleetPacket EndsPacket(const Lane& lane, const Ending& ending) const;
  void AddDeposits(FleetPacket& packet, const Ending& ending) const;
  // Puts the calls back, to be tried again. Returns false.
  bool GoneAway(Lane& lane, EndQueue queue, Ending& ending);
  // Not OK: the SKU is damaged, which is logged once.
  absl::Status CheckWholeAndLog(Lane& lane, uint64_t sku, const FleetSkuRow& row);
  // The condition that the order `o` is small. It reads at most one line more than such an order has.
  std::string IsSmallOrder() const;
  // `large`, if not null, gets the ids of the large ones, which are then not read.
  bool ReadOrders(FleetLane& writer, std::string_view where, FleetOrderRows& orders, int64_t& now,
                  std::vector<OrderId>* large = nullptr);
  void AnswerEnd(FleetEndCall& call, std::optional<OrderState> state);

  // fleet_upkeep.cc
  // The lane's work besides calls: ends the orders that are due, and forgets old ones, unless another process does it.
  // Returns when to come again.
  absl::Duration Upkeep(Lane& lane) STOCKADE_EXCLUDES(mutex_);
  // Whether this process does it for all.
  bool KeepWatch(Lane& lane);
  // Reads the next orders that are due.
  bool FindDue(Lane& lane);
  void NoteOverdue(Lane& lane, std::optional<std::pair<int64_t, OrderId>> oldest);
  // Ends those that were found.
  bool EndDue(Lane& lane);
  bool EndLargeDue(Lane& lane);
  FleetEnds Expiries(std::span<const OrderId> ids);
  double OverdueSeconds() const;
  // What is to be done now and then. Sets `is_more` if some of it is left.
  void Tidy(Lane& lane, bool& is_more);
  // Forgets orders that ended before that time, in microseconds of the database. Sets `is_more` if some may be left.
  bool Forget(Lane& lane, int64_t from, int64_t before, bool& is_more);

  // fleet_stock.cc
  // Reads what the metrics show, if it is time to. False: the ledger cannot be used.
  bool ReadStock(Lane& lane);
  bool ReadStockNow(Lane& lane);

  // fleet_refusals.cc
  // The refusal of a request that a lease allows; nullopt: the ledger has to be asked. Does not block.
  std::optional<absl::Status> RefuseByLease(const std::string& request_id, const std::string& buyer,
                                            std::span<const RequestLine> lines);
  // Passes rows to `sold_out_` that a read has shown, which was sent at `sent`.
  void NoteLatches(const FleetSkuRows& rows, Instant sent);
  // Latches SKUs that a look has found to be without units, unless units have come back.
  void LatchEmpty(Lane& lane, const FleetSkuRows& skus, const absl::flat_hash_set<uint64_t>& short_skus);
  // Moves limbo, renews leases and loads ids, as far as they are due.
  void ServeSoldOut(Lane& lane) STOCKADE_EXCLUDES(mutex_);
  bool MoveLimbo(FleetLane& writer, const FleetSoldOut::Move& move);
  // Reads the next page of request ids. False: the ledger cannot be used.
  bool LoadIds(FleetLane& writer, uint64_t sku, IdsLoad& load);
  // This process has put units into limbo.
  void NoteDeposit(uint64_t sku, const FleetLatch& latch);

  // fleet_catalogue.cc
  absl::Status AddSku(const SkuCall& call);
  absl::Status RemoveSku(const SkuCall& call);
  absl::Status Restock(const SkuCall& call);
  absl::Status Reshard(const SkuCall& call);
  // nullopt: nothing has changed, and it is to be run again.
  std::optional<absl::Status> Finish(const FleetOutcome& outcome) const;
  bool FindRestock(FleetLane& writer, const std::string& request_id, const FleetHash& request, uint64_t sku,
                   int64_t units, std::optional<absl::Status>& repeated);
  // The rows of the SKUs `s` that fulfil a condition, of one moment. False: the ledger cannot be used.
  bool ReadSkus(FleetLane& writer, std::string_view where, FleetSkuRows& rows);
  // Unavailable: rows of its stock are missing, so that nothing may be paid from it or into it.
  absl::Status CheckWhole(const FleetSkuRow& row) const;
  // Unavailable if the order has a value that this code never writes: nothing has changed.
  absl::Status CheckWhole(const FleetOrderRow& row) const;
  absl::Status AskForSkus(std::string_view where, FleetSkuRows& rows);
  absl::Status ReadSku(ReadCall& call);
  absl::Status ReadAllSkus(ReadCall& call);

  const FleetInventoryOptions options_;
  const FleetLedger ledger_;
  const std::unique_ptr<FleetDispenser> dispenser_;
  const RequestChecks checks_;
  Clock& clock_;
  ForkGuard fork_guard_;

  mutable Mutex mutex_;
  CondVar called_;   // Lanes wait for it that can serve any call,
  CondVar changed_;  // and for this one while the ledger cannot be used.
  Queues queues_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  absl::Status health_ STOCKADE_GUARDED_BY(mutex_) = absl::OkStatus();
  bool large_ends_run_ STOCKADE_GUARDED_BY(mutex_) = false;  // A lane ends large orders.
  bool large_ends_by_upkeep_ STOCKADE_GUARDED_BY(mutex_) = false;
  // The last orders that were ended were large, and nobody has looked since whether small ones wait. A call may be
  // about an order of either size, until its order is read.
  bool small_ends_first_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool watching_ STOCKADE_GUARDED_BY(mutex_) = false;  // This process lets the reservations of all expire.
  Instant watch_end_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfinitePast();  // Unless it says so again.
  bool large_are_due_ STOCKADE_GUARDED_BY(mutex_) = false;
  Instant last_large_end_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfinitePast();
  // When the oldest reservation was due that Upkeep() has found; InfiniteFuture(): none.
  Instant overdue_since_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
  absl::flat_hash_map<uint64_t, Sku> skus_ STOCKADE_GUARDED_BY(mutex_);

  // Random, so that the lanes of several processes are spread over all segments.
  const int32_t first_index_ = static_cast<int32_t>(std::random_device()() >> 8);
  std::vector<std::thread> threads_;
  // Passes the answers of ...Async() to their executors: one that runs a task at once must not stop a lane.
  LazyThreadPool notifier_{1};
  FleetSoldOut sold_out_;
  FleetStock stock_;
  std::vector<std::unique_ptr<ComponentMetrics>> node_metrics_;
  ComponentMetrics metrics_;
  ComponentMetrics fleet_metrics_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_CORE_H_
