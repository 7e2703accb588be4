#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CALL_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stockade/base/executor.h"
#include "stockade/base/instant.h"
#include "stockade/base/timer_queue.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/internal/cache_metrics.h"
#include "stockade/cache/internal/flight.h"

namespace stockade::internal {

// One lookup of one key, from its beginning to its answer. Of the thread that makes it.
template <typename Key, typename Value, typename Eq>
struct CacheCall {
  using FlightT = Flight<Key, Value, Eq>;

  const Instant begun;
  const Instant deadline;
  const std::stop_token stop;
  std::shared_ptr<const typename FlightT::Loader> loader = nullptr;  // Of its own, once it is needed.
  CacheMetric result = kRequestMiss;
  bool waited = false;

  // Its place among those that wait for a flight.
  std::shared_ptr<FlightT> flight = nullptr;
  std::shared_ptr<FlightWaiter> waiter = nullptr;     // Of a thread.
  uint64_t joined = 0;                                // The flight's `voids` then.
  Instant soft_deadline = Instant::InfiniteFuture();  // From then on an expired value will do, if there still is one.
};

// A lookup whose answer goes to a callback. Invariant: it is in its flight's `async`, or else one thread alone has it,
// which gives it its answer or a place with another flight.
template <typename Key, typename Value, typename Eq>
struct AsyncCall {
  using Done = absl::AnyInvocable<void(absl::StatusOr<CacheHandle<Value>>)>;

  AsyncCall(const Key& k, size_t s, Executor& e, Done d, CacheCall<Key, Value, Eq> c)
      : key(k), shard(s), executor(e), done(std::move(d)), call(std::move(c)) {}

  const Key key;
  const size_t shard;
  Executor& executor;
  Done done;
  CacheCall<Key, Value, Eq> call;
  // Guarded by the mutex of the key's shard.
  bool waits = false;  // Is in its flight's `async`, at `place`.
  typename std::list<std::shared_ptr<AsyncCall>>::iterator place;
  // What looks after it while it waits.
  std::optional<TimerQueue::Id> timer;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CALL_H_
