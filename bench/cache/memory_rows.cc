// What an entry takes of memory, in a cache that is full and has evicted as many entries as it has. Counted and not
// timed: once a row, whatever the repetitions.
#include <malloc.h>

#include <memory>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "cache/values.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

// Allocated and not freed, with what the allocator adds; large blocks, which it maps, included.
double BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// Bytes an entry of the cache that `make` returns, which has room for `room` entries.
template <typename Make, typename Value>
double BytesPerEntry(size_t room, const Make& make, const Value&) {
  const double before = BytesInUse();
  const auto cache = make();
  for (uint64_t key = 0; key < 2 * room; ++key) cache->Put(key, MakeValue<Value>(key));
  return (BytesInUse() - before) / static_cast<double>(cache->size());
}

template <size_t kBytes>
void AddRow(Suite& suite, const char* size, const char* target) {
  using Value = ValueOf<kBytes>;
  suite.Add({.name = base_internal::Concat("memory an entry, keys of 8 B, values of ", size),
             .unit = "B",
             .peer = "sharded LRU, mutexes",
             .target = target},
            {.prepare = [](const Scale& scale) -> Contestants {
              const auto room = static_cast<size_t>(scale.Sized(10'000, 1'000'000));
              MetricsRegistry registry;
              const auto make_ours = [&] {
                return std::make_unique<LoadingCache<uint64_t, Value>>(LoadingCacheOptions{
                    .name = "bench", .max_weight = static_cast<int64_t>(room), .metrics = &registry});
              };
              const double ours = BytesPerEntry(room, make_ours, Value());
              const double lru = BytesPerEntry(
                  room, [&] { return std::make_unique<ShardedLru<Value>>(room); }, Value());
              return {[=](Worker&) { return ours; }, [=](Worker&) { return lru; }};
            }});
}

}  // namespace

void AddMemoryRows(Suite& suite) {
  AddRow<8>(suite, "8 B", "<= 130 B");
  AddRow<256>(suite, "256 B", "-");
}

}  // namespace stockade::bench
