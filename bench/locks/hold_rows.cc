// Two threads that work under the lock for some time, and as long outside of it. Were the lock free of charge, they
// would take turns, and an operation would take the time of the hold.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/base/strings.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

// Multiplications that wait for each other: neither the compiler nor the processor can do them sooner.
void Work(int64_t steps) {
  uint64_t chain = 1;
  for (int64_t i = 0; i < steps; ++i) {
    chain *= 0x9E3779B97F4A7C15u;
    KeepAlive(chain);
  }
}

// Steps that take `ns`. Counted, not clocked: a look at the clock would be a good part of a short hold. The fastest of
// many tries is the one that nothing disturbed.
int64_t StepsFor(int64_t ns) {
  static const double ns_per_step = [] {
    constexpr int64_t kSteps = 10'000;
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 50; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      Work(kSteps);
      const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
      fastest = std::min(fastest, taken.count() / kSteps);
    }
    return fastest;
  }();
  return std::llround(static_cast<double>(ns) / ns_per_step);
}

template <typename Mutex>
void Hold(Guarded<Mutex>& guarded, int64_t steps) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
  guarded.mutex.lock();
  KeepAlive(++guarded.counter);
  Work(steps);
  guarded.mutex.unlock();
  Work(steps);
}

template <typename Mutex>
Measurement Holds(int64_t steps, absl::Duration span) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>()] {
    return Hammer<Mutex>(2, span, kBatch,
                         [&](size_t, int64_t ops) {
                           for (int64_t i = 0; i < ops; ++i) Hold(*guarded, steps);
                         })
        .NsPerOp();
  };
}

}  // namespace

void AddHoldRows(Suite& suite) {
  for (const int64_t ns : {0, 100, 1000}) {
    const auto add = [&]<typename Mutex>(Peer<Mutex> peer) {
      suite.Add({.name = internal::Concat("mutex, held for ", ns, " ns, 2 threads"),
                 .unit = "ns/op",
                 .peer = std::string(peer.name),
                 .prepare = [=](const Scale& scale) -> Contestants {
                   const int64_t steps = StepsFor(ns);
                   return {Holds<ReentrantMutex>(steps, scale.span), Holds<Mutex>(steps, scale.span)};
                 }});
    };
    add(Peer<std::mutex>{"std::mutex"});
    WithNsync(add);
  }
}

}  // namespace stockade::bench
