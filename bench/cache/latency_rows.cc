// How long calls take while entries are evicted. In the first rows two threads look up keys with Zipf's distribution,
// ten times as many as there is room for, with a loader that costs nothing. In the last rows one thread inserts, and
// another one looks up. Each call is timed, and the figures of both sides include the time to read the clock: some tens
// of ns.
#include <memory>
#include <utility>
#include <vector>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "measure/durations.h"
#include "measure/threads.h"
#include "peers/cache_workload.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr size_t kThreads = 2;
constexpr int64_t kLatencyBatch = 256;

struct Percentile {
  const char* text;
  double share;
};
constexpr Percentile kPercentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};

struct LatencyWorld {
  explicit LatencyWorld(uint64_t keys)
      : workload{.keys = keys, .threads = kThreads, .distribution = Distribution::kZipf},
        zipf(CacheDraws::DrawZipf(keys)),
        ours({.name = "bench", .max_weight = static_cast<int64_t>(keys / 10), .metrics = &registry},
             [](const uint64_t& key, LoadContext&) -> absl::StatusOr<uint64_t> { return key; }),
        lru(keys / 10) {
    for (size_t thread = 0; thread < kThreads; ++thread) draws.emplace_back(workload, &zipf, thread);
    for (const uint32_t key : zipf) {
      ours.Put(key, key);
      lru.Put(key, key);
    }
  }

  const CacheWorkload workload;
  const CacheDraws::Zipf zipf;
  std::vector<CacheDraws> draws;  // Where each thread begins.
  MetricsRegistry registry;
  LoadingCache<uint64_t, uint64_t> ours;
  ShardedLru<uint64_t> lru;
};

template <typename Get>
Figures Run(Worker& worker, const LatencyWorld& world, absl::Duration span, const Get& get) {
  struct alignas(128) Thread {
    CacheDraws draws;
    Durations durations = {};
  } thread{world.draws[worker.thread()]};
  worker.RunFor(span, kLatencyBatch, [&](size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) {
      const uint64_t key = thread.draws.NextKey();
      thread.durations.Add(NanosecondsOf([&] { KeepAlive(get(key)); }));
    }
  });
  Durations all;
  worker.Gather(thread.durations, [&](const Durations& durations) { all.AddAll(durations); });
  Figures figures;
  for (const Percentile& percentile : kPercentiles) {
    figures[percentile.text] = static_cast<double>(all.Percentile(percentile.share));
  }
  return figures;
}

// One thread inserts new keys, each of which evicts an entry. The other one looks up keys that are used too often to be
// evicted.
struct PutWorld {
  explicit PutWorld(uint64_t capacity)
      : ours({.name = "bench", .max_weight = static_cast<int64_t>(capacity), .metrics = &registry}), lru(capacity) {
    for (uint64_t number = 0; number < 2 * capacity; ++number) {
      const uint64_t key = CacheWorkload::RandomKey(kFirstNew + number);
      ours.Put(key, key);
      lru.Put(key, key);
    }
  }

  static constexpr uint64_t kFirstNew = uint64_t{1} << 32;
  static constexpr CacheWorkload kLookups = {.threads = kThreads, .key_kind = KeyKind::kRandom};

  MetricsRegistry registry;
  LoadingCache<uint64_t, uint64_t> ours;
  ShardedLru<uint64_t> lru;
};

// `find` returns whether the cache has the key. `next` is the number of the next new key.
template <typename Put, typename Find>
Figures RunPuts(Worker& worker, uint64_t& next, absl::Duration span, const Put& put, const Find& find) {
  struct alignas(128) Thread {
    CacheDraws draws;
    Durations durations = {};
  } thread{CacheDraws(PutWorld::kLookups, nullptr, worker.thread())};
  worker.RunFor(span, kLatencyBatch, [&](size_t number, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) {
      const uint64_t key = number == 0 ? CacheWorkload::RandomKey(next++) : thread.draws.NextKey();
      bool is_found = true;
      thread.durations.Add(NanosecondsOf([&] { number == 0 ? put(key) : void(is_found = find(key)); }));
      if (!is_found) put(key);
    }
  });
  Figures figures;
  worker.Gather(thread.durations, [&](const Durations& durations) {
    figures[figures.empty() ? "Put" : "lookup"] = static_cast<double>(durations.Percentile(0.999));
  });
  return figures;
}

void AddPutRows(Suite& suite) {
  const auto row = [](const char* name, const char* counter) -> Comparison {
    return {.name = name, .unit = "ns", .peer = "sharded LRU, mutexes", .target = "<= 1", .counter = counter};
  };
  suite.AddRows({row("lookup beside insert + evict, p99.9, 2 threads", "lookup"),
                 row("insert + evict beside lookups, p99.9, 2 threads", "Put")},
                {.threads = kThreads, .prepare = [](const Scale& scale) -> Contestants {
                   const auto capacity = static_cast<uint64_t>(scale.Sized(1 << 12, 1 << 16));
                   const auto world = std::make_shared<PutWorld>(capacity);
                   const auto span = 4 * scale.span;
                   const uint64_t first = PutWorld::kFirstNew + 2 * capacity;
                   return {[=, next = std::make_shared<uint64_t>(first)](Worker& worker) {
                             return RunPuts(
                                 worker, *next, span, [&](uint64_t key) { world->ours.Put(key, key); },
                                 [&](uint64_t key) { return world->ours.GetIfPresent(key).has_value(); });
                           },
                           [=, next = std::make_shared<uint64_t>(first)](Worker& worker) {
                             return RunPuts(
                                 worker, *next, span, [&](uint64_t key) { world->lru.Put(key, key); },
                                 [&](uint64_t key) { return world->lru.Get(key).has_value(); });
                           }};
                 }});
}

}  // namespace

void AddLatencyRows(Suite& suite) {
  std::vector<Comparison> rows;
  for (const Percentile& percentile : kPercentiles) {
    rows.push_back({.name = base_internal::Concat("lookup under eviction, ", percentile.text, ", 2 threads"),
                    .unit = "ns",
                    .peer = "sharded LRU, mutexes",
                    .counter = percentile.text});
  }
  suite.AddRows(std::move(rows), {.threads = kThreads, .prepare = [](const Scale& scale) -> Contestants {
                                    const auto world = std::make_shared<LatencyWorld>(scale.quick ? 1 << 12 : 1 << 20);
                                    const auto span = 4 * scale.span;  // So that p99.99 is not of a handful.
                                    return {[=](Worker& worker) {
                                              return Run(worker, *world, span,
                                                         [&](uint64_t key) { return *world->ours.Get(key).value(); });
                                            },
                                            [=](Worker& worker) {
                                              return Run(worker, *world, span, [&](uint64_t key) {
                                                if (const auto found = world->lru.Get(key)) return *found;
                                                world->lru.Put(key, key);
                                                return key;
                                              });
                                            }};
                                  }});
  AddPutRows(suite);
}

}  // namespace stockade::bench
