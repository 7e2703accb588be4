// The bound while threads put and load, as another thread sees it at any time: of the weight, and of the values that
// live, those that have left and are pinned or about to be freed included.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <limits>
#include <random>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cache/counted_value.h"
#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

constexpr size_t kPutters = 3;
constexpr int64_t kMaxWeight = 10'000;
constexpr uint64_t kKeys = 30'000;
constexpr size_t kKept = 20;  // Handles of a thread: more than it has pins.
// Removed values are freed 64 at a time. So many may wait, and each putter and the caches' thread may be freeing as
// many.
constexpr int64_t kLeaving = 64 * (kPutters + 2);

struct Range {
  void Add(int64_t seen) {
    lowest = std::min(lowest, seen);
    highest = std::max(highest, seen);
  }
  int64_t lowest = std::numeric_limits<int64_t>::max();
  int64_t highest = std::numeric_limits<int64_t>::min();
};

template <typename Value>
class BoundWatchTest : public ::testing::Test {
 protected:
  using Cache = LoadingCache<uint64_t, Value>;

  struct Kept {
    uint64_t key;
    CacheHandle<Value> handle;
  };
  using Basket = std::deque<Kept>;

  explicit BoundWatchTest(int64_t heaviest)
      : heaviest_(heaviest),
        cache_(
            {.name = "c", .max_weight = kMaxWeight, .metrics = nullptr},
            [this](const uint64_t& key, LoadContext&) -> absl::StatusOr<Value> { return Value(key, live_); },
            [heaviest](const uint64_t& key, const Value&) { return 1 + static_cast<int64_t>(key) % heaviest; }) {}

  // Rounds of threads that each put and load, and keep handles, which the next round's threads take over and drop.
  // Meanwhile weight and live values are watched.
  void Run(int64_t calls) {
    for (uint64_t key = 0; key < kKeys; ++key) cache_.Put(key, Value(key, live_));
    std::atomic<bool> stop = false;
    std::jthread watcher([&] {
      while (!stop) {
        weights_.Add(cache_.weight());
        lives_.Add(live_);
        std::this_thread::yield();
      }
    });
    for (uint32_t round = 0; round < kRounds; ++round) {
      std::array<Basket, kPutters> last = std::exchange(baskets_, {});
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < kPutters; ++i) {
        threads.emplace_back(
            [&, i] { baskets_[i] = Work(round, i, calls / kRounds, std::move(last[(i + 1) % kPutters])); });
      }
    }
    stop = true;
  }

  Basket Work(uint32_t round, size_t thread, int64_t calls, Basket others) {
    std::mt19937 random(static_cast<uint32_t>(round * kPutters + thread));
    Basket kept;
    for (int64_t i = 0; i < calls; ++i) {
      const uint64_t key = random() % kKeys;
      if (random() % 2 == 0) {
        cache_.Put(key, Value(key, live_));
      } else {
        CacheHandle<Value> got = *cache_.Get(key);
        EXPECT_TRUE(got->Right(key));
        if (i % 4 == 0) kept.push_back({key, std::move(got)});
      }
      for (Basket* const basket : {&others, &kept}) {
        if (basket->empty() || (basket == &kept && kept.size() <= kKept)) continue;
        EXPECT_TRUE(basket->front().handle->Right(basket->front().key));
        basket->pop_front();
      }
    }
    return kept;
  }

  // Of what a thread has in its hands: the value that it brings, the one that it has just taken away, the one over the
  // bound.
  static constexpr int64_t kInHand = 3 * kPutters;
  static constexpr int64_t kHandles = 2 * kPutters * (kKept + 1);  // Its own and those that it took over.
  static constexpr uint32_t kRounds = 10;

  const int64_t heaviest_;
  std::atomic<int64_t> live_ = 0;
  std::array<Basket, kPutters> baskets_;
  Cache cache_;
  Range weights_;
  Range lives_;
};

template <typename Value>
class UnitWeightsTest : public BoundWatchTest<Value> {
 protected:
  UnitWeightsTest() : BoundWatchTest<Value>(1) {}
};
template <typename Value>
class ManyWeightsTest : public BoundWatchTest<Value> {
 protected:
  ManyWeightsTest() : BoundWatchTest<Value>(50) {}
};
using Values = ::testing::Types<CountedText, SmallNumber>;
TYPED_TEST_SUITE(UnitWeightsTest, Values);
TYPED_TEST_SUITE(ManyWeightsTest, Values);

TYPED_TEST(UnitWeightsTest, Watch_ThreadsPutLoadAndKeep_WeightAndLiveValuesStayAtTheBound) {
  this->Run(Scaled(100'000, 1'000'000));
  const auto threads = static_cast<int64_t>(kPutters);
  EXPECT_LE(this->weights_.highest, kMaxWeight + threads);
  EXPECT_GE(this->weights_.lowest, kMaxWeight - threads);
  EXPECT_LE(this->cache_.weight(), kMaxWeight);
  EXPECT_EQ(this->cache_.weight(), this->cache_.size());
  if (!std::is_same_v<TypeParam, CountedText>) return;
  EXPECT_LE(this->lives_.highest, kMaxWeight + this->kHandles + this->kInHand + kLeaving);
  // No putter runs. Fewer than a batch wait to be freed, the caches' thread may be freeing as many, and the values that
  // a thread was reading at the last batch remain.
  const int64_t handles = threads * static_cast<int64_t>(kKept);
  EXPECT_LE(this->live_, this->cache_.size() + handles + 2 * 64 + threads);
  this->baskets_ = {};
  EXPECT_LE(this->live_, this->cache_.size() + 2 * 64 + threads);
}

TYPED_TEST(ManyWeightsTest, Watch_ThreadsPutLoadAndKeep_WeightStaysWithinAHundredthAndAnEntryAThread) {
  this->Run(Scaled(100'000, 1'000'000));
  const int64_t entry_a_thread = static_cast<int64_t>(kPutters) * this->heaviest_;
  EXPECT_LE(this->weights_.highest, kMaxWeight + entry_a_thread);
  EXPECT_GE(this->weights_.lowest, kMaxWeight * 99 / 100 - entry_a_thread);
  EXPECT_LE(this->cache_.weight(), kMaxWeight);
}

}  // namespace
}  // namespace stockade::testing
