#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_OUR_LOCKS_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_OUR_LOCKS_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "harness/suite.h"
#include "measure/threads.h"
#include "stockade/locks/lock_service.h"

namespace stockade::bench {

// A service, with the options that users have who say nothing.
class OurLocks {
 public:
  explicit OurLocks(absl::StatusOr<std::unique_ptr<LockService>> service)
      : service_(Require(std::move(service), "a lock service")) {}

  // All threads of the benchmark acquire and release: each a lock of its own, or all the same one. An operation is
  // both.
  Throughput Run(Worker& worker, LockKind kind, bool own_names, absl::Duration span);

  LockService& service() { return *service_; }

 private:
  const std::unique_ptr<LockService> service_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_OUR_LOCKS_H_
