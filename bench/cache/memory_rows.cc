// The resident memory of an entry, in a cache that is full and has evicted as many entries as it has. Measured once per
// row, because repetitions would give the same figure.
#include <malloc.h>

#include <fstream>
#include <memory>
#include <string>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "cache/values.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

// The memory of the process in which pages of the kernel are: allocated memory that was never written has none. First
// the allocator returns the pages of memory that was freed.
double ResidentBytes() {
  malloc_trim(0);
  std::ifstream rollup("/proc/self/smaps_rollup");
  double kib = 0;
  for (std::string word; rollup >> word;) {
    if (word == "Rss:" && rollup >> kib) return kib * 1024;
  }
  base_internal::Fatal("bench: /proc/self/smaps_rollup has no line 'Rss:'");
}

// Bytes an entry of the cache that `make` returns, which has room for `room` entries.
template <typename Make, typename Value>
double BytesPerEntry(size_t room, const Make& make, const Value&) {
  const double before = ResidentBytes();
  const auto cache = make();
  for (uint64_t key = 0; key < 2 * room; ++key) cache->Put(key, MakeValue<Value>(key));
  return (ResidentBytes() - before) / static_cast<double>(cache->size());
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
