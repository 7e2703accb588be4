#ifndef STOCKADE_REDIS_RETIRED_PIPELINES_H_
#define STOCKADE_REDIS_RETIRED_PIPELINES_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pipeline.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::redis_internal {

// Pipelines to servers that are not used any more. What they have sent gets its replies for kGrace, so that a server
// which is well and only gave its slots away leaves no outcome unknown; then they are stopped, on a thread of its own,
// since that may have to wait for an attempt to connect. If that thread cannot be started they are stopped at once.
// Thread-safe.
class RetiredPipelines {
 public:
  // After the first call of Stop(), or without a thread, stops the pipeline in this call. Otherwise it does not block.
  void Add(std::shared_ptr<Pipeline> pipeline, const absl::Status& why);
  // Stops them all, and its thread. Blocks.
  void Stop();
  size_t pending() const;

 private:
  static constexpr absl::Duration kGrace = absl::Milliseconds(500);

  struct Retired {
    std::shared_ptr<Pipeline> pipeline;
    Instant until;
  };

  void Run();

  mutable Mutex mutex_;
  CondVar changed_;
  // In the order of `until`. The first one is kept until it is stopped.
  std::deque<Retired> retired_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Started with mutex_ held, with the first one.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_RETIRED_PIPELINES_H_
