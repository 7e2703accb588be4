// Lock, add one, unlock. Nanoseconds an operation are of all threads together: elapsed time / operations.
#include <memory>
#include <mutex>
#include <string>

#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

template <typename Mutex, typename... Args>
Measurement Contend(size_t threads, absl::Duration span, const Args&... args) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>(args...)] { return Write(*guarded, threads, span).NsPerOp(); };
}

// Alone, the claim is against the reentrant lock of the standard library. With more threads it is to be no worse than
// the best of that and nsync, hence than either.
Target MutexTarget(size_t threads, std::string_view peer) {
  const bool recursive = peer == "std::recursive_mutex";
  if (threads == 1) return recursive ? Target::RatioAtMost(0.6) : Target::None();
  if (threads == 4) return Target::None();
  return recursive || peer == kNsync ? Target::RatioAtMost(1) : Target::None();
}

}  // namespace

void AddMutexRows(Suite& suite) {
  for (const size_t threads : {1, 2, 4, 8}) {
    ForEachMutex([&]<typename Mutex>(Peer<Mutex> peer) {
      suite.Add({.name = WithThreads("mutex", threads),
                 .unit = "ns/op",
                 .peer = std::string(peer.name),
                 .target = MutexTarget(threads, peer.name),
                 .prepare = [=](const Scale& scale) -> Contestants {
                   return {Contend<ReentrantMutex>(threads, scale.span), Contend<Mutex>(threads, scale.span)};
                 }});
    });
  }
  suite.Add(
      {.name = "mutex, FIFO, 2 threads",
       .unit = "ns/op",
       .peer = "std::mutex",
       .prepare = [](const Scale& scale) -> Contestants {
         return {Contend<ReentrantMutex>(2, scale.span, LockOptions{.fifo = true}), Contend<std::mutex>(2, scale.span)};
       }});
}

}  // namespace stockade::bench
