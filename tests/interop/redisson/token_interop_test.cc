// What else goes over the wire: fencing tokens, and the messages as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "interop_test.h"
#include "redis/support/raw_redis.h"
#include "stockade/locks/lock_service.h"

namespace stockade {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::Field;
using testing::InteropSetups;
using testing::RawRedis;
using testing::RawReply;

class TokenInteropTest : public testing::SetupInteropTest {
 protected:
  int64_t JavasToken(const std::string& name) {
    const int64_t token = std::atoll(java_->Do("java", "lock " + name + " fenced -1").c_str());
    EXPECT_EQ(java_->Do("java", "unlock " + name + " fenced"), "ok");
    return token;
  }
  int64_t OurToken(const std::string& name) {
    absl::StatusOr<LockLease> held = ours_->Acquire(name);
    return held.ok() ? held->fencing_token().value_or(-1) : -1;
  }
};

TEST_P(TokenInteropTest, AcquiredInTurn_TokensGrowOverBothSides) {
  for (const bool java_first : {true, false}) {
    const std::string name = NewName();
    int64_t last = 0;
    for (int i = 0; i < 20; ++i) {
      const int64_t token = (i % 2 == 0) == java_first ? JavasToken(name) : OurToken(name);
      EXPECT_GT(token, last) << "acquire " << i;
      last = token;
    }
  }
}

TEST_P(TokenInteropTest, EnteredAgain_TheTokenOfEitherGrows) {
  const std::string name = NewName();
  const LockOwner owner = LockOwner::New();
  {
    const LockLease outer = ours_->Acquire(name, {.owner = owner}).value();
    const LockLease inner = ours_->Acquire(name, {.owner = owner}).value();
    EXPECT_GT(inner.fencing_token().value(), outer.fencing_token().value());
  }
  const int64_t outer = std::atoll(java_->Do("java", "lock " + name + " fenced -1").c_str());
  const int64_t inner = std::atoll(java_->Do("java", "lock " + name + " fenced -1").c_str());
  EXPECT_GT(inner, outer);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(java_->Do("java", "unlock " + name + " fenced"), "ok");
  EXPECT_GT(OurToken(name), inner);
}

TEST_P(TokenInteropTest, ReleaseOfEither_IsToldByTheSameMessage) {
  const bool sharded = servers_->cluster() != nullptr;
  const struct {
    LockKind ours;
    std::string java;
    std::string payload;
  } kinds[] = {{LockKind::kReentrant, "lock", "0"}, {LockKind::kWrite, "write", "1"}, {LockKind::kRead, "read", "0"}};
  for (const auto& kind : kinds) {
    const std::string name = NewName();
    RawRedis hears(servers_->ServerOf(name).port());
    hears.Call({sharded ? "SSUBSCRIBE" : "SUBSCRIBE", ChannelOf(name, kind.ours)});
    EXPECT_TRUE(ours_->Acquire(name, {.kind = kind.ours}).value().Release().ok());
    EXPECT_THAT(hears.Read().items, ElementsAre(_, _, Field(&RawReply::text, kind.payload)));
    EXPECT_EQ(java_->Do("java", "lock " + name + " " + kind.java + " -1"), "ok");
    EXPECT_EQ(java_->Do("java", "unlock " + name + " " + kind.java), "ok");
    EXPECT_THAT(hears.Read().items, ElementsAre(_, _, Field(&RawReply::text, kind.payload)));
  }
}

INSTANTIATE_TEST_SUITE_P(Redisson, TokenInteropTest, ::testing::ValuesIn(InteropSetups()), testing::RedisSetupName);

}  // namespace
}  // namespace stockade
