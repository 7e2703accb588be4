// What keyed locks promise of one key's lock: that it waits its turn, and who may release what.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "hand_offs.h"
#include "lock_test_util.h"
#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/keyed_shared_mutex.h"

namespace stockade {
namespace {

using testing::Await;
using testing::AwaitWaiters;
using testing::OnOtherThread;

// One key of a keyed lock, with the interface of a lock. A thread's guard is kept by the thread.
template <typename Keyed>
class OneKey {
 public:
  explicit OneKey(bool fifo) : keyed_(LockOptions{.fifo = fifo}) {}

  void lock() { Guards().push_back(keyed_.Lock(1)); }
  void unlock() { Guards().pop_back(); }
  void lock_shared() { Guards().push_back(keyed_.LockShared(1)); }
  void unlock_shared() { Guards().pop_back(); }
  uint64_t waiters() const { return keyed_.waiters(1); }
  size_t size() const { return keyed_.size(); }

 private:
  static std::vector<typename Keyed::Guard>& Guards() {
    thread_local std::vector<typename Keyed::Guard> guards;
    return guards;
  }

  mutable Keyed keyed_;
};

template <typename Keyed, bool fifo>
struct WithFifo {
  using Type = Keyed;
  static constexpr bool kFifo = fifo;
};

template <typename Kind>
class KeyedContractTest : public ::testing::Test {
 protected:
  OneKey<typename Kind::Type> key_{Kind::kFifo};
};
using ContractKinds = ::testing::Types<WithFifo<KeyedMutex<int>, false>, WithFifo<KeyedMutex<int>, true>,
                                       WithFifo<KeyedSharedMutex<int>, false>, WithFifo<KeyedSharedMutex<int>, true>>;
TYPED_TEST_SUITE(KeyedContractTest, ContractKinds);

TYPED_TEST(KeyedContractTest, Lock_NestedWhileAnotherWaits_Succeeds) {
  auto& key = this->key_;
  key.lock();
  std::thread waiter([&] { std::lock_guard held(key); });
  AwaitWaiters(key, 1);
  key.lock();
  key.unlock();
  EXPECT_EQ(key.waiters(), 1u);
  key.unlock();
  waiter.join();
  EXPECT_EQ(key.size(), 0u);
}

TYPED_TEST(KeyedContractTest, HoldsInAnEndlessStream_AnotherThreadEntersWithin100HandOffs) {
  auto& key = this->key_;
  using Held = std::unique_lock<std::remove_reference_t<decltype(key)>>;
  EXPECT_LE((testing::HandOffsBeforeTheVictim<std::remove_reference_t<decltype(key)>, Held>(key)),
            testing::kMaxHandOffs);
  EXPECT_EQ(key.size(), 0u);
}

TYPED_TEST(KeyedContractTest, Lock_WithTheFifoOption_ThreadsEnterInTheOrderOfArrival) {
  auto& key = this->key_;
  std::vector<int> order;
  std::vector<std::thread> threads;
  key.lock();
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::lock_guard held(key);
      order.push_back(t);
    });
    AwaitWaiters(key, t + 1);
  }
  key.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order.size(), 6u);
  if (TypeParam::kFifo) {
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  }
}

class KeyedSharedContractTest : public ::testing::TestWithParam<bool> {
 protected:
  bool OtherReads() {
    return OnOtherThread([&] { return mutex_.TryLockShared(1).has_value(); });
  }
  bool OtherWrites() {
    return OnOtherThread([&] { return mutex_.TryLock(1).has_value(); });
  }

  KeyedSharedMutex<int> mutex_{{.fifo = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Options, KeyedSharedContractTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

TEST_P(KeyedSharedContractTest, LockShared_ReenteredManyTimes_WritersEnterAfterTheLastRelease) {
  std::vector<KeyedSharedMutex<int>::Guard> guards;
  for (int i = 0; i < 100; ++i) guards.push_back(mutex_.LockShared(1));
  guards.erase(guards.begin() + 1, guards.end());
  EXPECT_TRUE(OtherReads());
  EXPECT_FALSE(OtherWrites());
  guards.clear();
  EXPECT_TRUE(OtherWrites());
  EXPECT_EQ(mutex_.size(), 0u);
}

TEST_P(KeyedSharedContractTest, TryLockFor_ReadByAnother_IsEmptyAfterItsTimeAndNotMuchLater) {
  auto read = mutex_.LockShared(1);
  const auto took = OnOtherThread([&] {
    const auto began = std::chrono::steady_clock::now();
    EXPECT_FALSE(mutex_.TryLockFor(1, absl::Milliseconds(20)).has_value());
    return std::chrono::steady_clock::now() - began;
  });
  EXPECT_GE(took, std::chrono::milliseconds(20));
  EXPECT_LT(took, std::chrono::seconds(15));
  EXPECT_TRUE(OtherReads());
}

TEST_P(KeyedSharedContractTest, Release_OfTheWriteOverAReadWhileOthersWait_ReaderEntersAndWriterDoesNot) {
  auto write = mutex_.Lock(1);
  auto read = mutex_.LockShared(1);
  std::atomic<bool> written = false;
  std::thread reader([&] { EXPECT_TRUE(mutex_.LockShared(1).holds() && !written); });
  Await([&] { return mutex_.waiters(1) == 1; });
  std::thread writer([&] {
    const auto held = mutex_.Lock(1);
    written = true;
  });
  Await([&] { return mutex_.waiters(1) == 2; });
  write.Release();
  reader.join();  // It got in while this thread still reads.
  EXPECT_FALSE(written);
  read.Release();
  writer.join();
  EXPECT_EQ(mutex_.size(), 0u);
}

TEST_P(KeyedSharedContractTest, ReadersAndWritersInAnEndlessStream_AReaderEntersWithin100HandOffs) {
  using Key = OneKey<KeyedSharedMutex<int>>;
  Key key(GetParam());
  EXPECT_LE((testing::HandOffsBeforeTheVictim<Key, std::shared_lock<Key>>(key)), testing::kMaxHandOffs);
}

class KeyedSharedContractDeathTest : public ::testing::Test {
 protected:
  KeyedSharedContractDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void ReleaseElsewhere(KeyedSharedMutex<int>::Guard guard) {
    std::thread([moved = std::move(guard)]() mutable { moved.Release(); }).join();
  }

  KeyedSharedMutex<int> mutex_{{.name = "sku"}};
};

TEST_F(KeyedSharedContractDeathTest, Release_ByAnotherThread_AbortsWithName) {
  EXPECT_DEATH(ReleaseElsewhere(mutex_.Lock(1)), "KeyedSharedMutex 'sku': unlock\\(\\) by a thread that does not");
  EXPECT_DEATH(ReleaseElsewhere(mutex_.LockShared(1)), "KeyedSharedMutex 'sku': unlock_shared\\(\\) by a thread that");
}

TEST_F(KeyedSharedContractDeathTest, ThreadEnds_HoldingAKey_AbortsWithName) {
  KeyedSharedMutex<int>::Guard guard;
  EXPECT_DEATH(std::thread([&] { guard = mutex_.Lock(1); }).join(), "'sku': held by a thread that ends");
  EXPECT_DEATH(std::thread([&] { guard = mutex_.LockShared(1); }).join(), "'sku': held by a thread that ends");
}

}  // namespace
}  // namespace stockade
