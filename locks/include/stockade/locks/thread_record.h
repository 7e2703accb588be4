#ifndef STOCKADE_LOCKS_THREAD_RECORD_H_
#define STOCKADE_LOCKS_THREAD_RECORD_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "stockade/base/asymmetric_fence.h"

namespace stockade::internal {

class LockCore;
class ThreadRecord;

// What one thread holds of one lock, and the place where a reader publishes that it reads. Only its thread writes it,
// but for `wanted`; other threads read `lock`, to find published readers.
//
// Invariants, between two calls of the lock: lock == 0 and reads + writes == 0; or lock is the address of a LockCore,
// with kPublishedTag or without, and reads + writes > 0. With the tag, writes == 0, and the lock's word does not count
// this reader.
struct Hold {
  static constexpr uintptr_t kPublishedTag = 1;

  // Every store releases: who finds no reader here any more has what that reader did behind it.
  std::atomic<uintptr_t> lock{0};
  // A futex: 1 says that a writer waits for the published reader to leave, or did so once.
  std::atomic<uint32_t> wanted{0};
  uint32_t reads = 0;
  uint32_t writes = 0;
  // When the outermost hold began, if it is one of the sampled; the epoch if not.
  std::chrono::steady_clock::time_point sampled_since{};

  // Whether it is of the lock whose address is `key`.
  bool IsOf(uintptr_t key) const {
    return (lock.load(std::memory_order_relaxed) | kPublishedTag) == (key | kPublishedTag);
  }

  bool IsPublished() const { return (lock.load(std::memory_order_relaxed) & kPublishedTag) != 0; }
  bool IsSampled() const { return sampled_since != std::chrono::steady_clock::time_point{}; }

  // The light side of the asymmetric fence: a writer that has fenced sees it, or the reader sees the writer.
  void Publish(uintptr_t key) { LightStore(lock, key | kPublishedTag); }
  // Leaves `key`, or nothing, in place of what was published. The light side again: either the writer that marked this
  // hold as wanted sees that the reader has left, or the reader sees the mark and wakes the writer. Touches nothing of the
  // lock, which the writer may have taken and destroyed.
  void Unpublish(uintptr_t key = 0) {
    LightStore(lock, key);
    if (wanted.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
      WakeWriters();
    }
  }
  // Takes the mark back and wakes the writers that sleep on it.
  void WakeWriters();
};

namespace thread_record_detail {
// See ThreadRecord::Fast().
extern constinit thread_local ThreadRecord* fast;
}  // namespace thread_record_detail

// What one thread holds, and where it sleeps. A thread gets a record at its first use of a lock and gives it back when
// it ends; records are recycled and never freed, so their number is that of the threads that ever used locks at the
// same time, and whoever has a pointer to one may always touch it. A record takes 1 KiB.
//
// A lock has the same entry in each record's table, by a hash of its address, so that a writer in search of readers
// looks at one cache line a record. A hold that finds its entry taken by another lock goes into the overflow, which
// no other thread looks at: such a reader does not publish itself, it is counted in the lock's word.
//
// The thread reaches its record through trivial thread_locals, which outlive every destructor of a thread_local, and it
// is given back by a pthread key's destructor, which runs after all of them: a thread that then still holds something
// aborts with the lock's name. If a key's destructor uses locks later still, the thread gets another record. exit()
// runs no key destructors, so for destructors of statics the main thread's record is simply still there.
//
// A record from before a fork is not believed in the child: its locks may not be used there, and new locks can have the
// addresses of old ones. So the child starts without records. Its threads never have a fast one: then every call goes
// the slow way, which is where a lock from before the fork is found out.
class alignas(128) ThreadRecord {
 public:
  static constexpr size_t kEntries = 16;

  // Where the lock with this address has its entry. Fibonacci hashing.
  static uint32_t EntryOf(uintptr_t key) {
    return static_cast<uint32_t>((static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u) >> 60);
  }

  // The calling thread's record if its overflow is empty, so that what the table does not have the thread does not
  // hold; and not in a forked child. Null otherwise: take the slow way. One load of a thread_local.
  static ThreadRecord* Fast() { return thread_record_detail::fast; }
  Hold& entry(uint32_t index) { return table_[index]; }

  // The calling thread's record. The first call of a thread may allocate.
  static ThreadRecord& Mine();

  // Null where the thread does not hold `lock`.
  Hold* Find(const LockCore* lock);
  // The thread must not hold it yet. Valid until Remove().
  Hold& Add(const LockCore* lock);
  // `hold` is of `lock`, is not published, and has no reads and no writes left.
  void Remove(const LockCore* lock, Hold& hold);

  // Whether the hold that begins now is to be timed: the first, and every kHoldSampling-th after it.
  bool NextIsSampled();

  // One thread sleeps, the record's own; others wake it. A wake-up may come late and strike a later sleep, so the sleeper
  // always looks again whether what it waits for has happened. Only a wake-up that is sent after PrepareToSleep() counts.
  void PrepareToSleep() { signal_.store(0, std::memory_order_relaxed); }
  // False where `deadline` has passed without a wake-up.
  bool Sleep(std::chrono::steady_clock::time_point deadline);
  void Wake();

  // All records there have ever been: the first, and the one after this.
  static ThreadRecord* First();
  ThreadRecord* next() const { return next_; }

 private:
  static ThreadRecord& Make();
  static ThreadRecord* TakeFree();
  static void AtThreadEnd(void* record);
  static void AtForkInChild();

  const LockCore* AnyHeld() const;

  std::array<Hold, kEntries> table_;
  alignas(64) std::atomic<uint32_t> signal_{0};  // A futex: 1 is a wake-up.
  std::atomic<bool> taken_{true};                // Is some thread's. Acquire to take, release to give back.
  ThreadRecord* next_ = nullptr;                 // Written before the record is in the list.
  uint32_t until_sample_ = 0;
  bool end_seen_ = false;  // AtThreadEnd() has found holds once.
  std::unordered_map<const LockCore*, Hold> overflow_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_THREAD_RECORD_H_
