// A scrape of 1,000 counters: 100 components with ten each, all of them counted by two threads before.
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "harness/threads.h"
#include "metrics/rows.h"
#include "stockade/base/strings.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

using internal::MetricDef;
using internal::MetricType;

constexpr int kComponents = 100;
constexpr MetricDef Def(std::string_view name) { return {MetricType::kCounter, name, "Counted."}; }
constexpr MetricDef kDefs[] = {Def("bench_a_total"), Def("bench_b_total"), Def("bench_c_total"), Def("bench_d_total"),
                               Def("bench_e_total"), Def("bench_f_total"), Def("bench_g_total"), Def("bench_h_total"),
                               Def("bench_i_total"), Def("bench_j_total")};

struct World {
  World() {
    std::vector<prometheus::Counter*> counters;
    for (const MetricDef& def : kDefs) {
      auto& family = prometheus::BuildCounter().Name(std::string(def.name)).Help("Counted.").Register(peer);
      for (int i = 0; i < kComponents; ++i) counters.push_back(&family.Add({{"name", std::to_string(i)}}));
    }
    for (int i = 0; i < kComponents; ++i) {
      components.emplace_back(&ours, kDefs, internal::MetricLabels{{"name", std::to_string(i)}});
    }
    RunOps(2, 1, [&](size_t, int64_t) {
      for (internal::ComponentMetrics& component : components) {
        for (size_t metric = 0; metric < std::size(kDefs); ++metric) component.Add(metric);
      }
      for (prometheus::Counter* const counter : counters) counter->Increment();
    });
  }

  MetricsRegistry ours;
  prometheus::Registry peer;
  std::deque<internal::ComponentMetrics> components;
};

double ScrapeMilliseconds(const prometheus::Collectable& collectable, int64_t scrapes) {
  const Throughput throughput = RunOps(1, scrapes, [&](size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(collectable.Collect().size());
  });
  return throughput.NsPerOp() / 1e6;
}

}  // namespace

void AddScrapeRows(Suite& suite) {
  suite.Add({.name = "scrape of 1,000 series",
             .unit = "ms",
             .peer = "prometheus::Registry",
             .target = Target::ValueAtMost(5),
             .prepare = [](const Scale& scale) -> Contestants {
               const auto world = std::make_shared<World>();
               const int64_t scrapes = scale.Sized(1, 50);
               return {[=] { return ScrapeMilliseconds(world->ours, scrapes); },
                       [=] { return ScrapeMilliseconds(world->peer, scrapes); }};
             }});
}

}  // namespace stockade::bench
