#ifndef STOCKADE_CACHE_SRC_SHARD_H_
#define STOCKADE_CACHE_SRC_SHARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "entry_table.h"
#include "flight.h"
#include "flight_table.h"
#include "stockade/base/cpu_relax.h"
#include "stockade/base/mutex.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// Guarded by its mutex.
struct alignas(64) CacheCore::Shard {
  // A walk over the entries that looks for those past all their deadlines (entries.cc). Invariant: no entry is over
  // before `over_at`. Of the entries that the walk has passed and those stored since it began, none is over before
  // `passed_over_at`.
  struct Walk {
    Instant over_at = Instant::InfiniteFuture();
    Instant passed_over_at = Instant::InfiniteFuture();
    uint32_t next = 1;  // The number of a slot.
  };

  // Boxes that have left their slots and may still be read by a hit that found them before. Invariant: all were added
  // within the tick of the coarse clock in which others were freed last, except for those that were being read then.
  // They are fewer than kMostBoxes, with less than kMostBytes, and those of all shards have at most 1/kWeightPart of
  // max_weight.
  struct Retired {
    static constexpr size_t kMostBoxes = 64;
    static constexpr size_t kMostBytes = size_t{64} << 10;
    static constexpr int64_t kWeightPart = 100;

    void Clear() {
      boxes.clear();
      bytes = 0;
      weight = 0;
    }

    std::vector<const Box*> boxes;
    size_t bytes = 0;
    int64_t weight = 0;
    Instant freed_at = Instant::InfinitePast();
  };

  // The updates of the keys of one hash, those that wait for their lock included.
  struct Updates {
    int under_way = 0;    // More than 0.
    Waiter::List parked;  // Strict calls of GetAsync() that wait for the end of one.
  };

  // The number of slots that a store checks when a sweep is due, and a sweep under one lock.
  static constexpr uint32_t kSweptByStore = 16;
  static constexpr uint32_t kSweptAtOnce = 256;

  Mutex mutex;
  std::atomic<int> waiting{0};  // Threads that wait for the mutex; only a hint, for GiveWay().
  EntryTable entries;
  FlightTable flights;
  Walk walk;
  Retired retired;
  // Strict calls of GetAsync() for which a task is in the queue of async_read_pool_, or is about to be.
  Waiter::List ready;
  std::unordered_map<uint64_t, Updates> updates;  // If options.strict, by the key's hash.
  int clearings = 0;                              // Invalidations of a tag or of all keys in progress.
  bool closed = false;                            // No flight begins any more.
};

// Work that changes under a mutex leave for the time after it. It includes user code, so it must not run before this
// thread has published everything that other threads or that code may wait for. The destructor does the work.
struct CacheCore::Aftermath {
  explicit Aftermath(CacheCore& c) : core(c) {}
  ~Aftermath() {
    if (!idle()) core.Settle(*this);
  }
  Aftermath(const Aftermath&) = delete;
  Aftermath& operator=(const Aftermath&) = delete;

  bool idle() const {
    return removed.empty() && boxes.empty() && dropped.empty() && queued.empty() && answered.empty() &&
           !stored_mortal && !may_exceed && !retired;
  }

  CacheCore& core;
  std::vector<Removal> removed;                         // For the listener.
  std::vector<const Box*> boxes;                        // To be freed.
  std::vector<FlightPtr> dropped;                       // Their last owner may have to run a destructor.
  std::vector<std::pair<LoadQueue, FlightPtr>> queued;  // To be passed to the queue's executor.
  Waiter::List answered;                                // Their flights are answered.
  bool stored_mortal = false;                           // A stored entry expires.
  bool may_exceed = false;                              // A stored entry may exceed max_weight.
  bool retired = false;                                 // Boxes wait to be freed.
};

// Spins before it sleeps, because the mutex is mostly held for some 100 ns.
inline CacheCore::ShardLock CacheCore::Lock(Shard& shard) {
  constexpr int kSpins = 100;
  constexpr int kPauses = 8;  // Between two tries, so that the holder keeps the mutex's cache line.
  SyncPoint();
  ShardLock lock(shard.mutex, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  shard.waiting.fetch_add(1, std::memory_order_relaxed);
  for (int spin = 0; spin < kSpins && !lock.owns_lock(); ++spin) {
    for (int pause = 0; pause < kPauses; ++pause) CpuRelax();
    (void)lock.try_lock();
  }
  if (!lock.owns_lock()) lock.lock();
  shard.waiting.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}
// Called between the steps of a long work, which would otherwise take the mutex again before a thread that waits for it
// has woken. Bounded, so that the work ends however many threads come.
inline void CacheCore::GiveWay(const Shard& shard) {
  constexpr int kYields = 100;
  for (int i = 0; i < kYields && shard.waiting.load(std::memory_order_relaxed) > 0; ++i) std::this_thread::yield();
}
inline Slot* CacheCore::FindEntry(const KeyAt& at) {
  return shards_[at.shard].entries.Find(at.hash, [&](const Slot& slot) { return IsFor(slot, at.key); });
}
inline FlightPtr CacheCore::Current(const KeyAt& at) const {
  return shards_[at.shard].flights.Current(at.hash, at.key);
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_SHARD_H_
