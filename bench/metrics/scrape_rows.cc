// Scrapes: of 1,000 counters, 100 components with ten each, all of them counted by two threads before; and of what
// locks, caches and inventories export while two threads use them.
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "measure/threads.h"
#include "metrics/rows.h"
#include "stockade/base/strings.h"
#include "stockade/base/thread_annotations.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

using metrics_internal::MetricDef;
using metrics_internal::MetricType;

constexpr int kComponents = 100;
constexpr MetricDef Def(std::string_view name) { return {MetricType::kCounter, name, "Counted."}; }
constexpr MetricDef kScrapedDefs[] = {
    Def("bench_a_total"), Def("bench_b_total"), Def("bench_c_total"), Def("bench_d_total"), Def("bench_e_total"),
    Def("bench_f_total"), Def("bench_g_total"), Def("bench_h_total"), Def("bench_i_total"), Def("bench_j_total")};

struct ScrapedWorld {
  ScrapedWorld() {
    std::vector<prometheus::Counter*> counters;
    for (const MetricDef& def : kScrapedDefs) {
      auto& family = prometheus::BuildCounter().Name(std::string(def.name)).Help("Counted.").Register(peer);
      for (int i = 0; i < kComponents; ++i) counters.push_back(&family.Add({{"name", std::to_string(i)}}));
    }
    for (int i = 0; i < kComponents; ++i) {
      components.emplace_back(&ours, kScrapedDefs, metrics_internal::MetricLabels{{"name", std::to_string(i)}});
    }
    RunCrew(2, [&](Worker&) {
      for (metrics_internal::ComponentMetrics& component : components) {
        for (size_t metric = 0; metric < std::size(kScrapedDefs); ++metric) component.Add(metric);
      }
      for (prometheus::Counter* const counter : counters) counter->Increment();
    });
  }

  MetricsRegistry ours;
  prometheus::Registry peer;
  std::deque<metrics_internal::ComponentMetrics> components;
};

// A lock exports 8 series, a cache 24, a stock 24.
class Components {
 public:
  explicit Components(int of_each) {
    for (int i = 0; i < of_each; ++i) {
      const std::string name = std::to_string(i);
      locks_.emplace_back(LockOptions{.name = name, .metrics = &registry_});
      caches_.emplace_back(LoadingCacheOptions{.name = name, .metrics = &registry_}).Put(1, 1);
      stocks_.emplace_back(ShardedStockOptions{.name = name, .stock = int64_t{1} << 40, .metrics = &registry_});
    }
  }

  const MetricsRegistry& registry() const { return registry_; }

  // Two threads use them until what is returned goes.
  std::vector<std::jthread> Use() {
    std::vector<std::jthread> users;
    for (int thread = 0; thread < 2; ++thread) {
      users.emplace_back([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) UseAll();
      });
    }
    return users;
  }

 private:
  void UseAll() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    for (size_t i = 0; i < locks_.size(); ++i) {
      if (locks_[i].try_lock()) locks_[i].unlock();
      KeepAlive(caches_[i].Get(1).ok());
      KeepAlive(stocks_[i].Take(1));
    }
  }

  MetricsRegistry registry_;
  std::deque<ReentrantMutex> locks_;
  std::deque<LoadingCache<int, int>> caches_;
  std::deque<ShardedStock> stocks_;
};

double ScrapeMilliseconds(Worker& worker, const prometheus::Collectable& collectable, int64_t scrapes) {
  const Throughput throughput = worker.RunOps(scrapes, [&](size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(collectable.Collect().size());
  });
  return throughput.NsPerOp() / 1e6;
}

}  // namespace

void AddScrapeRows(Suite& suite) {
  suite.Add({.name = "scrape of 1,000 series", .unit = "ms", .peer = "prometheus::Registry", .target = "<= 5 ms"},
            {.prepare = [](const Scale& scale) -> Contestants {
              const auto world = std::make_shared<ScrapedWorld>();
              const int64_t scrapes = scale.Sized(1, 50);
              return {[=](Worker& worker) { return ScrapeMilliseconds(worker, world->ours, scrapes); },
                      [=](Worker& worker) { return ScrapeMilliseconds(worker, world->peer, scrapes); }};
            }});
  for (const int of_each : {18, 334}) {
    const bool is_thousand_series = of_each == 18;
    suite.Add({.name = base_internal::Concat("scrape of ",
                                             is_thousand_series ? "1,008 series of 54" : "18,704 series of 1,002",
                                             " components, in use by 2 threads"),
               .unit = "ms",
               .peer = "the same, not in use",
               .target = is_thousand_series ? "<= 5 ms" : "-"},
              {.prepare = [=](const Scale& scale) -> Contestants {
                const auto components = std::make_shared<Components>(of_each);
                const int64_t scrapes = scale.Sized(1, is_thousand_series ? 50 : 5);
                const auto scrape = [=](Worker& worker) {
                  return ScrapeMilliseconds(worker, components->registry(), scrapes);
                };
                return {[=](Worker& worker) {
                          const auto users = components->Use();
                          return scrape(worker);
                        },
                        scrape};
              }});
  }
}

}  // namespace stockade::bench
