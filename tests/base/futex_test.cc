#include "stockade/base/futex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/scale.h"

namespace stockade::base_internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Scaled;

constexpr steady_clock::time_point kNever = steady_clock::time_point::max();

TEST(FutexTest, Wait_TheWordIsAnotherValue_IsTrueAtOnce) {
  const std::atomic<uint32_t> word{1};
  EXPECT_TRUE(FutexWait(word, 0, kNever));
}

TEST(FutexTest, Wait_TheDeadlineHasPassed_IsFalse) {
  const std::atomic<uint32_t> word{0};
  EXPECT_FALSE(FutexWait(word, 0, steady_clock::now() - milliseconds(1)));
  EXPECT_FALSE(FutexWait(word, 0, steady_clock::time_point{}));
  EXPECT_FALSE(FutexWait(word, 0, steady_clock::time_point::min()));
}

TEST(FutexTest, Wait_NobodyWakes_IsFalseNoEarlierThanItsDeadlineAndNotMuchLater) {
  const std::atomic<uint32_t> word{0};
  const auto deadline = steady_clock::now() + milliseconds(20);
  while (FutexWait(word, 0, deadline)) {
  }
  EXPECT_GE(steady_clock::now(), deadline);
  EXPECT_LT(steady_clock::now(), deadline + milliseconds(30'000));
}

// The word stays as it is, so only the wake-up can have ended the wait.
TEST(FutexTest, Wake_WhileOneSleeps_EndsItsWait) {
  const std::atomic<uint32_t> word{0};
  std::atomic<bool> woken = false;
  std::thread sleeper([&] {
    EXPECT_TRUE(FutexWait(word, 0, kNever));
    woken = true;
  });
  while (!woken) FutexWake(word, 1);
  sleeper.join();
}

TEST(FutexTest, Wake_All_EndsEveryWait) {
  std::atomic<uint32_t> word{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 8; ++i) {
    sleepers.emplace_back([&] {
      while (word.load() == 0) EXPECT_TRUE(FutexWait(word, 0, kNever));
    });
  }
  word = 1;
  FutexWake(word, INT_MAX);
  for (std::thread& sleeper : sleepers) sleeper.join();
}

// The word stays as it is, so only a wake-up with the sleeper's bit can have ended its wait.
TEST(FutexTest, Wake_OneBit_EndsTheWaitsWithThatBitOnly) {
  const std::atomic<uint32_t> word{0};
  std::atomic<bool> first_woken = false;
  std::atomic<bool> second_woken = false;
  std::thread first([&] {
    EXPECT_TRUE(FutexWait(word, 0, kNever, 0b01));
    first_woken = true;
  });
  std::thread second([&] {
    EXPECT_TRUE(FutexWait(word, 0, kNever, 0b10));
    second_woken = true;
  });
  while (!first_woken) FutexWake(word, INT_MAX, 0b101);
  EXPECT_FALSE(second_woken);
  while (!second_woken) FutexWake(word, INT_MAX, 0b110);
  first.join();
  second.join();
}

// Each sleeps until the other has stored and woken it; one wake-up lost, and both sleep for ever.
TEST(FutexTest, WaitAndWake_TwoThreadsTakeTurns_NoWakeUpIsLost) {
  std::atomic<uint32_t> word{0};
  const auto turns = static_cast<uint32_t>(Scaled(20'000, 500'000));
  const auto take_every_second_turn = [&](uint32_t first) {
    for (uint32_t turn = first; turn < turns; turn += 2) {
      for (uint32_t now = 0; (now = word.load()) != turn;) FutexWait(word, now, kNever);
      word.store(turn + 1);
      FutexWake(word, 1);
    }
  };
  std::thread odd([&] { take_every_second_turn(1); });
  take_every_second_turn(0);
  odd.join();
  EXPECT_EQ(word.load(), turns);
}

}  // namespace
}  // namespace stockade::base_internal
