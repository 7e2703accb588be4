#include "distributed_locks/our_locks.h"

#include <string>

namespace stockade::bench {

Throughput OurLocks::Run(Worker& worker, LockKind kind, bool own_names, absl::Duration span) {
  const std::string name = own_names ? "ours" + std::to_string(worker.thread()) : "ours";
  return worker.RunFor(span, 1, [&](size_t, int64_t) {
    LockLease lease = Require(service_->Acquire(name, {.kind = kind}), "Acquire");
    Require(lease.Release(), "Release");
  });
}

}  // namespace stockade::bench
