#ifndef STOCKADE_BENCH_LOCKS_MIX_H_
#define STOCKADE_BENCH_LOCKS_MIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "locks/workload.h"
#include "locks/write_pattern.h"

namespace stockade::bench {

// A read-write lock, and threads that read it and write it.
template <typename Mutex>
class Mix {
 public:
  // `write_share`: of all operations, in whole thousandths.
  template <typename... Args>
  Mix(size_t threads, double write_share, const Args&... args) : guarded_(args...) {
    const auto writes = static_cast<size_t>(write_share * WritePattern::kOps + 0.5);
    for (size_t i = 0; i < threads; ++i) patterns_.emplace_back(i, writes);
  }

  Throughput Run(Worker& worker, absl::Duration span) {
    return Hammer<Mutex>(worker, span, WritePattern::kOps, [this](size_t thread, int64_t) {
      Guarded<Mutex>& here = guarded_;
      for (const bool write : patterns_[thread].is_write()) {
        if (write) {
          LockAndAdd(here);
        } else {
          LockSharedAndLook(here);
        }
      }
    });
  }

 private:
  Guarded<Mutex> guarded_;
  std::vector<WritePattern> patterns_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_MIX_H_
