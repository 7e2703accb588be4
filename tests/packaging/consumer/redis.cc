#include <stockade/cache/redis_cache_tier.h>
#include <stockade/redis/redis_client.h>

#include <cstdio>

// Needs no server: nobody listens on port 1.
int main() {
  const auto client = stockade::RedisClient::Connect("redis://127.0.0.1:1");
  const auto tier = stockade::RedisCacheTier::Connect("redis://127.0.0.1:1", {.prefix = "shop", .require_redis = true});
  if (tier.status().code() != client.status().code()) return 1;
  std::printf("%s\n", absl::StatusCodeToString(client.status().code()).c_str());
  return 0;
}
