#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stockade/locks/redis_lock_service.h"

namespace stockade {
namespace {

std::string Refusal(const RedisLockOptions& options) {
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.ok() ? absl::StatusCode::kInvalidArgument : status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(RedisLockOptionsTest, Defaults_AreValid) { EXPECT_EQ(Refusal({}), ""); }

TEST(RedisLockOptionsTest, FieldOutOfRange_IsNamedWithItsValue) {
  EXPECT_EQ(Refusal({.token_retention = absl::ZeroDuration()}),
            "RedisLockOptions: token_retention = 0 is less than 1s");
  EXPECT_EQ(Refusal({.token_retention = absl::InfiniteDuration()}), "");
  EXPECT_EQ(Refusal({.min_replicas = -1}), "RedisLockOptions: min_replicas = -1 is not in 0..100");
  EXPECT_EQ(Refusal({.min_replicas = 101}), "RedisLockOptions: min_replicas = 101 is not in 0..100");
  EXPECT_EQ(Refusal({.replica_timeout = absl::ZeroDuration()}),
            "RedisLockOptions: replica_timeout = 0 is not in 1ms..1m");
  EXPECT_EQ(Refusal({.replica_timeout = absl::InfiniteDuration()}),
            "RedisLockOptions: replica_timeout = inf is not in 1ms..1m");
}

TEST(RedisLockOptionsTest, PartsOutOfRange_AreNamedByThemselves) {
  EXPECT_THAT(Refusal({.service = {.watchdog_lease = absl::ZeroDuration()}}), ::testing::HasSubstr("watchdog_lease"));
  EXPECT_THAT(Refusal({.redis = {.max_channels = 0}}), ::testing::HasSubstr("max_channels"));
}

TEST(RedisLockServiceTest, Connect_BadUrlOrOptions_IsInvalidArgument) {
  EXPECT_EQ(RedisLockService::Connect("redis//x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RedisLockService::Connect("redis://127.0.0.1:1", {.min_replicas = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stockade
