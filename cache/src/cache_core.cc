#include "stockade/cache/internal/cache_core.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "key_locks.h"
#include "retired_entries.h"
#include "shard.h"

namespace stockade::cache_internal {

// With a clock other than the system clock, entries are freed at once, so that a test with a ManualClock sees when
// values are destroyed.
CacheCore::CacheCore(LoadingCacheOptions options, Has has, bool pins)
    : CacheBase(std::move(options)),
      has_(has),
      shard_count_(
          std::clamp<size_t>(std::bit_floor(static_cast<uint64_t>(options_.max_weight) / 64), 1, CallGate::kStripes)),
      shard_mask_(shard_count_ - 1),
      indexes_(std::make_unique<EntryIndex<CacheEntry>[]>(shard_count_)),
      shards_(std::make_unique<Shard[]>(shard_count_)),
      retired_(std::make_unique<RetiredEntries>(pins, options_.max_weight / 100,
                                                options_.clock == Clock::System() ? options_.clock : nullptr)),
      key_locks_(std::make_unique<KeyLocks>()) {
  for (size_t i = 0; i < shard_count_; ++i) shards_[i].entries.Use(indexes_[i]);
}

CacheCore::~CacheCore() = default;

}  // namespace stockade::cache_internal
