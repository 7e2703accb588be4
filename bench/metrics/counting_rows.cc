// What it costs to count an operation: the time of the counted operation less that of the bare one, both measured in
// the same repetition. The operation is an atomic addition to a line of the thread's own, the cheapest thing that the
// library counts. It cannot overlap with what follows it, so that the cost shows; a chain of arithmetic would hide it
// whole.
#include <prometheus/counter.h>

#include <atomic>
#include <memory>
#include <string>

#include "measure/threads.h"
#include "metrics/rows.h"
#include "stockade/base/strings.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/metrics/metrics_registry.h"
#include "stockade/metrics/striped_cells.h"

namespace stockade::bench {
namespace {

using metrics_internal::MetricDef;
using metrics_internal::MetricType;

constexpr MetricDef kDefs[] = {{MetricType::kCounter, "stockade_bench_operations_total", "Counted operations."}};
constexpr int64_t kBatch = 4096;

struct alignas(128) Operation {
  std::atomic<uint64_t> word = 0;

  void Run() { word.fetch_add(1, std::memory_order_acq_rel); }
};

// Nanoseconds a thread spends on `count`, on top of an operation.
template <typename Count>
double NsOnTop(Worker& worker, absl::Duration span, Count count) {
  const auto measure = [&](auto step) {
    const Throughput throughput = worker.RunFor(span, kBatch, [&](size_t, int64_t ops) {
      Operation operation;
      for (int64_t i = 0; i < ops; ++i) {
        operation.Run();
        step();
      }
    });
    return throughput.NsPerOp() * static_cast<double>(worker.threads());
  };
  const double bare = measure([] {});
  return measure(count) - bare;
}

struct CountingWorld {
  metrics_internal::StripedCells cells{1};
  MetricsRegistry registry;
  metrics_internal::ComponentMetrics component{&registry, kDefs, {{"name", "bench"}}};
  prometheus::Counter counter;
};

Measurement Peer(const std::shared_ptr<CountingWorld>& world, absl::Duration span) {
  return [=](Worker& worker) { return NsOnTop(worker, span, [&] { world->counter.Increment(); }); };
}

}  // namespace

void AddCountingRows(Suite& suite) {
  for (const size_t threads : {1, 2}) {
    const std::string condition = threads == 1 ? ", alone" : base_internal::Concat(", ", threads, " threads");
    suite.Add({.name = base_internal::Concat("striped cell, on top of an operation", condition),
               .unit = "ns",
               .peer = "prometheus::Counter",
               .target = "<= 1 ns"},
              {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
                 const auto world = std::make_shared<CountingWorld>();
                 const auto span = scale.span;
                 return {[=](Worker& worker) { return NsOnTop(worker, span, [&] { world->cells.Add(0, 1); }); },
                         Peer(world, span)};
               }});
    suite.Add({.name = base_internal::Concat("component's counter, on top of an operation", condition),
               .unit = "ns",
               .peer = "prometheus::Counter",
               .target = "<= 1 ns"},
              {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
                 const auto world = std::make_shared<CountingWorld>();
                 const auto span = scale.span;
                 return {[=](Worker& worker) { return NsOnTop(worker, span, [&] { world->component.Add(0); }); },
                         Peer(world, span)};
               }});
  }
}

}  // namespace stockade::bench
