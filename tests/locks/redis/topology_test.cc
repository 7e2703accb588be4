// What differs behind Sentinels and on a cluster: the slots of keys and channels, and where replicas are asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "locks/redis/redis_engine_fixture.h"
#include "redis/support/ear.h"
#include "redis/support/redis_deployment.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Holder;
using testing::RedisCluster;
using testing::RedisSetup;

class RedisTopologyTest : public ::testing::TestWithParam<RedisSetup> {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    if (GetParam() >= RedisSetup::kTlsStandalone) {
      STOCKADE_NEEDS_OPENSSL();
    }
    servers_ = std::make_unique<testing::RedisDeployment>(GetParam());
    engine_ = testing::EngineOn(servers_->url());
    ASSERT_NE(engine_, nullptr);
  }

  std::unique_ptr<testing::RedisDeployment> servers_;
  std::unique_ptr<locks_internal::RedisLockEngine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Redis, RedisTopologyTest, ::testing::ValuesIn(testing::RedisSetups()),
                         testing::RedisSetupName);
INSTANTIATE_TEST_SUITE_P(RedisTls, RedisTopologyTest, ::testing::ValuesIn(testing::RedisTlsSetups()),
                         testing::RedisSetupName);

TEST_P(RedisTopologyTest, EveryStepOfEveryKind_OnEveryNode_IsRunAndWakesWhoWaits) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    for (const std::string& tag : {std::string("foo"), std::string("bar"), std::string("{a}b")}) {
      const std::string name = tag + std::string(LockKindName(kind));
      SCOPED_TRACE(name);
      // If the holder is a reader, the waiter is a writer.
      Holder holder(*engine_, name, kind);
      Holder waiter(*engine_, name, kind == LockKind::kRead ? LockKind::kWrite : kind);
      ASSERT_TRUE(holder.Queue().acquired);
      EXPECT_EQ(holder.Queue().hold_count, 2);
      const LockTry refused = waiter.Queue();
      EXPECT_TRUE(refused.status.ok()) << refused.status;
      EXPECT_FALSE(refused.acquired);
      testing::Ear ear;
      const std::unique_ptr<LockWatch> watch = waiter.Hear(HintTo(ear));
      ASSERT_TRUE(ear.AwaitMessages(1));
      EXPECT_TRUE(holder.Renew(absl::Seconds(60)).held);
      EXPECT_EQ(holder.Inspect().owner_holds, 2);
      EXPECT_TRUE(holder.Release(1).held);
      EXPECT_TRUE(holder.Release(0).held);
      EXPECT_TRUE(ear.AwaitMessages(2));
      EXPECT_TRUE(waiter.Queue().acquired);
      EXPECT_TRUE(engine_->ForceRelease(name, absl::Seconds(20)).value());
      EXPECT_FALSE(waiter.GiveUp().held);
    }
  }
}

TEST_P(RedisTopologyTest, Renew_ManyOfAllNodes_AllAreRenewed) {
  std::vector<LockTry> tries;
  std::vector<LockRenewal> renewals;
  for (int i = 0; i < 250; ++i) {
    // 120 of them in one slot.
    const HoldKey hold = {.name = (i < 120 ? "{one}" : "stock") + std::to_string(i), .owner = LockOwner::New().id()};
    tries.push_back({.hold = hold, .lease = absl::Seconds(30), .sequence = 1, .timeout = absl::Seconds(20)});
    renewals.push_back({.hold = hold, .lease = absl::Seconds(100)});
  }
  engine_->TryMany(tries);
  EXPECT_TRUE(std::all_of(tries.begin(), tries.end(), [](const LockTry& step) { return step.acquired; }));
  engine_->RenewMany(renewals, absl::Seconds(20));
  for (const LockRenewal& renewal : renewals) {
    EXPECT_TRUE(renewal.status.ok()) << renewal.status;
    EXPECT_TRUE(renewal.held);
    EXPECT_GT(std::stoll(servers_->Call(renewal.hold.name, {"PTTL", renewal.hold.name}).text), 60'000);
  }
}

TEST_P(RedisTopologyTest, Id_NamesTheServersInOrder) {
  if (servers_->server() != nullptr) {
    EXPECT_THAT(std::string(engine_->id()), ::testing::MatchesRegex("redis 127.0.0.1:[0-9]+/0"));
  } else if (servers_->sentinels() != nullptr) {
    EXPECT_THAT(std::string(engine_->id()), ::testing::MatchesRegex("redis [a-z]+@(127.0.0.1:[0-9]+,?){3}/0"));
  } else {
    EXPECT_THAT(std::string(engine_->id()), ::testing::MatchesRegex("redis (127.0.0.1:[0-9]+,?){3}/0"));
  }
}

TEST(RedisClusterLockTest, MinReplicas_EachLocksOwnNodeIsAsked) {
  STOCKADE_NEEDS_REDIS();
  RedisCluster cluster({.replicas = true});
  cluster.AwaitSettled();
  const auto engine = testing::EngineOn(cluster.url(), {.min_replicas = 1, .replica_timeout = absl::Seconds(2)});
  ASSERT_NE(engine, nullptr);
  std::vector<std::string> names = {"foo", "bar", "a"};
  cluster.node(3 + cluster.OwnerOf(cluster.SlotOf("bar"))).Pause();
  for (const std::string& name : names) {
    Holder holder(*engine, name);
    const LockTry step = holder.Try();
    const bool same_node = cluster.OwnerOf(cluster.SlotOf(name)) == cluster.OwnerOf(cluster.SlotOf("bar"));
    EXPECT_EQ(step.acquired, !same_node) << name << ": " << step.status;
  }
}

}  // namespace
}  // namespace stockade
