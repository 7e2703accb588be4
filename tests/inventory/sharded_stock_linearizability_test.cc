// Small concurrent histories of a ShardedStock, each checked by brute force: is there an order of its operations that
// respects real time and in which every answer is right? A failure prints its seed.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "stockade/inventory/sharded_stock.h"
#include "support/scale.h"

namespace stockade {
namespace {

struct Operation {
  enum Kind { kTake, kDeposit, kRead, kReshard } kind;
  int64_t units;  // Wanted, deposited, read, or the number of shards.
  bool taken = false;
  uint64_t begin = 0;  // Ticks of one shared counter: a.end < b.begin only where a returned before b was called.
  uint64_t end = 0;
};

// True where the operations that are not in `done` can be put in an order that starts with `stock` units.
bool Explains(const std::vector<Operation>& history, uint32_t done, int64_t stock) {
  if (done == (uint32_t{1} << history.size()) - 1) return true;
  uint64_t first_end = UINT64_MAX;
  for (size_t i = 0; i < history.size(); ++i) {
    if ((done >> i & 1) == 0) first_end = std::min(first_end, history[i].end);
  }
  for (size_t i = 0; i < history.size(); ++i) {
    const Operation& op = history[i];
    if ((done >> i & 1) != 0 || op.begin > first_end) continue;
    int64_t after = stock;
    switch (op.kind) {
      case Operation::kTake:
        if (op.taken != (stock >= op.units)) continue;
        if (op.taken) after -= op.units;
        break;
      case Operation::kDeposit: after += op.units; break;
      case Operation::kRead:
        if (op.units != stock) continue;
        break;
      case Operation::kReshard: break;
    }
    if (Explains(history, done | uint32_t{1} << i, after)) return true;
  }
  return false;
}

std::string Describe(const std::vector<Operation>& history) {
  std::string text;
  for (const Operation& op : history) {
    static constexpr const char* kNames[] = {"take", "deposit", "read", "reshard"};
    text += std::string(kNames[op.kind]) + "(" + std::to_string(op.units) + ")" + (op.taken ? "=taken" : "") + " [" +
            std::to_string(op.begin) + ", " + std::to_string(op.end) + "]\n";
  }
  return text;
}

TEST(LinearizabilityCheckerTest, Explains_WrongHistories_No) {
  using enum Operation::Kind;
  // A refusal after a deposit that had returned; two takes of the same unit; a read of a unit that was gone.
  EXPECT_FALSE(Explains({{kDeposit, 1, false, 0, 1}, {kTake, 1, false, 2, 3}}, 0, 0));
  EXPECT_FALSE(Explains({{kTake, 1, true, 0, 3}, {kTake, 1, true, 1, 2}}, 0, 1));
  EXPECT_FALSE(Explains({{kTake, 1, true, 0, 1}, {kRead, 1, false, 2, 3}}, 0, 1));
  EXPECT_TRUE(Explains({{kDeposit, 1, false, 0, 2}, {kTake, 1, false, 1, 3}}, 0, 0));
  EXPECT_TRUE(Explains({{kTake, 1, true, 0, 2}, {kRead, 1, false, 1, 3}}, 0, 1));
}

// Threads stay over all histories and meet at a counter: a thread a history would leave too little overlap.
void CheckHistories(int threads, int64_t histories, uint64_t seed) {
  static constexpr int kOperationsEach = 3;
  std::atomic<int64_t> opened{-1};
  std::atomic<int> finished{0};
  std::atomic<uint64_t> tick{0};
  std::unique_ptr<ShardedStock> item;
  std::vector<Operation> history(static_cast<size_t>(threads * kOperationsEach));
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      for (int64_t h = 0; h < histories; ++h) {
        while (opened.load() < h) std::this_thread::yield();
        for (int i = 0; i < kOperationsEach; ++i) {
          Operation& op = history[static_cast<size_t>(thread * kOperationsEach + i)];
          op.begin = tick.fetch_add(1);
          if (op.kind == Operation::kTake) op.taken = item->Take(op.units);
          if (op.kind == Operation::kDeposit) (void)item->Deposit(op.units);
          if (op.kind == Operation::kRead) op.units = item->Available();
          if (op.kind == Operation::kReshard) (void)item->Reshard(static_cast<int32_t>(op.units));
          op.end = tick.fetch_add(1);
        }
        finished.fetch_add(1);
      }
    });
  }
  bool explained = true;
  for (int64_t h = 0; h < histories; ++h) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(h));
    const int64_t stock = static_cast<int64_t>(random() % 5);
    const int32_t shards = 1 + static_cast<int32_t>(random() % 4);
    item = std::make_unique<ShardedStock>(
        ShardedStockOptions{.name = "item",
                            .stock = stock,
                            .shards = shards,
                            .max_shards = 4,
                            .guard = random() % 4 == 0 ? ShardGuard::kMutex : ShardGuard::kCompareAndSwap,
                            .metrics = nullptr});
    for (Operation& op : history) {
      const uint64_t kind = random() % 9;
      op = {kind < 5    ? Operation::kTake
            : kind < 7  ? Operation::kDeposit
            : kind == 7 ? Operation::kRead
                        : Operation::kReshard,
            1 + static_cast<int64_t>(random() % 3)};
    }
    finished.store(0);
    opened.store(h);
    while (finished.load() < threads) std::this_thread::yield();
    if (explained && !Explains(history, 0, stock)) {
      explained = false;
      ADD_FAILURE() << "seed " << seed + static_cast<uint64_t>(h) << ", stock " << stock << ", shards " << shards
                    << "\n"
                    << Describe(history);
    }
  }
  for (std::thread& worker : workers) worker.join();
}

// STOCKADE_TEST_SEED replays from another seed; which threads overlap how is still up to the machine.
uint64_t Seed() {
  const char* const seed = std::getenv("STOCKADE_TEST_SEED");
  return seed == nullptr ? 20'000 : std::strtoull(seed, nullptr, 10);
}

TEST(ShardedStockLinearizabilityTest, TwoThreads_EveryHistoryIsExplained) {
  CheckHistories(2, testing::Scaled(20'000, 400'000), Seed());
}

TEST(ShardedStockLinearizabilityTest, ThreeThreads_EveryHistoryIsExplained) {
  CheckHistories(3, testing::Scaled(10'000, 300'000), Seed() + 1'000'000);
}

TEST(ShardedStockLinearizabilityTest, FourThreads_EveryHistoryIsExplained) {
  CheckHistories(4, testing::Scaled(10'000, 300'000), Seed() + 2'000'000);
}

}  // namespace
}  // namespace stockade
