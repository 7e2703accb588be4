#include "distributed_locks/our_locks.h"

#include <string>
#include <vector>

namespace stockade::bench {

Throughput OurLocks::Run(LockKind kind, size_t threads, bool own_names, absl::Duration span) {
  std::vector<std::string> names;
  for (size_t i = 0; i < threads; ++i) names.push_back(own_names ? "ours" + std::to_string(i) : "ours");
  return RunFor(threads, span, 1, [&](size_t thread, int64_t) {
    LockLease lease = Require(service_->Acquire(names[thread], {.kind = kind}), "Acquire");
    Require(lease.Release(), "Release");
  });
}

}  // namespace stockade::bench
