#ifndef STOCKADE_LOCKS_ACCESS_MONITOR_H_
#define STOCKADE_LOCKS_ACCESS_MONITOR_H_

#include <cstdint>
#include <mutex>

#include "stockade/locks/steady_deadline.h"

namespace stockade::internal {

class LockMetrics;

enum class LockMode : uint8_t { kExclusive, kShared };
enum class LockEntry : uint8_t { kAtOnce, kAfterWait, kTimedOut };

// Who is in and who waits: the part of a lock that knows no threads and no re-entry. One writer, or any number of
// readers, and one queue in order of arrival for both.
//
// A waiter enters only from the head of the queue, once the mode it asks for is free; whoever frees the lock wakes the
// head, and a head that enters or gives up wakes the next. An arriving thread may pass the queue while its head has
// been passed fewer than `max_passes` times. So a waiter sees at most max_passes threads enter that came after it, and
// the ones that were ahead of it: neither readers nor writers starve.
//
// It owns nothing that needs destruction (waiters live on their threads' stacks), so a forked child can drop it.
class AccessMonitor {
 public:
  // How often a waiter of a lock without the FIFO option is passed at most.
  static constexpr uint64_t kMaxPasses = 32;

  // `max_passes` zero: strictly first in, first out.
  explicit AccessMonitor(uint64_t max_passes) : max_passes_(max_passes) {}

  AccessMonitor(const AccessMonitor&) = delete;
  AccessMonitor& operator=(const AccessMonitor&) = delete;

  // Enters if it can without waiting. O(1), as is every call here.
  bool TryEnter(LockMode mode);
  // Waits in the queue until `deadline` if it must. `metrics` (or null) learns of it as a waiter.
  LockEntry Enter(LockMode mode, SteadyDeadline deadline, LockMetrics* metrics);
  // Nothing of this object is touched after another thread can see the lock free, so that thread may destroy it.
  void Leave(LockMode mode);

  // The writer becomes a reader, with no writer in between.
  void Downgrade();
  // The reader becomes the writer if it is the only one; it passes those who wait, as it was in before they came.
  bool TryUpgrade();

  // Nobody is in and nobody waits.
  bool idle();
  // How many wait now.
  uint64_t waiters();

 private:
  struct Waiter;

  // All with mutex_ held.
  bool IsFree(LockMode mode) const { return !writer_ && (mode == LockMode::kShared || readers_ == 0); }
  bool MayPass() const;
  bool TryEnterLocked(LockMode mode);
  void Occupy(LockMode mode);
  void Remove(Waiter* waiter);
  void WakeHead();

  const uint64_t max_passes_;
  std::mutex mutex_;
  // Guarded by mutex_, as all that follows. Invariants: writer_ implies readers_ == 0; a head whose mode is free has
  // been notified since the mode became free.
  bool writer_ = false;
  uint64_t readers_ = 0;
  uint64_t waiting_ = 0;  // The length of the queue.
  uint64_t passes_ = 0;   // How many threads have passed a queue that was not empty. Only grows.
  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_ACCESS_MONITOR_H_
