#ifndef STOCKADE_BENCH_FLEET_TIER_CACHE_H_
#define STOCKADE_BENCH_FLEET_TIER_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "measure/require.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade::bench {

using NumberCache = LoadingCache<uint64_t, uint64_t>;

// A strict cache over the Redis of `url`, which has its locks, too.
struct StrictNumbers {
  explicit StrictNumbers(const std::string& url, absl::Duration max_staleness, NumberCache::Callbacks callbacks)
      : locks(Require(RedisLockService::Connect(url), "RedisLockService")) {
    RedisCacheTierOptions tier = {.prefix = "bench"};
    tier.max_staleness = max_staleness;
    tier.heartbeat = max_staleness / 5;
    tier.timeout = absl::Seconds(10);
    tier.locks = locks.get();
    LoadingCacheOptions options = {.name = "bench", .ttl = absl::Hours(1), .strict = true};
    options.tier = Require(RedisCacheTier::Connect(url, std::move(tier)), "RedisCacheTier");
    cache = Require(NumberCache::Create(std::move(options), std::move(callbacks)), "LoadingCache");
  }

  std::unique_ptr<LockService> locks;
  std::unique_ptr<NumberCache> cache;
};

// A cache whose values expire after an hour; with a second level in the Redis of `url` unless that is empty.
inline std::unique_ptr<NumberCache> MakeNumberCache(const std::string& url, int64_t max_weight,
                                                    NumberCache::Callbacks callbacks, bool messages = true,
                                                    absl::Duration lease = absl::Seconds(10),
                                                    absl::Duration timeout = absl::Seconds(10)) {
  LoadingCacheOptions options = {.name = "bench", .max_weight = max_weight, .ttl = absl::Hours(1)};
  if (!url.empty()) {
    RedisCacheTierOptions tier = {.prefix = "bench"};
    tier.timeout = timeout;  // Long by default: a busy machine is not a fault.
    tier.lease = lease;
    tier.pubsub = messages;
    options.tier = Require(RedisCacheTier::Connect(url, std::move(tier)), "RedisCacheTier");
  }
  return Require(NumberCache::Create(std::move(options), std::move(callbacks)), "LoadingCache");
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_TIER_CACHE_H_
