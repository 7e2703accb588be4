// What a handle pins, and until when. Values are strings: they are pinned, not copied.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::Scaled;

// Counts how many live.
class Counted {
 public:
  explicit Counted(std::atomic<int>& live, int number = 0) : live_(&live), number_(number) { ++*live_; }
  Counted(Counted&& other) noexcept : live_(other.live_), number_(other.number_) { ++*live_; }
  ~Counted() {
    number_ = -1;
    --*live_;
  }
  int number() const { return number_; }

 private:
  std::atomic<int>* live_;
  int number_;
};

using CountedCache = LoadingCache<int, Counted>;
using CountedHandle = CacheHandle<Counted>;

// One that frees what leaves at once: a hundredth of its bound is less than an entry.
std::unique_ptr<CountedCache> MakeCache(std::atomic<int>& live, int64_t max_weight = 50) {
  return std::make_unique<CountedCache>(
      LoadingCacheOptions{.name = "c", .max_weight = max_weight},
      [&live](const int& key, LoadContext&) -> absl::StatusOr<Counted> { return Counted(live, key); });
}

TEST(HandleTest, EntryLeaves_ValueStaysUntilItsLastHandleGoes) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live);
  std::optional<CountedHandle> loaded = *cache->Get(1);
  std::optional<CountedHandle> hit = *cache->Get(1);
  EXPECT_EQ(hit->get(), loaded->get());
  cache->Invalidate(1);
  EXPECT_EQ(live, 1);
  loaded.reset();
  EXPECT_EQ((*hit)->number(), 1);
  EXPECT_EQ(live, 1);
  hit.reset();
  EXPECT_EQ(live, 0);
}

TEST(HandleTest, HandleGoesFirst_ValueGoesWithItsEntry) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live);
  ASSERT_TRUE(cache->Get(1).ok());
  ASSERT_TRUE(cache->Get(1).ok());
  EXPECT_EQ(live, 1);
  cache->Invalidate(1);
  EXPECT_EQ(live, 0);
}

TEST(HandleTest, MoreThanAThreadHasPinsFor_AllHold) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live);
  ASSERT_TRUE(cache->Get(1).ok());
  std::vector<CountedHandle> handles;
  for (int i = 0; i < 20; ++i) handles.push_back(*cache->Get(1));
  cache->Invalidate(1);
  while (!handles.empty()) {
    EXPECT_EQ(live, 1);
    EXPECT_EQ(handles.back()->number(), 1);
    handles.erase(handles.begin());
  }
  EXPECT_EQ(live, 0);
}

TEST(HandleTest, Copies_HoldEachOnItsOwn) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live);
  ASSERT_TRUE(cache->Get(1).ok());
  std::optional<CountedHandle> pinned = *cache->Get(1);
  std::optional<CountedHandle> copy = *pinned;
  std::optional<CountedHandle> assigned = *cache->Get(2);
  assigned = *copy;
  cache->Invalidate(1);
  cache->Invalidate(2);
  EXPECT_EQ(live, 1);
  pinned.reset();
  copy.reset();
  EXPECT_EQ((*assigned)->number(), 1);
  assigned.reset();
  EXPECT_EQ(live, 0);
}

TEST(HandleTest, MovedFrom_IsEmpty_AndOneMoveHoldsOnce) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live);
  ASSERT_TRUE(cache->Get(1).ok());
  CountedHandle first = *cache->Get(1);
  {
    const CountedHandle second = std::move(first);
    EXPECT_EQ(first.get(), nullptr);  // NOLINT(bugprone-use-after-move): what it is then is promised.
    cache->Invalidate(1);
    EXPECT_EQ(second->number(), 1);
  }
  EXPECT_EQ(live, 0);
}

TEST(HandleTest, CacheDestroyed_ValueStays) {
  std::atomic<int> live = 0;
  auto cache = MakeCache(live, 1'000'000);
  for (int key = 0; key < 10; ++key) ASSERT_TRUE(cache->Get(key).ok());
  std::optional<CountedHandle> handle = *cache->Get(3);
  cache.reset();
  EXPECT_EQ(live, 1);
  EXPECT_EQ((*handle)->number(), 3);
  handle.reset();
  EXPECT_EQ(live, 0);
}

TEST(HandleTest, ReplacedValue_IsAnother) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live);
  ASSERT_TRUE(cache->Get(1).ok());
  const CountedHandle old = *cache->Get(1);
  cache->Put(1, Counted(live, 100));
  EXPECT_EQ((*cache->Get(1))->number(), 100);
  EXPECT_EQ(old->number(), 1);
  EXPECT_EQ(live, 2);
}

TEST(HandleTest, SmallTrivialValue_IsCopied) {
  LoadingCache<int, int> cache({.name = "c", .max_weight = 50},
                               [](const int& key, LoadContext&) -> absl::StatusOr<int> { return key * 10; });
  ASSERT_TRUE(cache.Get(1).ok());
  CacheHandle<int> hit = *cache.Get(1);
  cache.Invalidate(1);
  EXPECT_EQ(*hit, 10);
  const CacheHandle<int> moved = std::move(hit);
  EXPECT_EQ(hit.get(), nullptr);  // NOLINT(bugprone-use-after-move): what it is then is promised.
  EXPECT_EQ(*moved, 10);
}

TEST(HandleTest, OneHandleKept_WhileManyEntriesComeAndGo_HoldsBackOneValue) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live, 10'000);
  ASSERT_TRUE(cache->Get(-1).ok());
  const CountedHandle kept = *cache->Get(-1);
  const int others = Scaled(100'000, 1'000'000);
  for (int key = 0; key < others; ++key) {
    ASSERT_TRUE(cache->Get(key).ok());
    // The bound, a hundredth that waits to be freed, one that the caches' thread is freeing, and the one that is kept.
    ASSERT_LE(live, 10'000 + 2 * 100 + 1);
  }
  EXPECT_EQ(kept->number(), -1);
}

// The default bound lets no batch fill up by weight.
TEST(HandleTest, ValueReplacedOrInvalidated_IsSoonDestroyed) {
  std::atomic<int> live = 0;
  const auto cache = MakeCache(live, 10'000);
  for (int i = 0; i < 63; ++i) {
    const Instant tick = Clock::System()->CoarseNow();
    testing::SpinUntil([&] { return Clock::System()->CoarseNow() != tick; });
    cache->Put(1, Counted(live, i));
    EXPECT_LE(live, 2);  // At most the one that left in this tick waits.
  }
  cache->Invalidate(1);
  testing::SpinUntil([&] { return live == 0; });
}

// As those that hold sockets: nothing comes after them that would free them.
TEST(HandleTest, ValuesInvalidatedOneByOne_AreSoonDestroyedAndCachesShareTheThreadForIt) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  std::atomic<int> live = 0;
  std::vector<std::unique_ptr<CountedCache>> caches;
  const auto before = threads();
  for (int i = 0; i < 10; ++i) {
    caches.push_back(MakeCache(live, 10'000));
    for (int key = 0; key < 20; ++key) caches.back()->Put(key, Counted(live, key));
  }
  for (const auto& cache : caches) {
    for (int key = 0; key < 20; ++key) cache->Invalidate(key);
  }
  testing::SpinUntil([&] { return live == 0; });
  EXPECT_LE(threads(), before + 1);
}

TEST(HandleTest, ValueLeavesACacheWithAManualClock_IsDestroyedAtOnce) {
  std::atomic<int> live = 0;
  ManualClock clock;
  CountedCache cache({.name = "c", .clock = &clock});
  for (int i = 0; i < 20; ++i) {
    cache.Put(1, Counted(live, i));
    EXPECT_EQ(live, 1);
  }
  cache.Invalidate(1);
  EXPECT_EQ(live, 0);
}

// Handles cross threads and outlive those that got them, while their entries are replaced and evicted.
TEST(HandleTest, Stress_HandlesHandedToOtherThreads_NeverSeeAValueEnd) {
  std::atomic<int> live = 0;
  {
    const auto cache = MakeCache(live, 8);
    std::array<std::vector<CountedHandle>, 2> baskets;
    const int generations = Scaled(50, 1'000);
    for (int generation = 0; generation < generations; ++generation) {
      // Each takes over what the other one of the last generation, whose thread has ended, got.
      std::array<std::vector<CountedHandle>, 2> last = std::exchange(baskets, {});
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 2; ++thread) {
        threads.emplace_back([&, thread] {
          std::vector<CountedHandle>& theirs = last[static_cast<size_t>(1 - thread)];
          std::vector<CountedHandle> mine;
          for (int i = 0; i < 64; ++i) {
            const int key = (i * 7 + thread) % 12;
            CountedHandle got = *cache->Get(key);
            ASSERT_EQ(got->number(), key);
            if (i % 3 == 0) mine.push_back(std::move(got));
            if (i % 5 == 0) cache->Invalidate(key);
            if (i % 11 == 0) cache->Put(key, Counted(live, key));
            if (!theirs.empty()) {
              ASSERT_GE(theirs.back()->number(), 0);
              theirs.pop_back();
            }
          }
          baskets[static_cast<size_t>(thread)] = std::move(mine);
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
  EXPECT_EQ(live, 0);
}

// Trivially copyable, and yet not to be assigned, or not to be copied.
struct Fixed {
  const int number;
};
struct MoveOnly {
  explicit MoveOnly(int n) : number(n) {}
  MoveOnly(MoveOnly&&) = default;
  int number;
};

TEST(HandleTypesTest, SmallValuesThatCannotBeAssignedOrCopied_ArePinned) {
  LoadingCache<int, Fixed> fixed({.metrics = nullptr});
  fixed.Put(1, Fixed{7});
  EXPECT_EQ((*fixed.GetIfPresent(1))->number, 7);
  LoadingCache<int, MoveOnly> move_only({.metrics = nullptr});
  move_only.Put(1, MoveOnly(8));
  EXPECT_EQ((*move_only.GetIfPresent(1))->number, 8);
}

// Its address can be taken only by std::addressof().
struct Shy {
  std::string text;
  void operator&() const = delete;
  bool operator==(const Shy& other) const { return text == other.text; }
  friend std::ostream& operator<<(std::ostream& out, const Shy& shy) { return out << shy.text; }
};
struct ShyHash {
  size_t operator()(const Shy& shy) const { return std::hash<std::string>()(shy.text); }
};

TEST(HandleTest, TypesWithoutAnAddress_CanBeKeysAndValues) {
  LoadingCache<Shy, Shy, ShyHash> cache(LoadingCacheOptions{.name = "c"},
                                        [](const Shy& key, LoadContext&) -> absl::StatusOr<Shy> { return key; });
  const absl::StatusOr<CacheHandle<Shy>> loaded = cache.Get(Shy{"a"});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ((*loaded)->text, "a");
  cache.Put(Shy{"a"}, Shy{"b"});
  EXPECT_EQ((**cache.Get(Shy{"a"})).text, "b");
  EXPECT_EQ((**cache.GetAll({Shy{"a"}, Shy{"a"}})[1]).text, "b");
  cache.Invalidate(Shy{"a"});
  EXPECT_EQ(cache.size(), 0);
}

}  // namespace
}  // namespace stockade
