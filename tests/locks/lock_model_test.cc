// Random operations, seeded, one at a time: a reference model knows every answer. STOCKADE_TEST_SEED replays a run.
#include "lock_model.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Holds;
using testing::kModelThreads;
using testing::Op;
using testing::Scaled;
using testing::Seed;

// Threads that use one lock by turns: the model of all holds decides the result of each operation.
template <typename Kind>
class LockModelTest : public ::testing::Test {
 protected:
  using Locks = typename Kind::Locks;
  using Hand = typename Locks::Hand;

  bool Expected(int self, Op op) const {
    bool others_read = false;
    bool others_write = false;
    for (int t = 0; t < kModelThreads; ++t) {
      if (t == self) continue;
      others_write |= model_[t].writes > 0;
      others_read |= model_[t].writes == 0 && model_[t].reads > 0;
    }
    const Holds& mine = model_[self];
    switch (op) {
      case Op::kTryLock:
      case Op::kTryLockFor: return mine.writes > 0 || (mine.reads == 0 && !others_read && !others_write);
      case Op::kTryLockShared:
      case Op::kTryLockSharedFor: return !others_write;
      case Op::kTryUpgrade: return mine.writes > 0 || !others_read;
      default: return true;
    }
  }

  void Step(int self, Hand& hand, Op op) {
    if (!IsAllowed(op, model_[self], false)) return;
    const bool answer = hand.Apply(op);
    EXPECT_EQ(answer, Expected(self, op)) << "step " << step_ << " op " << static_cast<int>(op) << " seed " << Seed();
    if (answer) model_[self] = After(op, model_[self]);
    if (const std::optional<Holds> counted = hand.Counted()) {
      EXPECT_EQ(counted->writes, model_[self].writes);
      EXPECT_EQ(counted->reads, model_[self].reads);
    }
    published_ += hand.IsPublished() ? 1 : 0;
    ++step_;
  }

  // A run of holds that nobody interrupts, after which the lock expects it to go on; where the thread can have one.
  void Run(int self, Hand& hand, bool reads) {
    if (reads && Locks::kOps == 4) return;
    const Op in = reads ? Op::kTryLockShared : Op::kTryLock;
    if (!model_[self].none() || !Expected(self, in)) return;
    for (int i = reads ? testing::kManyReads : testing::kManyWrites; i > 0; --i) {
      ASSERT_TRUE(hand.Apply(in));
      hand.Apply(reads ? Op::kUnlockShared : Op::kUnlock);
    }
  }

  // Many operations a turn: to hand it on costs more than they do.
  void Turn(int self, Hand& hand) {
    if (random_() % 4 == 0) Run(self, hand, random_() % 2 == 0);
    for (int i = 0; i < 64; ++i) Step(self, hand, static_cast<Op>(random_() % Locks::kOps));
    // Now and then all is let go, so that runs are possible.
    if (random_() % 4 != 0) LetGo(self, hand);
  }
  void LetGo(int self, Hand& hand) {
    while (model_[self].writes > 0) Step(self, hand, Op::kUnlock);
    while (model_[self].reads > 0) Step(self, hand, Op::kUnlockShared);
  }

  void RunThread(int self) {
    Hand hand(locks_, 0);
    for (;;) {
      const int now = turn_;
      if (now >= kModelThreads) break;
      if (now != self) {
        turn_.wait(now);
        continue;
      }
      Turn(self, hand);
      turn_ = step_ >= steps_ ? kModelThreads : static_cast<int>(random_() % kModelThreads);
      turn_.notify_all();
    }
    // They release by turns, too, because a release changes the results of the others' calls.
    for (int now = turn_; now != kModelThreads + self; now = turn_) turn_.wait(now);
    LetGo(self, hand);
    ++turn_;
    turn_.notify_all();
  }

  Locks locks_{Kind::kFifo};
  std::atomic<int> turn_ = 0;  // Whose; from kModelThreads on: who is the next to end. Hands over all that follows.
  std::array<Holds, kModelThreads> model_{};
  const int64_t steps_ = Scaled(40'000, 1'000'000);
  int64_t step_ = 0;
  int64_t published_ = 0;
  std::mt19937_64 random_{Seed()};
};
TYPED_TEST_SUITE(LockModelTest, testing::EveryKind, testing::KindName);

TYPED_TEST(LockModelTest, OneOperationAtATime_EveryAnswerIsTheModels) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kModelThreads; ++t) threads.emplace_back([&, t] { this->RunThread(t); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(this->locks_.waiters(0), 0u);
  if (testing::SomePublish<typename TypeParam::Locks>()) {
    EXPECT_GT(this->published_, 0);
  }
}

}  // namespace
}  // namespace stockade
