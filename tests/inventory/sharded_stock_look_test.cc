// What people see of an item, read without stopping anybody.
#include <atomic>
#include <cstdint>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sharded_stock_peer.h"
#include "stockade/inventory/sharded_stock.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::testing::ElementsAre;
using testing::RunThreads;
using testing::Scaled;

ShardedStockOptions Of(int64_t stock, int32_t shards, int32_t max_shards) {
  return {.name = "item", .stock = stock, .shards = shards, .max_shards = max_shards, .metrics = nullptr};
}

TEST(ShardedStockSnapshotTest, ShardsInUse_AreAllThere) {
  ShardedStock item(Of(5, 3, 6));
  EXPECT_THAT(item.Snapshot().shard_units, ElementsAre(2, 2, 1));
  EXPECT_EQ(item.Snapshot().units, 5);
  EXPECT_FALSE(item.Snapshot().latched);
  ASSERT_TRUE(item.Reshard(1).ok());
  EXPECT_THAT(item.Snapshot().shard_units, ElementsAre(5));
}

TEST(ShardedStockSnapshotTest, UnitsBeyondTheShardsInUse_AreThereAtTheirIndex) {
  ShardedStock item(Of(0, 2, 6));
  ShardedStockPeer::Set(item, {0, 3, 0, 0, 4, 0});
  EXPECT_THAT(item.Snapshot().shard_units, ElementsAre(0, 3, 0, 0, 4));
  EXPECT_EQ(item.Snapshot().units, 7);
}

TEST(ShardedStockSnapshotTest, SoldOut_IsLatchedUntilUnitsComeBack) {
  ShardedStock item(Of(2, 2, 4));
  EXPECT_TRUE(item.Take(2));
  EXPECT_TRUE(item.Snapshot().latched);
  EXPECT_EQ(item.Snapshot().units, 0);
  EXPECT_THAT(item.Snapshot().shard_units, ElementsAre(0, 0));
  ASSERT_TRUE(item.Deposit(1).ok());
  EXPECT_FALSE(item.Snapshot().latched);
  EXPECT_EQ(item.Snapshot().units, 1);
}

TEST(ShardedStockSnapshotTest, WhileUnitsAreTaken_FiguresAgreeAndKeepTheirBound) {
  const int64_t stock = Scaled(200'000, 5'000'000);
  ShardedStock item(Of(stock, 4, 4));
  std::atomic<int64_t> taken{0};  // At least: added to after the take.
  std::atomic<bool> stop{false};
  RunThreads(3, [&](int thread) {
    if (thread != 0) {
      while (item.Take()) taken.fetch_add(1);
      stop = true;
      return;
    }
    int64_t last = stock;
    while (!stop) {
      const int64_t before = taken;
      const StockSnapshot seen = item.Snapshot();
      ASSERT_EQ(seen.units, std::accumulate(seen.shard_units.begin(), seen.shard_units.end(), int64_t{0}));
      ASSERT_LE(seen.units, stock - before);
      ASSERT_LE(seen.units, last);  // Nothing is put in, so no later look finds more.
      ASSERT_TRUE(!seen.latched || seen.units == 0);
      last = seen.units;
    }
  });
  EXPECT_TRUE(item.Snapshot().latched);
}

TEST(ShardedStockImbalanceTest, EvenOrEmpty_IsOne) {
  EXPECT_EQ(ShardedStock(Of(8, 4, 4)).Imbalance(), 1);
  EXPECT_EQ(ShardedStock(Of(0, 4, 4)).Imbalance(), 1);
  EXPECT_EQ(ShardedStock(Of(8, 1, 1)).Imbalance(), 1);
  ShardedStock sold_out(Of(1, 2, 2));
  EXPECT_TRUE(sold_out.Take());
  EXPECT_EQ(sold_out.Imbalance(), 1);
}

TEST(ShardedStockImbalanceTest, Uneven_IsTheRichestOverTheMean) {
  ShardedStock item(Of(0, 4, 6));
  ShardedStockPeer::Set(item, {6, 2, 2, 2});
  EXPECT_EQ(item.Imbalance(), 2);
  ShardedStockPeer::Set(item, {0, 0, 7, 0, 100});  // The last one is not in use.
  EXPECT_EQ(item.Imbalance(), 4);
  ASSERT_TRUE(item.Reshard(4).ok());
  EXPECT_LT(item.Imbalance(), 1.01);
}

}  // namespace
}  // namespace stockade
