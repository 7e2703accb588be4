// The time of a Put: over a key that the cache has, and of a new key, which evicts another one.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "measure/threads.h"
#include "peers/cache_workload.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int64_t kWriteBatch = 256;
constexpr char kPeer[] = "sharded LRU, mutexes";
constexpr CacheWorkload kOver = {.keys = 1024, .writes_percent = 100};
constexpr std::chrono::hours kTtl(1);

struct OurWrites {
  OurWrites(uint64_t capacity, Duration ttl)
      : cache({.name = "bench", .max_weight = static_cast<int64_t>(capacity), .ttl = ttl, .metrics = &registry}) {}

  void Put(uint64_t key) { cache.Put(key, key); }

  MetricsRegistry registry;
  LoadingCache<uint64_t, uint64_t> cache;
};

struct LruWrites {
  explicit LruWrites(uint64_t capacity) : cache(capacity) {}

  void Put(uint64_t key) { cache.Put(key, key); }

  ShardedLru<uint64_t> cache;
};

// An expiry with each value is all that the LRU needs for a TTL: a lookup would compare it with the clock.
struct LruWithTtl {
  struct Expiring {
    uint64_t value;
    SteadyTime expires_at;
  };

  explicit LruWithTtl(uint64_t capacity) : cache(capacity) {}

  void Put(uint64_t key) { cache.Put(key, {key, std::chrono::steady_clock::now() + kTtl}); }

  ShardedLru<Expiring> cache;
};

template <typename Cache>
Measurement Overwrites(std::shared_ptr<Cache> cache, absl::Duration span) {
  for (uint64_t number = 0; number < kOver.keys; ++number) cache->Put(kOver.KeyOf(number));
  return [=](Worker& worker) {
    alignas(128) CacheDraws draws(kOver, nullptr, worker.thread());
    return worker
        .RunFor(span, kWriteBatch,
                [&](size_t, int64_t ops) {
                  for (int64_t i = 0; i < ops; ++i) cache->Put(draws.NextKey());
                })
        .NsPerOp();
  };
}

template <typename Cache>
Measurement Inserts(std::shared_ptr<Cache> cache, uint64_t capacity, size_t threads, absl::Duration span) {
  struct alignas(128) Thread {
    uint64_t next_number;
  };
  for (uint64_t number = 0; number < 2 * capacity; ++number) cache->Put(CacheWorkload::RandomKey(number));
  const auto all = std::make_shared<std::vector<Thread>>();
  for (size_t thread = 0; thread < threads; ++thread) all->push_back({(thread + 1) << 40});
  return [=](Worker& worker) {
    uint64_t& next_number = (*all)[worker.thread()].next_number;
    return worker
        .RunFor(span, kWriteBatch,
                [&](size_t, int64_t ops) {
                  for (int64_t i = 0; i < ops; ++i) cache->Put(CacheWorkload::RandomKey(next_number++));
                })
        .NsPerOp();
  };
}

void AddInsertRow(Suite& suite, size_t threads) {
  suite.Add({.name = base_internal::Concat("insert + evict, ",
                                           threads == 1 ? "alone" : base_internal::Concat(threads, " threads")),
             .unit = "ns",
             .peer = kPeer,
             .target = "<= 1"},
            {.threads = threads, .prepare = [=](const Scale& scale) -> Contestants {
               const auto capacity = static_cast<uint64_t>(scale.Sized(1 << 10, 1 << 16));
               return {Inserts(std::make_shared<OurWrites>(capacity, absl::InfiniteDuration()), capacity, threads,
                               scale.span),
                       Inserts(std::make_shared<LruWrites>(capacity), capacity, threads, scale.span)};
             }});
}

}  // namespace

void AddWriteRows(Suite& suite) {
  suite.Add({.name = "Put over a key, 1,024 keys, alone", .unit = "ns", .peer = kPeer, .target = "<= 2"},
            {.prepare = [](const Scale& scale) -> Contestants {
              return {Overwrites(std::make_shared<OurWrites>(kOver.Capacity(), absl::InfiniteDuration()), scale.span),
                      Overwrites(std::make_shared<LruWrites>(kOver.Capacity()), scale.span)};
            }});
  suite.Add({.name = "Put over a key, with a TTL, 1,024 keys, alone", .unit = "ns", .peer = kPeer},
            {.prepare = [](const Scale& scale) -> Contestants {
              return {Overwrites(std::make_shared<OurWrites>(kOver.Capacity(), kTtl), scale.span),
                      Overwrites(std::make_shared<LruWithTtl>(kOver.Capacity()), scale.span)};
            }});
  for (const size_t threads : {1, 2}) AddInsertRow(suite, threads);
}

}  // namespace stockade::bench
