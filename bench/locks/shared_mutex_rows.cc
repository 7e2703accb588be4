// Reads alone and beside each other: lock shared, look at a number, unlock.
#include <memory>
#include <string>

#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade::bench {
namespace {

template <typename Mutex>
Measurement NsAlone(absl::Duration span) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>()](Worker& worker) {
    return Read(*guarded, worker, span).NsPerOp();
  };
}

template <typename Mutex>
Measurement MillionsPerSecond(absl::Duration span) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>()](Worker& worker) {
    return Read(*guarded, worker, span).MillionsPerSecond();
  };
}

}  // namespace

void AddSharedMutexRows(Suite& suite) {
  ForEachSharedMutex([&]<typename Mutex>(Peer<Mutex> peer) {
    suite.Add({.name = "read lock, alone",
               .unit = "ns/op",
               .peer = std::string(peer.name),
               .target = peer.name == "std::shared_mutex" ? "<= 0.3" : "-"},
              {.prepare = [](const Scale& scale) -> Contestants {
                return {NsAlone<ReentrantSharedMutex>(scale.span), NsAlone<Mutex>(scale.span)};
              }});
  });
  suite.Add({.name = "read lock, 2 threads",
             .unit = "M/s",
             .peer = "ours, 1 thread",
             .better = Better::kHigher,
             .target = ">= 1.8"},
            {.threads = 2, .peer_threads = 1, .prepare = [](const Scale& scale) -> Contestants {
               return {MillionsPerSecond<ReentrantSharedMutex>(scale.span),
                       MillionsPerSecond<ReentrantSharedMutex>(scale.span)};
             }});
  for (const size_t threads : {2, 4, 8}) {
    ForEachSharedMutex([&]<typename Mutex>(Peer<Mutex> peer) {
      const bool claimed = threads == 2 && peer.name == "std::shared_mutex";
      suite.Add({.name = WithThreads("read lock", threads),
                 .unit = "M/s",
                 .peer = std::string(peer.name),
                 .better = Better::kHigher,
                 .target = claimed ? ">= 15" : "-"},
                {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
                   return {MillionsPerSecond<ReentrantSharedMutex>(scale.span), MillionsPerSecond<Mutex>(scale.span)};
                 }});
    });
  }
}

}  // namespace stockade::bench
