#include "async_call.h"

#include <utility>

#include "status.h"
#include "stockade/base/clock.h"

namespace stockade::redis_internal {

AsyncCall::AsyncCall(RedisCommand command, Router* router, TimerQueue* timers, ComponentMetrics* metrics,
                     CallTerms terms, ReplyCallback done)
    : command_(std::move(command)),
      timers_(timers),
      metrics_(metrics),
      attempt_(&command_, router, metrics, std::move(terms)),
      done_(std::move(done)) {}

AsyncCall::~AsyncCall() {
  if (done_) Finish(attempt_.Final(absl::CancelledError("redis: the client was destroyed")));
}

void AsyncCall::Start(RedisCommand command, Router* router, TimerQueue* timers, ComponentMetrics* metrics,
                      CallTerms terms, ReplyCallback done) {
  std::unique_ptr<AsyncCall> call(
      new AsyncCall(std::move(command), router, timers, metrics, std::move(terms), std::move(done)));
  // Deadlines and pauses need it.
  if (const absl::Status started = timers->Start(); !started.ok()) return call->Finish(started);
  Send(std::move(call));
}

void AsyncCall::Send(std::unique_ptr<AsyncCall> call) {
  auto request = std::make_unique<AsyncRequest>();
  const absl::Status prepared = call->attempt_.Prepare(*request);
  if (IsNoRoom(prepared)) return Take(std::move(call), prepared);
  if (!prepared.ok()) return call->Finish(prepared);
  request->deadline = call->attempt_.deadline();
  const std::shared_ptr<Pipeline> pipeline = call->attempt_.pipeline();
  request->done = [call = std::move(call)](absl::StatusOr<RedisReply> result) mutable {
    Take(std::move(call), std::move(result));
  };
  pipeline->RunAsync(std::move(request));
}

void AsyncCall::Take(std::unique_ptr<AsyncCall> call, absl::StatusOr<RedisReply> result) {
  const std::optional<absl::Duration> pause = call->attempt_.Judge(result);
  if (!pause) {
    call->Finish(std::move(result));
  } else if (*pause == absl::ZeroDuration()) {
    Send(std::move(call));
  } else {
    TimerQueue& timers = *call->timers_;
    timers.Schedule(Clock::System()->Now() + *pause, [call = std::move(call)]() mutable { Send(std::move(call)); });
  }
}

void AsyncCall::Finish(absl::StatusOr<RedisReply> result) {
  CountResult(result.status(), *metrics_);
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace stockade::redis_internal
