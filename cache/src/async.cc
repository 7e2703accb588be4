// Calls that are answered by a callback.

#include <algorithm>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

void CacheCore::GetAsync(KeptKey key, Executor& executor, AnswerCallback done, const CacheGetOptions& options) {
  const auto async = std::make_shared<AsyncCall>(std::move(key), executor, std::move(done), NewCall(options));
  CallGate::Call inside(*gate_, async->key.shard);
  if (!inside.inside()) {
    Deliver(async, CancelledError());
  } else if (options_.strict) {
    StartStrictAsync(async);
  } else {
    StartAsync(async);
  }
}

void CacheCore::Deliver(Executor& executor, AnswerCallback done, Answer answer) {
  Deliver(std::make_shared<AsyncReply>(executor, std::move(done)), std::move(answer));
}

// Starts what a call needs to wait without a thread. ResourceExhausted: the threads cannot be started.
absl::Status CacheCore::StartAsyncThreads(const CacheCall& call) {
  absl::Status started = options_.load_executor != nullptr ? absl::OkStatus() : StartRefreshThreads();
  const bool timed = call.deadline != Instant::InfiniteFuture() || call.stop.stop_possible() ||
                     std::min(options_.load_soft_timeout, options_.load_hard_timeout) != absl::InfiniteDuration();
  if (started.ok() && timed) started = timers_->Start();
  return started;
}

// Answers the call or makes it wait. No mutex is held.
void CacheCore::StartAsync(const AsyncPtr& async) noexcept {
  std::optional<Answer> answer;
  try {
    answer = FindOrWait(async);
  } catch (...) {
    answer = ThrownError();
    Abandon(async->call);
  }
  if (!answer.has_value()) return;
  CountRequest(async->call);
  Deliver(async, *std::move(answer));
}

// Returns nothing if the call waits for a flight and will get its answer.
std::optional<Answer> CacheCore::FindOrWait(const AsyncPtr& async) {
  const KeyAt at = async->key.at();
  Shard& shard = shards_[at.shard];
  CacheCall& call = async->call;
  for (;;) {
    const Instant now = Now();
    std::optional<RefreshTrigger> due;
    Aftermath after(*this);
    ShardLock lock = Lock(shard);
    if (std::optional<Answer> served = Serve(at, now, true, call.result, due)) {
      lock.unlock();
      if (due.has_value()) StartRefresh(at, *due, nullptr);
      return served;
    }
    call.result = kRequestMiss;
    if (TimeOutHung(at, now, after)) continue;
    absl::Status refusal = StartAsyncThreads(call);
    if (refusal.ok()) refusal = Join(at, call, now);
    if (!refusal.ok()) return refusal;
    const FlightPtr flight = call.flight;
    async->place = flight->async.insert(flight->async.end(), async);
    waiters_.fetch_add(1, std::memory_order_relaxed);
    call.waited = async->waits = true;
    try {
      if (flight->phase == Flight::Phase::kReady) QueueUp(flight, now, after);
      WatchAsync(async);
      return std::nullopt;
    } catch (...) {  // Before another thread can answer the call.
      StopWaiting(*async);
      flight->async.erase(async->place);
      DropIfUnwanted(shard, *flight, after);
      return ThrownError();
    }
  }
}

// Schedules checks of a waiting call. Called with the shard's mutex held.
void CacheCore::WatchAsync(const AsyncPtr& async) {
  const CacheCall& call = async->call;
  // Weak: a flight owns its calls, so objects that the calls keep alive must not own them.
  const auto check = [this, weak = std::weak_ptr(async)] {
    if (const AsyncPtr waiting = weak.lock()) CheckAsync(waiting);
  };
  const Instant at = call.flight == nullptr ? call.deadline
                                            : std::min({call.deadline, call.soft_deadline, call.flight->hard_deadline});
  if (async->timer.has_value()) timers_->Cancel(*std::exchange(async->timer, std::nullopt));
  if (at != Instant::InfiniteFuture()) async->timer = timers_->Schedule(at, check);
  if (call.stop.stop_possible() && !async->on_stop.has_value()) {
    async->on_stop.emplace(call.stop, [this, check] { timers_->Schedule(Instant::InfinitePast(), check); });
  }
}

// Runs on the timers' thread.
void CacheCore::CheckAsync(const AsyncPtr& async) noexcept {
  CallGate::Call inside(*gate_, async->key.shard);
  if (!inside.inside()) return;
  CacheCall& call = async->call;
  std::optional<Answer> answer;
  Aftermath after(*this);
  {
    Shard& shard = shards_[async->key.shard];
    const ShardLock lock = Lock(shard);
    const bool in_lobby = async->lobby != nullptr;
    if (!async->waits && !in_lobby) return;
    const Instant now = Now();
    answer = in_lobby ? Expired(call, now) : GiveUp(call, now, after);
    if (!answer.has_value()) {
      if (async->waits || in_lobby) WatchAsync(async);
      return;
    }
    if (in_lobby) {
      LeaveLobby(*async);
    } else {
      StopWaiting(*async);
      call.flight->async.erase(async->place);
      DropIfUnwanted(shard, *call.flight, after);
    }
  }
  CountRequest(call);
  Deliver(async, *std::move(answer));
}

// Called with the shard's mutex held.
void CacheCore::StopWaiting(AsyncCall& async) {
  async.waits = false;
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  StopWatching(async);
}

// With the shard's mutex held.
void CacheCore::StopWatching(AsyncCall& async) {
  if (async.timer.has_value()) timers_->Cancel(*async.timer);
  async.timer.reset();
  async.on_stop.reset();
}

// Does not access the cache. If the executor throws, it has not taken the callback, which then runs here. If it drops
// the callback, it has taken it.
void CacheCore::Deliver(std::shared_ptr<AsyncReply> reply, Answer answer) noexcept {
  reply->answer = std::move(answer);
  try {
    reply->executor.Schedule([reply] { reply->Call(); });
  } catch (...) {
    LogThrownBy("an executor, which was to run a callback of GetAsync(),");
    const absl::Status ran = GuardCallback<absl::Status>("a callback of GetAsync()", [&] {
      reply->Call();
      return absl::OkStatus();
    });
    if (!ran.ok()) Log(LogSeverity::kError, Concat(ran.message()));
  }
}

}  // namespace stockade::cache_internal
