#ifndef STOCKADE_INVENTORY_SQLITE_DURABLE_NOTIFIER_H_
#define STOCKADE_INVENTORY_SQLITE_DURABLE_NOTIFIER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace stockade::internal {

// Calls back whoever wants to know what has become of a position, on a thread of its own. Thread-safe.
class DurableNotifier {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  DurableNotifier() = default;
  DurableNotifier(const DurableNotifier&) = delete;
  DurableNotifier& operator=(const DurableNotifier&) = delete;
  ~DurableNotifier() { Stop(); }

  // Throws std::system_error where there is no thread to be had.
  void Start();

  // Calls back all that is outstanding, which must be known by then, and ends the thread. Nobody may call meanwhile.
  void Stop();

  // Everything up to `durable` is durable; never less than before.
  void Reach(uint64_t durable);

  // Whatever is not durable never will be, because of `failure`. Called once.
  void Fail(absl::Status failure);

  // Calls `done` with OK or the failure: before it returns if that is known, else on the thread.
  void Notify(uint64_t position, Done done);

 private:
  void Run();
  bool Known(uint64_t position) const { return position <= durable_ || !failure_.ok(); }
  bool Due() const { return !outstanding_.empty() && Known(outstanding_.begin()->first); }

  std::mutex mutex_;  // Guards what follows. Not held while anything is called back or destroyed.
  std::condition_variable due_or_stopping_;
  // By position, and for one position in the order of the calls. Nothing enters that is known: so whatever enters is
  // above all that the thread has taken out, and the thread's order is ascending.
  std::multimap<uint64_t, Done> outstanding_;
  uint64_t durable_ = 0;
  absl::Status failure_;  // Once not OK it stays.
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_DURABLE_NOTIFIER_H_
