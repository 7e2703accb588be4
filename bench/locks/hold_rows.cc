// Two threads that work under the lock for some time, and as long outside of it. Were the lock free of charge, they
// would take turns, and an operation would take the time of the hold.
#include <memory>
#include <mutex>
#include <string>

#include "locks/rows.h"
#include "locks/work.h"
#include "locks/workload.h"
#include "stockade/base/strings.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

template <typename Mutex>
void Hold(Guarded<Mutex>& guarded, Work& work, int64_t steps) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
  guarded.mutex.lock();
  KeepAlive(++guarded.counter);
  work.Do(steps);
  guarded.mutex.unlock();
  work.Do(steps);
}

template <typename Mutex>
Measurement Holds(int64_t steps, absl::Duration span) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>()](Worker& worker) {
    return Hammer<Mutex>(worker, span, kBatch,
                         [&](size_t, int64_t ops) {
                           Work work;
                           for (int64_t i = 0; i < ops; ++i) Hold(*guarded, work, steps);
                         })
        .NsPerOp();
  };
}

}  // namespace

void AddHoldRows(Suite& suite) {
  for (const int64_t ns : {0, 100, 1000}) {
    const auto add = [&]<typename Mutex>(Peer<Mutex> peer) {
      suite.Add({.name = base_internal::Concat("mutex, held for ", ns, " ns, 2 threads"),
                 .unit = "ns/op",
                 .peer = std::string(peer.name)},
                {.threads = 2, .prepare = [=](const Scale& scale) -> Contestants {
                   const int64_t steps = StepsFor(ns);
                   return {Holds<ReentrantMutex>(steps, scale.span), Holds<Mutex>(steps, scale.span)};
                 }});
    };
    add(Peer<std::mutex>{"std::mutex"});
    WithNsync(add);
  }
}

}  // namespace stockade::bench
