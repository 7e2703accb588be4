// What people see of an item, read without stopping anybody.
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

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
  EXPECT_FALSE(item.Snapshot().narrow);
  ASSERT_TRUE(item.Reshard(1).ok());
  EXPECT_THAT(item.Snapshot().shard_units, ElementsAre(5));
  EXPECT_TRUE(item.Snapshot().narrow);
}

TEST(ShardedStockSnapshotTest, NearZero_IsNarrow) {
  ShardedStock item(Of(2, 2, 4));
  EXPECT_TRUE(item.Take(2));
  EXPECT_TRUE(item.Snapshot().narrow);
  EXPECT_EQ(item.Snapshot().units, 0);
  EXPECT_THAT(item.Snapshot().shard_units, ElementsAre(0, 0));
  ASSERT_TRUE(item.Deposit(1).ok());
  EXPECT_EQ(item.Snapshot().units, 1);
  EXPECT_THAT(item.Snapshot().shard_units, ElementsAre(1, 0));
}

TEST(ShardedStockSnapshotTest, WhileUnitsAreTaken_FiguresAgreeAndKeepTheirBound) {
  const int64_t stock = Scaled(200'000, 5'000'000);
  constexpr int64_t kMoved =
      3;  // At the most, when the stock becomes narrow: seen where they were, and where they are.
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
      ASSERT_LE(seen.units, stock - before + kMoved);
      ASSERT_LE(seen.units, last + kMoved);  // Nothing is put in, so no later look finds more.
      last = seen.units;
    }
  });
  EXPECT_TRUE(item.Snapshot().narrow);
}

TEST(ShardedStockSnapshotTest, WhileTheLastUnitMoves_ItemIsNotSoldOut) {
  for (int64_t round = Scaled(300, 10'000); round > 0; --round) {
    ShardedStock item(Of(0, kMaxShards, kMaxShards));
    std::vector<uint64_t> units(kMaxShards);
    units.back() = 1;
    ShardedStockPeer::Set(item, units);
    std::atomic<bool> looks{false};
    std::atomic<bool> moved{false};
    RunThreads(2, [&](int thread) {
      if (thread == 0) {
        for (; !moved; looks = true) ASSERT_GE(item.Snapshot().units, 1);
        return;
      }
      while (!looks) std::this_thread::yield();
      EXPECT_FALSE(item.Take(2));  // Moves it into the first shard.
      moved = true;
    });
  }
}

TEST(ShardedStockImbalanceTest, EvenOrNarrow_IsOne) {
  EXPECT_EQ(ShardedStock(Of(8, 4, 4)).Imbalance(), 1);
  EXPECT_EQ(ShardedStock(Of(0, 4, 4)).Imbalance(), 1);
  EXPECT_EQ(ShardedStock(Of(8, 1, 1)).Imbalance(), 1);
  EXPECT_EQ(ShardedStock(Of(3, 4, 4)).Imbalance(), 1);
}

TEST(ShardedStockImbalanceTest, Uneven_IsTheRichestOverTheMean) {
  ShardedStock item(Of(0, 4, 6));
  ShardedStockPeer::Set(item, {6, 2, 2, 2});
  EXPECT_EQ(item.Imbalance(), 2);
  ShardedStockPeer::Set(item, {0, 0, 8, 0});
  EXPECT_EQ(item.Imbalance(), 4);
  ASSERT_TRUE(item.Reshard(4).ok());
  EXPECT_EQ(item.Imbalance(), 1);
}

}  // namespace
}  // namespace stockade
