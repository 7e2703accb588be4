// Hits on keys drawn evenly. Both caches have room for far more entries than there are keys, so that an uneven spread
// over shards evicts nothing.
#include <algorithm>
#include <memory>
#include <string>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "cache/values.h"
#include "measure/threads.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr int64_t kHitBatch = 256;
constexpr int64_t kRoom = 1 << 16;  // On top of twice the keys: in each of 16 shards, more than the small key counts.

struct KeyCount {
  uint64_t keys;  // A power of two.
  const char* text;
};
constexpr KeyCount k1024Keys = {1024, "1,024 keys"};
constexpr KeyCount kKeyCounts[] = {{1, "1 key"}, k1024Keys, {1 << 20, "1 M keys"}};

template <typename Value>
struct World {
  explicit World(uint64_t key_count)
      : keys(key_count),
        ours({.name = "bench", .max_weight = static_cast<int64_t>(2 * keys) + kRoom, .metrics = &registry},
             [](const uint64_t&, LoadContext&) -> absl::StatusOr<Value> { return absl::InternalError("a miss"); }),
        lru(2 * keys + kRoom) {
    for (uint64_t key = 0; key < keys; ++key) {
      ours.Put(key, MakeValue<Value>(key));
      lru.Put(key, MakeValue<Value>(key));
    }
  }

  const uint64_t keys;
  MetricsRegistry registry;
  LoadingCache<uint64_t, Value> ours;
  ShardedLru<Value> lru;
};

// `get` looks one key up. Drawing a key is a few instructions that both sides pay.
template <typename Get>
Throughput Hits(Worker& worker, uint64_t keys, absl::Duration span, Get get) {
  alignas(128) uint64_t next = 0x9E3779B97F4A7C15u * (worker.thread() + 1);
  return worker.RunFor(span, kHitBatch, [&](size_t, int64_t ops) {
    uint64_t state = next;
    for (int64_t i = 0; i < ops; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      get((state >> 33) & (keys - 1));
    }
    next = state;
  });
}

template <typename Value>
Throughput OurHits(Worker& worker, World<Value>& world, absl::Duration span) {
  return Hits(worker, world.keys, span, [&](uint64_t key) { KeepAlive(FirstWord(*world.ours.Get(key).value())); });
}

template <typename Value>
Throughput LruHits(Worker& worker, World<Value>& world, absl::Duration span) {
  return Hits(worker, world.keys, span, [&](uint64_t key) { KeepAlive(FirstWord(world.lru.Get(key).value())); });
}

template <size_t kBytes>
void AddRow(Suite& suite, const KeyCount& count, const std::string& size, size_t threads) {
  suite.Add({.name = base_internal::Concat("hit, ", count.text, size,
                                           threads == 1 ? ", alone" : base_internal::Concat(", ", threads, " threads")),
             .unit = "M/s",
             .peer = "sharded LRU, mutexes",
             .better = Better::kHigher},
            {.threads = threads, .prepare = [=](const Scale& scale) -> Contestants {
               const uint64_t keys = scale.quick ? std::min<uint64_t>(count.keys, 1024) : count.keys;
               const auto world = std::make_shared<World<ValueOf<kBytes>>>(keys);
               const auto span = scale.span;
               return {[=](Worker& worker) { return OurHits(worker, *world, span).MillionsPerSecond(); },
                       [=](Worker& worker) { return LruHits(worker, *world, span).MillionsPerSecond(); }};
             }});
}

}  // namespace

void AddHitRows(Suite& suite) {
  for (const KeyCount& count : kKeyCounts) {
    for (const size_t threads : {1, 2, 4, 8}) AddRow<8>(suite, count, "", threads);
  }
  for (const size_t threads : {1, 2}) {
    AddRow<256>(suite, k1024Keys, ", 256 B", threads);
    AddRow<4096>(suite, k1024Keys, ", 4 KiB", threads);
  }
  suite.Add(
      {.name = "hit, 1 key, time a thread, 2 threads", .unit = "ns", .peer = "ours, 1 thread", .target = "<= 1.2"},
      {.threads = 2, .peer_threads = 1, .prepare = [](const Scale& scale) -> Contestants {
         const auto world = std::make_shared<World<uint64_t>>(1);
         const auto span = scale.span;
         return {[=](Worker& worker) { return 2 * OurHits(worker, *world, span).NsPerOp(); },
                 [=](Worker& worker) { return OurHits(worker, *world, span).NsPerOp(); }};
       }});
}

}  // namespace stockade::bench
