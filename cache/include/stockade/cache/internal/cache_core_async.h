#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_ASYNC_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_ASYNC_H_

// Bodies of CacheCore: calls that are answered by a callback. Included by cache_core.h.

#include <algorithm>

#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::GetAsync(const Key& key, Executor& executor, typename Async::Done done,
                                               const CacheGetOptions& options) {
  CheckFork();
  if (!done) NoCallbackFatal();
  AsyncPtr async;
  try {
    const HashedKey at = Hashed(key);
    async = std::make_shared<Async>(key, at.hash, at.shard, executor, NewCall(options));
  } catch (...) {
    Answer thrown = ThrownError();
    const auto reply = std::make_shared<Reply>(executor);
    reply->done = std::move(done);
    return Deliver(reply, std::move(thrown));
  }
  async->done = std::move(done);
  CallGate::Call inside(*gate_, async->shard);
  if (!inside.inside()) {
    Deliver(async, CancelledError());
  } else if (options_.strict) {
    StartStrictAsync(async);
  } else {
    StartAsync(async);
  }
}

// Starts what a call needs to wait without a thread. ResourceExhausted: the threads cannot be started.
template <typename Key, typename Value, typename Hash, typename Eq>
absl::Status CacheCore<Key, Value, Hash, Eq>::StartAsyncThreads(const Call& call) {
  absl::Status started = options_.load_executor != nullptr ? absl::OkStatus() : StartRefreshThreads();
  const bool timed = call.deadline != Instant::InfiniteFuture() || call.stop.stop_possible() ||
                     std::min(options_.load_soft_timeout, options_.load_hard_timeout) != absl::InfiniteDuration();
  if (started.ok() && timed) started = timers_->Start();
  return started;
}

// Answers the call or makes it wait. No mutex is held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StartAsync(const AsyncPtr& async) noexcept {
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
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindOrWait(const AsyncPtr& async) -> std::optional<Answer> {
  const HashedKey at = KeyOf(*async);
  Shard& shard = shards_[at.shard];
  Call& call = async->call;
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
      if (flight->phase == Phase::kReady) QueueUp(flight, now, after);
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
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::WatchAsync(const AsyncPtr& async) {
  const Call& call = async->call;
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
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::CheckAsync(const AsyncPtr& async) noexcept {
  CallGate::Call inside(*gate_, async->shard);
  if (!inside.inside()) return;
  Call& call = async->call;
  std::optional<Answer> answer;
  Aftermath after(*this);
  {
    Shard& shard = shards_[async->shard];
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
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StopWaiting(Async& async) {
  async.waits = false;
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  StopWatching(async);
}

// With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StopWatching(Async& async) {
  if (async.timer.has_value()) timers_->Cancel(*async.timer);
  async.timer.reset();
  async.on_stop.reset();
}

// Does not access the cache. If the executor throws, it has not taken the callback, which then runs here. If it drops
// the callback, it has taken it.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Deliver(std::shared_ptr<Reply> reply, Answer answer) noexcept {
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

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_ASYNC_H_
