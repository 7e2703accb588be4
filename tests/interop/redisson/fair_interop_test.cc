// The fair lock's queue, which both sides stand in.
#include <gtest/gtest.h>

#include <future>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "interop_test.h"
#include "stockade/locks/lock_service.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::InteropSetups;
using testing::Scaled;

class FairInteropTest : public testing::SetupInteropTest {
 protected:
  std::string Java(const std::string& owner, const std::string& command, const std::string& name) {
    return java_->Do(owner, command + " " + name + " fair");
  }
  void BeginJava(const std::string& owner, const std::string& name) {
    java_->Begin(owner, "lock " + name + " fair -1");
  }
  void AwaitQueue(const std::string& name, int64_t length) { AwaitWaiters(name, LockKind::kFair, length); }
};

TEST_P(FairInteropTest, QueuedInTurn_EnterInTheOrderInWhichTheyCame) {
  for (int64_t round = 0; round < Scaled(3, 20); ++round) {
    const std::string name = NewName();
    // The first is Java's and ours in turn.
    LockLease first;
    if (round % 2 == 0) {
      EXPECT_EQ(java_->Do("first", "lock " + name + " fair -1"), "ok");
    } else {
      first = ours_->Acquire(name, {.kind = LockKind::kFair}).value();
    }
    constexpr int kPairs = 3;
    std::vector<Pending> ours;
    for (int i = 0; i < kPairs; ++i) {
      ours.push_back(Begin(name, LockKind::kFair));
      AwaitQueue(name, 2 * i + 1);
      BeginJava("java" + std::to_string(i), name);
      AwaitQueue(name, 2 * i + 2);
    }
    if (round % 2 == 0) {
      EXPECT_EQ(Java("first", "unlock", name), "ok");
    } else {
      EXPECT_TRUE(first.Release().ok());
    }
    for (int i = 0; i < kPairs; ++i) {
      // Each holds it until it has been seen to be the next: nobody else can be in.
      LockLease held = Entered(ours[i]);
      AwaitQueue(name, 2 * (kPairs - i) - 1);
      EXPECT_TRUE(held.Release().ok());
      const std::string owner = "java" + std::to_string(i);
      EXPECT_EQ(AwaitEnd(owner), "ok");
      AwaitQueue(name, 2 * (kPairs - i) - 2);
      EXPECT_EQ(Java(owner, "unlock", name), "ok");
    }
  }
}

TEST_P(FairInteropTest, OneOfEachGivesUp_ThoseBehindEnterInTheirOrder) {
  const std::string name = NewName();
  EXPECT_EQ(java_->Do("first", "lock " + name + " fair -1"), "ok");
  std::stop_source stop;
  Pending stopped = std::async(std::launch::async, [&] {
    return ours_->Acquire(name, {.kind = LockKind::kFair, .owner = LockOwner::New(), .stop = stop.get_token()});
  });
  AwaitQueue(name, 1);
  java_->Begin("impatient", "trylock " + name + " fair 1000 -1");
  Pending third = Begin(name, LockKind::kFair);
  EXPECT_EQ(java_->End("impatient"), "false");
  AwaitQueue(name, 2);
  BeginJava("fourth", name);
  AwaitQueue(name, 3);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(stopped.get().status()));
  AwaitQueue(name, 2);
  EXPECT_FALSE(Ended(third));

  EXPECT_EQ(Java("first", "unlock", name), "ok");
  LockLease held = Entered(third);
  EXPECT_FALSE(java_->Ended("fourth"));
  EXPECT_TRUE(held.Release().ok());
  EXPECT_EQ(AwaitEnd("fourth"), "ok");
  EXPECT_EQ(Java("fourth", "unlock", name), "ok");
}

INSTANTIATE_TEST_SUITE_P(Redisson, FairInteropTest, ::testing::ValuesIn(InteropSetups()), testing::RedisSetupName);

}  // namespace
}  // namespace stockade
