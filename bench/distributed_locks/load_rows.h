#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_LOAD_ROWS_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_LOAD_ROWS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "distributed_locks/our_locks.h"
#include "harness/suite.h"
#include "measure/threads.h"

namespace stockade::bench {

// All threads of the benchmark acquire and release for `span`: each a lock of its own, or all the same one. One
// operation is an acquire and a release.
using LockRun = std::function<Throughput(Worker& worker, bool own_names, absl::Duration span)>;

LockRun RunOf(std::shared_ptr<OurLocks> ours);  // Of reentrant locks.

struct LockSides {
  LockRun ours;
  LockRun peer;
};

// "<engine>: lock + unlock", by one thread, by 16 threads with one name, and by 16 threads with one name each, on the
// two sides that `open` returns for each row. `target` is for the first two rows.
void AddLoadRows(Suite& suite, const std::string& engine, const std::string& peer, const std::string& target,
                 const std::function<LockSides(const Scale& scale)>& open);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_LOAD_ROWS_H_
