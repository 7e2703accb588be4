// Locks that so many replicas must have before they are held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "locks/redis/redis_engine_fixture.h"
#include "stockade/locks/redis_lock_service.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using ::testing::HasSubstr;
using testing::Holder;
using testing::RedisServer;

class RedisReplicasTest : public testing::RedisEngineTest {
 protected:
  void SetUp() override {
    RedisEngineTest::SetUp();
    if (IsSkipped()) return;
    replica_ = std::make_unique<RedisServer>(testing::RedisServerOptions{.replica_of = server_->Host()});
    Await("the replica", [this] { return replica_->Info("master_link_status") == "up"; });
  }

  std::unique_ptr<RedisServer> replica_;
};

TEST_F(RedisReplicasTest, Try_TheReplicaHasIt_IsHeldThereToo) {
  // A replica says once a second what it has, and at once where it is asked.
  const auto engine = testing::EngineOn(server_->url(), {.min_replicas = 1, .replica_timeout = absl::Seconds(10)});
  Holder holder(*engine, "stock");
  const LockTry step = holder.Try();
  ASSERT_TRUE(step.status.ok()) << step.status;
  EXPECT_TRUE(step.acquired);
  EXPECT_TRUE(step.fencing_token.has_value());
  EXPECT_EQ(replica_->Call({"EXISTS", "stock"}), "1");
}

TEST_F(RedisReplicasTest, Try_TheReplicaStandsStill_IsUnavailableAndTakenBack) {
  const auto engine = testing::EngineOn(server_->url(), {.min_replicas = 1, .replica_timeout = absl::Milliseconds(50)});
  replica_->Pause();
  Holder holder(*engine, "stock");
  const LockTry step = holder.Try();
  EXPECT_EQ(step.status.code(), absl::StatusCode::kUnavailable) << step.status;
  EXPECT_THAT(std::string(step.status.message()), HasSubstr("lock 'stock': 0 of 1 replicas confirmed it within 50ms"));
  EXPECT_FALSE(step.acquired);
  EXPECT_FALSE(step.outcome_unknown);
  EXPECT_EQ(Number({"EXISTS", "stock"}), 0);
  EXPECT_EQ(holder.TryAgain().status.code(), absl::StatusCode::kAborted);
}

TEST_F(RedisReplicasTest, Reentry_TheReplicaStandsStill_LeavesTheOuterHold) {
  const auto engine =
      testing::EngineOn(server_->url(), {.min_replicas = 1, .replica_timeout = absl::Milliseconds(500)});
  Holder holder(*engine, "stock");
  Await("the outer hold", [&] { return holder.Try().acquired; });
  const int64_t outer = holder.Inspect().owner_holds;
  replica_->Pause();
  EXPECT_FALSE(holder.Try().acquired);
  EXPECT_EQ(holder.Inspect().owner_holds, outer);
}

TEST_F(RedisReplicasTest, TryMany_MoreReplicasThanThereAre_AllAreTakenBackButThoseHeldByOthersAreBusy) {
  Holder other(*engine_, "b");
  ASSERT_TRUE(other.Try().acquired);
  const auto engine = testing::EngineOn(server_->url(), {.min_replicas = 2, .replica_timeout = absl::Milliseconds(50)});
  std::vector<LockTry> tries;
  for (const char* const name : {"a", "b", "c"}) {
    tries.push_back({.hold = {.name = name, .owner = LockOwner::New().id()},
                     .lease = absl::Seconds(30),
                     .sequence = 1,
                     .timeout = absl::Seconds(20)});
  }
  engine->TryMany(tries);
  EXPECT_EQ(tries[0].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(tries[1].status.ok()) << tries[1].status;
  EXPECT_FALSE(tries[1].acquired);
  EXPECT_EQ(tries[2].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Number({"EXISTS", "a", "c"}), 0);
}

TEST_F(RedisReplicasTest, Acquire_TooFewReplicas_SaysSoAtOnce) {
  absl::StatusOr<std::unique_ptr<LockService>> locks = RedisLockService::Connect(
      server_->url(), {.redis = {.metrics = nullptr}, .min_replicas = 2, .replica_timeout = absl::Milliseconds(1)});
  ASSERT_TRUE(locks.ok()) << locks.status();
  for (const absl::Duration wait : {absl::ZeroDuration(), absl::Seconds(60)}) {
    const absl::Status refused = (*locks)->Acquire("stock", {.wait = wait}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(" of 2 replicas confirmed it within 1ms"));
  }
  EXPECT_THAT(Call({"INFO", "commandstats"}).text, HasSubstr("cmdstat_wait:calls=2,"));
  EXPECT_EQ(Number({"EXISTS", "stock"}), 0);
}

}  // namespace
}  // namespace stockade
