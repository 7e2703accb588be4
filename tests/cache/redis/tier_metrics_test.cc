#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "cache/redis/tier_node.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

class TierMetricsTest : public RedisTierTest {
 protected:
  RedisCacheTierOptions Options() {
    RedisCacheTierOptions options = PatientTier();
    options.timeout = absl::Seconds(2);
    options.metrics = &registry;
    return options;
  }

  // "requests_total hit": the sum over all series of that name and label value; of histograms their count.
  double Value(const std::string& name, const std::string& label = {}) {
    double sum = 0;
    bool found = false;
    for (const auto& family : registry.Collect()) {
      if (family.name != "stockade_cache_tier_" + name) continue;
      for (const auto& metric : family.metric) {
        bool matches = label.empty();
        for (const auto& one : metric.label) matches |= one.value == label;
        if (!matches) continue;
        found = true;
        sum += metric.counter.value + metric.gauge.value + static_cast<double>(metric.histogram.sample_count);
      }
    }
    EXPECT_TRUE(found) << name << " " << label;
    return sum;
  }

  MetricsRegistry registry;
};

TEST_F(TierMetricsTest, Calls_CountOnceEach) {
  auto [a, b] = TwoNodes(server.url(), Options(), PatientTier());
  EXPECT_EQ(Value("reigns_total", "test"), 1);
  EXPECT_EQ(Value("trusted"), 1);
  EXPECT_EQ(Value("away"), 0) << "the gauge, and not the label value";
  ASSERT_EQ(b.Ask("busy").kind, Answer::kGranted);
  const TierAnswer granted = a.Ask("k");
  EXPECT_EQ(Value("leases"), 1);
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
  EXPECT_EQ(Value("leases"), 0);
  EXPECT_EQ(a.Ask("k").kind, Answer::kHit);
  EXPECT_EQ(a.Ask("busy").kind, Answer::kBusy);
  EXPECT_EQ(a.Ask(std::string(2000, 'k')).kind, Answer::kAway);
  for (const char* result : {"hit", "granted", "busy", "away"}) EXPECT_EQ(Value("requests_total", result), 1) << result;
  EXPECT_EQ(a.Load("z", {.bytes = "v", .ttl = absl::ZeroDuration()}).kind, Filled::kUnstored);
  EXPECT_EQ(a.Fill("z", granted.lease, "v").kind, Filled::kRefused);
  for (const char* result : {"stored", "unstored", "refused"}) EXPECT_EQ(Value("fills_total", result), 1) << result;
  EXPECT_EQ(Value("round_trip_seconds", "ask"), 4);
  EXPECT_EQ(Value("round_trip_seconds", "fill"), 3);
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  const uint64_t last = b.InvalidateKey("k").position;
  ASSERT_TRUE(a.ear->AwaitPosition(last));
  EXPECT_EQ(Value("invalidations_total", "own"), 1);
  EXPECT_EQ(Value("invalidation_seconds"), 1);
  Await("the count", [&] { return Value("invalidations_total", "journal") == 2; });
  EXPECT_GE(Value("heartbeats_total", "ok"), 1);
  EXPECT_GE(Value("heartbeat_seconds"), 1);
}

TEST_F(TierMetricsTest, Failures_AreCounted) {
  TierNode a(server.url(), Options());
  const TierAnswer granted = a.Ask("k");
  server.Call({"DEL", kLease});
  RedisCacheTierOptions short_lease = Options();
  short_lease.prefix = "other";
  short_lease.lease = absl::Milliseconds(60);
  TierNode b(server.url(), short_lease, "orders");
  ASSERT_EQ(b.Ask("k").kind, Answer::kGranted);
  server.Call({"DEL", "sc1:{other}:l:orders:product/1:k"});
  Await("the loss", [&] { return Value("leases_lost_total", "orders") == 1; });
  server.Call({"DEL", kState});
  Await("the reign", [&] { return Value("reigns_total", "test") == 2; });
  Await("trust", [&] { return a.trusted() && b.trusted(); });
  // From then on a question is a script, which may grant a lease.
  ASSERT_EQ(a.Load("tagged", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  server.Pause();
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway);
  Await("being away", [&] { return Value("away", "test") == 1; });
  EXPECT_EQ(Value("leases_returned_total", "products"), 1);
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kAway);
  EXPECT_EQ(Value("fills_total", "away"), 1);
  EXPECT_FALSE(a.InvalidateKey("k").accepted);
  EXPECT_EQ(Value("invalidations_pending", "products"), 1);
  Await("a failed heartbeat", [&] { return Value("heartbeats_total", "error") >= 1; });
  a.cache.reset();
  EXPECT_EQ(Value("invalidations_dropped_total", "products"), 1);
  server.Resume();
}

TEST_F(TierMetricsTest, Stats_AreTheCountsOfTheMetrics) {
  TierNode a(server.url(), Options());
  TierNode orders(a, "orders");
  TierNode b(server.url());
  ASSERT_EQ(b.Ask("busy").kind, Answer::kGranted);
  ASSERT_EQ(b.Load("k", "v").kind, Filled::kStored);
  const TierAnswer hit = a.Ask("k");
  ASSERT_EQ(hit.kind, Answer::kHit);
  EXPECT_EQ(a.Ask("busy").kind, Answer::kBusy);
  EXPECT_EQ(a.Ask(std::string(2000, 'k')).kind, Answer::kAway);
  const TierAsk refused{.key = "k", .known_version = hit.record->version, .undecodable = true};
  const TierAnswer granted = std::move(a.cache->Ask({&refused, 1})[0]);
  ASSERT_EQ(granted.kind, Answer::kGranted);
  EXPECT_EQ(a.tier->Stats().caches[1].leases, 1);
  EXPECT_EQ(a.Fill("k", granted.lease, "new").kind, Filled::kStored);
  EXPECT_EQ(a.Fill("k", {}, "old").kind, Filled::kRefused);
  EXPECT_EQ(orders.Load("z", {.bytes = "v", .ttl = absl::ZeroDuration()}).kind, Filled::kUnstored);
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  ASSERT_TRUE(a.ear->AwaitPosition(b.InvalidateKey("k").position));
  Await("the count", [&] { return a.tier->Stats().caches[1].invalidations_applied == 2; });
  const uint64_t queued = orders.cache->Queue({.kind = Target::kTag, .text = "tag"});
  TierStats stats = a.tier->Stats();
  EXPECT_TRUE(stats.trusted);
  EXPECT_FALSE(stats.away);
  EXPECT_GE(stats.heartbeats, 1u);
  EXPECT_EQ(stats.heartbeats_failed, 0u);
  EXPECT_EQ(stats.reigns, 1u);
  EXPECT_EQ(stats.gaps + stats.tags_dropped, 0u);
  ASSERT_EQ(stats.caches.size(), 2u);
  EXPECT_EQ(stats.caches[0].cache, "orders");
  EXPECT_EQ(stats.caches[0].granted, 1u);
  EXPECT_EQ(stats.caches[0].unstored, 1u);
  EXPECT_EQ(stats.caches[0].invalidations_pending, 1);
  const TierCacheStats& products = stats.caches[1];
  EXPECT_EQ(products.cache, "products");
  EXPECT_EQ(products.hits, 1u);
  EXPECT_EQ(products.granted, 1u);
  EXPECT_EQ(products.busy, 1u);
  EXPECT_EQ(products.away, 1u);
  EXPECT_EQ(products.undecodable, 1u);
  EXPECT_EQ(products.undecodable, Value("undecodable_total", "products"));
  EXPECT_EQ(products.stored, 1u);
  EXPECT_EQ(products.refused, 1u);
  EXPECT_EQ(products.unstored + products.unanswered + products.leases_lost + products.leases_returned, 0u);
  EXPECT_EQ(products.invalidations_accepted, 1u);
  EXPECT_EQ(products.invalidations_pending, 0);
  EXPECT_EQ(products.leases, 0);
  EXPECT_TRUE(orders.cache->Await(queued, false).accepted);
  orders.cache.reset();
  EXPECT_EQ(a.tier->Stats().caches.size(), 1u);
}

TEST_F(TierMetricsTest, Stats_WithoutMetrics_HaveTheStateAlone) {
  TierNode a(server.url(), PatientTier([](auto& o) { o.metrics = nullptr; }));
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  const TierStats stats = a.tier->Stats();
  EXPECT_TRUE(stats.trusted);
  EXPECT_EQ(stats.reigns, 0u);
  ASSERT_EQ(stats.caches.size(), 1u);
  EXPECT_EQ(stats.caches[0].granted, 0u);
  EXPECT_EQ(stats.caches[0].leases, 1);
}

TEST_F(TierMetricsTest, Stats_WhileRedisIsAway_SayIt) {
  RedisCacheTierOptions options = Options();
  options.max_staleness = absl::Milliseconds(300);
  TierNode a(server.url(), options);
  server.Pause();
  Await("being away", [&] { return a.tier->Stats().away && !a.tier->Stats().trusted; });
  EXPECT_GE(a.tier->Stats().heartbeats_failed, 1u);
  EXPECT_FALSE(a.InvalidateKey("k").accepted);
  EXPECT_EQ(a.tier->Stats().caches[0].invalidations_pending, 1);
  server.Resume();
  Await("the end of being away", [&] { return !a.tier->Stats().away && a.tier->Stats().trusted; });
}

// The registry's locks and the tier's are taken in one order.
TEST_F(TierMetricsTest, ScrapesWhileCachesOpenAndClose_DoNotBlock) {
  TierNode a(server.url(), Options());
  std::atomic<bool> stop{false};
  std::thread scraper([&] {
    while (!stop) (void)registry.Collect();
  });
  for (int n = 0; n < 50; ++n) {
    TierNode other(a, "cache" + std::to_string(n));
    EXPECT_EQ(other.Ask("k").kind, Answer::kGranted);
  }
  stop = true;
  scraper.join();
}

}  // namespace
}  // namespace stockade::testing
