#include "stockade/inventory/sharded_stock.h"

#include <atomic>
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sharded_stock_peer.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {

namespace {

using testing::RunThreads;
using testing::Scaled;

TEST(ShardedStockTest, Take_ManyThreads_ExactlyTheStockIsTakenAndThenRefused) {
  const int64_t stock = Scaled(20'000, 2'000'000);
  for (const int32_t shards : {1, 2, 7, 64}) {
    ShardedStock item({.name = "item", .stock = stock, .shards = shards, .metrics = nullptr});
    std::atomic<int64_t> taken{0};
    RunThreads(8, [&](int) {
      while (item.Take()) taken.fetch_add(1, std::memory_order_relaxed);
      EXPECT_FALSE(item.Take());
    });
    EXPECT_EQ(taken, stock);
    EXPECT_EQ(item.Available(), 0);
  }
}

TEST(ShardedStockTest, Take_LastUnitInAnyShard_IsFound) {
  for (int farthest = 0; farthest < 4; ++farthest) {
    ShardedStock item({.name = "item", .shards = 4, .metrics = nullptr});
    ShardedStockPeer::Set(
        item, {uint64_t(farthest == 0), uint64_t(farthest == 1), uint64_t(farthest == 2), uint64_t(farthest == 3)});
    EXPECT_TRUE(item.Take());
    EXPECT_FALSE(item.Take());
  }
}

TEST(ShardedStockTest, Take_MoreThanAnyShardHas_Gathers) {
  ShardedStock item({.name = "item", .shards = 4, .metrics = nullptr});
  ShardedStockPeer::Set(item, {3, 2, 1, 4});
  EXPECT_FALSE(item.Take(11));
  EXPECT_TRUE(item.Take(9));
  EXPECT_EQ(item.Available(), 1);
  EXPECT_FALSE(item.Take(2));
  EXPECT_TRUE(item.Take(1));
}

TEST(ShardedStockTest, Take_TwoOfTwoWithThreeLeftOverThreeShards_ExactlyOneSucceeds) {
  for (int64_t round = Scaled(300, 20'000); round > 0; --round) {
    ShardedStock item({.name = "item", .shards = 3, .metrics = nullptr});
    ShardedStockPeer::Set(item, {1, 1, 1});
    std::atomic<int> succeeded{0};
    RunThreads(2, [&](int) { succeeded += item.Take(2); });
    ASSERT_EQ(succeeded, 1);
    ASSERT_EQ(item.Available(), 1);
  }
}

// The stock is narrow, or wide, so that each refusal freezes it.
TEST(ShardedStockTest, Deposit_RacingWithRefusals_TakeAfterItSucceeds) {
  for (const int64_t left : {0, 4}) {
    ShardedStock item({.name = "item", .stock = left, .shards = 4, .metrics = nullptr});
    std::atomic<bool> stop{false};
    std::atomic<int64_t> found{0};
    const int64_t rounds = Scaled(20'000, 500'000);
    RunThreads(3, [&](int thread) {
      if (thread != 0) {  // Takes of more than there ever is: each must be refused.
        while (!stop) EXPECT_FALSE(item.Take(left + 3));
        return;
      }
      for (int64_t i = 0; i < rounds; ++i) {
        EXPECT_TRUE(item.Deposit(1 + i % 2).ok());
        EXPECT_TRUE(item.Take(1 + i % 2)) << "round " << i;
        found += 1;
      }
      stop = true;
    });
    EXPECT_EQ(found, rounds);
    EXPECT_EQ(item.Snapshot().narrow, left == 0);
  }
}

TEST(ShardedStockTest, Mixed_TakesAndDeposits_TotalIsConserved) {
  const int64_t rounds = Scaled(200'000, 2'000'000);
  ShardedStock item({.name = "item", .stock = 40, .shards = 5, .metrics = nullptr});
  std::atomic<int64_t> out{0};
  RunThreads(4, [&](int thread) {
    uint64_t random = static_cast<uint64_t>(thread) + 1;
    int64_t mine = 0;
    for (int64_t i = 0; i < rounds; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const int64_t units = 1 + static_cast<int64_t>((random >> 33) % 9);
      if (mine >= units && (random >> 62) % 2 == 0) {
        EXPECT_TRUE(item.Deposit(units).ok());
        mine -= units;
      } else if (item.Take(units)) {
        mine += units;
      } else if (i % 8 == 0) {
        EXPECT_LE(item.Available(), 40);
      }
    }
    out += mine;
  });
  EXPECT_EQ(item.Available() + out, 40);
  EXPECT_EQ(item.ApproximateAvailable(), item.Available());
}

constexpr ShardGuard kGuards[] = {ShardGuard::kCompareAndSwap, ShardGuard::kMutex};

TEST(ShardedStockReshardTest, GrownAndShrunkUnderLoad_NothingIsLostAndNothingOversold) {
  const int64_t rounds = Scaled(10'000, 300'000);
  for (const ShardGuard guard : kGuards) {
    ShardedStock item({.name = "item", .stock = 60, .shards = 2, .max_shards = 16, .guard = guard, .metrics = nullptr});
    std::atomic<int64_t> out{0};
    std::atomic<bool> stop{false};
    RunThreads(4, [&](int thread) {
      if (thread == 0) {
        for (int64_t i = 0; i < rounds; ++i) {
          ASSERT_TRUE(item.Reshard(1 + static_cast<int32_t>(i * 7 % 16)).ok());
          ASSERT_LE(item.Available(), 60);
        }
        stop = true;
        return;
      }
      uint64_t random = static_cast<uint64_t>(thread);
      int64_t mine = 0;
      while (!stop) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int64_t units = 1 + static_cast<int64_t>((random >> 33) % 12);
        if (item.Take(units)) mine += units;
        if (mine >= units && random >> 63 != 0) {
          ASSERT_TRUE(item.Deposit(units).ok());
          mine -= units;
        }
      }
      out += mine;
    });
    EXPECT_EQ(item.Available() + out, 60);
    EXPECT_EQ(item.ApproximateAvailable(), item.Available());
    EXPECT_TRUE(out == 60 || item.Take(60 - out));
    EXPECT_FALSE(item.Take());
  }
}

TEST(ShardedStockReshardTest, UnitsAreSpreadEvenlyAndAllAreThere) {
  ShardedStock item({.name = "item", .stock = 10, .shards = 1, .max_shards = 4, .metrics = nullptr});
  ASSERT_TRUE(item.Reshard(4).ok());
  EXPECT_EQ(item.shards(), 4);
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(3, 3, 2, 2));
  ASSERT_TRUE(item.Reshard(3).ok());
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(4, 3, 3, 0));
  EXPECT_TRUE(item.Take(10));
  ASSERT_TRUE(item.Reshard(2).ok());
  EXPECT_FALSE(item.Take());
  ASSERT_TRUE(item.Deposit(3).ok());
  EXPECT_TRUE(item.Take(3));
}

TEST(ShardedStockReshardTest, BadCounts_AreNamedAndChangeNothing) {
  ShardedStock item({.name = "item", .stock = 5, .shards = 2, .max_shards = 4, .metrics = nullptr});
  for (const int32_t shards : {0, -1, 5, kMaxShards}) {
    const absl::Status status = item.Reshard(shards);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("Reshard(" + std::to_string(shards) + ")"));
  }
  EXPECT_EQ(item.shards(), 2);
  EXPECT_EQ(item.Available(), 5);
  const absl::Status status = ShardedStockOptions{.name = "item", .shards = 8, .max_shards = 4}.Validate();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("max_shards is 4"));
}

// Deposits that do not look at the other shards may reach this.
TEST(ShardedStockReshardTest, MoreThanTheMostUnits_AreSpreadAndLeaveNoRoom) {
  constexpr int64_t kUnchecked = (kMaxUnits + 1) / kMaxShards;
  ShardedStock item({.name = "item", .shards = 2, .max_shards = kMaxShards, .metrics = nullptr});
  ShardedStockPeer::Set(item, {uint64_t{kMaxUnits}, uint64_t{kUnchecked}});
  for (const int32_t shards : {1, 3, kMaxShards, 2}) {
    ASSERT_TRUE(item.Reshard(shards).ok());
    EXPECT_EQ(item.Available(), kMaxUnits + kUnchecked);
    EXPECT_EQ(item.Deposit(1).code(), absl::StatusCode::kOutOfRange);
  }
  EXPECT_TRUE(item.Take(kUnchecked + 1));
  EXPECT_TRUE(item.Reshard(1).ok());
  EXPECT_TRUE(item.Deposit(1).ok());
  EXPECT_EQ(item.Deposit(1).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(item.Available(), kMaxUnits);
}

// Near zero all units are in the first shard.
TEST(ShardedStockNarrowTest, FewerUnitsThanShards_AreInOneUntilThereAreFourEach) {
  ShardedStock item({.name = "item", .stock = 4, .shards = 4, .max_shards = 6, .metrics = nullptr});
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_FALSE(item.Take(5));
  EXPECT_FALSE(item.Snapshot().narrow);
  EXPECT_TRUE(item.Take(2));
  EXPECT_TRUE(item.Snapshot().narrow);
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(2, 0, 0, 0, 0, 0));
  EXPECT_TRUE(item.Deposit(13).ok());
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(15, 0, 0, 0, 0, 0));
  EXPECT_TRUE(item.Take(15));
  EXPECT_FALSE(item.Take());
  EXPECT_TRUE(item.Deposit(15).ok());
  EXPECT_TRUE(item.Snapshot().narrow);
  EXPECT_TRUE(item.Deposit(1).ok());
  EXPECT_FALSE(item.Snapshot().narrow);
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(4, 4, 4, 4, 0, 0));
}

TEST(ShardedStockNarrowTest, Reshard_DecidesAnew) {
  ShardedStock item({.name = "item", .stock = 3, .shards = 4, .max_shards = 4, .metrics = nullptr});
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(3, 0, 0, 0));
  ASSERT_TRUE(item.Reshard(3).ok());
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(1, 1, 1, 0));
  ASSERT_TRUE(item.Reshard(4).ok());
  EXPECT_THAT(ShardedStockPeer::Get(item), ::testing::ElementsAre(3, 0, 0, 0));
}

// Holds the slow lock, so a call that takes it would wait for the end of the test.
TEST(ShardedStockNarrowTest, CallsNearZero_TakeNoLock) {
  for (const ShardGuard guard : kGuards) {
    for (const int32_t shards : {1, 3}) {
      ShardedStock item({.name = "item", .stock = 2, .shards = shards, .guard = guard, .metrics = nullptr});
      const auto hold = ShardedStockPeer::LockSlowly(item);
      RunThreads(3, [&](int) {
        for (int i = 0; i < 100; ++i) {
          EXPECT_FALSE(item.Take(12));
          if (item.Take(2)) EXPECT_TRUE(item.Deposit(2).ok());
          EXPECT_LE(item.Available(), 2);
        }
      });
      EXPECT_EQ(item.Available(), 2);
    }
  }
}

TEST(ShardedStockNarrowTest, BecomesWideAndNarrowUnderLoad_NothingIsLostAndNothingRefusedThatIsThere) {
  const int64_t rounds = Scaled(30'000, 500'000);
  for (const ShardGuard guard : kGuards) {
    ShardedStock item({.name = "item", .stock = 2, .shards = 3, .guard = guard, .metrics = nullptr});
    RunThreads(4, [&](int thread) {
      // Each has its own units beside these two: 12 make the stock wide, and 2 narrow.
      const int64_t units = 1 + 3 * thread;
      for (int64_t i = 0; i < rounds; ++i) {
        ASSERT_TRUE(item.Deposit(units).ok());
        ASSERT_TRUE(item.Take(units)) << "thread " << thread << ", round " << i;
      }
    });
    EXPECT_EQ(item.Available(), 2);
    EXPECT_EQ(item.ApproximateAvailable(), 2);
    EXPECT_TRUE(item.Take(2));
    EXPECT_FALSE(item.Take());
  }
}

TEST(ShardedStockMutexTest, Take_ManyThreads_ExactlyTheStockIsTaken) {
  const int64_t stock = Scaled(20'000, 2'000'000);
  ShardedStock item({.name = "item", .stock = stock, .shards = 3, .guard = ShardGuard::kMutex, .metrics = nullptr});
  std::atomic<int64_t> taken{0};
  RunThreads(6, [&](int) {
    while (item.Take()) taken.fetch_add(1, std::memory_order_relaxed);
  });
  EXPECT_EQ(taken, stock);
  EXPECT_EQ(item.Available(), 0);
}

TEST(ShardedStockTest, Deposit_AboveTheLimit_IsOutOfRangeAndChangesNothing) {
  ShardedStock item({.name = "item", .stock = kMaxUnits - 1, .shards = 3, .metrics = nullptr});
  EXPECT_EQ(item.Deposit(2).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(item.Deposit(INT64_MAX).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(item.Available(), kMaxUnits - 1);
  EXPECT_TRUE(item.Deposit(1).ok());
  EXPECT_EQ(item.Available(), kMaxUnits);
  EXPECT_TRUE(item.Take(kMaxUnits));
  EXPECT_EQ(item.Deposit(INT64_MAX).code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(item.Take());
}

TEST(ShardedStockTest, BadArguments_AreNamed) {
  ShardedStock item({.name = "seats", .stock = 5, .metrics = nullptr});
  EXPECT_EQ(item.Deposit(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(item.Deposit(-1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(item.Take(INT64_MAX));
  EXPECT_EQ(item.Available(), 5);
  EXPECT_GE(item.shards(), 1);
  EXPECT_DEATH(ShardedStock({.name = "seats", .metrics = nullptr}).Take(0), "ShardedStock 'seats': Take\\(0\\)");
  EXPECT_DEATH(ShardedStock({.name = "seats", .stock = -1}), "ShardedStock 'seats': stock is -1");
  EXPECT_DEATH(ShardedStock({.name = "seats", .shards = 257}), "ShardedStock 'seats': shards is 257");
  EXPECT_DEATH(ShardedStock({.name = "seats", .clock = nullptr}), "ShardedStock 'seats': clock is null");
}

}  // namespace
}  // namespace stockade
