// Reads and writes of one guarded number. Nanoseconds an operation are of all threads together.
#include <memory>
#include <string>

#include "locks/mix.h"
#include "locks/rows.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade::bench {
namespace {

template <typename Mutex>
Measurement Ns(size_t threads, double write_share, absl::Duration span) {
  return [=, mix = std::make_shared<Mix<Mutex>>(threads, write_share)](Worker& worker) {
    return mix->Run(worker, span).NsPerOp();
  };
}

void AddMix(Suite& suite, std::string_view what, size_t threads, double write_share,
            const std::string& of_the_standards = "-") {
  const auto add = [&]<typename Mutex>(Peer<Mutex> peer) {
    suite.Add({.name = WithThreads(what, threads),
               .unit = "ns/op",
               .peer = std::string(peer.name),
               .target = peer.name == "std::shared_mutex" ? of_the_standards : "-"},
              {.threads = threads, .prepare = [=](const Scale& scale) -> Contestants {
                 return {Ns<ReentrantSharedMutex>(threads, write_share, scale.span),
                         Ns<Mutex>(threads, write_share, scale.span)};
               }});
  };
  add(Peer<std::shared_mutex>{"std::shared_mutex"});
  WithNsync(add);
  WithTbbRwMutex(add);
}

}  // namespace

void AddMixRows(Suite& suite) {
  AddMix(suite, "99 % reads", 2, 0.01);
  AddMix(suite, "90 % reads", 2, 0.1);
  AddMix(suite, "90 % reads", 8, 0.1);
  AddMix(suite, "50 % reads", 2, 0.5, "<= 1.2");
}

}  // namespace stockade::bench
