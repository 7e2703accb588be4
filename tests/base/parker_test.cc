#include "stockade/base/parker.h"

#include <gtest/gtest.h>

#include <thread>

#include "stockade/base/manual_clock.h"

namespace stockade::base_internal {
namespace {

constexpr int kRounds = 5'000;

TEST(ParkerTest, UnparkBeforePark_IsNotLost) {
  ManualClock manual;
  for (Clock* const clock : {Clock::System(), static_cast<Clock*>(&manual)}) {
    Parker parker(*clock);
    parker.Unpark();
    EXPECT_TRUE(parker.Park(Instant::InfiniteFuture()));
  }
}

TEST(ParkerTest, ManyUnparks_AreOnePermit) {
  ManualClock manual;
  for (Clock* const clock : {Clock::System(), static_cast<Clock*>(&manual)}) {
    Parker parker(*clock);
    parker.Unpark();
    parker.Unpark();
    EXPECT_TRUE(parker.Park(clock->Now()));
    EXPECT_FALSE(parker.Park(clock->Now()));
  }
}

TEST(ParkerTest, DeadlineComes_OnTheSystemsClock_EndsNoEarlier) {
  Clock* const clock = Clock::System();
  Parker parker(*clock);
  const Instant until = clock->Now() + absl::Milliseconds(5);
  int early = 0;
  while (clock->Now() < until) {
    EXPECT_FALSE(parker.Park(until));
    ++early;
  }
  EXPECT_LT(early, 100);  // It sleeps, and does not spin.
}

TEST(ParkerTest, FarDeadlines_DoNotOverflow) {
  Parker parker(*Clock::System());
  std::thread waker([&] { parker.Unpark(); });
  while (!parker.Park(Clock::System()->Now() + absl::Hours(24 * 365 * 200))) {
  }
  waker.join();
  parker.Unpark();
  EXPECT_TRUE(parker.Park(Instant::InfinitePast()));
  EXPECT_FALSE(parker.Park(Instant::InfinitePast()));
}

TEST(ParkerTest, DeadlineComes_OnAnotherClock_Ends) {
  ManualClock clock;
  Parker parker(clock);
  const Instant until = clock.Now() + absl::Seconds(1);
  std::thread mover([&] {
    clock.AwaitWaiters(1);
    clock.Advance(absl::Seconds(1));
  });
  while (clock.Now() < until) EXPECT_FALSE(parker.Park(until));
  mover.join();
}

// Two threads hand each other a plain number: a lost wake-up hangs, a missing happens-before is a race for TSan.
TEST(ParkerTest, Stress_NoWakeUpIsLost_AndWhatCameBeforeItIsSeen) {
  ManualClock manual;
  for (Clock* const clock : {Clock::System(), static_cast<Clock*>(&manual)}) {
    Parker ping(*clock);
    Parker pong(*clock);
    const auto await = [](Parker& parker) {
      while (!parker.Park(Instant::InfiniteFuture())) {
      }
    };
    int number = 0;
    std::thread other([&] {
      for (int i = 0; i < kRounds; ++i) {
        await(ping);
        ++number;
        pong.Unpark();
      }
    });
    for (int i = 0; i < kRounds; ++i) {
      ++number;
      ping.Unpark();
      await(pong);
      ASSERT_EQ(number, 2 * (i + 1));
    }
    other.join();
  }
}

}  // namespace
}  // namespace stockade::base_internal
