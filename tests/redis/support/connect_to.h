#ifndef STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "stockade/redis/redis_client.h"

namespace stockade::testing {

// Much more than a failover takes, on a machine that does much else.
inline constexpr absl::Duration kFailoverTimeout = absl::Seconds(30);

// Null, and a failure that says why, where it cannot be had. Tried for ten minutes: on a machine that does much else a
// server may answer too late for connect_timeout. What Connect() itself returns is not to be tested with this.
inline std::unique_ptr<RedisClient> ConnectTo(const std::string& url, const RedisOptions& options = {}) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  absl::StatusOr<std::unique_ptr<RedisClient>> client = RedisClient::Connect(url, options);
  while (absl::IsUnavailable(client.status()) && std::chrono::steady_clock::now() < deadline) {
    poll(nullptr, 0, 5);
    client = RedisClient::Connect(url, options);
  }
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
