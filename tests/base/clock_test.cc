#include "stockade/base/clock.h"

#include <gtest/gtest.h>

#include <thread>

#include "stockade/base/manual_clock.h"

namespace stockade {
namespace {

TEST(InstantTest, Plus_InfiniteOrOverflowingSpan_Saturates) {
  const Instant at = Instant::FromNanoseconds(5);
  EXPECT_EQ(at + absl::InfiniteDuration(), Instant::InfiniteFuture());
  EXPECT_EQ(at - absl::InfiniteDuration(), Instant::InfinitePast());
  EXPECT_EQ(Instant::FromNanoseconds(INT64_MAX - 1) + absl::Nanoseconds(2), Instant::InfiniteFuture());
  EXPECT_EQ(Instant::InfiniteFuture() - absl::Hours(1), Instant::InfiniteFuture());
  EXPECT_EQ((at + absl::Seconds(3)).nanoseconds(), 3'000'000'005);
}

TEST(InstantTest, Minus_InfiniteEnd_IsInfiniteSpan) {
  const Instant at = Instant::FromNanoseconds(5);
  EXPECT_EQ(Instant::InfiniteFuture() - at, absl::InfiniteDuration());
  EXPECT_EQ(at - Instant::InfiniteFuture(), -absl::InfiniteDuration());
  EXPECT_EQ(Instant::InfiniteFuture() - Instant::InfiniteFuture(), absl::ZeroDuration());
  EXPECT_EQ(Instant::FromNanoseconds(9) - at, absl::Nanoseconds(4));
}

TEST(SystemClockTest, CoarseNow_InOneThread_NeverRunsBackAndStaysNearNow) {
  Clock* const clock = Clock::System();
  Instant last = Instant::InfinitePast();
  for (int i = 0; i < 100'000; ++i) {
    const Instant coarse = clock->CoarseNow();
    ASSERT_GE(coarse, last);
    ASSERT_LE(coarse, clock->Now());
    last = coarse;
  }
}

TEST(SystemClockTest, WaitUntil_DeadlinePassed_ReturnsFalseAtOnce) {
  std::mutex mutex;
  std::condition_variable cv;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(Clock::System()->WaitUntil(cv, lock, Clock::System()->Now() - absl::Seconds(1)));
  EXPECT_TRUE(lock.owns_lock());
}

TEST(SystemClockTest, WaitUntil_DeadlineComes_ReturnsNoEarlier) {
  std::mutex mutex;
  std::condition_variable cv;
  std::unique_lock lock(mutex);
  Clock* const clock = Clock::System();
  const Instant deadline = clock->Now() + absl::Milliseconds(5);
  while (clock->WaitUntil(cv, lock, deadline)) {
  }
  EXPECT_GE(clock->Now(), deadline);
}

TEST(ManualClockTest, Advance_PastDeadline_WakesTheWaiterOnly) {
  ManualClock clock;
  std::mutex mutex;
  std::condition_variable cv;
  const Instant start = clock.Now();
  std::jthread early([&] {
    std::unique_lock lock(mutex);
    while (clock.WaitUntil(cv, lock, start + absl::Seconds(1))) {
    }
    EXPECT_EQ(clock.Now(), start + absl::Seconds(1));
  });
  bool release = false;
  std::jthread late([&] {
    std::unique_lock lock(mutex);
    while (!release) clock.WaitUntil(cv, lock, start + absl::Seconds(5));
    EXPECT_EQ(clock.Now(), start + absl::Seconds(1));
  });
  clock.AwaitWaiters(2);
  clock.Advance(absl::Seconds(1));
  early.join();
  {
    std::lock_guard lock(mutex);
    release = true;
  }
  cv.notify_all();
}

TEST(ManualClockTest, Advance_WhileWaitersComeAndGo_LosesNoWakeUp) {
  ManualClock clock;
  std::atomic<int> running = 4;
  std::vector<std::jthread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        // Destroyed right after the wait: Advance() must be done with both.
        std::mutex mutex;
        std::condition_variable cv;
        std::unique_lock lock(mutex);
        const Instant deadline = clock.Now() + absl::Nanoseconds(1);
        while (clock.WaitUntil(cv, lock, deadline)) {
        }
      }
      --running;
    });
  }
  while (running > 0) clock.Advance(absl::Nanoseconds(1));
}

TEST(ManualClockTest, StepWallTime_Back_LeavesNowAlone) {
  ManualClock clock;
  const Instant now = clock.Now();
  const absl::Time wall = clock.WallNow();
  clock.StepWallTime(-absl::Hours(1));
  EXPECT_EQ(clock.Now(), now);
  EXPECT_EQ(clock.WallNow(), wall - absl::Hours(1));
}

TEST(ManualClockDeathTest, Advance_Backwards_Aborts) {
  EXPECT_DEATH(ManualClock().Advance(-absl::Seconds(1)), "Advance\\(-1s\\)");
}

}  // namespace
}  // namespace stockade
