#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/sharded_stock.h"

namespace stockade {
namespace {

// The only series of the family.
prometheus::ClientMetric Series(const MetricsRegistry& registry, std::string_view name) {
  for (const auto& family : registry.Collect()) {
    if (family.name == name && family.metric.size() == 1) return family.metric[0];
  }
  ADD_FAILURE() << "no single series of " << name;
  return {};
}

double Narrowings(const MetricsRegistry& registry) {
  return Series(registry, "stockade_inventory_narrowings_total").counter.value;
}

// Each reading advances the clock by a millisecond.
class TickingClock final : public Clock {
 public:
  Instant Now() const override {
    ++reads_;
    clock_.Advance(absl::Milliseconds(1));
    return clock_.Now();
  }
  Instant CoarseNow() const override { return Now(); }
  absl::Time WallNow() const override { return clock_.WallNow(); }
  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    return clock_.WaitUntil(cv, lock, deadline);
  }

  int reads() const { return reads_; }

 private:
  mutable std::atomic<int> reads_{0};
  mutable ManualClock clock_;
};

TEST(ShardedStockMetricsTest, Narrowing_IsCountedOnceUntilTheStockIsWideAgain) {
  MetricsRegistry registry;
  ShardedStock item({.name = "seats", .stock = 2, .shards = 2, .max_shards = 4, .metrics = &registry});
  EXPECT_FALSE(item.Take(3));
  EXPECT_EQ(Narrowings(registry), 0);
  EXPECT_TRUE(item.Take(2));
  EXPECT_EQ(Narrowings(registry), 1);
  EXPECT_FALSE(item.Take());
  EXPECT_EQ(item.Available(), 0);
  EXPECT_EQ(item.TakeAll(), 0);
  EXPECT_TRUE(item.Reshard(3).ok());
  EXPECT_FALSE(item.Deposit(INT64_MAX).ok());
  EXPECT_TRUE(item.Deposit(1).ok());
  EXPECT_EQ(item.TakeAll(), 1);
  EXPECT_EQ(Narrowings(registry), 1);
  EXPECT_TRUE(item.Deposit(12).ok());
  EXPECT_EQ(item.TakeAll(), 12);
  EXPECT_EQ(Narrowings(registry), 2);
}

TEST(ShardedStockMetricsTest, FreezeTime_OneInSixteenIsObserved) {
  MetricsRegistry registry;
  TickingClock clock;
  ShardedStock item({.name = "seats", .stock = 2, .shards = 2, .metrics = &registry, .clock = &clock});
  const auto freezes = [&] { return Series(registry, "stockade_inventory_freezes_total").counter.value; };
  const auto seconds = [&] { return Series(registry, "stockade_inventory_freeze_seconds").histogram; };
  EXPECT_TRUE(item.Take());  // Of a single shard: neither a freeze nor a look at the clock.
  EXPECT_EQ(clock.reads(), 0);
  EXPECT_EQ(seconds().sample_count, 0u);
  EXPECT_EQ(item.Available(), 1);
  EXPECT_EQ(seconds().sample_count, 1u);
  EXPECT_DOUBLE_EQ(seconds().sample_sum, 0.001);
  for (int i = 1; i < 16; ++i) EXPECT_EQ(item.Available(), 1);
  EXPECT_EQ(clock.reads(), 2);
  EXPECT_EQ(seconds().sample_count, 1u);
  EXPECT_TRUE(item.Take());
  EXPECT_EQ(freezes(), 16);
  EXPECT_FALSE(item.Take());  // The seventeenth: the stock becomes narrow.
  EXPECT_EQ(freezes(), 17);
  EXPECT_EQ(seconds().sample_count, 2u);
  EXPECT_DOUBLE_EQ(seconds().sample_sum, 0.002);
}

TEST(ShardedStockMetricsTest, Imbalance_IsThatOfTheItem) {
  MetricsRegistry registry;
  ShardedStock item({.name = "seats", .stock = 8, .shards = 4, .metrics = &registry});
  const auto imbalance = [&] { return Series(registry, "stockade_inventory_shard_imbalance").gauge.value; };
  EXPECT_EQ(imbalance(), 1);
  EXPECT_TRUE(item.Take(2));  // Two from one shard.
  EXPECT_EQ(imbalance(), item.Imbalance());
  EXPECT_GT(imbalance(), 1.3);
}

TEST(ShardedStockMetricsTest, TakeTogether_CountsAtTheItemsThatWereTakenOrShort) {
  MetricsRegistry registry_a;
  MetricsRegistry registry_b;
  ShardedStock a({.name = "a", .stock = 2, .shards = 2, .metrics = &registry_a});
  ShardedStock b({.name = "b", .stock = 1, .shards = 2, .metrics = &registry_b});
  const auto takes = [](const MetricsRegistry& registry) {
    return Series(registry, "stockade_inventory_takes_total").counter.value;
  };
  const StockLine lines[] = {{&a, 1}, {&b, 1}};
  EXPECT_EQ(ShardedStock::TakeTogether(lines), nullptr);
  EXPECT_EQ(ShardedStock::TakeTogether(lines), &lines[1]);
  EXPECT_EQ(takes(registry_a), 1);
  EXPECT_EQ(takes(registry_b), 1);
  const auto refusals = [](const MetricsRegistry& registry) {
    double sum = 0;
    for (const auto& family : registry.Collect()) {
      if (family.name != "stockade_inventory_refusals_total") continue;
      for (const auto& metric : family.metric) sum += metric.counter.value;
    }
    return sum;
  };
  EXPECT_EQ(refusals(registry_a), 0);
  EXPECT_EQ(refusals(registry_b), 1);
  EXPECT_EQ(Narrowings(registry_a), 1);
  EXPECT_EQ(Narrowings(registry_b), 0);  // It was from the beginning.
}

}  // namespace
}  // namespace stockade
