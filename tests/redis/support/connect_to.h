#ifndef STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "stockade/redis/redis_client.h"

namespace stockade::testing {

// Null, and a failure that says why, where it cannot be had.
inline std::unique_ptr<RedisClient> ConnectTo(const std::string& url, RedisOptions options = {}) {
  absl::StatusOr<std::unique_ptr<RedisClient>> client = RedisClient::Connect(url, std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_CONNECT_TO_H_
