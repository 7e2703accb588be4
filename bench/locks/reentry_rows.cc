// What an inner lock and its unlock cost a thread that holds the lock already. Nothing is done between them: the loop
// is bound by the count of holds, which goes through memory twice a pair, and other work would only overlap with that.
#include <memory>
#include <mutex>

#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/base/strings.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

// kDepth inner locks, then as many unlocks, over and over; an operation is a lock with its unlock. After each call the
// compiler must take it that somebody looks at the lock, so that none is merged with another or left out.
template <typename Mutex, int kDepth>
Measurement Reenter(absl::Duration span) {
  return [=, mutex = std::make_shared<Mutex>()](Worker& worker) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return Hammer<Mutex>(worker, span, int64_t{1} << 14,
                         [&](size_t, int64_t ops) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
                           Mutex& here = *mutex;
                           here.lock();
                           for (int64_t i = 0; i < ops; i += kDepth) {
                             for (int depth = 0; depth < kDepth; ++depth) {
                               here.lock();
                               KeepAlive(&here);
                             }
                             for (int depth = 0; depth < kDepth; ++depth) {
                               here.unlock();
                               KeepAlive(&here);
                             }
                           }
                           here.unlock();
                         })
        .NsPerOp();
  };
}

template <int kDepth>
void AddDepth(Suite& suite) {
  suite.Add({.name = base_internal::Concat("re-entry, depth ", kDepth),
             .unit = "ns/op",
             .peer = "std::recursive_mutex",
             .target = "<= 2 ns/op"},
            {.prepare = [](const Scale& scale) -> Contestants {
              return {Reenter<ReentrantMutex, kDepth>(scale.span), Reenter<std::recursive_mutex, kDepth>(scale.span)};
            }});
}

}  // namespace

void AddReentryRows(Suite& suite) {
  AddDepth<1>(suite);
  AddDepth<8>(suite);
}

}  // namespace stockade::bench
