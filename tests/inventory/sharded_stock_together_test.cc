// Units of several items at once, and all units of one.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/sharded_stock_peer.h"
#include "stockade/inventory/sharded_stock.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::RunThreads;
using testing::Scaled;

ShardedStockOptions Of(int64_t stock, int32_t shards, ShardGuard guard = ShardGuard::kCompareAndSwap) {
  return {.name = "item", .stock = stock, .shards = shards, .guard = guard, .metrics = nullptr};
}

TEST(TakeTogetherTest, EnoughOfEach_AllAreTaken) {
  ShardedStock a(Of(3, 3));
  ShardedStock b(Of(5, 2, ShardGuard::kMutex));
  ShardedStock c(Of(1, 1));
  const StockLine lines[] = {{&c, 1}, {&a, 3}, {&b, 4}};  // Of `a` and `b` no shard has as many.
  EXPECT_EQ(ShardedStock::TakeTogether(lines), nullptr);
  EXPECT_EQ(a.Available(), 0);
  EXPECT_EQ(b.Available(), 1);
  EXPECT_EQ(c.Available(), 0);
}

TEST(TakeTogetherTest, SomeShort_TheFirstOfThemIsNamedAndNothingIsTaken) {
  ShardedStock a(Of(3, 2));
  ShardedStock b(Of(5, 2));
  ShardedStock c(Of(1, 2));
  const StockLine last[] = {{&a, 3}, {&b, 5}, {&c, 2}};
  EXPECT_EQ(ShardedStock::TakeTogether(last), &last[2]);
  const StockLine two[] = {{&a, 3}, {&b, 6}, {&c, 2}};
  EXPECT_EQ(ShardedStock::TakeTogether(two), &two[1]);
  const StockLine turned[] = {{&c, std::numeric_limits<int64_t>::max()}, {&b, 6}, {&a, 3}};
  EXPECT_EQ(ShardedStock::TakeTogether(turned), &turned[0]);
  EXPECT_EQ(a.Available(), 3);
  EXPECT_EQ(b.Available(), 5);
  EXPECT_EQ(c.Available(), 1);
}

TEST(TakeTogetherTest, NoLineOrOne_IsAsTakeIs) {
  ShardedStock item(Of(2, 2));
  EXPECT_EQ(ShardedStock::TakeTogether({}), nullptr);
  const StockLine two[] = {{&item, 2}};
  EXPECT_EQ(ShardedStock::TakeTogether(two), nullptr);
  EXPECT_EQ(ShardedStock::TakeTogether(two), &two[0]);
  ASSERT_TRUE(item.Deposit(2).ok());
  EXPECT_EQ(ShardedStock::TakeTogether(two), nullptr);
}

// Holds every slow lock, so a call that takes one would wait for the end of the test.
TEST(TakeTogetherTest, SoldOutItem_IsRefusedWithoutALock) {
  ShardedStock plenty(Of(9, 2));
  ShardedStock none(Of(0, 2));
  EXPECT_FALSE(none.Take());
  const auto hold_plenty = ShardedStockPeer::LockSlowly(plenty);
  const auto hold_none = ShardedStockPeer::LockSlowly(none);
  std::thread([&] {
    const StockLine lines[] = {{&plenty, 1}, {&none, 1}};
    EXPECT_EQ(ShardedStock::TakeTogether(lines), &lines[1]);
    EXPECT_FALSE(none.Take());
    EXPECT_EQ(none.TakeAll(), 0);
    EXPECT_EQ(none.Available(), 0);
  }).join();
}

TEST(TakeTogetherTest, SoldOutByABasket_EachItemRefusesAndIsRestocked) {
  ShardedStock a(Of(2, 2));
  ShardedStock b(Of(3, 2));
  const StockLine lines[] = {{&a, 2}, {&b, 2}};
  EXPECT_EQ(ShardedStock::TakeTogether(lines), nullptr);
  EXPECT_FALSE(a.Take());
  EXPECT_TRUE(b.Take());
  EXPECT_FALSE(b.Take());
  ASSERT_TRUE(a.Deposit(2).ok());
  EXPECT_EQ(ShardedStock::TakeTogether(lines), &lines[1]);
  ASSERT_TRUE(b.Deposit(2).ok());
  EXPECT_EQ(ShardedStock::TakeTogether(lines), nullptr);
}

TEST(TakeTogetherTest, LastPairRacedInOppositeOrders_ExactlyOneGetsIt) {
  for (int64_t round = Scaled(1'000, 50'000); round > 0; --round) {
    ShardedStock a(Of(2, 2));
    ShardedStock b(Of(2, 2, round % 2 == 0 ? ShardGuard::kMutex : ShardGuard::kCompareAndSwap));
    std::atomic<int> succeeded{0};
    RunThreads(2, [&](int thread) {
      std::array<StockLine, 2> lines = {{{&a, 2}, {&b, 1}}};
      if (thread == 1) std::swap(lines[0], lines[1]);
      succeeded += ShardedStock::TakeTogether(lines) == nullptr;
    });
    ASSERT_EQ(succeeded, 1);
    ASSERT_EQ(a.Available(), 0);
    ASSERT_EQ(b.Available(), 1);
  }
}

// Two want the two items that the third one wants both of: it gets both or none.
TEST(TakeTogetherTest, RacedByTakesOfEachItem_NothingIsHalfTaken) {
  for (int64_t round = Scaled(300, 30'000); round > 0; --round) {
    ShardedStock a(Of(1, 2));
    ShardedStock b(Of(1, 2));
    std::atomic<int> singles{0};
    std::atomic<int> baskets{0};
    RunThreads(3, [&](int thread) {
      const StockLine lines[] = {{&a, 1}, {&b, 1}};
      if (thread == 0) baskets += ShardedStock::TakeTogether(lines) == nullptr;
      if (thread == 1) singles += a.Take();
      if (thread == 2) singles += b.Take();
    });
    ASSERT_EQ(baskets == 1, singles == 0);
    ASSERT_EQ(a.Available() + b.Available(), 2 - singles - 2 * baskets);
  }
}

TEST(TakeTogetherTest, ManyItemsInAnyOrderUnderLoad_NoDeadlockAndNothingIsLost) {
  constexpr int64_t kStock = 12;
  const int64_t rounds = Scaled(20'000, 500'000);
  std::vector<std::unique_ptr<ShardedStock>> items;
  items.reserve(4);
  for (int i = 0; i < 4; ++i) {
    items.push_back(
        std::make_unique<ShardedStock>(Of(kStock, 1 + i, i == 2 ? ShardGuard::kMutex : ShardGuard::kCompareAndSwap)));
  }
  std::array<std::atomic<int64_t>, 4> out{};
  RunThreads(4, [&](int thread) {
    std::mt19937 random(static_cast<uint32_t>(thread));
    std::array<int64_t, 4> mine{};
    std::array<size_t, 4> order = {0, 1, 2, 3};
    for (int64_t i = 0; i < rounds; ++i) {
      std::shuffle(order.begin(), order.end(), random);
      const size_t count = 2 + random() % 3;
      std::vector<StockLine> lines;
      lines.reserve(count);
      for (size_t k = 0; k < count; ++k)
        lines.push_back({items[order[k]].get(), 1 + static_cast<int64_t>(random() % 4)});
      if (ShardedStock::TakeTogether(lines) == nullptr) {
        for (size_t k = 0; k < count; ++k) mine[order[k]] += lines[k].units;
      }
      const size_t item = order[3];
      if (random() % 2 == 0 && mine[item] > 0) {
        EXPECT_TRUE(items[item]->Deposit(mine[item]).ok());
        mine[item] = 0;
      }
    }
    for (size_t k = 0; k < 4; ++k) out[k] += mine[k];
  });
  for (size_t k = 0; k < 4; ++k) EXPECT_EQ(items[k]->Available() + out[k], kStock);
}

TEST(TakeTogetherTest, LinesThatMakeNoSense_Abort) {
  ShardedStock a({.name = "seats", .stock = 5, .metrics = nullptr});
  ShardedStock b({.name = "meals", .stock = 5, .metrics = nullptr});
  const StockLine twice[] = {{&a, 1}, {&b, 1}, {&a, 2}};
  EXPECT_DEATH(ShardedStock::TakeTogether(twice),
               "ShardedStock 'seats': TakeTogether\\(\\): two lines have this stock");
  const StockLine nothing[] = {{&a, 1}, {&b, 0}};
  EXPECT_DEATH(ShardedStock::TakeTogether(nothing), "ShardedStock 'meals': TakeTogether\\(\\): a line of 0 units");
  const StockLine nobody[] = {{&a, 1}, {}};
  EXPECT_DEATH(ShardedStock::TakeTogether(nobody), "TakeTogether\\(\\): a line has no stock");
}

TEST(TakeAllTest, WhateverThereIs_IsTakenAndCanBePutBack) {
  ShardedStock item(Of(7, 3));
  EXPECT_TRUE(item.Take(2));
  EXPECT_EQ(item.TakeAll(), 5);
  EXPECT_EQ(item.TakeAll(), 0);
  EXPECT_FALSE(item.Take());
  ASSERT_TRUE(item.Deposit(4).ok());
  EXPECT_TRUE(item.Take());
  EXPECT_EQ(item.TakeAll(), 3);
}

TEST(TakeAllTest, RacedByTakesAndDeposits_NothingIsLostOrTakenTwice) {
  const int64_t rounds = Scaled(50'000, 2'000'000);
  ShardedStock item(Of(0, 4));
  std::atomic<int64_t> in{0};
  std::atomic<int64_t> out{0};
  RunThreads(4, [&](int thread) {
    for (int64_t i = 0; i < rounds; ++i) {
      const int64_t units = 1 + i % 3;
      if (thread < 2) {
        ASSERT_TRUE(item.Deposit(units).ok());
        in += units;
      } else if (thread == 2) {
        out += item.TakeAll();
      } else if (item.Take(units)) {
        out += units;
      }
    }
  });
  EXPECT_EQ(item.TakeAll() + out, in);
  EXPECT_EQ(item.Available(), 0);
}

}  // namespace
}  // namespace stockade
