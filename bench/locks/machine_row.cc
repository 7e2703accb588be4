// What the machine has to give to two threads that have nothing to do with each other.
#include "locks/rows.h"
#include "locks/work.h"
#include "measure/threads.h"

namespace stockade::bench {
namespace {

Measurement WorkMillionsPerSecond(absl::Duration span) {
  return [=](Worker& worker) {
    return worker
        .RunFor(span, 1 << 16,
                [](size_t, int64_t ops) {
                  Work work;
                  work.Do(ops);
                })
        .MillionsPerSecond();
  };
}

}  // namespace

// The ratio is close to 2 if two cores are free. If it is not, the rows with threads say nothing.
void AddMachineRow(Suite& suite) {
  suite.Add({.name = "no lock, nothing shared, 2 threads",
             .unit = "M/s",
             .peer = "the same, 1 thread",
             .better = Better::kHigher},
            {.threads = 2, .peer_threads = 1, .prepare = [](const Scale& scale) -> Contestants {
               return {WorkMillionsPerSecond(scale.span), WorkMillionsPerSecond(scale.span)};
             }});
}

}  // namespace stockade::bench
