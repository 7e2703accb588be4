// What a cache holds on to while ever new keys go through it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

constexpr uint64_t kChurners = 2;
constexpr uint64_t kSlices = 10;

std::string ValueOf(uint64_t key) { return std::string(24, 'v') + std::to_string(key); }

// What is allocated and not freed, in bytes; large blocks, which are mapped, included.
double BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

TEST(ChurnTest, ManyDistinctKeysComeAndGo_MemoryStaysAndNoFlightIsLeft) {
  const auto max_weight = Scaled(3'000, 100'000);
  const auto keys = static_cast<uint64_t>(Scaled(300'000, 10'000'000));
  MetricsRegistry registry;
  LoadingCache<uint64_t, std::string> cache(
      {.name = "c", .max_weight = max_weight, .metrics = &registry},
      [](const uint64_t& key, LoadContext&) -> absl::StatusOr<std::string> { return ValueOf(key); });
  // Keys from `begin` to `end`, each once, by threads that then end.
  const auto bring = [&](uint64_t begin, uint64_t end) {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kChurners; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t key = begin + thread; key < end; key += kChurners) {
          if (key % 63 == 5) cache.Put(key, ValueOf(key));
          ASSERT_EQ(**cache.Get(key), ValueOf(key));
        }
      });
    }
  };

  const double before = BytesInUse();
  const uint64_t filled = 2 * static_cast<uint64_t>(max_weight);  // And turned over once.
  bring(0, filled);
  const double steady = BytesInUse() - before;
  RecordProperty("steady_kib", static_cast<int>(steady / 1024));
  double most = 0;
  for (uint64_t slice = 0; slice < kSlices; ++slice) {
    bring(filled + slice * keys / kSlices, filled + (slice + 1) * keys / kSlices);
    EXPECT_LE(cache.size(), max_weight);
    EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
    EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 0);
    most = std::max(most, BytesInUse() - before);
  }
  RecordProperty("most_kib", static_cast<int>(most / 1024));
  EXPECT_GE(cache.size(), max_weight * 99 / 100);
  if (kSanitized) return;  // Its allocator is another, of which mallinfo2() knows nothing.
  EXPECT_LE(most, 1.2 * steady);
}

}  // namespace
}  // namespace stockade::testing
