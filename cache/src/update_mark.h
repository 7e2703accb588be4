#ifndef STOCKADE_CACHE_SRC_UPDATE_MARK_H_
#define STOCKADE_CACHE_SRC_UPDATE_MARK_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "shard.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// Lives as long as an update of a strict cache has, or waits for, its key's lock.
class CacheCore::UpdateMark {
 public:
  UpdateMark(CacheCore& core, const KeyAt& at) : core_(core), hash_(at.hash), shard_(at.shard) {
    const ShardLock lock = Lock(core_.shards_[shard_]);
    ++core_.shards_[shard_].updates[hash_].under_way;
  }
  // The lock must be released.
  ~UpdateMark() {
    Shard& shard = core_.shards_[shard_];
    size_t woken = 0;
    {
      const ShardLock lock = Lock(shard);
      const auto updates = shard.updates.find(hash_);
      std::list<AsyncPtr>& parked = updates->second.parked;
      for (const AsyncPtr& async : parked) async->lobby = &shard.ready;
      woken = parked.size();
      shard.ready.splice(shard.ready.end(), parked);
      if (--updates->second.under_way == 0) shard.updates.erase(updates);
    }
    for (; woken > 0; --woken) core_.ScheduleRead(shard_);
  }
  UpdateMark(const UpdateMark&) = delete;
  UpdateMark& operator=(const UpdateMark&) = delete;

 private:
  CacheCore& core_;
  const uint64_t hash_;
  const size_t shard_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_UPDATE_MARK_H_
