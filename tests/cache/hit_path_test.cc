// Hits without a lock, against everything that changes entries at the same time.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "cache/counted_value.h"
#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::Scaled;

constexpr int kReaders = 3;

// A value that is too large to be copied into a handle, and wrong if it is torn or freed.
struct Version {
  explicit Version(uint64_t k, uint64_t n) : key(k), number(n), check(k ^ n ^ kMask) {}
  Version(Version&& other) = default;
  ~Version() { check = 0; }
  bool Right(uint64_t k) const { return key == k && check == (key ^ number ^ kMask); }

  static constexpr uint64_t kMask = 0xA5A5A5A5A5A5A5A5u;
  uint64_t key;
  uint64_t number;
  uint64_t check;
};

// The small kind: copied.
struct Small {
  uint64_t key;
  uint64_t number;
  bool Right(uint64_t k) const { return key == k; }
};

template <typename Value>
class HitPathTest : public ::testing::Test {};
using Values = ::testing::Types<Version, Small>;
TYPED_TEST_SUITE(HitPathTest, Values);

// Each key's version in the database only grows, and is raised before the key is invalidated or put: a reader sees no
// version below the one that was there when its call began and whose change had returned.
TYPED_TEST(HitPathTest, Stress_ReadersMeetPutsInvalidationsAndEvictions_SeeNothingOldOrFreed) {
  constexpr uint64_t kKeys = 24;
  std::array<std::atomic<uint64_t>, kKeys> database{};
  std::array<std::atomic<uint64_t>, kKeys> visible{};  // Of changes that have returned.
  LoadingCache<uint64_t, TypeParam> cache({.name = "c", .max_weight = 16},
                                          [&](const uint64_t& key, LoadContext&) -> absl::StatusOr<TypeParam> {
                                            return TypeParam{key, database[key].load()};
                                          });
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (uint64_t thread = 0; thread < kReaders; ++thread) {
    readers.emplace_back([&, thread] {
      std::vector<CacheHandle<TypeParam>> kept;
      for (uint64_t i = thread; !stop; i += 7) {
        const uint64_t key = i % 5 == 0 ? i % kKeys : i % 4;  // Four are hot.
        const uint64_t at_least = visible[key].load();
        CacheHandle<TypeParam> got = *cache.Get(key);
        ASSERT_TRUE(got->Right(key));
        ASSERT_GE(got->number, at_least);
        if (i % 16 == 0) kept.push_back(std::move(got));
        if (kept.size() == 10) kept.clear();
      }
    });
  }
  for (int64_t i = Scaled(20'000, 1'000'000); i > 0; --i) {
    const auto key = static_cast<uint64_t>(i) * 11 % kKeys;
    const uint64_t number = ++database[key];
    if (i % 3 == 0) {
      cache.Put(key, TypeParam{key, number});
    } else if (i % 1'000 == 1) {
      cache.InvalidateAll();
    } else {
      cache.Invalidate(key);
    }
    visible[key] = number;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_LE(cache.weight(), 16);
}

TYPED_TEST(HitPathTest, Stress_ManyKeysComeWhileOthersAreRead_NoneIsLostOrWrong) {
  std::atomic<int> loads = 0;
  LoadingCache<uint64_t, TypeParam> cache({.name = "c", .max_weight = 1'000'000},
                                          [&](const uint64_t& key, LoadContext&) -> absl::StatusOr<TypeParam> {
                                            ++loads;
                                            return TypeParam{key, key};
                                          });
  const auto keys = static_cast<uint64_t>(Scaled(20'000, 200'000));
  std::atomic<uint64_t> stored = 0;
  std::vector<std::thread> readers;
  for (uint64_t thread = 0; thread < kReaders; ++thread) {
    readers.emplace_back([&, thread] {
      for (uint64_t i = thread, count = stored; count < keys; count = stored, i += 997) {
        if (count == 0) continue;
        const auto got = cache.GetIfPresent(i % count);
        ASSERT_TRUE(got.has_value());
        ASSERT_TRUE((*got)->Right(i % count));
      }
    });
  }
  for (uint64_t key = 0; key < keys; ++key) {
    cache.Put(key, TypeParam{key, key});
    stored = key + 1;
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(loads, 0);
  EXPECT_EQ(cache.size(), static_cast<int64_t>(keys));
}

TEST(HitPathThreadsTest, MoreThreadsThanSlots_AreAnsweredAllTheSame) {
  constexpr int kThreads = 1'100;
  LoadingCache<int, std::string> cache(
      {.name = "c", .max_weight = 50},
      [](const int& key, LoadContext&) -> absl::StatusOr<std::string> { return std::to_string(key); });
  ASSERT_TRUE(cache.Get(1).ok());
  std::latch all(kThreads);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const CacheHandle<std::string> got = *cache.Get(1);
      all.arrive_and_wait();
      right += *got == "1";
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads);
}

// The clock that hits read is late by up to a tick of the kernel; the TTL is not.
TEST(HitPathClockTest, AtItsExpiry_AValueIsGone) {
  LoadingCache<int, int> cache({.ttl = absl::Milliseconds(2), .metrics = nullptr});
  Clock* const clock = Clock::System();
  for (int round = 0; round < 20; ++round) {
    cache.Put(1, round);
    const Instant expired = clock->Now() + absl::Milliseconds(2);
    while (clock->Now() < expired) (void)cache.GetIfPresent(1);
    ASSERT_FALSE(cache.GetIfPresent(1).has_value()) << round;
  }
}

// An Eq that stops the hits of one thread.
struct StoppingEq {
  static inline constinit thread_local testing::Door* door = nullptr;
  bool operator()(int a, int b) const {
    if (door != nullptr) door->Pass();
    return a == b;
  }
};

// The box of the value leaves its slot twice, each time with a share, while the hit prevents that it is freed.
TEST(HitPathRenewalTest, Hit_WhileItsValueIsRenewedTwice_KeepsNoShare) {
  std::atomic<int64_t> live = 0;
  ManualClock clock;
  InlineExecutor executor;
  {
    LoadingCache<int, testing::CountedText, std::hash<int>, StoppingEq> cache(
        {.name = "c", .max_weight = 10, .clock = &clock, .refresh_executor = &executor},
        [&](const int& key, ValueLoadContext<testing::CountedText>& load) -> absl::StatusOr<testing::CountedText> {
          if (load.previous() != nullptr) return LoadContext::NotModified();
          return testing::CountedText(static_cast<uint64_t>(key), live);
        });
    ASSERT_TRUE(cache.Get(1).ok());
    testing::Door door;
    std::thread reader([&] {
      StoppingEq::door = &door;
      const auto hit = cache.GetIfPresent(1);
      StoppingEq::door = nullptr;
      ASSERT_TRUE(hit.has_value());
      EXPECT_TRUE((*hit)->Right(1));
    });
    door.AwaitArrivals(1);
    cache.Refresh(1);
    cache.Refresh(1);
    door.Open();
    reader.join();
    EXPECT_EQ(live, 1);
  }
  EXPECT_EQ(live, 0);
}

// With a clock of its own, the cache frees each box at once. Renewals and removals of one value therefore hand over the
// same pins at the same time, while their owners drop them.
TEST(HitPathRenewalTest, Stress_RenewalsMeetRemovalsAndHandles_HandlesStayRight) {
  std::atomic<int64_t> live = 0;
  ManualClock clock;
  InlineExecutor executor;
  {
    LoadingCache<int, testing::CountedText> cache(
        {.name = "c", .max_weight = 10, .clock = &clock, .refresh_executor = &executor},
        [&](const int& key, ValueLoadContext<testing::CountedText>& load) -> absl::StatusOr<testing::CountedText> {
          if (load.previous() != nullptr) return LoadContext::NotModified();
          return testing::CountedText(static_cast<uint64_t>(key), live);
        });
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int reader = 0; reader < kReaders; ++reader) {
      threads.emplace_back([&] {
        while (!stop) {
          const auto kept = cache.GetIfPresent(1);
          for (int i = 0; i < 3; ++i) {
            const auto hit = cache.GetIfPresent(1);
            ASSERT_TRUE(!hit.has_value() || (*hit)->Right(1));
          }
          ASSERT_TRUE(!kept.has_value() || (*kept)->Right(1));
        }
      });
    }
    threads.emplace_back([&] {
      while (!stop) cache.Refresh(1);
    });
    for (int64_t i = Scaled(2'000, 100'000); i > 0; --i) {
      ASSERT_TRUE(cache.Get(1).ok());
      cache.Refresh(1);
      if (i % 3 == 0) cache.Invalidate(1);
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(live, 0);
}

// An Eq that looks something up in another cache, within a hit of the first: its read must not end the outer one's.
struct AskingEq {
  static inline LoadingCache<int, std::string>* other = nullptr;
  bool operator()(int a, int b) const {
    EXPECT_EQ(**other->GetIfPresent(1), std::string(100, 'x'));
    return a == b;
  }
};

TEST(HitPathNestedTest, EqAsksAnotherCache_BothAnswer) {
  LoadingCache<int, std::string> other({.metrics = nullptr});
  other.Put(1, std::string(100, 'x'));
  AskingEq::other = &other;
  LoadingCache<int, std::string, std::hash<int>, AskingEq> cache({.metrics = nullptr});
  for (int key = 0; key < 100; ++key) cache.Put(key, std::to_string(key));
  for (int key = 0; key < 100; ++key) EXPECT_EQ(**cache.GetIfPresent(key), std::to_string(key));
}

}  // namespace
}  // namespace stockade
