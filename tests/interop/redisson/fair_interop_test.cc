// The fair lock's queue, which both sides stand in.
#include <gtest/gtest.h>

#include <future>
#include <iterator>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "interop_test.h"
#include "locks/distributed/support/kinds_table.h"
#include "locks/holder.h"
#include "redis_lock_engine.h"
#include "redis_lock_keys.h"
#include "stockade/locks/lock_service.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::Holder;
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

TEST_P(FairInteropTest, BehindOursThatWereKilled_JavaEntersInTime_AlsoOnceTheQueueHasExpired) {
  for (const bool expires : {false, true}) {
    const std::string name = NewName();
    EXPECT_EQ(java_->Do("first", "lock " + name + " fair 8000"), "ok");
    {
      const auto killed = locks_internal::RedisLockEngine::Connect(servers_->url(), {}).value();
      for (int i = 0; i < 2; ++i) EXPECT_FALSE(Holder(*killed, name, LockKind::kFair).Queue().acquired);
    }  // No place was given up.
    AwaitQueue(name, 2);
    const std::vector<std::string> keys = {locks_internal::FairQueueKey(name), locks_internal::FairTimesKey(name)};
    for (const std::string& key : keys) EXPECT_GT(std::stoll(servers_->Call(name, {"PTTL", key}).text), 240'000) << key;
    BeginJava("java", name);
    AwaitQueue(name, 3);
    // As if the five minutes were over.
    if (expires) servers_->Call(name, {"DEL", keys[0], keys[1]});
    EXPECT_EQ(AwaitEnd("java"), "ok") << expires;
    EXPECT_EQ(Java("java", "unlock", name), "ok");
  }
}

TEST_P(FairInteropTest, HeldByJava_EachKindOfOurs_GetsWhatTheTableSays) {
  const std::map<LockKind, std::string> javas = {{LockKind::kReentrant, "lock"},
                                                 {LockKind::kFair, "fair"},
                                                 {LockKind::kRead, "read"},
                                                 {LockKind::kWrite, "write"}};
  int rows = 0;
  for (const testing::KindsRow& row : testing::KindsTable()) {
    if (!row.by.starts_with("Java")) continue;
    ++rows;
    const std::string name = NewName();
    const std::string lock = name + " " + javas.at(row.held);
    EXPECT_EQ(java_->Do("java", "lock " + lock + " -1"), "ok");
    const bool waited_for = row.by == "Java, and somebody waits";
    if (waited_for) {
      BeginJava("waiter", name);
      AwaitQueue(name, 1);
    }
    for (size_t i = 0; i < std::size(testing::kKindsInOrder); ++i) {
      const LockKind asked = testing::kKindsInOrder[i];
      const absl::Status answer =
          ours_->Acquire(name, {.kind = asked, .wait = absl::ZeroDuration(), .owner = LockOwner::New()}).status();
      EXPECT_EQ(answer.code(), row.answers[i]) << "held as " << LockKindName(row.held) << " by " << row.by
                                               << ", asked as " << LockKindName(asked) << ": " << answer;
    }
    EXPECT_EQ(java_->Do("java", "unlock " + lock), "ok");
    if (waited_for) {
      EXPECT_EQ(AwaitEnd("waiter"), "ok");
      EXPECT_EQ(Java("waiter", "unlock", name), "ok");
    }
  }
  EXPECT_EQ(rows, 5);
}

INSTANTIATE_TEST_SUITE_P(Redisson, FairInteropTest, ::testing::ValuesIn(InteropSetups()), testing::RedisSetupName);

}  // namespace
}  // namespace stockade
