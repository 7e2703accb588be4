#ifndef STOCKADE_CACHE_SRC_SHARD_H_
#define STOCKADE_CACHE_SRC_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache_call.h"
#include "entry_table.h"
#include "flight_table.h"
#include "flight_waiter.h"
#include "stockade/base/mutex.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// Guarded by its mutex.
struct alignas(64) CacheCore::Shard {
  // A walk over the entries that looks for those past all their deadlines (sweep.cc). Invariant: no entry is over
  // before `over_at`. Of the entries that the walk has passed and those stored since it began, none is over before
  // `passed_over_at`.
  struct Walk {
    Instant over_at = Instant::InfiniteFuture();
    Instant passed_over_at = Instant::InfiniteFuture();
    uint64_t position = 0;
  };

  // The updates of the keys of one hash, those that wait for their lock included.
  struct Updates {
    int under_way = 0;           // More than 0.
    std::list<AsyncPtr> parked;  // Strict calls of GetAsync() that wait for the end of one.
  };

  // The number of homes that a store checks when a sweep is due.
  static constexpr size_t kSweptByStore = 16;

  Mutex mutex;
  EntryTable entries;
  FlightTable flights;
  Walk walk;
  // Strict calls of GetAsync() for which a task is in the queue of async_read_pool_, or is about to be.
  std::list<AsyncPtr> ready;
  std::unordered_map<uint64_t, Updates> updates;  // If options.strict, by the key's hash.
  int clearings = 0;                              // Invalidations of a tag or of all keys in progress.
  bool closed = false;                            // No flight begins any more.
};

// Work that changes under a mutex leave for the time after it. It includes user code, so it must not run before this
// thread has published everything that other threads or that code may wait for. The destructor does the work.
struct CacheCore::Aftermath {
  explicit Aftermath(CacheCore& c) : core(c) {}
  ~Aftermath() { core.Settle(*this); }
  Aftermath(const Aftermath&) = delete;
  Aftermath& operator=(const Aftermath&) = delete;

  CacheCore& core;
  Entries removed;
  Entries renewed;                 // Replaced entries whose values stay in the cache.
  std::vector<FlightPtr> dropped;  // Their last owner may have to run a destructor.
  std::vector<FlightPtr> for_load_executor;
  std::vector<FlightPtr> for_refresh_executor;
  std::list<std::shared_ptr<FlightWaiter>> woken;  // Their flights are answered.
  std::vector<AsyncPtr> answered;                  // Their flights are answered.
  bool stored_mortal = false;                      // A stored entry expires.
  bool may_exceed = false;                         // A stored entry may exceed max_weight.
};

inline CacheCore::ShardLock CacheCore::Lock(Shard& shard) {
  SyncPoint();
  return ShardLock(shard.mutex);
}
inline CacheEntry* CacheCore::FindEntry(const KeyAt& at) { return shards_[at.shard].entries.Find(at); }
inline FlightPtr CacheCore::Current(const KeyAt& at) const {
  return shards_[at.shard].flights.Current(at.hash, at.key);
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_SHARD_H_
