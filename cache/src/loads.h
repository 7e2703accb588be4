#ifndef STOCKADE_CACHE_SRC_LOADS_H_
#define STOCKADE_CACHE_SRC_LOADS_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "flight.h"
#include "stockade/base/instant.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// One distinct key of a call for many keys.
struct CacheCore::Part {
  const KeyAt at;
  CacheCall call;
  std::optional<Answer> answer;
};

// The caller that a loader runs for: the call whose thread runs it, or none.
struct CacheCore::Runner {
  Instant deadline = Instant::InfiniteFuture();
  std::stop_token stop = {};
};

// The result of a loader for one key.
struct CacheCore::Loaded {
  Answer answer;
  EntryOptions entry;
  absl::Duration took;
  Instant ended;
};

// A task of an executor that runs flights of its queue, as one batch or one by one. It may run after the cache is gone
// or after another thread has run the flights. A task that is destroyed without having run was dropped by its executor,
// and its flights are answered with an error.
class CacheCore::QueuedLoad {
 public:
  QueuedLoad(CacheCore& core, LoadQueue queue, std::vector<FlightPtr> flights, bool batch)
      : core_(core), gate_(core.gate_), queue_(queue), flights_(std::move(flights)), batch_(batch) {}
  ~QueuedLoad() {
    if (flights_.empty()) return;
    CallGate::Call inside(*gate_, flights_.front()->key.shard);
    if (inside.inside()) core_.Dropped(queue_, std::move(flights_));
  }
  QueuedLoad(QueuedLoad&& other) noexcept
      : core_(other.core_),
        gate_(other.gate_),
        queue_(other.queue_),
        flights_(std::exchange(other.flights_, {})),
        batch_(other.batch_) {}
  QueuedLoad& operator=(QueuedLoad&&) = delete;

  void operator()() {
    const std::vector<FlightPtr> flights = std::exchange(flights_, {});
    CallGate::Call inside(*gate_, flights.front()->key.shard);
    if (!inside.inside()) return;
    if (batch_) {
      if (const auto begun = core_.BeginAll(flights, queue_); !begun.empty()) core_.Run(begun, true, Runner());
    } else {
      for (const FlightPtr& flight : flights) {
        if (core_.BeginQueued(*flight, queue_)) core_.Run({&flight, 1}, false, Runner());
      }
    }
  }

 private:
  CacheCore& core_;
  const std::shared_ptr<CallGate> gate_;
  LoadQueue queue_;
  std::vector<FlightPtr> flights_;
  bool batch_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_LOADS_H_
