#ifndef STOCKADE_BENCH_LEDGER_ORDER_RUNS_H_
#define STOCKADE_BENCH_LEDGER_ORDER_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "measure/durations.h"
#include "measure/threads.h"

namespace stockade::bench {

// Runs in which a number of orders is outstanding at each moment: where one ends, the next begins.
struct OrderRun {
  double per_second = 0;
  Durations durations = {};  // Of each order, from when it was outstanding to its answer.
};

// All threads of the benchmark call this, and each does its share of the orders, first come, first served: orders
// beyond the number of threads wait. order(thread) blocks until the order is done. The result is that of all threads,
// for thread 0; the others get an empty one.
OrderRun RunOrders(Worker& worker, size_t outstanding, absl::Duration span, const std::function<void(size_t)>& order);

// start(done) blocks on nothing, and calls `done` once the order is done, on whatever thread, also before
// it has returned. No call of it runs on once RunAsyncOrders has returned. `orders`: stops after so many at the latest.
using StartOrder = std::function<void(absl::AnyInvocable<void()> done)>;
OrderRun RunAsyncOrders(size_t outstanding, absl::Duration span, const StartOrder& start,
                        int64_t orders = int64_t{1} << 60);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_ORDER_RUNS_H_
