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
Measurement Contend(absl::Duration span, const Args&... args) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>(args...)](Worker& worker) {
    return Write(*guarded, worker, span).NsPerOp();
  };
}

// Alone, the claim is against the reentrant lock of the standard library. With more threads it is to be no worse than
// the best of that and nsync, hence than either.
std::string MutexTarget(size_t threads, std::string_view peer) {
  const bool recursive = peer == "std::recursive_mutex";
  if (threads == 1) return recursive ? "<= 0.6" : "-";
  if (threads == 4) return "-";
  return recursive || peer == kNsync ? "<= 1" : "-";
}

}  // namespace

void AddMutexRows(Suite& suite) {
  for (const size_t threads : {1, 2, 4, 8}) {
    ForEachMutex([&]<typename Mutex>(Peer<Mutex> peer) {
      suite.Add({.name = WithThreads("mutex", threads),
                 .unit = "ns/op",
                 .peer = std::string(peer.name),
                 .target = MutexTarget(threads, peer.name)},
                {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
                   return {Contend<ReentrantMutex>(scale.span), Contend<Mutex>(scale.span)};
                 }});
    });
  }
  suite.Add({.name = "mutex, FIFO, 2 threads", .unit = "ns/op", .peer = "std::mutex"},
            {.threads = 2, .prepare = [](const Scale& scale) -> Contestants {
               return {Contend<ReentrantMutex>(scale.span, LockOptions{.fifo = true}), Contend<std::mutex>(scale.span)};
             }});
}

}  // namespace stockade::bench
