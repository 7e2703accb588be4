// A cache's second level on a cluster whose node lies, damages its replies and falls silent, by a seed: see
// HostileNode.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "absl/time/time.h"
#include "redis/support/hostile_node.h"
#include "redis/support/hostile_run.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"

namespace stockade {
namespace {

using testing::EndsInTime;
using testing::HostileNode;
using testing::HostileRun;
using testing::Scaled;

using Cache = LoadingCache<int64_t, int64_t>;

constexpr absl::Duration kTimeout = absl::Milliseconds(150);

RedisCacheTierOptions Options() {
  RedisCacheTierOptions options;
  options.prefix = "hostile";
  options.heartbeat = absl::Milliseconds(20);
  options.timeout = kTimeout;
  options.metrics = nullptr;
  options.redis.connect_timeout = absl::Milliseconds(100);
  options.redis.command_timeout = kTimeout;
  options.redis.max_backoff = absl::Milliseconds(50);
  options.redis.max_reply_bytes = size_t{4} << 20;
  options.redis.max_nodes = testing::kHostileMaxNodes;
  return options;
}

// The loader answers, also if the second level does not.
void Use(Cache& cache, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int call = 0; call < 25; ++call) {
    const auto key = static_cast<int64_t>(random() % 500);
    EndsInTime(4 * kTimeout, [&] {
      if (random() % 3 == 0) {
        (void)cache.Invalidate(key);
        return;
      }
      const auto value = cache.Get(key);
      EXPECT_TRUE(value.ok()) << value.status();
    });
  }
}

TEST(HostileTierTest, AnySeed_LookupsSucceedInTime_AndThreadsAndDescriptorsHaveABound) {
  constexpr int kCallers = 4;
  int connected = 0;
  // Callers, and the cache's and the tier's own.
  HostileRun(Scaled(3, 10), /*clients=*/2, kCallers + 8, [&](const HostileNode& node, uint64_t seed) {
    std::shared_ptr<CacheTier> tier;
    for (int attempt = 0; attempt < 20 && tier == nullptr; ++attempt) {
      EndsInTime(2 * kTimeout, [&] {
        auto made = RedisCacheTier::Connect(node.url(), Options());
        if (made.ok()) tier = *std::move(made);
      });
    }
    if (tier == nullptr) return;
    ++connected;
    Cache cache({.name = "numbers", .max_weight = 1000, .ttl = absl::Hours(1), .tier = tier, .metrics = nullptr},
                [](const int64_t& key, LoadContext&) -> absl::StatusOr<int64_t> { return key; });
    testing::RunThreads(kCallers, [&](int caller) { Use(cache, seed * kCallers + static_cast<uint64_t>(caller)); });
  });
  EXPECT_GT(connected, 0);
}

}  // namespace
}  // namespace stockade
