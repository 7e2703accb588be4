#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/redis/tier_node.h"
#include "cache/tier/tier_contract.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

class RedisFleet final : public TierFleet {
 public:
  std::shared_ptr<CacheTier> NewTier() override {
    RedisCacheTierOptions options = PatientTier();
    options.max_value_bytes = kMaxValueBytes;
    options.metrics = registries_.emplace_back(std::make_unique<MetricsRegistry>()).get();
    std::shared_ptr<CacheTier> tier = ConnectTier(server_.url(), std::move(options));
    tiers_.push_back(tier);
    return tier;
  }
  // The first heartbeat that succeeds may have been sent before the call. The third one begins after the listeners of
  // the second one have returned.
  void AwaitHeartbeats() override {
    for (const std::weak_ptr<CacheTier>& weak : tiers_) {
      const std::shared_ptr<CacheTier> tier = weak.lock();
      if (tier == nullptr) continue;
      const uint64_t beats = tier->Stats().heartbeats + 3;
      Await("heartbeats", [&] { return tier->Stats().heartbeats >= beats && tier->Stats().trusted; });
    }
  }
  size_t leases() override { return std::stoul(Eval("return #redis.call('keys', 'sc1:{test}:l:*')")); }
  void LapseLeases() override {
    Eval("for _, key in ipairs(redis.call('keys', 'sc1:{test}:l:*')) do redis.call('del', key) end return 0");
  }
  void TrimJournal() override { Eval(kTrimJournal); }
  void BeginReign() override { server_.Call({"FLUSHALL"}); }

 private:
  std::string Eval(const char* script) { return server_.Call({"EVAL", script, "2", kState, kJournal}).text; }

  RedisServer server_;
  std::vector<std::unique_ptr<MetricsRegistry>> registries_;
  std::vector<std::weak_ptr<CacheTier>> tiers_;
};

void StartRedisFleet(std::unique_ptr<TierFleet>& fleet) {
  STOCKADE_NEEDS_REDIS();
  fleet = std::make_unique<RedisFleet>();
}

INSTANTIATE_TEST_SUITE_P(Redis, TierContractTest, ::testing::Values(&StartRedisFleet));

}  // namespace
}  // namespace stockade::testing
