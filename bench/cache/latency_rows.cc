// How long lookups take while entries are evicted: two threads, keys by Zipf's law of ten times as many as there is
// room for, and a loader that costs nothing. Each lookup is timed, and both sides pay for the clock: some tens of ns.
#include <memory>
#include <vector>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "harness/durations.h"
#include "harness/shared_runs.h"
#include "harness/threads.h"
#include "peers/cache_workload.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr size_t kThreads = 2;
constexpr int64_t kBatch = 256;

struct Percentile {
  const char* text;
  double share;
};
constexpr Percentile kPercentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};

struct World {
  explicit World(uint64_t keys)
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
Durations Run(const World& world, absl::Duration span, const Get& get) {
  struct alignas(128) Thread {
    CacheDraws draws;
    Durations durations;
  };
  std::vector<Thread> threads;
  for (const CacheDraws& draws : world.draws) threads.push_back({draws, {}});
  RunFor(kThreads, span, kBatch, [&](size_t at, int64_t ops) {
    Thread& thread = threads[at];
    for (int64_t i = 0; i < ops; ++i) {
      const uint64_t key = thread.draws.NextKey();
      thread.durations.Add(NanosecondsOf([&] { KeepAlive(get(key)); }));
    }
  });
  Durations all;
  for (const Thread& thread : threads) all.AddAll(thread.durations);
  return all;
}

Durations OurRun(World& world, absl::Duration span) {
  return Run(world, span, [&](uint64_t key) { return *world.ours.Get(key).value(); });
}

Durations LruRun(World& world, absl::Duration span) {
  return Run(world, span, [&](uint64_t key) {
    if (const auto found = world.lru.Get(key)) return *found;
    world.lru.Put(key, key);
    return key;
  });
}

}  // namespace

void AddLatencyRows(Suite& suite) {
  const auto runs = SharedRuns<Durations>::Of([](const Scale& scale) -> SharedRuns<Durations>::Sides {
    const auto world = std::make_shared<World>(scale.quick ? 1 << 12 : 1 << 20);
    const auto span = 4 * scale.span;  // So that p99.99 is not of a handful.
    return {[=] { return OurRun(*world, span); }, [=] { return LruRun(*world, span); }};
  });
  for (const Percentile& percentile : kPercentiles) {
    runs->AddRow(suite, base_internal::Concat("lookup under eviction, ", percentile.text, ", 2 threads"), "ns",
                 "sharded LRU, mutexes", [share = percentile.share](const Durations& durations) {
                   return static_cast<double>(durations.Percentile(share));
                 });
  }
}

}  // namespace stockade::bench
