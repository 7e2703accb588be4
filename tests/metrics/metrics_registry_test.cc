#include "stockade/metrics/metrics_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "stockade/base/log.h"

namespace stockade {
namespace {

using metrics_internal::ComponentMetrics;
using metrics_internal::MetricDef;
using metrics_internal::MetricType;

constexpr MetricDef kDefs[] = {
    {.type = MetricType::kCounter,
     .name = "test_requests_total",
     .help = "Requests.",
     .label_name = "result",
     .label_value = "hit"},
    {.type = MetricType::kCounter,
     .name = "test_requests_total",
     .help = "Requests.",
     .label_name = "result",
     .label_value = "miss"},
    {.type = MetricType::kSecondsHistogram, .name = "test_load_seconds", .help = "Loads."},
    {.type = MetricType::kGauge, .name = "test_entries", .help = "Entries."},
};

const prometheus::MetricFamily& Family(const std::vector<prometheus::MetricFamily>& families, const std::string& name) {
  for (const auto& family : families) {
    if (family.name == name) return family;
  }
  ADD_FAILURE() << "no family " << name;
  static const prometheus::MetricFamily none;
  return none;
}

TEST(MetricsRegistryTest, Collect_ManyComponents_OneFamilyANameAndNoSeriesTwice) {
  MetricsRegistry registry;
  std::vector<std::unique_ptr<ComponentMetrics>> components;
  for (int i = 0; i < 1'000; ++i) {
    // Two of each name.
    components.push_back(std::make_unique<ComponentMetrics>(
        &registry, kDefs, metrics_internal::MetricLabels{{"cache", "c" + std::to_string(i / 2)}}));
    components.back()->Add(0);
  }
  const auto families = registry.Collect();
  ASSERT_EQ(families.size(), 3u);
  const auto& requests = Family(families, "test_requests_total");
  EXPECT_EQ(requests.metric.size(), 1'000u);
  std::set<std::vector<prometheus::ClientMetric::Label>> seen;
  for (const auto& metric : requests.metric) {
    EXPECT_TRUE(seen.insert(metric.label).second);
    EXPECT_EQ(metric.counter.value, metric.label.back().value == "hit" ? 2 : 0);
  }
}

TEST(MetricsRegistryTest, Collect_ComponentDestroyed_KeepsItsCountsAndDropsItsGauges) {
  MetricsRegistry registry;
  for (int i = 0; i < 3; ++i) {
    ComponentMetrics component(&registry, kDefs, {{"cache", "c"}});
    component.Add(1, 10);
    component.AddGauge(3, [] { return 4.0; });
  }
  const auto families = registry.Collect();
  EXPECT_EQ(Family(families, "test_requests_total").metric.at(1).counter.value, 30);
  EXPECT_EQ(Family(families, "test_entries").metric.at(0).gauge.value, 0);
}

TEST(MetricsRegistryTest, Collect_Histogram_IsCumulativeAndEndsWithItsCount) {
  MetricsRegistry registry;
  ComponentMetrics component(&registry, kDefs, {});
  component.Observe(2, absl::Microseconds(3));
  component.Observe(2, absl::Hours(1));
  const auto families = registry.Collect();
  const auto& histogram = Family(families, "test_load_seconds").metric.at(0).histogram;
  EXPECT_EQ(histogram.sample_count, 2u);
  EXPECT_EQ(histogram.bucket.back().cumulative_count, 2u);
  EXPECT_EQ(histogram.bucket[histogram.bucket.size() - 2].cumulative_count, 1u);
  EXPECT_NEAR(histogram.sample_sum, 3600.000003, 1e-6);
}

TEST(MetricsRegistryTest, Destroyed_BeforeItsComponents_IsFine) {
  auto registry = std::make_unique<MetricsRegistry>();
  ComponentMetrics component(registry.get(), kDefs, {});
  component.AddGauge(3, [] { return 1.0; });
  registry.reset();
  component.Add(0);
  EXPECT_EQ(component.set()->CounterValue(0), 1u);
}

TEST(MetricsRegistryTest, ComponentsDestroyed_DuringScrapes_NoGaugeIsCalledAfterwards) {
  MetricsRegistry registry;
  std::atomic<bool> stop = false;
  std::jthread scraper([&] {
    while (!stop) registry.Collect();
  });
  for (int i = 0; i < 2'000; ++i) {
    std::atomic<bool> alive = true;
    {
      ComponentMetrics component(&registry, kDefs, {});
      component.AddGauge(3, [&alive] {
        EXPECT_TRUE(alive);
        return 1.0;
      });
    }
    alive = false;
  }
  stop = true;
}

// Such as a SKU of a ledger that was written when any bytes were allowed: it must not cost the other series.
TEST(MetricsRegistryTest, Collect_LabelThatIsNotUtf8_IsEscaped) {
  MetricsRegistry registry;
  const ComponentMetrics component(&registry, kDefs, {{"sku", "caf\xe9"}});
  for (const auto& family : registry.Collect()) {
    for (const auto& metric : family.metric) EXPECT_EQ(metric.label.at(0).value, "caf\\xe9") << family.name;
  }
}

// Names that are made per customer must not grow the process and its scrape without bound.
TEST(MetricsRegistryTest, Names_BeyondTheBound_ShareOneSeries) {
  int warnings = 0;
  SetLogSink([&](LogSeverity, std::string_view message) { warnings += message.find("_other") != std::string::npos; });
  MetricsRegistry registry;
  const auto count = [&](const std::string& name) {
    ComponentMetrics component(&registry, kDefs, {{"cache", name}, {"sku", name + "-sku"}});
    component.Add(0);
  };
  constexpr int kBeyond = 500;
  for (size_t i = 0; i < MetricsRegistry::kMaxNames + kBeyond; ++i) count("c" + std::to_string(i));
  count("c0");  // Has series, and keeps them.
  SetLogSink({});
  EXPECT_EQ(warnings, 1);

  const auto families = registry.Collect();
  std::map<std::string, double> hits;
  for (const auto& metric : Family(families, "test_requests_total").metric) {
    if (metric.label.back().value == "hit")
      hits[metric.label.at(0).value + metric.label.at(1).value] = metric.counter.value;
  }
  EXPECT_EQ(hits.size(), MetricsRegistry::kMaxNames + 1);
  EXPECT_EQ(hits["_other_other"], kBeyond);
  EXPECT_EQ(hits["c0c0-sku"], 2);
  EXPECT_EQ(hits["c999c999-sku"], 1);
}

}  // namespace
}  // namespace stockade
