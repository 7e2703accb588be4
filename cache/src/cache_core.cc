#include "stockade/cache/internal/cache_core.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "shard.h"
#include "strict.h"

namespace stockade::cache_internal {

CacheCore::CacheCore(LoadingCacheOptions options, Has has, Slab::Type slots)
    : CacheBase(std::move(options)),
      has_(has),
      shard_count_(
          std::clamp<size_t>(std::bit_floor(static_cast<uint64_t>(options_.max_weight) / 64), 1, CallGate::kStripes)),
      shard_mask_(shard_count_ - 1),
      indexes_(std::make_unique<EntryIndex[]>(shard_count_)),
      shards_(std::make_unique<Shard[]>(shard_count_)),
      key_locks_(std::make_unique<KeyLocks>()) {
  for (size_t i = 0; i < shard_count_; ++i) {
    if (options_.strict) indexes_[i].Hide();  // Strict reads go through the key's lock.
    shards_[i].entries.Use(slots, indexes_[i]);
  }
}

CacheCore::~CacheCore() = default;

}  // namespace stockade::cache_internal
