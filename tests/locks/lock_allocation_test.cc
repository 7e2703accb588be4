#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <shared_mutex>
#include <thread>

#include "lock_test_util.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace {

constinit thread_local int64_t allocations = 0;  // Of this thread.

}  // namespace

// Not inlined: g++ 12 would think that what new gave is freed by the wrong one.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace stockade {
namespace {

using testing::AwaitWaiters;

// A lock that allocates could not guard an allocator; and what throws on the way in leaves a lock half taken.
TEST(LockAllocationTest, EveryWayIn_AfterTheThreadsFirstUse_AllocatesNothing) {
  ReentrantSharedMutex mutex;
  mutex.lock();
  mutex.unlock();
  const int64_t before = allocations;
  // Favoured, re-entered, given up to oneself.
  for (uint64_t i = 0; i < 2 * locks_internal::lock_word::kFavourAfterWrites; ++i) {
    mutex.lock();
    mutex.unlock();
  }
  mutex.lock_shared();
  mutex.lock_shared();
  mutex.unlock_shared();
  EXPECT_TRUE(mutex.try_upgrade());
  mutex.downgrade();
  mutex.unlock_shared();
  // Biased, and called back.
  for (uint64_t i = 0; i < 2 * locks_internal::lock_word::kBiasAfterReads; ++i) {
    mutex.lock_shared();
    mutex.unlock_shared();
  }
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
  EXPECT_EQ(allocations, before);
}

TEST(LockAllocationTest, WaitForAPublishedReader_AllocatesNothing) {
  ReentrantSharedMutex mutex;
  for (uint64_t i = 0; i < 2 * locks_internal::lock_word::kBiasAfterReads; ++i) {
    mutex.lock_shared();
    mutex.unlock_shared();
  }
  mutex.lock_shared();
  std::thread writer([&] {
    ReentrantSharedMutex some;
    some.lock();
    some.unlock();
    const int64_t before = allocations;
    mutex.lock();
    mutex.unlock();
    EXPECT_EQ(allocations, before);
  });
  AwaitWaiters(mutex, 1);
  mutex.unlock_shared();
  writer.join();
}

}  // namespace
}  // namespace stockade
