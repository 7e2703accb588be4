#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>

#include "lock_test_util.h"
#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/forked_child.h"

namespace stockade {
namespace {

using testing::AwaitWaiters;
using testing::InForkedChild;
using testing::OtherGetsIn;

class LockLifetimeDeathTest : public ::testing::Test {
 protected:
  LockLifetimeDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LockLifetimeDeathTest, ThreadEnds_HoldingAMutex_AbortsWithName) {
  EXPECT_DEATH(
      {
        ReentrantMutex mutex({.name = "orders"});
        std::thread([&] { mutex.lock(); }).join();
      },
      "ReentrantMutex 'orders': held by a thread that ends");
}

TEST_F(LockLifetimeDeathTest, ThreadEnds_HoldingARead_AbortsWithName) {
  EXPECT_DEATH(
      {
        ReentrantSharedMutex mutex({.name = "catalogue"});
        std::thread([&] { mutex.lock_shared(); }).join();
      },
      "ReentrantSharedMutex 'catalogue': held by a thread that ends");
}

TEST_F(LockLifetimeDeathTest, ThreadEnds_HoldingAKey_AbortsWithName) {
  EXPECT_DEATH(
      {
        KeyedMutex<int> mutex({.name = "sku"});
        KeyedMutex<int>::Guard guard;
        std::thread([&] { guard = mutex.Lock(1); }).join();
      },
      "KeyedMutex 'sku': held by a thread that ends");
}

TEST_F(LockLifetimeDeathTest, Destroy_HeldByAnyMode_AbortsWithName) {
  EXPECT_DEATH(ReentrantMutex({.name = "orders"}).lock(), "ReentrantMutex 'orders': destroyed while it is held");
  EXPECT_DEATH(ReentrantSharedMutex({.name = "catalogue"}).lock_shared(), "'catalogue': destroyed while it is held");
}

TEST_F(LockLifetimeDeathTest, Destroy_WithAKeyHeld_AbortsWithName) {
  EXPECT_DEATH(
      {
        auto mutex = std::make_unique<KeyedSharedMutex<int>>(LockOptions{.name = "sku"});
        auto guard = mutex->LockShared(1);
        mutex.reset();
      },
      "KeyedSharedMutex 'sku': destroyed while a key is held");
}

// Uses a lock of its own in its destructor, as re-entry, reads and all.
struct UsesALockAtTheEnd {
  ReentrantSharedMutex mutex{{.name = "late"}};
  ~UsesALockAtTheEnd() {
    std::lock_guard write(mutex);
    std::lock_guard again(mutex);
    std::shared_lock read(mutex);
    if (mutex.write_hold_count() != 2 || mutex.read_hold_count() != 1) std::abort();
    std::fputs("late use done\n", stderr);
  }
};

TEST(LockLateUseTest, ThreadLocalDestructor_MadeBeforeTheThreadsFirstLock_Works) {
  ReentrantMutex mutex;
  std::thread([&] {
    thread_local UsesALockAtTheEnd late;
    (void)late;
    std::lock_guard lock(mutex);
  }).join();
  EXPECT_TRUE(OtherGetsIn(mutex));
}

TEST(LockLateUseTest, ThreadLocalDestructor_ReleasesWhatTheThreadHeld_IsNoHoldAtTheEnd) {
  ReentrantMutex mutex;
  std::thread([&] {
    thread_local std::unique_lock<ReentrantMutex> late;
    late = std::unique_lock(mutex);
  }).join();
  EXPECT_TRUE(OtherGetsIn(mutex));
}

// Its key was made after the locks' own, so its destructor runs later.
TEST(LockLateUseTest, PthreadKeyDestructor_ReleasesWhatTheThreadHeld_IsNoHoldAtTheEnd) {
  ReentrantMutex mutex;
  mutex.lock();
  mutex.unlock();
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void* held) { static_cast<ReentrantMutex*>(held)->unlock(); }), 0);
  std::thread([&] {
    mutex.lock();
    pthread_setspecific(key, &mutex);
  }).join();
  EXPECT_TRUE(OtherGetsIn(mutex));
  pthread_key_delete(key);
}

TEST(LockLateUseTest, PthreadKeyDestructor_IsTheThreadsFirstUseOfALock_Works) {
  static ReentrantMutex mutex;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { std::lock_guard lock(mutex); }), 0);
  std::thread([&] { pthread_setspecific(key, &mutex); }).join();
  EXPECT_TRUE(OtherGetsIn(mutex));
  pthread_key_delete(key);
}

TEST_F(LockLifetimeDeathTest, StaticDestructor_OfTheMainThread_MayUseLocks) {
  EXPECT_EXIT(
      {
        static UsesALockAtTheEnd late;
        late.mutex.lock();
        late.mutex.unlock();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "late use done");
}

TEST_F(LockLifetimeDeathTest, Fork_EveryCallInTheChild_AbortsWithName) {
  ReentrantMutex mutex({.name = "orders"});
  ReentrantSharedMutex shared({.name = "catalogue"});
  KeyedMutex<int> keyed({.name = "sku"});
  mutex.lock();
  const auto aborts = [](auto call) { return WTERMSIG(InForkedChild(call)) == SIGABRT; };
  EXPECT_TRUE(aborts([&] { mutex.lock(); }));
  EXPECT_TRUE(aborts([&] { (void)mutex.try_lock(); }));
  EXPECT_TRUE(aborts([&] { mutex.unlock(); }));
  EXPECT_TRUE(aborts([&] { (void)mutex.hold_count(); }));
  EXPECT_TRUE(aborts([&] { (void)mutex.waiters(); }));
  EXPECT_TRUE(aborts([&] { shared.lock_shared(); }));
  EXPECT_TRUE(aborts([&] { (void)shared.try_lock_shared(); }));
  EXPECT_TRUE(aborts([&] { shared.downgrade(); }));
  EXPECT_TRUE(aborts([&] { (void)keyed.Lock(1); }));
  EXPECT_TRUE(aborts([&] { (void)keyed.size(); }));
  mutex.unlock();
  EXPECT_DEATH(
      {
        ReentrantMutex own({.name = "orders"});
        if (WIFSIGNALED(InForkedChild([&] { own.lock(); }))) std::abort();
      },
      "ReentrantMutex 'orders' used in a forked child");
}

TEST(LockForkTest, Destructors_InTheChildWhileHeldAndWaitedFor_DoNothing) {
  std::optional<ReentrantMutex> mutex(LockOptions{.name = "orders"});
  std::optional<KeyedMutex<int>> keyed(LockOptions{.name = "sku"});
  std::optional<ReentrantMutexGuard> held(*mutex);
  std::optional<KeyedMutex<int>::Guard> key = keyed->Lock(1);
  std::thread waiter([&] { std::lock_guard lock(*mutex); });
  AwaitWaiters(*mutex, 1);
  const int status = InForkedChild([&] {
    held.reset();
    key.reset();
    mutex.reset();
    keyed.reset();
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  held.reset();
  waiter.join();
}

// The new lock stands where the old one stood, which the forking thread held.
TEST(LockForkTest, NewLock_InTheChildAtAnOldOnesAddress_StartsFree) {
  std::optional<ReentrantMutex> mutex(std::in_place);
  mutex->lock();
  const int status = InForkedChild([&] {
    mutex.reset();
    mutex.emplace();
    if (mutex->hold_count() != 0) _exit(1);
    mutex->lock();
    if (mutex->hold_count() != 1) _exit(2);
    mutex->unlock();
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  mutex->unlock();
}

}  // namespace
}  // namespace stockade
