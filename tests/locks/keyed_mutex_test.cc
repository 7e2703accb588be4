#include "stockade/locks/keyed_mutex.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "lock_test_util.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "support/scale.h"

namespace stockade {
namespace {

using std::chrono::steady_clock;
using testing::Await;
using testing::OnOtherThread;
using testing::Scaled;

// What both kinds promise, with the FIFO option and without.
template <typename Mutex>
class KeyedLockTest : public ::testing::Test {
 protected:
  static constexpr bool kFifo = Mutex::kFifo;
  typename Mutex::Type mutex_{{.fifo = kFifo}};

  bool OtherGets(int key) {
    return OnOtherThread([&] { return mutex_.TryLock(key).has_value(); });
  }
};
template <typename T, bool fifo>
struct WithOption {
  using Type = T;
  static constexpr bool kFifo = fifo;
};
using Kinds = ::testing::Types<WithOption<KeyedMutex<int>, false>, WithOption<KeyedMutex<int>, true>,
                               WithOption<KeyedSharedMutex<int>, false>, WithOption<KeyedSharedMutex<int>, true>>;
TYPED_TEST_SUITE(KeyedLockTest, Kinds);

TYPED_TEST(KeyedLockTest, Lock_ReenteredManyTimes_OthersEnterAfterTheLastRelease) {
  auto& mutex = this->mutex_;
  std::vector<typename std::remove_reference_t<decltype(mutex)>::Guard> guards;
  for (int i = 0; i < 100; ++i) guards.push_back(mutex.Lock(7));
  EXPECT_EQ(mutex.size(), 1u);
  guards.erase(guards.begin() + 1, guards.end());
  EXPECT_FALSE(this->OtherGets(7));
  guards.clear();
  EXPECT_TRUE(this->OtherGets(7));
  EXPECT_EQ(mutex.size(), 0u);
}

// 10,000 keys over 16 shards: were the locks striped, a thread would wait for itself or for another key.
TYPED_TEST(KeyedLockTest, TryLock_EveryOtherKeyWhileOneThreadHoldsTheRest_Succeeds) {
  auto& mutex = this->mutex_;
  std::vector<int> even;
  for (int key = 0; key < 10'000; key += 2) even.push_back(key);
  const auto held = mutex.LockAll(even);
  const int taken = OnOtherThread([&] {
    int count = 0;
    for (int key = 1; key < 10'000; key += 2) count += mutex.TryLock(key).has_value() ? 1 : 0;
    return count;
  });
  EXPECT_EQ(taken, 5'000);
  EXPECT_EQ(mutex.size(), 5'000u);
}

TYPED_TEST(KeyedLockTest, TryLockFor_HeldByAnother_IsEmptyAfterItsTimeAndLeavesNoEntry) {
  auto& mutex = this->mutex_;
  auto guard = mutex.Lock(1);
  const auto took = OnOtherThread([&] {
    const auto began = steady_clock::now();
    EXPECT_FALSE(mutex.TryLockFor(1, absl::Milliseconds(20)).has_value());
    EXPECT_FALSE(mutex.TryLockFor(1, -absl::InfiniteDuration()).has_value());
    return steady_clock::now() - began;
  });
  EXPECT_GE(took, std::chrono::milliseconds(20));
  EXPECT_LT(took, std::chrono::seconds(15));
  EXPECT_EQ(mutex.size(), 1u);
  guard.Release();
  EXPECT_FALSE(guard.holds());
  EXPECT_EQ(mutex.size(), 0u);
}

TYPED_TEST(KeyedLockTest, TryLockFor_InfiniteWaitWhileHeld_GetsInAfterTheRelease) {
  auto& mutex = this->mutex_;
  auto guard = mutex.Lock(1);
  std::thread waiter([&] { EXPECT_TRUE(mutex.TryLockFor(1, absl::InfiniteDuration()).has_value()); });
  Await([&] { return mutex.waiters(1) == 1; });
  EXPECT_EQ(mutex.waiters(2), 0u);
  guard.Release();
  waiter.join();
  EXPECT_EQ(mutex.size(), 0u);
}

TYPED_TEST(KeyedLockTest, Guard_MovedAndAssigned_ReleasesOnce) {
  auto& mutex = this->mutex_;
  auto first = mutex.Lock(1);
  auto second = std::move(first);
  EXPECT_FALSE(first.holds());  // NOLINT(bugprone-use-after-move): that it is empty is the promise.
  EXPECT_FALSE(this->OtherGets(1));
  second = mutex.Lock(2);
  EXPECT_TRUE(this->OtherGets(1));
  EXPECT_FALSE(this->OtherGets(2));
  second.Release();
  second.Release();
  EXPECT_EQ(mutex.size(), 0u);
}

TYPED_TEST(KeyedLockTest, LockAll_WithDuplicatesAndNone_HoldsEachKeyOnce) {
  auto& mutex = this->mutex_;
  EXPECT_TRUE(mutex.LockAll({}).empty());
  auto guards = mutex.LockAll({3, 1, 3, 2, 1});
  EXPECT_EQ(guards.size(), 3u);
  EXPECT_FALSE(this->OtherGets(1) || this->OtherGets(2) || this->OtherGets(3));
  guards.clear();
  EXPECT_EQ(mutex.size(), 0u);
}

TYPED_TEST(KeyedLockTest, LockAll_SameKeysInOppositeOrders_NeverDeadlocks) {
  auto& mutex = this->mutex_;
  std::array<int64_t, 4> plain{};
  const int64_t rounds = Scaled(10'000, 200'000);
  const auto work = [&](const std::vector<int>& keys) {
    for (int64_t i = 0; i < rounds; ++i) {
      const auto held = mutex.LockAll(keys);
      for (const int key : keys) ++plain[key];
    }
  };
  std::thread up([&] { work({0, 1, 2, 3}); });
  std::thread down([&] { work({3, 2, 1, 0}); });
  up.join();
  down.join();
  for (const int64_t count : plain) EXPECT_EQ(count, 2 * rounds);
  EXPECT_EQ(mutex.size(), 0u);
}

TYPED_TEST(KeyedLockTest, Lock_AMillionKeys_NoEntryIsLeft) {
  auto& mutex = this->mutex_;
  const int64_t keys = Scaled(100'000, 1'000'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int64_t key = 0; key < keys; ++key) (void)mutex.Lock(static_cast<int>(key)).holds();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mutex.size(), 0u);
}

// Few keys and many threads: entries are made and dropped all the time while others look for them.
TYPED_TEST(KeyedLockTest, Lock_FewKeysManyThreads_ExcludesPerKey) {
  auto& mutex = this->mutex_;
  std::array<int64_t, 3> plain{};
  const int64_t rounds = Scaled(20'000, 200'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < rounds; ++i) {
        const int key = static_cast<int>((i + t) % 3);
        const auto outer = mutex.Lock(key);
        const auto inner = mutex.Lock(key);
        ++plain[key];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain[0] + plain[1] + plain[2], 6 * rounds);
  EXPECT_EQ(mutex.size(), 0u);
}

TEST(KeyedMutexTest, Lock_StringKeys_AreComparedByValue) {
  KeyedMutex<std::string> mutex;
  const auto held = mutex.Lock("air-force-one");
  EXPECT_FALSE(OnOtherThread([&] { return mutex.TryLock(std::string("air-force-one")).has_value(); }));
  EXPECT_TRUE(OnOtherThread([&] { return mutex.TryLock("air-force-two").has_value(); }));
}

// Every key has the same hash: entries share a bucket, not a lock.
TEST(KeyedMutexTest, TryLock_KeysWithOneHash_DoNotWaitForEachOther) {
  struct OneHash {
    size_t operator()(int) const { return 42; }
  };
  KeyedMutex<int, OneHash> mutex;
  const auto held = mutex.Lock(1);
  EXPECT_TRUE(OnOtherThread([&] { return mutex.TryLock(2).has_value(); }));
  EXPECT_FALSE(OnOtherThread([&] { return mutex.TryLock(1).has_value(); }));
}

TEST(KeyedMutexDeathTest, Release_ByAnotherThread_AbortsWithName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        KeyedMutex<int> mutex({.name = "sku"});
        auto guard = mutex.Lock(1);
        std::thread([moved = std::move(guard)]() mutable { moved.Release(); }).join();
      },
      "KeyedMutex 'sku': unlock\\(\\) by a thread that does not hold it");
}

}  // namespace
}  // namespace stockade
