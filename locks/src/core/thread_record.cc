#include "stockade/locks/internal/thread_record.h"

#include <pthread.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/futex.h"
#include "stockade/base/log.h"
#include "stockade/locks/internal/lock_core.h"

namespace stockade::locks_internal {
namespace {

// The calling thread's record, fast or not; null before its first use of a lock and after its end.
constinit thread_local ThreadRecord* mine = nullptr;

// Pushed by compare-and-swap, never popped; that hands over next_ and the constructor's work. Sequentially consistent:
// where publishing is, who looks for those who have published themselves must not miss the record.
constinit std::atomic<ThreadRecord*> first_record{nullptr};

// Every lock has a ForkGuard, so forks are counted before the first record is made.
bool InForkedChild() { return fork_detail::generation.load(std::memory_order_relaxed) != 0; }

// Of an overflow that is empty: many locks at once leave many.
constexpr size_t kBucketsKept = 1024;
// Of nodes in reserve: those of Reserve(), and some for threads that hold many locks again and again.
constexpr size_t kSparesKept = 64;
static_assert(kSparesKept >= ThreadRecord::kUsualHolds);

uintptr_t KeyOf(const LockCore* lock) { return reinterpret_cast<uintptr_t>(lock); }

pthread_key_t KeyWithDestructor(void (*at_thread_end)(void*), void (*at_fork_in_child)()) {
  static const pthread_key_t key = [&] {
    pthread_key_t made;
    if (pthread_key_create(&made, at_thread_end) != 0) Fatal("locks: no pthread key is left for the record of holds");
    if (pthread_atfork(nullptr, nullptr, at_fork_in_child) != 0) Fatal("locks: no memory for a handler of fork()");
    return made;
  }();
  return key;
}

}  // namespace

namespace thread_record_detail {

constinit thread_local ThreadRecord* fast = nullptr;

}  // namespace thread_record_detail

using thread_record_detail::fast;

ThreadRecord* ThreadRecord::First() { return first_record.load(std::memory_order_seq_cst); }

ThreadRecord& ThreadRecord::Mine() noexcept { return mine != nullptr ? *mine : Make(); }

ThreadRecord& ThreadRecord::Make() {
  InitAsymmetricFence();
  const pthread_key_t key = KeyWithDestructor(&AtThreadEnd, &AtForkInChild);
  mine = TakeFree();
  if (mine == nullptr) {
    mine = new ThreadRecord;
    mine->next_ = first_record.load(std::memory_order_relaxed);
    while (
        !first_record.compare_exchange_weak(mine->next_, mine, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
  }
  mine->BecomeFast();
  if (pthread_setspecific(key, mine) != 0) Fatal("locks: no memory to detect the end of a thread");
  return *mine;
}

void ThreadRecord::BecomeFast() {
  if (InlineLightStoreWorks() && !InForkedChild()) fast = this;
}

ThreadRecord* ThreadRecord::TakeFree() {
  for (ThreadRecord* record = First(); record != nullptr; record = record->next_) {
    bool taken = record->taken_.load(std::memory_order_relaxed);
    if (!taken &&
        record->taken_.compare_exchange_strong(taken, true, std::memory_order_acquire, std::memory_order_relaxed)) {
      return record;
    }
  }
  return nullptr;
}

void ThreadRecord::AtThreadEnd(void* ended) {
  ThreadRecord* const record = static_cast<ThreadRecord*>(ended);
  if (record != mine) return;  // From before a fork.
  const LockCore* const held = record->AnyHeld();
  if (held != nullptr) {
    if (record->end_seen_) held->identity().Die("held by a thread that ends");
    // Destructors of other pthread keys may release it yet: pthreads calls again after them.
    record->end_seen_ = true;
    (void)pthread_setspecific(KeyWithDestructor(&AtThreadEnd, &AtForkInChild), record);  // Has its place already.
    return;
  }
  mine = fast = nullptr;
  record->end_seen_ = false;
  record->taken_.store(false, std::memory_order_release);
}

// The records are lost to the child: other threads of the parent may have been at work in them.
void ThreadRecord::AtForkInChild() {
  mine = fast = nullptr;
  first_record.store(nullptr, std::memory_order_relaxed);
}

const LockCore* ThreadRecord::AnyHeld() const {
  for (const Hold& hold : table_) {
    const uintptr_t lock = hold.lock.load(std::memory_order_relaxed);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the tags have made an integer of it.
    if (lock != 0) return reinterpret_cast<const LockCore*>(lock & ~Hold::kTags);
  }
  return overflow_.empty() ? nullptr : overflow_.begin()->first;
}

Hold* ThreadRecord::Find(const LockCore* lock) {
  Hold& place = entry(EntryOf(KeyOf(lock)));
  if ((place.lock.load(std::memory_order_relaxed) & ~Hold::kTags) == KeyOf(lock)) return &place;
  if (overflow_.empty()) return nullptr;
  const auto found = overflow_.find(lock);
  return found == overflow_.end() ? nullptr : &found->second;
}

void ThreadRecord::Reserve(size_t holds) {
  ThreadRecord& record = mine != nullptr ? *mine : Make();
  if (record.spare_.size() < holds || record.overflow_.bucket_count() < record.overflow_.size() + holds) [[unlikely]] {
    record.MakeRoom(holds);
  }
}

void ThreadRecord::MakeRoom(size_t holds) {
  overflow_.reserve(overflow_.size() + holds);  // Of the table of nodes.
  spare_.reserve(holds);
  while (spare_.size() < holds) AddSpare();
}

// spare_ must have a free place.
void ThreadRecord::AddSpare() {
  Overflow made;
  made.try_emplace(nullptr);
  spare_.push_back(made.extract(made.begin()));
}

Hold& ThreadRecord::Add(const LockCore* lock) noexcept {
  Hold& place = entry(EntryOf(KeyOf(lock)));
  if (place.lock.load(std::memory_order_relaxed) == 0) return place;
  fast = nullptr;
  if (spare_.empty()) {
    if (spare_.capacity() == 0) spare_.reserve(1);
    AddSpare();
  }
  Overflow::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = lock;
  return overflow_.insert(std::move(node)).position->second;
}

void ThreadRecord::Remove(const LockCore* lock, Hold& hold) {
  if (&hold == &entry(EntryOf(KeyOf(lock)))) return hold.Set(0);
  hold.Set(0);
  Overflow::node_type removed = overflow_.extract(lock);
  if (spare_.size() < std::min(spare_.capacity(), kSparesKept)) spare_.push_back(std::move(removed));
  if (!overflow_.empty()) return;
  if (overflow_.bucket_count() > kBucketsKept) Overflow().swap(overflow_);
  BecomeFast();
}

// Only this thread answers marks, so the lowest bit is set, and one more clears it and counts.
void Hold::WakeAll() {
  wanted.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(wanted, INT_MAX);
}

bool ThreadRecord::Sleep(std::chrono::steady_clock::time_point deadline) {
  // Relaxed: the sleeper then takes the mutex under which it was decided to wake it.
  while (signal_.load(std::memory_order_relaxed) == 0) {
    if (!FutexWait(signal_, 0, deadline)) return false;
  }
  return true;
}

void ThreadRecord::Wake() {
  signal_.store(1, std::memory_order_relaxed);
  FutexWake(signal_, 1);
}

}  // namespace stockade::locks_internal
