#include "stockade/metrics/metric_set.h"

#include <gtest/gtest.h>

#include "stockade/metrics/metrics_registry.h"

namespace stockade::metrics_internal {
namespace {

constexpr MetricDef kDefs[] = {
    {.type = MetricType::kSecondsHistogram, .name = "test_wait_seconds", .help = "Waits."},
    {.type = MetricType::kCountHistogram, .name = "test_batch_records", .help = "Batches."},
    {.type = MetricType::kGauge, .name = "test_waiters", .help = "Waiters."},
};

TEST(MetricSetTest, Observe_AtABound_FallsIntoTheBucketOfThatBound) {
  MetricSet set(kDefs, {});
  set.Observe(0, 0);
  set.Observe(0, 125);
  set.Observe(0, 126);
  set.Observe(0, 250);
  set.Observe(0, 251);
  set.Observe(0, -7);
  const MetricSet::HistogramValue value = set.ReadHistogram(0);
  EXPECT_EQ(value.bucket_counts[0], 3u);
  EXPECT_EQ(value.bucket_counts[1], 2u);
  EXPECT_EQ(value.bucket_counts[2], 1u);
  EXPECT_EQ(value.count, 6u);
  EXPECT_DOUBLE_EQ(value.upper_bounds[0], 125e-9);
  EXPECT_DOUBLE_EQ(value.upper_bounds[1], 250e-9);
  EXPECT_DOUBLE_EQ(value.sum, 752e-9);
}

TEST(MetricSetTest, Observe_EveryValue_LiesBetweenItsBounds) {
  for (int64_t value = 1; value < int64_t{1} << 40; value = value * 5 / 4 + 1) {
    MetricSet set(kDefs, {});
    set.Observe(0, value);
    const MetricSet::HistogramValue read = set.ReadHistogram(0);
    size_t bucket = 0;
    while (read.bucket_counts[bucket] == 0) ++bucket;
    const double seconds = static_cast<double>(value) * 1e-9;
    if (bucket < read.upper_bounds.size()) {
      EXPECT_LE(seconds, read.upper_bounds[bucket] * (1 + 1e-12));
    }
    if (bucket > 0) {
      EXPECT_GT(seconds, read.upper_bounds[bucket - 1] * (1 - 1e-12));
    }
  }
}

TEST(MetricSetTest, Observe_HugeCount_FallsIntoInfinity) {
  MetricSet set(kDefs, {});
  set.Observe(1, 1 << 16);
  set.Observe(1, (1 << 16) + 1);
  const MetricSet::HistogramValue value = set.ReadHistogram(1);
  EXPECT_EQ(value.bucket_counts[value.upper_bounds.size()], 1u);
  EXPECT_EQ(value.bucket_counts[value.upper_bounds.size() - 1], 1u);
}

TEST(ComponentMetricsTest, Off_EveryCallDoesNothing) {
  ComponentMetrics metrics(nullptr, kDefs, {});
  metrics.Observe(0, absl::Seconds(1));
  metrics.ObserveCount(1, 3);
  metrics.AddGauge(2, [] { return 1.0; });
  EXPECT_FALSE(metrics.enabled());
  EXPECT_EQ(metrics.set(), nullptr);
}

TEST(MetricSetDeathTest, AddGauge_WithoutACallback_Aborts) {
  MetricSet set(kDefs, {});
  EXPECT_DEATH(set.AddGauge(2, nullptr), ": a gauge without a callback");
}

TEST(ComponentMetricsTest, ObserveSpan_TooLongForNanoseconds_IsTheLongest) {
  MetricsRegistry registry;
  ComponentMetrics metrics(&registry, kDefs, {});
  metrics.ObserveSpan(0, Instant::FromNanoseconds(-2), Instant::InfiniteFuture());
  EXPECT_EQ(metrics.set()->ReadHistogram(0).bucket_counts.back(), 1u);
}

TEST(ComponentMetricsTest, Gauge_OfTwoComponents_IsSummedWhileTheyLive) {
  MetricsRegistry registry;
  ComponentMetrics first(&registry, kDefs, {{"lock", "till"}});
  first.AddGauge(2, [] { return 2.0; });
  {
    ComponentMetrics second(&registry, kDefs, {{"lock", "till"}});
    second.AddGauge(2, [] { return 5.0; });
    EXPECT_EQ(first.set(), second.set());
    EXPECT_EQ(first.set()->GaugeValue(2), 7.0);
  }
  EXPECT_EQ(first.set()->GaugeValue(2), 2.0);
}

}  // namespace
}  // namespace stockade::metrics_internal
