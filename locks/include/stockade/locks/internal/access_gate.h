#ifndef STOCKADE_LOCKS_INTERNAL_ACCESS_GATE_H_
#define STOCKADE_LOCKS_INTERNAL_ACCESS_GATE_H_

#include <atomic>
#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/base/mutex.h"
#include "stockade/base/prefetch.h"
#include "stockade/locks/internal/lock_word.h"
#include "stockade/locks/internal/steady_deadline.h"
#include "stockade/locks/internal/thread_record.h"

namespace stockade::locks_internal {

class LockMetrics;

// Admits threads to a lock and queues the others; the part of a lock without re-entry. Admits one writer or any number
// of readers, and has one queue for both, in order of arrival. A thread inside the lock is recorded in one of two ways:
//
// Counted in the word: entering and leaving are one compare-and-swap of the word while no thread sleeps.
//
// Published: the thread stores its hold in its own record, which no other thread writes, and then checks that the word
// permits this. Reads are published while the word has kBias. (This follows BRAVO, Dice and Kogan, USENIX ATC 2019, but
// with a table per thread and an asymmetric fence instead of one shared table.) Writes are published by the one thread
// that the lock is biased to, the favoured thread (as in biased locking, Kawachiya, Koseki and Onodera, OOPSLA 2002). A
// lock becomes biased after a long run of reads, or of writes by one thread. When another thread needs the lock, the
// head of the queue revokes the bias: it clears the permission in the word, executes the heavy fence, and waits until
// the published threads have left.
//
// A waiter enters only from the head of the queue, and a thread that makes room for a sleeping head wakes it. Until the
// head runs, arriving threads may enter before it, except with the FIFO option. The head claims the lock if it finds
// the lock taken after its wake-up, or if it is a writer that waits for readers. After that no other thread enters
// before it. Neither readers nor writers starve: a waiter enters after those that were queued before it, and for each
// of these, threads can pass only during one wake-up.
//
// Memory order: entering is an acquire and leaving is a release, of the word or of the published hold. The asymmetric
// fence orders accesses to the word and to the holds, see Hold and published_holds.h. Changes of the word that do not
// pass the lock on (claims, queue bits) are relaxed, because read-modify-writes continue the last release.
// tests/models/ contains models of all of this.
//
// It owns nothing that needs destruction (waiters are on their threads' stacks), so a forked child can drop it.
class STOCKADE_EXPORT AccessGate {
 public:
  // `key` is the address of the lock, under which threads publish their holds. `fifo` means strict FIFO order.
  AccessGate(uintptr_t key, bool fifo) : key_(key), entry_(ThreadRecord::EntryOf(key)), fifo_(fifo) {}

  AccessGate(const AccessGate&) = delete;
  AccessGate& operator=(const AccessGate&) = delete;

  // The entry for holds of this lock in `record`. (A hold may be in the overflow instead.)
  Hold& EntryIn(ThreadRecord& record) const { return record.entry(entry_); }

  // Whether a reader that has published its hold is inside. If not, it must withdraw the hold.
  bool PublishedReadersAreIn() const { return (word_.load(std::memory_order_seq_cst) & lock_word::kBias) != 0; }
  // The same for a write by the thread of `record`.
  bool IsFavoured(const ThreadRecord* record) const {
    return word_.load(std::memory_order_seq_cst) == FavouredWord(record);
  }

  // Prefetches the word for a write.
  void PrepareToWrite() const { PrefetchForWrite(&word_); }

  // Enters if one step of the word is enough. O(1), lock-free.
  bool TryEnter(LockMode mode) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (!lock_word::IsOpen(word, mode)) return false;
    } while (!word_.compare_exchange_weak(word, lock_word::Entered(word, mode), std::memory_order_acquire,
                                          std::memory_order_relaxed));
    if (mode == LockMode::kExclusive) run_of_ = nullptr;
    return true;
  }
  // The same for the thread of `record`. Sets `qualifies_for_bias` if the thread's run of writes is long enough for
  // Favour().
  bool TryEnterExclusive(const ThreadRecord* record, bool& qualifies_for_bias) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (!lock_word::IsOpen(word, LockMode::kExclusive)) return false;
    } while (!word_.compare_exchange_weak(word, lock_word::Entered(word, LockMode::kExclusive),
                                          std::memory_order_acquire, std::memory_order_relaxed));
    if (run_of_ != record || (word & (lock_word::kQueue | lock_word::kTally)) != 0) {
      run_of_ = record;
      run_ = 0;
    }
    qualifies_for_bias = ++run_ == lock_word::kFavourAfterWrites;
    if (qualifies_for_bias) run_ = 0;  // Restarts the count: after the bias is revoked, it takes another full run.
    return true;
  }

  // Biases the lock to the thread of `record`, which is the writer in the word and has published its hold. Returns true
  // if that succeeded; the word then no longer counts the hold. Returns false if it did not; the thread must then
  // withdraw the published hold.
  bool Favour(const ThreadRecord* record);
  // The reverse: counts the favoured thread, which is inside, as the writer in the word. The thread then withdraws its
  // published hold.
  void Unfavour(const ThreadRecord* record);

  // Whether a thread that cannot enter could do so after revoking the bias. Does not change the word.
  bool OnlyPublishedMayBeIn(LockMode mode) const;
  // Enters, and waits in the queue until `deadline` if necessary. Returns false if the deadline passes first. With
  // kNoWait it does not wait for other threads, but revokes the bias if necessary. `metrics` (or null) counts the
  // waiter. O(threads with records) for a writer if readers may have published holds; otherwise O(1), like every other
  // call here.
  bool Enter(LockMode mode, SteadyDeadline deadline, LockMetrics* metrics);

  // Leaves a hold that the word counts. Does not access this object after another thread can see the lock free, so that
  // thread may destroy it.
  void LeaveExclusive() {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & lock_word::kMustWake) != 0 && LeaveAndWake(word, lock_word::kWriter, 0)) return;
    } while (!word_.compare_exchange_weak(word, word & ~lock_word::kWriter, std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  void LeaveShared();
  // Turns the writer into a reader; no writer enters in between.
  void Downgrade();

  // Turns the reader into the writer if it is the only reader. It does not queue behind the waiters, because it is
  // already inside. If `published`, the word does not count the reader; on success the caller then withdraws its
  // published hold.
  bool TryUpgrade(bool published, LockMetrics* metrics);

  // True if no thread is inside or waits.
  bool idle();
  // The number of waiters.
  uint64_t waiters();

 private:
  struct Waiter;
  enum class Turn : uint8_t { kEntered, kMustSleep, kTimedOut };

  static uint64_t FavouredWord(const ThreadRecord* record) {
    return reinterpret_cast<uintptr_t>(record) | lock_word::kFavoured;
  }

  bool SpinToEnter(LockMode mode);
  // If kMustWake is set, applies the change to the word and wakes the head if it may enter. Returns false if kMustWake
  // is no longer set; `word` is then the current value, and the caller leaves without this.
  bool LeaveAndWake(uint64_t& word, uint64_t minus, uint64_t plus);

  void Append(Waiter& self) STOCKADE_REQUIRES(mutex_);
  // Returns the thread to wake after mutex_ is released, or null.
  ThreadRecord* LeaveQueue(Waiter& self, bool entered) STOCKADE_REQUIRES(mutex_);
  ThreadRecord* WakeHead() STOCKADE_REQUIRES(mutex_);
  // The word after `head` has become the head of the queue. Without kMustWake, the caller must wake the head.
  uint64_t WithHead(uint64_t word, const Waiter* head) const STOCKADE_REQUIRES(mutex_);
  // The three functions below release mutex_ and acquire it again.
  // Called by the head. If it returns kMustSleep, kMustWake is set.
  Turn TakeTurn(Waiter& self, SteadyDeadline deadline, LockMetrics* metrics) STOCKADE_REQUIRES(mutex_);
  void ClaimAndSpin(LockMode mode) STOCKADE_REQUIRES(mutex_);
  // Revokes the bias: waits for the published readers or the favoured thread to leave. Returns false if `deadline`
  // passes first.
  bool CallBack(SteadyDeadline deadline, LockMetrics* metrics) STOCKADE_REQUIRES(mutex_);

  std::atomic<uint64_t> word_{0};  // See lock_word.
  const uintptr_t key_;
  const uint32_t entry_;
  const bool fifo_;
  // The thread that made the last writes, if they took the fast path, and their number without another thread in
  // between or waiting. Guarded by kWriter.
  const ThreadRecord* run_of_ = nullptr;
  uint32_t run_ = 0;

  // Placed here to fill the first cache line: the length of the queue, and the thread whose bias was revoked when the
  // queue began and which may still be inside. kClaim is set while that thread is not null.
  uint32_t waiting_ STOCKADE_GUARDED_BY(mutex_) = 0;
  ThreadRecord* called_back_ STOCKADE_GUARDED_BY(mutex_) = nullptr;

  // mutex_ also guards all changes of kQueue, kMustWake and kFavoured. Invariants while mutex_ is free: kQueue is set
  // if and only if the queue is not empty. kMustWake is set if and only if the head sleeps or is about to sleep and has
  // not been woken. A woken head will check the word again.
  Mutex mutex_;
  Waiter* head_ STOCKADE_GUARDED_BY(mutex_) STOCKADE_PT_GUARDED_BY(mutex_) = nullptr;
  Waiter* tail_ STOCKADE_GUARDED_BY(mutex_) STOCKADE_PT_GUARDED_BY(mutex_) = nullptr;
};
// With the two words of LockCore before the gate, the mutex is at the start of the second cache line.
static_assert(sizeof(AccessGate) == 48 + sizeof(Mutex) + 2 * sizeof(void*));

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_INTERNAL_ACCESS_GATE_H_
