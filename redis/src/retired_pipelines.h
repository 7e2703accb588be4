#ifndef STOCKADE_REDIS_RETIRED_PIPELINES_H_
#define STOCKADE_REDIS_RETIRED_PIPELINES_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pipeline.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::redis_internal {

// Pipelines to servers that are not used any more. A thread of its own retires and stops them, because that delivers
// results and may have to wait for an attempt to connect. Thread-safe.
class RetiredPipelines {
 public:
  enum class Ending {
    // What was sent gets its replies for kGrace, so that a server which is well and only gave its slots away leaves no
    // outcome unknown.
    kWithGrace,
    // What was sent gets the outcome of a lost connection.
    kAtOnce,
  };

  // What was not sent gets Refusal(why). Neither blocks nor delivers a result, so the caller may hold a lock. False:
  // after Stop(), or if the thread cannot be started. Then the caller has to retire and stop it.
  bool Add(std::shared_ptr<Pipeline> pipeline, std::string why, Ending ending) STOCKADE_EXCLUDES(mutex_);
  // Stops them all, and its thread. Blocks.
  void Stop() STOCKADE_EXCLUDES(mutex_);

  // Those that have a thread, and perhaps a connection, still.
  size_t size() const STOCKADE_EXCLUDES(mutex_);
  size_t pending() const STOCKADE_EXCLUDES(mutex_);

  // Unavailable.
  static absl::Status Refusal(std::string_view why);

 private:
  static constexpr absl::Duration kGrace = absl::Milliseconds(500);

  struct Retired {
    std::shared_ptr<Pipeline> pipeline;
    std::string why;
    Ending ending;
    Instant until = Instant::InfiniteFuture();  // Of a new one, which has yet to be retired.
  };

  void Run() STOCKADE_EXCLUDES(mutex_);
  void RetireNew() STOCKADE_REQUIRES(mutex_);  // Releases the mutex meanwhile.

  mutable Mutex mutex_;
  CondVar changed_;
  // Only the thread removes elements. Each is kept until it is stopped.
  std::list<Retired> retired_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Started with mutex_ held, with the first one.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_RETIRED_PIPELINES_H_
