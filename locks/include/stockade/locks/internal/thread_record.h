#ifndef STOCKADE_LOCKS_INTERNAL_THREAD_RECORD_H_
#define STOCKADE_LOCKS_INTERNAL_THREAD_RECORD_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/export.h"

namespace stockade::locks_internal {

class LockCore;
class ThreadRecord;

// The holds of one thread on one lock, and the place where it publishes a hold that the lock's word does not count.
// Only its thread writes it, except for `wanted`. Other threads read `lock` to find published holds.
//
// Invariants between two calls on the lock: either lock == 0 and beyond == 0; or `lock` is the address of a LockCore
// plus a tag, which describes one hold, and `beyond` counts the others. A thread that holds the lock in both modes has
// a write tag.
struct STOCKADE_EXPORT Hold {
  // A read that the lock's word counts; or a published read, which the word does not count.
  static constexpr uintptr_t kCountedRead = 0;
  static constexpr uintptr_t kPublishedRead = 1;
  // A write that the word shows; or a published write, which the word does not show.
  static constexpr uintptr_t kWrite = 2;
  static constexpr uintptr_t kPublishedWrite = 3;
  // Added to one of these: the outermost hold is timed.
  static constexpr uintptr_t kSampled = 4;
  static constexpr uintptr_t kTags = 7;

  // Every store releases: a thread that finds the hold gone sees everything that its thread did before.
  std::atomic<uintptr_t> lock{0};
  // Reads in the low half, writes in the high half, so that one comparison with zero covers both.
  uint64_t beyond = 0;
  static constexpr uint64_t kOneRead = 1;
  static constexpr uint64_t kOneWrite = uint64_t{1} << 32;
  // A futex. The lowest bit is set if a thread waits, or has waited, for the published thread to leave. The other bits
  // count the answers, so that no thread sleeps on a mark that was already answered.
  std::atomic<uint32_t> wanted{0};
  // When the outermost hold began, if it is sampled.
  std::chrono::steady_clock::time_point sampled_since{};

  // The following are for the thread that holds.
  uintptr_t tag() const { return lock.load(std::memory_order_relaxed) & kTags; }
  bool is_write() const { return (tag() & kWrite) != 0; }
  bool is_published() const { return (tag() & kPublishedRead) != 0; }
  bool is_sampled() const { return (tag() & kSampled) != 0; }
  uint32_t reads_beyond() const { return static_cast<uint32_t>(beyond); }
  uint32_t writes_beyond() const { return static_cast<uint32_t>(beyond >> 32); }
  uint32_t read_holds() const { return reads_beyond() + (is_write() ? 0 : 1); }
  uint32_t write_holds() const { return writes_beyond() + (is_write() ? 1 : 0); }
  // Stores `value`, a lock and a tag or zero. Only if nothing was published, or if it stays published.
  void Set(uintptr_t value) { lock.store(value, std::memory_order_release); }

  // The light side of the asymmetric fence: either a thread that executes the heavy fence after forbidding publication
  // sees this hold, or this thread sees that publication is forbidden.
  void Publish(uintptr_t key, uintptr_t tag) { LightStore(lock, key + tag); }
  // Stores `value` if the hold was published. Again the light side: either a thread that has marked this hold as wanted
  // sees that its thread has left, or this thread sees the mark and wakes the waiters. Does not access the lock, which
  // may have been acquired and destroyed meanwhile.
  void Unpublish(uintptr_t value) {
    LightStore(lock, value);
    WakeIfWanted();
  }
  // The same if ThreadRecord::Fast() is not null.
  void PublishInline(uintptr_t key, uintptr_t tag) { InlineLightStore(lock, key + tag); }
  void UnpublishInline() {
    InlineLightStore(lock, uintptr_t{0});
    WakeIfWanted();
  }

  // Called by another thread. It then executes the heavy fence and checks again whether this thread is inside, before
  // it sleeps on the returned value.
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

// The holds of one thread, and the futex that it sleeps on. A thread gets a record when it first uses a lock and
// returns it when it ends. Records are recycled and never freed, so their number is the largest number of threads that
// used locks at the same time, and a pointer to one is always valid. A record takes 1.25 KiB.
//
// A lock has the same entry in the table of each record, chosen by a hash of its address, so that a writer that
// searches for readers reads one cache line per record. If another lock occupies the entry, the hold goes to the
// overflow, which no other thread reads; the thread does not publish itself then.
//
// The thread finds its record through trivial thread_locals, which outlive all destructors of thread_local objects. The
// destructor of a pthread key, which runs after all of them, returns the record: a thread that still holds a lock then
// aborts with the lock's name. If the destructor of another key uses locks later, the thread gets another record.
// exit() runs no key destructors, so the main thread's record still exists when static objects are destroyed.
//
// A forked child does not use the parent's records: locks from before the fork must not be used there, and new locks
// can have the addresses of old ones. The child therefore starts without records. Its threads never have a fast one, so
// that every call takes the slow path, which detects locks from before the fork.
class alignas(128) ThreadRecord {
 public:
  static constexpr size_t kEntries = 32;

  // The offset of the entry of the lock with this address, in bytes from the start of the record. Fibonacci hashing.
  static uint32_t EntryOf(uintptr_t key) {
    return static_cast<uint32_t>((uint64_t{key} * 0x9E3779B97F4A7C15u) >> 59) * sizeof(Hold);
  }

  // The calling thread's record if its overflow is empty (so that the thread holds only what the table has), if
  // publishing needs no fence, and if this is not a forked child. Otherwise null, and the caller takes the slow path.
  // One load of a thread_local.
  static ThreadRecord* Fast() { return thread_record_detail::fast; }
  Hold& entry(uint32_t offset) { return *reinterpret_cast<Hold*>(reinterpret_cast<std::byte*>(&table_) + offset); }

  // The calling thread's record. A thread's first call may allocate, and so may Add(). If the allocation fails, the
  // process ends, because a lock that is acquired but not recorded could never be released.
  static ThreadRecord& Mine() noexcept;

  // For callers that must survive a lack of memory: lets the calling thread acquire `holds` more locks without an
  // allocation. Throws std::bad_alloc. Of this room, that for kUsualHolds locks is kept.
  STOCKADE_EXPORT static void Reserve(size_t holds);
  static constexpr size_t kUsualHolds = 8;

  // Returns null if the thread does not hold `lock`.
  Hold* Find(const LockCore* lock);
  // A place for `lock`, which the thread must not hold yet. Valid until Remove().
  Hold& Add(const LockCore* lock) noexcept;
  // `hold` is the thread's last hold of `lock` and must not be published.
  void Remove(const LockCore* lock, Hold& hold);

  // Only the record's own thread sleeps; others wake it. A wake-up may arrive late and end a later sleep, so the
  // sleeper always checks its condition again. Only a wake-up that is sent after PrepareToSleep() counts.
  void PrepareToSleep() { signal_.store(0, std::memory_order_relaxed); }
  bool IsWoken() const { return signal_.load(std::memory_order_relaxed) != 0; }
  // Returns false if `deadline` has passed without a wake-up.
  bool Sleep(std::chrono::steady_clock::time_point deadline);
  void Wake();

  // All records that ever existed: the first one, and the one after this.
  static ThreadRecord* First();
  ThreadRecord* next() const { return next_; }

 private:
  static ThreadRecord& Make();
  void MakeRoom(size_t holds);
  void AddSpare();
  void BecomeFast();
  static ThreadRecord* TakeFree();
  static void AtThreadEnd(void* record);
  static void AtForkInChild();

  const LockCore* AnyHeld() const;

  std::array<Hold, kEntries> table_;
  alignas(64) std::atomic<uint32_t> signal_{0};  // A futex: 1 is a wake-up.
  std::atomic<bool> taken_{true};                // A thread owns it. Acquire to take it, release to return it.
  ThreadRecord* next_ = nullptr;                 // Written before the record is in the list.
  bool end_seen_ = false;                        // AtThreadEnd() has found holds once.
  using Overflow = std::unordered_map<const LockCore*, Hold>;
  Overflow overflow_;
  // Nodes for the overflow, so that an overflow that comes and goes allocates once: removed ones, and those of
  // Reserve(). At most its capacity.
  std::vector<Overflow::node_type> spare_;
};
static_assert(sizeof(ThreadRecord) <= 1280);
static_assert(alignof(ThreadRecord) > 64);  // lock_word::kFavoured is kept in the low bits of an address.

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_INTERNAL_THREAD_RECORD_H_
