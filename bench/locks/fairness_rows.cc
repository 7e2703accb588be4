// How evenly a lock that all want at once is shared out: what the slowest thread got, over an equal share. Long runs,
// because the kernel's scheduler shares out the cores in slices of milliseconds.
#include <memory>
#include <mutex>
#include <string>

#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

// Short batches: a thread that gets nothing must show as nothing, and each thread ends the batch that it began.
constexpr int64_t kFairnessBatch = 16;

template <typename Mutex>
Measurement SlowestShare(const Scale& scale) {
  const absl::Duration span = scale.quick ? scale.span : absl::Milliseconds(500);
  return [=, guarded = std::make_shared<Guarded<Mutex>>()](Worker& worker) {
    return Write(*guarded, worker, span, kFairnessBatch).SlowestShare();
  };
}

}  // namespace

void AddFairnessRows(Suite& suite) {
  for (const size_t threads : {2, 8}) {
    const auto add = [&]<typename Mutex>(Peer<Mutex> peer) {
      suite.Add({.name = WithThreads("mutex, slowest thread's share", threads),
                 .unit = "share",
                 .peer = std::string(peer.name),
                 .better = Better::kHigher},
                {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
                   return {SlowestShare<ReentrantMutex>(scale), SlowestShare<Mutex>(scale)};
                 }});
    };
    add(Peer<std::mutex>{"std::mutex"});
    add(Peer<std::recursive_mutex>{"std::recursive_mutex"});
    WithNsync(add);
  }
}

}  // namespace stockade::bench
