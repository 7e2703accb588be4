#ifndef STOCKADE_INVENTORY_FLEET_FLEET_QUEUES_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_QUEUES_H_

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet_calls.h"
#include "fleet_lane.h"
#include "fleet_sold_out.h"
#include "request_checks.h"
#include "stockade/base/mutex.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::inventory_internal {

// The calls that a lane takes for one packet. They are of one kind.
struct FleetWork {
  std::unique_ptr<FleetStepCall> step = nullptr;
  FleetEnds ends = {};
  FleetEnds large_ends = {};
  FleetGrants grants = {};
};

// Queues the calls until a lane takes them, answers those whose callers' patience ends, and notes whether the ledger
// can be used. Thread-safe.
class FleetQueues {
 public:
  FleetQueues(const FleetInventoryOptions& options, const RequestChecks& checks)
      : options_(options), checks_(checks), clock_(*options.clock) {}

  // Answers the call at once if too many wait.
  template <typename Call>
  void Enqueue(std::unique_ptr<Call> call) {
    bool has_room = false;
    {
      const MutexLock lock(mutex_);
      has_room = !closed_ && size() < static_cast<size_t>(options_.max_waiting_calls);
      if (has_room) QueueOf(*call).emplace_back().swap(call);
    }
    // One lane, and without the lock, so that nobody wakes up to wait again.
    if (has_room) return called_.NotifyOne();
    call->done(NoRoom(*call));
  }
  // Puts calls of one queue back: to the front, in their order, or behind all others.
  template <typename Call>
  void PutBack(std::vector<std::unique_ptr<Call>> calls, bool others_first = false) {
    if (calls.empty()) return;
    const MutexLock lock(mutex_);
    std::deque<std::unique_ptr<Call>>& queue = QueueOf(*calls[0]);
    if (others_first) {
      std::ranges::move(calls, std::back_inserter(queue));
    } else {
      std::move(calls.rbegin(), calls.rend(), std::front_inserter(queue));
    }
  }
  void PutBack(std::unique_ptr<FleetStepCall> call) {
    const MutexLock lock(mutex_);
    steps_.push_front(std::move(call));
  }
  // Puts calls back after a surprise, except for those that have met too many, which it answers.
  template <typename Call>
  void TryAgain(std::vector<std::unique_ptr<Call>> calls) {
    std::erase_if(calls, [&](std::unique_ptr<Call>& call) {
      if (++call->surprises < call->max_surprises) return false;
      call->done(TooManySurprises());
      return true;
    });
    PutBack(std::move(calls));
  }
  // Puts calls back after a transaction that has changed nothing. False: the ledger cannot be used.
  template <typename Call>
  bool PutBackUndone(std::vector<std::unique_ptr<Call>> calls, const FleetOutcome& outcome) {
    const bool is_away = outcome.kind == FleetOutcome::Kind::kAway;
    const bool is_large = calls.size() == 1 && LinesOf(*calls[0]) > kSmallLines;
    // Perhaps a proxy does not pass a packet of that size.
    const bool is_lost = is_large && outcome.is_lost();
    if (is_large && outcome.error == FleetOutcome::kPacketTooLarge) {
      calls[0]->done(NotDone(*calls[0], Concat(outcome.status.message())));
      return true;
    }
    if (is_lost && !is_away && ++calls[0]->surprises >= FleetCall::kSurprisesInCompany) {
      calls[0]->done(NotDone(*calls[0], "the connection is lost whenever its packet is sent"));
      return true;
    }
    PutBack(std::move(calls), /*others_first=*/is_lost);
    return !is_away;
  }

  // What a lane does next.
  enum class Next { kStop, kCalls, kUnasked };
  // Blocks until calls wait, or until there is work that no call asks for: at `upkeep`, which this may bring forward,
  // or if `sold_out`, which may be null, has some. `is_calls_turn` is the lane's own.
  Next Await(bool& is_calls_turn, Instant& upkeep, const FleetSoldOut* sold_out);
  // Takes the calls for a packet. `turn` is the lane's own. If no call may be served now, it blocks until one may be,
  // or until `until`, and takes none.
  FleetWork Take(int& turn, size_t most_lines, Instant until);
  // One packet of large orders runs at a time, and after each one a packet of small orders, if any wait. Take() begins
  // one when it takes large_ends; this begins one if it returns true. `are_due`: the upkeep has found large orders.
  bool BeginLargeEndsOfUpkeep(bool are_due);
  void EndLargeEnds();
  bool large_ends_run() const {
    const MutexLock lock(mutex_);
    return large_ends_run_;
  }
  // Notes that a packet of small orders has run.
  void NoteSmallEnds();
  // Wakes a lane if large orders wait.
  void WakeForLargeEnds();
  // Notes whether this process lets the reservations of all processes expire.
  void SetWatching(bool watching);

  // Runs a transaction. Blocks until its outcome is known, or for at most the callers' patience.
  FleetOutcome RunUntilKnown(FleetLane& lane, const FleetPacket& packet);
  // Blocks for so long after the ledger could not be used, and answers the calls whose patience ends. False: the lanes
  // are to stop.
  bool WaitAway(absl::Duration pause);
  // Answers the calls whose patience has ended while a lane connects. Returns when it is to be called again.
  absl::Duration GiveUpWhileConnecting();
  // Wakes all lanes, because there may be new work.
  void WakeUp();
  // Lets the lanes serve the calls that wait, and stop.
  void Stop();
  // After all lanes have stopped: answers the calls that callbacks have made since, and each later one at once.
  void Close();

  void NoteHealth(const absl::Status& status);
  absl::Status Health() const;

  // The statuses of calls that failed. InDoubt() is for a call that was in a transaction.
  absl::Status NotDone(const FleetCall& call, const std::string& why) const;
  absl::Status NoRoom(const FleetCall& call) const;
  absl::Status TooManySurprises() const;
  absl::Status InDoubt(const absl::Status& why) const;

 private:
  template <typename Call>
  using Queue = std::deque<std::unique_ptr<Call>>;

  Queue<FleetStepCall>& QueueOf(const FleetStepCall&) STOCKADE_REQUIRES(mutex_) { return steps_; }
  Queue<FleetGrantCall>& QueueOf(const FleetGrantCall&) STOCKADE_REQUIRES(mutex_) { return grants_; }
  Queue<FleetEndCall>& QueueOf(const FleetEndCall& call) STOCKADE_REQUIRES(mutex_) {
    return call.is_large ? large_ends_ : ends_;
  }
  size_t size() const STOCKADE_REQUIRES(mutex_) {
    return steps_.size() + ends_.size() + large_ends_.size() + grants_.size();
  }
  // Takes the calls at the front that go into one packet.
  template <typename Call>
  std::vector<std::unique_ptr<Call>> TakeCalls(Queue<Call>& queue, size_t most_lines) const;
  bool TakeLargeTurn(bool by_upkeep) STOCKADE_REQUIRES(mutex_);
  void GiveUpLate() STOCKADE_REQUIRES(mutex_);
  template <typename Call>
  void GiveUpLate(Queue<Call>& queue) STOCKADE_REQUIRES(mutex_);
  Instant EndOfPatience() const STOCKADE_REQUIRES(mutex_);
  template <typename Call>
  Instant EndOfPatience(const Queue<Call>& queue) const {
    return queue.empty() ? Instant::InfiniteFuture() : queue.front()->start + options_.patience;
  }

  const FleetInventoryOptions& options_;
  const RequestChecks& checks_;
  Clock& clock_;

  mutable Mutex mutex_;
  CondVar called_;   // Lanes wait for it that can serve any call,
  CondVar changed_;  // and for this one while the ledger cannot be used.
  Queue<FleetStepCall> steps_ STOCKADE_GUARDED_BY(mutex_);
  Queue<FleetEndCall> ends_ STOCKADE_GUARDED_BY(mutex_);
  Queue<FleetEndCall> large_ends_ STOCKADE_GUARDED_BY(mutex_);
  Queue<FleetGrantCall> grants_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool closed_ STOCKADE_GUARDED_BY(mutex_) = false;  // No lane takes calls any more.
  absl::Status health_ STOCKADE_GUARDED_BY(mutex_) = absl::OkStatus();
  bool large_ends_run_ STOCKADE_GUARDED_BY(mutex_) = false;  // A lane ends large orders.
  bool large_ends_by_upkeep_ STOCKADE_GUARDED_BY(mutex_) = false;
  // The last orders that were ended were large, and nobody has looked since whether small ones wait. A call may be
  // about an order of either size, until its order is read.
  bool small_ends_first_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool watching_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool large_are_due_ STOCKADE_GUARDED_BY(mutex_) = false;
  Instant last_large_end_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfinitePast();
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_QUEUES_H_
