#include "stockade/locks/keyed_shared_mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "lock_test_util.h"

namespace stockade {
namespace {

using testing::Await;
using testing::OnOtherThread;

class KeyedSharedMutexTest : public ::testing::TestWithParam<bool> {
 protected:
  bool OtherReads(int key) {
    return OnOtherThread([&] { return mutex_.TryLockShared(key).has_value(); });
  }
  bool OtherWrites(int key) {
    return OnOtherThread([&] { return mutex_.TryLock(key).has_value(); });
  }

  KeyedSharedMutex<int> mutex_{{.fifo = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Options, KeyedSharedMutexTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

TEST_P(KeyedSharedMutexTest, LockShared_OfOneKey_LetsReadersInAndWritersOfOtherKeys) {
  const auto read = mutex_.LockShared(1);
  EXPECT_TRUE(OtherReads(1));
  EXPECT_FALSE(OtherWrites(1));
  EXPECT_TRUE(OtherWrites(2));
}

TEST_P(KeyedSharedMutexTest, LockShared_NestedWhileAWriterWaits_Succeeds) {
  auto outer = mutex_.LockShared(1);
  std::thread writer([&] { (void)mutex_.Lock(1).holds(); });
  Await([&] { return mutex_.waiters(1) == 1; });
  auto inner = mutex_.LockShared(1);
  outer.Release();
  inner.Release();
  writer.join();
  EXPECT_EQ(mutex_.size(), 0u);
}

TEST_P(KeyedSharedMutexTest, LockAndLockShared_UnderOnesOwnWrite_ReleasedInAnyOrder) {
  auto write = mutex_.Lock(1);
  auto read = mutex_.LockShared(1);
  auto again = mutex_.Lock(1);
  write.Release();
  EXPECT_FALSE(OtherReads(1));
  again.Release();
  EXPECT_TRUE(OtherReads(1));
  EXPECT_FALSE(OtherWrites(1));
  read.Release();
  EXPECT_TRUE(OtherWrites(1));
}

TEST_P(KeyedSharedMutexTest, TryLock_WhileOnlyReading_IsEmptyAtOnce) {
  const auto read = mutex_.LockShared(1);
  EXPECT_FALSE(mutex_.TryLock(1).has_value());
  EXPECT_FALSE(mutex_.TryLockFor(1, absl::InfiniteDuration()).has_value());
}

TEST_P(KeyedSharedMutexTest, TryLockSharedFor_HeldByAWriter_IsEmptyAfterItsTime) {
  const auto write = mutex_.Lock(1);
  OnOtherThread([&] {
    const auto began = std::chrono::steady_clock::now();
    EXPECT_FALSE(mutex_.TryLockSharedFor(1, absl::Milliseconds(20)).has_value());
    EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(20));
    return 0;
  });
}

TEST_P(KeyedSharedMutexTest, LockAllShared_TwoThreads_HoldTheSameKeysAtOnce) {
  const auto held = mutex_.LockAllShared({2, 1, 2});
  EXPECT_EQ(held.size(), 2u);
  EXPECT_EQ(OnOtherThread([&] { return mutex_.LockAllShared({1, 2}).size(); }), 2u);
  EXPECT_FALSE(OtherWrites(2));
}

TEST(KeyedSharedMutexDeathTest, Lock_WhileOnlyReadingThatKey_AbortsWithName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        KeyedSharedMutex<int> mutex({.name = "sku"});
        const auto read = mutex.LockShared(1);
        (void)mutex.Lock(1).holds();
      },
      "KeyedSharedMutex 'sku': lock\\(\\) by a thread that holds it for reading");
}

}  // namespace
}  // namespace stockade
