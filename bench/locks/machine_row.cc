// What the machine has to give to two threads that have nothing to do with each other.
#include "harness/threads.h"
#include "locks/rows.h"
#include "locks/work.h"

namespace stockade::bench {
namespace {

Measurement WorkMillionsPerSecond(size_t threads, absl::Duration span) {
  return [=] {
    return RunFor(threads, span, 1 << 16,
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
             .better = Better::kHigher,
             .prepare = [](const Scale& scale) -> Contestants {
               return {WorkMillionsPerSecond(2, scale.span), WorkMillionsPerSecond(1, scale.span)};
             }});
}

}  // namespace stockade::bench
