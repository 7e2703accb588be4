#ifndef STOCKADE_CACHE_SRC_CACHE_CALL_H_
#define STOCKADE_CACHE_SRC_CACHE_CALL_H_

#include <atomic>
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
#include "flight.h"
#include "stockade/base/executor.h"
#include "stockade/base/instant.h"
#include "stockade/base/timer_queue.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/internal/cache_metrics.h"

namespace stockade::cache_internal {

// One lookup of one key, from its start to its answer. Used by the thread that makes it.
struct CacheCall {
  const Instant begun;
  const Instant deadline;
  const std::stop_token stop;
  LoaderPtr loader = nullptr;  // The call's own loader, once it is needed.
  CacheMetric result = kRequestMiss;
  bool waited = false;

  // The call's place among the waiters of a flight.
  FlightPtr flight = nullptr;
  std::shared_ptr<FlightWaiter> waiter = nullptr;     // For a thread.
  uint64_t joined = 0;                                // The flight's `voids` at that time.
  Instant soft_deadline = Instant::InfiniteFuture();  // After this an expired value is accepted, if there still is one.
};

// A callback and its answer.
struct AsyncReply {
  AsyncReply(Executor& e, AnswerCallback d) : executor(e), done(std::move(d)) {}

  // Only the first call has an effect, because an executor may run a task and throw nevertheless.
  void Call() {
    if (called.exchange(true, std::memory_order_acq_rel)) return;
    AnswerCallback run = std::move(done);
    run(std::move(answer));
  }

  Executor& executor;
  AnswerCallback done;
  Answer answer = absl::UnknownError("");  // Set before the executor gets the callback.
  std::atomic<bool> called{false};
};

// A lookup that is answered by a callback. Invariant: it is in its flight's `async`, or in its `lobby`, or exactly one
// thread owns it, which answers it or adds it to another flight.
struct AsyncCall : AsyncReply {
  AsyncCall(KeptKey k, Executor& e, AnswerCallback d, CacheCall c)
      : AsyncReply(e, std::move(d)), key(std::move(k)), call(std::move(c)) {}

  const KeptKey key;
  CacheCall call;
  // Guarded by the mutex of the key's shard.
  bool waits = false;  // True while it is in its flight's `async`, at `place`.
  // For a strict call that waits for its key's lock: the list that it is in, at `place`.
  std::list<std::shared_ptr<AsyncCall>>* lobby = nullptr;
  bool parked = false;  // True once it has waited for the end of an update.
  std::list<std::shared_ptr<AsyncCall>>::iterator place;
  // These check it while it waits.
  std::optional<TimerQueue::Id> timer;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
};
using AsyncPtr = std::shared_ptr<AsyncCall>;

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_CACHE_CALL_H_
