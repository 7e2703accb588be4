#include "stockade/redis/redis_endpoint.h"

#include <gtest/gtest.h>

namespace stockade {
namespace {

TEST(RedisEndpointTest, ToString_OfAName_HasItsPort) {
  EXPECT_EQ((RedisEndpoint{.host = "cache-1"}).ToString(), "cache-1:6379");
  EXPECT_EQ((RedisEndpoint{.host = "10.0.0.7", .port = 7000}).ToString(), "10.0.0.7:7000");
}

TEST(RedisEndpointTest, ToString_OfIpv6_HasBrackets) {
  EXPECT_EQ((RedisEndpoint{.host = "::1"}).ToString(), "[::1]:6379");
}

TEST(RedisEndpointTest, ToString_OfASocket_HasItsPath) {
  EXPECT_EQ((RedisEndpoint{.unix_socket = "/run/redis.sock"}).ToString(), "unix:/run/redis.sock");
}

}  // namespace
}  // namespace stockade
