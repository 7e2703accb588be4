#include "ranked_mutex.h"

#include <gtest/gtest.h>

#include <mutex>

#include "stockade/locks/reentrant_mutex.h"

namespace stockade::inventory_internal {
namespace {

using Mutex = Ranked<ReentrantMutex>;

TEST(RankedMutexTest, InOrder_IsLet) {
  Mutex buyers(LockRank::kBuyers, 3, "buyers");
  Mutex first(LockRank::kOrders, 0, "first");
  Mutex second(LockRank::kOrders, 1, "second");
  Mutex item(LockRank::kItem, 0, "item");
  for (int i = 0; i < 2; ++i) {
    const std::lock_guard a(buyers);
    const std::lock_guard b(first);
    std::unique_lock c(second);
    c.unlock();
    const std::lock_guard d(item);
  }
  // What was let go is out of the order.
  second.lock();
  second.unlock();
  first.lock();
  first.unlock();
}

#ifndef NDEBUG
// Made within the statement: it runs in a forked child, where locks of the parent are of no use.
TEST(RankedMutexDeathTest, OutOfOrder_Aborts) {
  EXPECT_DEATH(
      {
        Mutex first(LockRank::kOrders, 4, "first");
        Mutex item(LockRank::kItem, 0, "item");
        const std::lock_guard a(item);
        const std::lock_guard b(first);
      },
      "lock orders 4 is taken after lock item 0");
  EXPECT_DEATH(
      {
        Mutex first(LockRank::kOrders, 4, "first");
        Mutex second(LockRank::kOrders, 5, "second");
        const std::lock_guard a(second);
        const std::lock_guard b(first);
      },
      "lock orders 4 is taken after lock orders 5");
}
#endif

}  // namespace
}  // namespace stockade::inventory_internal
