#ifndef STOCKADE_INVENTORY_SQLITE_COMMIT_QUEUE_H_
#define STOCKADE_INVENTORY_SQLITE_COMMIT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "stockade/base/mutex.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// Invokes callbacks with the outcome of the positions that they wait for, on a thread of its own. Thread-safe.
class DurableNotifier {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  DurableNotifier() = default;
  DurableNotifier(const DurableNotifier&) = delete;
  DurableNotifier& operator=(const DurableNotifier&) = delete;
  ~DurableNotifier() { Stop(); }

  // ResourceExhausted: the thread cannot be started.
  absl::Status Start();

  // Invokes all pending callbacks, whose outcome must be set, and ends the thread. No other call may be in progress.
  void Stop();

  // Invokes `done` with the outcome of `position`, which SetOutcome() has not covered yet.
  void Add(uint64_t position, Done done);

  // Sets the outcome of all positions up to `up_to` that have none yet. `up_to` ascends.
  void SetOutcome(uint64_t up_to, const absl::Status& outcome);

 private:
  struct Settled {
    uint64_t up_to;
    absl::Status outcome;
  };

  void Run();

  Mutex mutex_;  // Not held while a callback is invoked or destroyed.
  CondVar settled_or_stopping_;
  // By position, and for one position in the order of the calls. Nothing enters that is settled: so whatever enters is
  // above all that the thread has taken out, and the thread's order is ascending.
  std::multimap<uint64_t, Done> outstanding_ STOCKADE_GUARDED_BY(mutex_);
  // The outcomes that the thread has not seen yet, ascending. Each is the outcome of an outstanding callback.
  std::vector<Settled> settled_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

// The queue between the threads that append to a ledger and the one thread that writes it.
//
// Order: records are written in the order of Append(), one batch per transaction. So the durable records are a prefix
// of the appended records without the refused ones.
//
// Acknowledgement: a position is durable once the transaction with its record is committed and synced. No caller is
// notified before that. The positions of a batch are notified together, in ascending order.
//
// Crash: no acknowledged record is lost. Of the others, whole batches may survive, in order and without a gap; the rest
// is gone.
//
// Refusal: if a batch is known not to be on the disk and never to get there, mostly because there was no room, it is
// refused. So are all records behind it, because they may build on it. From then on every append is refused, until the
// owner has undone in memory what TakeRefused() returns. Then the ledger writes again, and the new records follow the
// durable ones: no crash brings a refused record back.
//
// Failure: if the outcome of a commit is unknown, everything that is not durable stays in doubt for good.
//
// Thread-safe. Take(), Written(), Refused() and Failed() are for the writer, one call after another.
class CommitQueue {
 public:
  struct Batch {
    std::vector<LedgerRecord> records;
    // Of the first record in the journal, which has no gaps where something was refused.
    uint64_t first_row = 0;
  };

  // `ledger`: for messages. Both numbers at least 1.
  CommitQueue(std::string ledger, size_t max_batch, size_t max_queued)
      : ledger_(std::move(ledger)), max_batch_(max_batch), max_queued_(max_queued) {}

  // Positions begin after `last_row`. ResourceExhausted: the system gives no thread.
  absl::Status Start(uint64_t last_row);

  // As Ledger's.
  uint64_t Append(LedgerRecord record);
  absl::Status AwaitDurable(uint64_t position);
  void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done);
  std::vector<LedgerRecord> TakeRefused();
  absl::Status Health() const;

  size_t size() const;

  // Waits until there is something to write, and takes as much of it as a batch holds. False: there is nothing, and
  // Close() was called.
  bool Take(Batch& batch);

  // What has become of the batch that was taken last.
  void Written();
  void Refused(Batch& batch, absl::Status why);
  void Failed(absl::Status why);

  // Lets the writer end once all is written.
  void Close();
  // Calls back all that is outstanding. After the writer has ended.
  void StopNotifying() { notifier_.Stop(); }

 private:
  // Nothing: not known yet.
  std::optional<absl::Status> OutcomeOf(uint64_t position) const STOCKADE_REQUIRES(mutex_);
  void CheckAppended(std::string_view call, uint64_t position) const STOCKADE_REQUIRES(mutex_);
  bool WasRefused(uint64_t position) const STOCKADE_REQUIRES(mutex_);
  void WakeAll() STOCKADE_REQUIRES(mutex_);
  // Of the waiters for `position`.
  CondVar& DecidedFor(uint64_t position) STOCKADE_REQUIRES(mutex_) {
    return decided_changed_[position <= flight_end_ ? flight_ % 2 : (flight_ + 1) % 2];
  }

  const std::string ledger_;
  const size_t max_batch_;
  const size_t max_queued_;

  mutable Mutex mutex_;
  CondVar work_;   // There is something to write, or closing_. For the writer.
  CondVar space_;  // The queue has got shorter, or takes nothing.
  // Waiters of batch n wait on n % 2, so that the end of a batch wakes those of that batch; waiters of batches after
  // the next one wait with the next one's, and move on when woken.
  CondVar decided_changed_[2];

  // Positions: 1 ... decided_ ... flight_end_ ... appended_. Up to decided_ they are durable, or in refused_ranges_;
  // those up to flight_end_ are with the writer, those up to appended_ in queue_, in this order and without a gap. But
  // while refused_ is not empty, all above decided_ are in it instead; and in a failed queue they are nowhere.
  uint64_t decided_ STOCKADE_GUARDED_BY(mutex_) = 0;
  uint64_t flight_end_ STOCKADE_GUARDED_BY(mutex_) = 0;
  uint64_t appended_ STOCKADE_GUARDED_BY(mutex_) = 0;
  std::deque<LedgerRecord> queue_ STOCKADE_GUARDED_BY(mutex_);
  uint64_t flight_ STOCKADE_GUARDED_BY(mutex_) = 0;  // Batches begun.
  // The number of positions in refused_ranges_. A position is ahead of its row by this number.
  uint64_t refused_rows_ STOCKADE_GUARDED_BY(mutex_) = 0;
  std::vector<LedgerRecord> refused_ STOCKADE_GUARDED_BY(mutex_);
  absl::Status refusal_ STOCKADE_GUARDED_BY(mutex_);  // Why, the last time; OK: never.
  // From the last position to the first; none touches the next.
  std::map<uint64_t, uint64_t> refused_ranges_ STOCKADE_GUARDED_BY(mutex_);
  absl::Status failure_ STOCKADE_GUARDED_BY(mutex_);  // Once not OK it stays.
  bool closing_ STOCKADE_GUARDED_BY(mutex_) = false;

  DurableNotifier notifier_;  // Add() and SetOutcome() are called with mutex_ held, so it agrees with the queue.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_COMMIT_QUEUE_H_
