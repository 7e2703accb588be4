// How long lookups take while entries are evicted: two threads, keys by Zipf's law of ten times as many as there is
// room for, and a loader that costs nothing. Each lookup is timed, and both sides pay for the clock: some tens of ns.
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
Figures Run(Worker& worker, const World& world, absl::Duration span, const Get& get) {
  struct alignas(128) Thread {
    CacheDraws draws;
    Durations durations = {};
  } thread{world.draws[worker.thread()]};
  worker.RunFor(span, kBatch, [&](size_t, int64_t ops) {
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
                                    const auto world = std::make_shared<World>(scale.quick ? 1 << 12 : 1 << 20);
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
}

}  // namespace stockade::bench
