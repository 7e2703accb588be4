// What scripts/cache-walk steps through: one call of Get() with integer keys, between the two marks. An earlier call
// for another key has started what is started once. The argument: `miss`, or with a second level `cold-key` or
// `redis-hit`.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "fleet/tier_cache.h"
#include "servers/redis_process.h"

extern "C" {
[[gnu::noinline]] void WalkBegins() { asm volatile(""); }
[[gnu::noinline]] void WalkEnds() { asm volatile(""); }
}

namespace stockade::bench {
namespace {

void Walk(std::string_view kind) {
  std::unique_ptr<RedisProcess> redis;
  if (kind != "miss") redis = std::make_unique<RedisProcess>();
  const std::string url = redis != nullptr ? redis->url() : "";
  const auto make = [&] { return MakeNumberCache(url, 1000, {.load = [](uint64_t key) { return key; }}); };
  const auto cache = make();
  for (const uint64_t key : {1, 2}) {
    if (kind == "redis-hit") (void)make()->Get(key);  // Another process of the fleet.
    if (key == 2) WalkBegins();
    const auto value = cache->Get(key);
    if (key == 2) WalkEnds();
    Require(value.status(), "Get()");
  }
}

}  // namespace
}  // namespace stockade::bench

int main(int count, char** words) {
  if (count != 2) return 2;
  stockade::bench::Walk(words[1]);
}
