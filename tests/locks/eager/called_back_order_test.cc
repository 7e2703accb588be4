#include <gtest/gtest.h>

#include <atomic>
#include <shared_mutex>
#include <thread>

#include "lock_test_util.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade {
namespace {

using testing::Await;

// Which thread goes next; relaxed, so that nothing but the lock orders what the threads do.
class Step {
 public:
  void AwaitIt(int step) {
    Await([&] { return now_.load(std::memory_order_relaxed) >= step; });
  }
  void Reach(int step) { now_.store(step, std::memory_order_relaxed); }

 private:
  std::atomic<int> now_{0};
};

// So that no later step of a thread is its first use of a lock, which orders it after others.
void UseSomeLock() {
  ReentrantSharedMutex some;
  some.lock();
  some.unlock();
}

// What the favoured thread wrote is seen by the reader that called it back, and by one that came in after that reader
// by a step of the word: the order has to be handed on. ThreadSanitizer is the judge.
TEST(CalledBackOrderTest, FavouredWriterIsCalledBackByAReader_AnotherReaderSeesItsWrites) {
  ReentrantSharedMutex mutex;
  int data = 0;
  Step step;
  std::thread second([&] {
    UseSomeLock();
    step.AwaitIt(2);
    {
      std::shared_lock lock(mutex);
      EXPECT_EQ(data, 100);
    }
    step.Reach(3);
  });
  std::thread first([&] {
    UseSomeLock();
    step.AwaitIt(1);
    std::shared_lock lock(mutex);
    EXPECT_EQ(data, 100);
    step.Reach(2);
    step.AwaitIt(3);
  });
  std::thread favoured([&] {
    for (int i = 0; i < 100; ++i) {
      mutex.lock();
      ++data;
      mutex.unlock();
    }
    step.Reach(1);
    step.AwaitIt(3);
  });
  favoured.join();
  first.join();
  second.join();
}

}  // namespace
}  // namespace stockade
