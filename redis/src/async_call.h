#ifndef STOCKADE_REDIS_ASYNC_CALL_H_
#define STOCKADE_REDIS_ASYNC_CALL_H_

#include <memory>

#include "attempt.h"
#include "pipeline.h"
#include "router.h"
#include "stockade/base/timer_queue.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/redis/redis_command.h"

namespace stockade::redis_internal {

// A command that no thread waits for. A request on its way owns it, or the timer that will continue it. If its owner is
// destroyed without continuing it, it ends with Cancelled.
class AsyncCall {
 public:
  // `done` is called once, on any thread, perhaps within this call; it must be short. The pointers must outlive all
  // calls.
  static void Start(RedisCommand command, Router* router, TimerQueue* timers, ComponentMetrics* metrics,
                    CallTerms terms, ReplyCallback done);
  ~AsyncCall();
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;

 private:
  AsyncCall(RedisCommand command, Router* router, TimerQueue* timers, ComponentMetrics* metrics, CallTerms terms,
            ReplyCallback done);
  static void Send(std::unique_ptr<AsyncCall> call);
  static void Take(std::unique_ptr<AsyncCall> call, absl::StatusOr<RedisReply> result);
  void Finish(absl::StatusOr<RedisReply> result);

  const RedisCommand command_;
  TimerQueue* const timers_;
  ComponentMetrics* const metrics_;
  Attempt attempt_;
  ReplyCallback done_;  // Empty once it was called.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_ASYNC_CALL_H_
