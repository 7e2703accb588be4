#ifndef STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "stockade/redis/redis_client.h"

namespace stockade::testing {

// Much more than a failover takes, on a machine that does much else.
inline constexpr absl::Duration kFailoverTimeout = absl::Seconds(30);

// Null, and a failure that says why, where it cannot be had.
inline std::unique_ptr<RedisClient> ConnectTo(const std::string& url, RedisOptions options = {}) {
  absl::StatusOr<std::unique_ptr<RedisClient>> client = RedisClient::Connect(url, std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

// For servers that fail over in the meantime.
inline std::unique_ptr<RedisClient> ConnectPatiently(const std::string& url,
                                                     absl::Duration timeout = kFailoverTimeout) {
  return ConnectTo(url, {.command_timeout = timeout});
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_
