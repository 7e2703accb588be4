// Lock, add one, unlock. Nanoseconds an operation are of all threads together: elapsed time / operations.
#include <memory>
#include <mutex>
#include <string>

#include "harness/threads.h"
#include "locks/peers.h"
#include "locks/rows.h"
#include "stockade/base/strings.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

constexpr int64_t kBatch = 256;

// The counter has a line of its own, so that what is measured is the lock.
template <typename Mutex>
struct Guarded {
  alignas(128) Mutex mutex;
  alignas(128) int64_t counter = 0;
};

template <typename Mutex>
Measurement Contend(size_t threads, absl::Duration span) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>()] {
    return RunFor(threads, span, kBatch,
                  [&](size_t, int64_t ops) {
                    for (int64_t i = 0; i < ops; ++i) {
                      guarded->mutex.lock();
                      KeepAlive(++guarded->counter);
                      guarded->mutex.unlock();
                    }
                  })
        .NsPerOp();
  };
}

// The same with an outer hold, so that every lock of the loop is an inner one.
template <typename Mutex>
Measurement Reenter(absl::Duration span) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
  return [=, guarded = std::make_shared<Guarded<Mutex>>()]() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return RunFor(1, span, 1 << 16,
                  [&](size_t, int64_t ops) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
                    guarded->mutex.lock();
                    for (int64_t i = 0; i < ops; ++i) {
                      guarded->mutex.lock();
                      KeepAlive(++guarded->counter);
                      guarded->mutex.unlock();
                    }
                    guarded->mutex.unlock();
                  })
        .NsPerOp();
  };
}

template <typename Peer>
void AddAgainst(Suite& suite, size_t threads, std::string peer, Target target) {
  suite.Add({.name = threads == 1 ? "mutex, alone" : internal::Concat("mutex, ", threads, " threads"),
             .unit = "ns/op",
             .peer = std::move(peer),
             .target = target,
             .prepare = [=](const Scale& scale) -> Contestants {
               return {Contend<ReentrantMutex>(threads, scale.span), Contend<Peer>(threads, scale.span)};
             }});
}

}  // namespace

void AddMutexRows(Suite& suite) {
#ifndef STOCKADE_BENCH_NSYNC
  suite.LeaveOut("mutex against nsync", "nsync was not found (libnsync-dev)");
#endif
  suite.Add({.name = "re-entry",
             .unit = "ns/op",
             .peer = "std::recursive_mutex",
             .target = Target::ValueAtMost(2),
             .prepare = [](const Scale& scale) -> Contestants {
               return {Reenter<ReentrantMutex>(scale.span), Reenter<std::recursive_mutex>(scale.span)};
             }});
  for (const size_t threads : {1, 2, 8}) {
    // With more threads: no worse than the best of the reentrant standard and nsync, hence than either.
    const Target contended = threads == 1 ? Target::None() : Target::RatioAtMost(1);
    AddAgainst<std::recursive_mutex>(suite, threads, "std::recursive_mutex",
                                     threads == 1 ? Target::RatioAtMost(0.6) : contended);
#ifdef STOCKADE_BENCH_NSYNC
    AddAgainst<NsyncMutex>(suite, threads, "nsync_mu", contended);
#endif
    AddAgainst<std::mutex>(suite, threads, "std::mutex", Target::None());
    AddAgainst<AbslMutex>(suite, threads, "absl::Mutex", Target::None());
  }
}

}  // namespace stockade::bench
