#include "stockade/metrics/striped_cells.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "support/scale.h"

namespace stockade::metrics_internal {
namespace {

TEST(StripedCellsTest, Add_ByManyThreads_SumsExactly) {
  const int64_t rounds = testing::Scaled(100'000, 10'000'000);
  StripedCells cells(3);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int64_t n = 0; n < rounds; ++n) cells.Add(n % 3, 2);
      });
    }
  }
  EXPECT_EQ(cells.Sum(0) + cells.Sum(1) + cells.Sum(2), static_cast<uint64_t>(rounds) * 16);
}

TEST(StripedCellsTest, Add_BySlotsHandedOnAndOverflowing_LosesNothing) {
  // More running threads than rows: those above share one row.
  constexpr int kThreads = 300;
  StripedCells cells(1);
  for (int round = 0; round < 2; ++round) {
    std::latch all(kThreads);
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 100; ++n) cells.Add(0, 1);
        all.arrive_and_wait();
      });
    }
  }
  EXPECT_EQ(cells.Sum(0), 2u * kThreads * 100);
}

TEST(StripedCellsTest, Sum_WhileAdding_NeverFalls) {
  StripedCells cells(1);
  std::atomic<bool> stop = false;
  std::jthread adder([&] {
    while (!stop.load(std::memory_order_relaxed)) cells.Add(0, 1);
  });
  uint64_t last = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t sum = cells.Sum(0);
    ASSERT_GE(sum, last);
    last = sum;
  }
  stop = true;
}

}  // namespace
}  // namespace stockade::metrics_internal
