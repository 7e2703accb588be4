#ifndef STOCKADE_INVENTORY_SQLITE_DURABLE_NOTIFIER_H_
#define STOCKADE_INVENTORY_SQLITE_DURABLE_NOTIFIER_H_

#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "stockade/base/mutex.h"

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

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_DURABLE_NOTIFIER_H_
