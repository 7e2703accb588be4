#ifndef STOCKADE_TESTS_CACHE_REDIS_TIER_NODE_H_
#define STOCKADE_TESTS_CACHE_REDIS_TIER_NODE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "cache/tier/tier_client.h"
#include "redis/support/redis_server.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/await.h"

namespace stockade::testing {

// The keys of PatientTier(), and those of key "k" of a TierNode.
inline constexpr char kState[] = "sc1:{test}:s";
inline constexpr char kJournal[] = "sc1:{test}:j";
inline constexpr char kRecord[] = "sc1:{test}:v:products:product/1:k";
inline constexpr char kLease[] = "sc1:{test}:l:products:product/1:k";
inline constexpr char kWaiters[] = "sc1:{test}:w:products:product/1:k";
inline constexpr char kChannel[] = "sc1:{test}:c";
// A script of kState and kJournal, after which it is as if there had been more invalidations than the journal keeps.
inline constexpr char kTrimJournal[] = "redis.call('hincrby', KEYS[1], 'q', 5) return redis.call('del', KEYS[2])";
// One that invalidates the key ARGV[1] as a version before the sums did. ARGV[2] is the key in its message; if it is
// empty, no message is sent.
inline constexpr char kInvalidateWithoutSum[] = R"lua(
local q = redis.call('hincrby', KEYS[1], 'q', 1)
redis.call('xadd', KEYS[2], q .. '-0', 'o', 'older', 'c', 'products', 'k', 'k', 't', ARGV[1])
local message = redis.call('hget', KEYS[1], 'i') .. ' ' .. q .. ' k products ' .. ARGV[2]
if ARGV[2] ~= '' then redis.call('publish', string.sub(KEYS[1], 1, -2) .. 'c', message) end
return q
)lua";

class RedisTierTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  RedisServer server;
};

// Options with which nothing ends by itself, however busy the machine is, apart from `change`.
inline RedisCacheTierOptions PatientTier(absl::FunctionRef<void(RedisCacheTierOptions&)> change =
                                             [](RedisCacheTierOptions&) {}) {
  RedisCacheTierOptions options;
  options.prefix = "test";
  options.heartbeat = absl::Milliseconds(10);
  options.max_staleness = absl::Minutes(10);
  options.timeout = absl::Seconds(30);
  options.lease = absl::Minutes(1);
  options.max_load = absl::Minutes(10);
  options.redis.metrics = nullptr;
  change(options);
  return options;
}

// With heartbeats so rare, and no messages, that all that passes a proxy is the calls' own.
inline RedisCacheTierOptions QuietTier() {
  RedisCacheTierOptions options = PatientTier();
  options.heartbeat = absl::Minutes(2);
  options.pubsub = false;
  return options;
}

class NodeMetrics {
 protected:
  RedisCacheTierOptions Counted(RedisCacheTierOptions options) {
    if (options.metrics == MetricsRegistry::Default()) options.metrics = registry_.get();
    return options;
  }

 private:
  std::unique_ptr<MetricsRegistry> registry_ = std::make_unique<MetricsRegistry>();
};

inline std::shared_ptr<CacheTier> ConnectTier(const std::string& url, RedisCacheTierOptions options) {
  // On a busy machine a server may answer too late for connect_timeout.
  options.redis.connect_timeout = absl::Seconds(30);
  absl::StatusOr<std::shared_ptr<CacheTier>> connected = RedisCacheTier::Connect(url, std::move(options));
  EXPECT_TRUE(connected.ok()) << connected.status();
  return *std::move(connected);
}

// Has the metrics of its tier, unless the options have another registry or none.
class TierNode : private NodeMetrics, public TierClient {
 public:
  explicit TierNode(const std::string& url, RedisCacheTierOptions options = PatientTier(),
                    std::string_view cache = "products", std::string_view codec = "product/1")
      : TierClient(ConnectTier(url, Counted(std::move(options))), cache, codec) {}
  // Another cache of the same process.
  TierNode(const TierNode& other, std::string_view name, std::string_view codec = "product/1")
      : TierClient(other.tier, name, codec) {}
};

// Blocks until messages of other processes arrive at all nodes.
template <typename... Nodes>
void AwaitSubscribed(const Nodes&... nodes) {
  Await("the subscriptions", [&] { return (nodes.tier->Stats().subscribed && ...); });
}

struct TwoNodes {
  explicit TwoNodes(const std::string& url, const RedisCacheTierOptions& options = PatientTier())
      : TwoNodes(url, options, options) {}
  TwoNodes(const std::string& url, const RedisCacheTierOptions& options_a, const RedisCacheTierOptions& options_b)
      : a(url, options_a), b(url, options_b) {}

  TierNode a;
  TierNode b;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_REDIS_TIER_NODE_H_
