#ifndef STOCKADE_LOCKS_THREAD_RECORD_H_
#define STOCKADE_LOCKS_THREAD_RECORD_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/export.h"

namespace stockade::internal {

class LockCore;
class ThreadRecord;

// What one thread holds of one lock, and the place where it publishes that it is in without the lock's word knowing.
// Only its thread writes it, but for `wanted`; other threads read `lock`, to find those who have published themselves.
//
// Invariants, between two calls of the lock: lock == 0 and beyond == 0; or lock is the address of a LockCore plus a
// tag, which tells of one hold, and beyond counts the others. A thread that holds both ways has a tag of writing.
struct STOCKADE_EXPORT Hold {
  // Reads, and is counted in the lock's word; or is published, and the word does not count it.
  static constexpr uintptr_t kCountedRead = 0;
  static constexpr uintptr_t kPublishedRead = 1;
  // Writes, and the word says so; or is published, and the word does not say so.
  static constexpr uintptr_t kWrite = 2;
  static constexpr uintptr_t kPublishedWrite = 3;
  // On top of one of these: the outermost hold is timed.
  static constexpr uintptr_t kSampled = 4;
  static constexpr uintptr_t kTags = 7;

  // Every store releases: who finds nobody here any more has what that thread did behind it.
  std::atomic<uintptr_t> lock{0};
  // Reads in the low half, writes in the high one: to be compared with zero in one step.
  uint64_t beyond = 0;
  static constexpr uint64_t kOneRead = 1;
  static constexpr uint64_t kOneWrite = uint64_t{1} << 32;
  // A futex. The lowest bit: somebody waits for the published thread to leave, or did so once. The rest counts how
  // often that was answered, so that nobody sleeps on a mark that has been.
  std::atomic<uint32_t> wanted{0};
  // When the outermost hold began, if it is sampled.
  std::chrono::steady_clock::time_point sampled_since{};

  // The rest is for the thread that holds.
  uintptr_t tag() const { return lock.load(std::memory_order_relaxed) & kTags; }
  bool is_write() const { return (tag() & kWrite) != 0; }
  bool is_published() const { return (tag() & kPublishedRead) != 0; }
  bool is_sampled() const { return (tag() & kSampled) != 0; }
  uint32_t reads_beyond() const { return static_cast<uint32_t>(beyond); }
  uint32_t writes_beyond() const { return static_cast<uint32_t>(beyond >> 32); }
  uint32_t read_holds() const { return reads_beyond() + (is_write() ? 0 : 1); }
  uint32_t write_holds() const { return writes_beyond() + (is_write() ? 1 : 0); }
  // Leaves `value`, a lock and a tag or nothing, where nothing published was, or where it is to stay published.
  void Set(uintptr_t value) { lock.store(value, std::memory_order_release); }

  // The light side of the asymmetric fence: who has fenced after it forbade to publish sees it, or this thread sees
  // that it is forbidden.
  void Publish(uintptr_t key, uintptr_t tag) { LightStore(lock, key + tag); }
  // Leaves `value` where something was published. The light side again: either who has marked this hold as wanted sees
  // that its thread has left, or the thread sees the mark and wakes who waits. Touches nothing of the lock, which may
  // have been taken and destroyed.
  void Unpublish(uintptr_t value) {
    LightStore(lock, value);
    WakeIfWanted();
  }
  // The same where ThreadRecord::Fast() is not null.
  void PublishInline(uintptr_t key, uintptr_t tag) { InlineLightStore(lock, key + tag); }
  void UnpublishInline() {
    InlineLightStore(lock, uintptr_t{0});
    WakeIfWanted();
  }

  // By another thread, which then fences and looks again whether this one is there, before it sleeps on what this
  // returns.
  uint32_t Mark() { return wanted.fetch_or(1, std::memory_order_seq_cst) | 1; }

 private:
  void WakeIfWanted() {
    if ((wanted.load(std::memory_order_seq_cst) & 1) != 0) [[unlikely]] {
      WakeAll();
    }
  }
  void WakeAll();
};

namespace thread_record_detail {
// See ThreadRecord::Fast().
STOCKADE_EXPORT extern constinit thread_local ThreadRecord* fast;
}  // namespace thread_record_detail

// What one thread holds, and where it sleeps. A thread gets a record at its first use of a lock and gives it back when
// it ends; records are recycled and never freed, so their number is that of the threads that ever used locks at the
// same time, and whoever has a pointer to one may always touch it. A record takes 1.25 KiB.
//
// A lock has the same entry in each record's table, by a hash of its address, so that a writer in search of readers
// looks at one cache line a record. A hold that finds its entry taken by another lock goes into the overflow, which
// no other thread looks at: such a thread does not publish itself.
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
  static constexpr size_t kEntries = 32;

  // Where the lock with this address has its entry, in bytes from the begin of the record. Fibonacci hashing.
  static uint32_t EntryOf(uintptr_t key) {
    return static_cast<uint32_t>((static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u) >> 59) * sizeof(Hold);
  }

  // The calling thread's record if its overflow is empty, so that what the table does not have the thread does not
  // hold; if publishing needs no fence; and not in a forked child. Null otherwise: take the slow way. One load of a
  // thread_local.
  static ThreadRecord* Fast() { return thread_record_detail::fast; }
  Hold& entry(uint32_t offset) { return *reinterpret_cast<Hold*>(reinterpret_cast<std::byte*>(&table_) + offset); }

  // The calling thread's record. The first call of a thread may allocate; so may Add(). Without memory they end the
  // process, since a lock that is taken but not noted could never be let go.
  static ThreadRecord& Mine() noexcept;

  // Null where the thread does not hold `lock`.
  Hold* Find(const LockCore* lock);
  // A place for `lock`, which the thread must not hold yet. Valid until Remove().
  Hold& Add(const LockCore* lock) noexcept;
  // `hold` is of `lock`, and is the thread's last; it must not be published.
  void Remove(const LockCore* lock, Hold& hold);

  // One thread sleeps, the record's own; others wake it. A wake-up may come late and strike a later sleep, so the
  // sleeper always looks again whether what it waits for has happened. Only a wake-up that is sent after
  // PrepareToSleep() counts.
  void PrepareToSleep() { signal_.store(0, std::memory_order_relaxed); }
  // False where `deadline` has passed without a wake-up.
  bool Sleep(std::chrono::steady_clock::time_point deadline);
  void Wake();

  // All records there have ever been: the first, and the one after this.
  static ThreadRecord* First();
  ThreadRecord* next() const { return next_; }

 private:
  static ThreadRecord& Make();
  void BecomeFast();
  static ThreadRecord* TakeFree();
  static void AtThreadEnd(void* record);
  static void AtForkInChild();

  const LockCore* AnyHeld() const;

  std::array<Hold, kEntries> table_;
  alignas(64) std::atomic<uint32_t> signal_{0};  // A futex: 1 is a wake-up.
  std::atomic<bool> taken_{true};                // Is some thread's. Acquire to take, release to give back.
  ThreadRecord* next_ = nullptr;                 // Written before the record is in the list.
  bool end_seen_ = false;                        // AtThreadEnd() has found holds once.
  using Overflow = std::unordered_map<const LockCore*, Hold>;
  Overflow overflow_;
  Overflow::node_type spare_;  // Of the last one removed: one lock too many, over and over, allocates once.
};
static_assert(sizeof(ThreadRecord) <= 1280);
static_assert(alignof(ThreadRecord) > 64);  // lock_word::kFavoured is kept in the low bits of an address.

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_THREAD_RECORD_H_
