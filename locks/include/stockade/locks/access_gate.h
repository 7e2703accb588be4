#ifndef STOCKADE_LOCKS_ACCESS_GATE_H_
#define STOCKADE_LOCKS_ACCESS_GATE_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "stockade/locks/lock_word.h"
#include "stockade/locks/steady_deadline.h"
#include "stockade/locks/thread_record.h"

namespace stockade::internal {

class LockMetrics;

// Who is in and who waits: the part of a lock that knows no re-entry. One writer or any number of readers, who are in
// by being counted in the word, or by having published themselves in their thread's record while the word has kBias
// (after BRAVO, Dice and Kogan, USENIX ATC 2019, with a table a thread and an asymmetric fence in place of one shared
// table). And one queue in order of arrival for readers and writers.
//
// Entering and leaving are one compare-and-swap of the word, while nobody sleeps. A waiter enters only from the head of
// the queue; whoever makes room for a head that sleeps wakes it. Until the head runs, threads that arrive may enter
// before it, at most `max_passes` times; if the head then finds the lock taken, or if it is a writer that waits for
// readers, it claims the lock: nobody enters before it any more. So neither readers nor writers starve: a waiter enters
// after those that were before it, and after one wake-up of its own.
//
// Memory ordering: entering is an acquire, leaving a release, of the word or of the published entry. What orders the
// word against the entries is the asymmetric fence, see Hold and DrainPublishedReaders().
//
// It owns nothing that needs destruction (waiters live on their threads' stacks), so a forked child can drop it.
class AccessGate {
 public:
  // `key`: the address of the lock, under which readers publish themselves. `max_passes` zero: strictly first in, first
  // out.
  AccessGate(uintptr_t key, uint64_t max_passes)
      : key_(key), entry_(ThreadRecord::EntryOf(key)), max_passes_(static_cast<uint32_t>(max_passes)) {}

  AccessGate(const AccessGate&) = delete;
  AccessGate& operator=(const AccessGate&) = delete;

  uintptr_t key() const { return key_; }
  // The calling thread's hold of this lock, if it has any, is here or in the record's overflow.
  Hold& EntryIn(ThreadRecord& record) const { return record.entry(entry_); }

  // Whether a reader that has published itself is in. If not it must take that back.
  bool PublishedReadersAreIn() const { return (word_.load(std::memory_order_seq_cst) & lock_word::kBias) != 0; }

  // Enters if it can by one step of the word. O(1), lock-free.
  bool TryEnter(LockMode mode) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    while (lock_word::IsOpen(word, mode)) {
      if (word_.compare_exchange_weak(word, lock_word::Entered(word, mode, max_passes_), std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  // Whether TryEnter() may have failed only because nobody has called published readers back yet: a look.
  bool OnlyPublishedReadersMayBeIn(LockMode mode) const;
  // Waits in the queue until `deadline` if it must: true. False where that has passed first. With kNoWait it does not
  // wait, but calls published readers back. `metrics` (or null) learns of it as a waiter. O(threads that have records)
  // for a writer where readers have published themselves; else O(1), as is every other call here.
  bool Enter(LockMode mode, SteadyDeadline deadline, LockMetrics* metrics);

  // Nothing of this object is touched after another thread can see the lock free, so that thread may destroy it.
  void LeaveExclusive() {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & lock_word::kMustWake) != 0) return LeaveAndWake(lock_word::kWriter, 0);
    } while (!word_.compare_exchange_weak(word, word & ~lock_word::kWriter, std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  // Of a counted reader.
  void LeaveShared();
  // The writer becomes a counted reader, with no writer in between.
  void Downgrade();
  // The reader becomes the writer if it is the only one; it passes those who wait, as it was in before they came.
  // `counted`: it is counted in the word, else published.
  bool TryUpgrade(bool counted, LockMetrics* metrics);

  // Nobody is in and nobody waits.
  bool idle();
  // How many wait now.
  uint64_t waiters();

  static constexpr SteadyDeadline kNoWait = SteadyDeadline::min();

 private:
  struct Waiter;
  enum class Turn : uint8_t { kEntered, kMustSleep, kTimedOut };

  bool fifo() const { return max_passes_ == 0; }
  bool SpinToEnter(LockMode mode);
  void LeaveAndWake(uint64_t minus, uint64_t plus);

  // All that follow with mutex_ held; those that take `lock` let go of it on the way and take it again.
  void Append(Waiter& self);
  // Tells whom to wake, after mutex_ has been let go; or null.
  ThreadRecord* LeaveQueue(Waiter& self, bool entered);
  ThreadRecord* WakeHead();
  // The word for a queue with this head, which has just come to be the head. Without kMustWake it is to be woken now.
  uint64_t WithHead(uint64_t word, const Waiter* head) const;
  // By the head. kMustSleep: kMustWake is set.
  Turn TakeTurn(Waiter& self, std::unique_lock<std::mutex>& lock, SteadyDeadline deadline, LockMetrics* metrics);
  void ClaimAndSpin(LockMode mode, std::unique_lock<std::mutex>& lock);
  // False where a published reader is still in when `deadline` has passed.
  bool CallReadersBack(std::unique_lock<std::mutex>& lock, SteadyDeadline deadline, LockMetrics* metrics);

  std::atomic<uint64_t> word_{0};  // See lock_word.
  const uintptr_t key_;
  const uint32_t entry_;
  const uint32_t max_passes_;

  // The queue, apart from what the fast path reads. Guarded by mutex_, as is the change of the bits kQueue and
  // kMustWake. Invariants, with mutex_ free: kQueue is set exactly if the queue is not empty; kMustWake exactly if its
  // head sleeps or is about to and has not been woken; a head that has been woken will look at the word again.
  alignas(64) std::mutex mutex_;
  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
  uint64_t waiting_ = 0;  // The length of the queue.
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_ACCESS_GATE_H_
