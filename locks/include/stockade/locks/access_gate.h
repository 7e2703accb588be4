#ifndef STOCKADE_LOCKS_ACCESS_GATE_H_
#define STOCKADE_LOCKS_ACCESS_GATE_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "stockade/base/export.h"
#include "stockade/base/prefetch.h"
#include "stockade/locks/lock_word.h"
#include "stockade/locks/steady_deadline.h"
#include "stockade/locks/thread_record.h"

namespace stockade::internal {

class LockMetrics;

// Who is in and who waits: the part of a lock that knows no re-entry. One writer or any number of readers, and one
// queue for both, in the order in which threads came to it. There are two ways to be in:
//
// Known to the word: entering and leaving are one compare-and-swap of it, while nobody sleeps.
//
// Published: the thread says so in its own record, which nobody else writes, and looks whether the word lets it. Reads
// are taken so while the word has kBias (after BRAVO, Dice and Kogan, USENIX ATC 2019, with a table a thread and an
// asymmetric fence in place of one shared table); writes, by the one thread that the lock favours (as in biased
// locking, Kawachiya, Koseki and Onodera, OOPSLA 2002). A lock gets there by a long run of reads, or of writes of one
// thread, and leaves when somebody else comes: the head of the queue forbids it in the word, fences, and waits for who
// is in.
//
// A waiter enters only from the head of the queue; whoever makes room for a head that sleeps wakes it. Until the head
// runs, threads that arrive may enter before it (but for the FIFO option); if the head then finds the lock taken, or if
// it is a writer that waits for readers, it claims the lock: nobody enters before it any more. So neither readers nor
// writers starve: a waiter enters after those that were before it, and each of these lets others pass during one
// wake-up at most.
//
// Memory ordering: entering is an acquire, leaving a release, of the word or of the published hold. What orders the
// word against the holds is the asymmetric fence, see Hold and published_holds.h. Changes of the word that hand nothing
// over (claims, queue bits) are relaxed: as read-modify-writes they carry the last release on. tests/models/ has models
// of all of it.
//
// It owns nothing that needs destruction (waiters live on their threads' stacks), so a forked child can drop it.
class STOCKADE_EXPORT AccessGate {
 public:
  // `key`: the address of the lock, under which threads publish themselves. `fifo`: strictly first in, first out.
  AccessGate(uintptr_t key, bool fifo) : key_(key), entry_(ThreadRecord::EntryOf(key)), fifo_(fifo) {}

  AccessGate(const AccessGate&) = delete;
  AccessGate& operator=(const AccessGate&) = delete;

  // Where the hold of this lock is, unless it is in the overflow.
  Hold& EntryIn(ThreadRecord& record) const { return record.entry(entry_); }

  // Whether a reader that has published itself is in. If not it must take that back.
  bool PublishedReadersAreIn() const { return (word_.load(std::memory_order_seq_cst) & lock_word::kBias) != 0; }
  // The same of the thread of `record`, for writing.
  bool IsFavoured(const ThreadRecord* record) const {
    return word_.load(std::memory_order_seq_cst) == FavouredWord(record);
  }

  // The word is about to be written.
  void PrepareToWrite() const { PrefetchForWrite(&word_); }

  // Enter if they can by one step of the word. O(1), lock-free.
  bool TryEnter(LockMode mode) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (!lock_word::IsOpen(word, mode)) return false;
    } while (!word_.compare_exchange_weak(word, lock_word::Entered(word, mode), std::memory_order_acquire,
                                          std::memory_order_relaxed));
    if (mode == LockMode::kExclusive) run_of_ = nullptr;
    return true;
  }
  // The same for the thread of `record`; tells whether it has had the lock for so long that Favour() is in order.
  bool TryEnterExclusive(const ThreadRecord* record, bool& had_it_long) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (!lock_word::IsOpen(word, LockMode::kExclusive)) return false;
    } while (!word_.compare_exchange_weak(word, lock_word::Entered(word, LockMode::kExclusive),
                                          std::memory_order_acquire, std::memory_order_relaxed));
    if (run_of_ != record || (word & (lock_word::kQueue | lock_word::kTally)) != 0) {
      run_of_ = record;
      run_ = 0;
    }
    had_it_long = ++run_ == lock_word::kFavourAfterWrites;
    if (had_it_long) run_ = 0;  // Spent: a favour that is lost is to be earned anew.
    return true;
  }

  // The thread of `record`, the writer by the word, has published its hold. True: the lock favours the thread from now
  // on, and its hold is no longer known to the word. False: it still is, and the thread must take back what it
  // published.
  bool Favour(const ThreadRecord* record);
  // The reverse: the published writer becomes one that the word knows. It then takes back what it has published.
  void Unfavour(const ThreadRecord* record);

  // Whether a thread that may not enter might if those who may publish themselves were called back: a look.
  bool OnlyPublishedMayBeIn(LockMode mode) const;
  // Waits in the queue until `deadline` if it must: true. False where that has passed first. With kNoWait it does not
  // wait, but calls back those who may publish themselves. `metrics` (or null) learns of it as a waiter. O(threads that
  // have records) for a writer where readers may have published themselves; else O(1), as is every other call here.
  bool Enter(LockMode mode, SteadyDeadline deadline, LockMetrics* metrics);

  // Of threads known to the word. Nothing of this object is touched after another thread can see the lock free, so that
  // thread may destroy it.
  void LeaveExclusive() {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & lock_word::kMustWake) != 0 && LeaveAndWake(word, lock_word::kWriter, 0)) return;
    } while (!word_.compare_exchange_weak(word, word & ~lock_word::kWriter, std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  void LeaveShared();
  // The writer becomes a reader, with no writer in between.
  void Downgrade();

  // The reader becomes the writer if it is the only one; it passes those who wait, as it was in before they came.
  // `published`: the word does not know it; then, if this is true, it takes back what it has published.
  bool TryUpgrade(bool published, LockMetrics* metrics);

  // Nobody is in and nobody waits.
  bool idle();
  // How many wait now.
  uint64_t waiters();

 private:
  struct Waiter;
  enum class Turn : uint8_t { kEntered, kMustSleep, kTimedOut };

  static uint64_t FavouredWord(const ThreadRecord* record) {
    return reinterpret_cast<uintptr_t>(record) | lock_word::kFavoured;
  }

  bool SpinToEnter(LockMode mode);
  // Where kMustWake is set changes the word and wakes the head if it may enter. False where it is not set any more:
  // then `word` is what it is now, and the caller leaves in the usual way.
  bool LeaveAndWake(uint64_t& word, uint64_t minus, uint64_t plus);

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
  // Waits for those who may be in by having published themselves: readers, or the thread that was favoured. False where
  // `deadline` has passed and somebody still is.
  bool CallBack(std::unique_lock<std::mutex>& lock, SteadyDeadline deadline, LockMetrics* metrics);

  std::atomic<uint64_t> word_{0};  // See lock_word.
  const uintptr_t key_;
  const uint32_t entry_;
  const bool fifo_;
  // The thread that has had the last writes, if they went the fast way, and how many of them, with nobody else in
  // between or waiting. Guarded by kWriter.
  const ThreadRecord* run_of_ = nullptr;
  uint32_t run_ = 0;

  // Guarded by mutex_, and here to fill the first cache line: the length of the queue; and the thread that was favoured
  // when the queue came to be, and may still be in. While that is not null, kClaim is set.
  uint32_t waiting_ = 0;
  ThreadRecord* called_back_ = nullptr;

  // The queue. Guarded by mutex_, as is the change of the bits kQueue, kMustWake and kFavoured. Invariants, with mutex_
  // free: kQueue is set exactly if the queue is not empty; kMustWake exactly if its head sleeps or is about to and has
  // not been woken; a head that has been woken will look at the word again.
  std::mutex mutex_;
  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
};
// With the two words of LockCore before it, the mutex begins its second cache line.
static_assert(sizeof(AccessGate) == 48 + sizeof(std::mutex) + 2 * sizeof(void*));

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_ACCESS_GATE_H_
