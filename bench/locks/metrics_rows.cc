// What a lock costs more where it has a name, and so has metrics; and that cost by itself, against a lock without a
// name whose user counts each acquisition with prometheus-cpp.
#include <prometheus/counter.h>

#include <memory>
#include <string>

#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/base/strings.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

// One thread's acquisition of `mutex`, in the mode that the row is about.
struct ForWriting {
  using Mutex = ReentrantMutex;
  static constexpr std::string_view kName = "mutex";
  static void Use(Guarded<Mutex>& guarded) { LockAndAdd(guarded); }
};
struct ForReading {
  using Mutex = ReentrantSharedMutex;
  static constexpr std::string_view kName = "read lock";
  static void Use(Guarded<Mutex>& guarded) { LockSharedAndLook(guarded); }
};

template <typename Mode>
struct World {
  MetricsRegistry registry;
  Guarded<typename Mode::Mutex> named{LockOptions{.name = "bench", .metrics = &registry}};
  Guarded<typename Mode::Mutex> unnamed;
  prometheus::Counter counter;
};

// Nanoseconds a thread spends on one step.
template <typename Step>
double NsPerStep(Worker& worker, absl::Duration span, Step step) {
  const Throughput throughput = worker.RunFor(span, kBatch, [&](size_t, int64_t ops) {
    Step here = step;
    for (int64_t i = 0; i < ops; ++i) here();
  });
  return throughput.NsPerOp() * static_cast<double>(worker.threads());
}

template <typename Mode>
void AddNamed(Suite& suite) {
  suite.Add(
      {.name = base_internal::Concat(Mode::kName, " with metrics, alone"), .unit = "ns/op", .peer = "ours, without"},
      {.prepare = [](const Scale& scale) -> Contestants {
        const auto world = std::make_shared<World<Mode>>();
        const absl::Duration span = scale.span;
        return {[=](Worker& worker) { return NsPerStep(worker, span, [&lock = world->named] { Mode::Use(lock); }); },
                [=](Worker& worker) { return NsPerStep(worker, span, [&lock = world->unnamed] { Mode::Use(lock); }); }};
      }});
}

template <typename Mode>
void AddOnTop(Suite& suite, size_t threads) {
  suite.Add({.name = WithThreads(base_internal::Concat("metrics, on top of a ", Mode::kName), threads),
             .unit = "ns",
             .peer = "prometheus::Counter",
             .target = "<= 1 ns"},
            {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
               const auto world = std::make_shared<World<Mode>>();
               const auto on_top = [=, span = scale.span](Worker& worker, auto counted) {
                 const double bare = NsPerStep(worker, span, [&lock = world->unnamed] { Mode::Use(lock); });
                 return NsPerStep(worker, span, counted) - bare;
               };
               return {[=](Worker& worker) { return on_top(worker, [&lock = world->named] { Mode::Use(lock); }); },
                       [=](Worker& worker) {
                         return on_top(worker, [&lock = world->unnamed, &counter = world->counter] {
                           Mode::Use(lock);
                           counter.Increment();
                         });
                       }};
             }});
}

}  // namespace

void AddMetricsRows(Suite& suite) {
  AddNamed<ForWriting>(suite);
  AddOnTop<ForWriting>(suite, 1);
  AddNamed<ForReading>(suite);
  AddOnTop<ForReading>(suite, 1);
  AddOnTop<ForReading>(suite, 2);
}

}  // namespace stockade::bench
