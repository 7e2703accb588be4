// Calls that are answered by a callback.
//
// In a strict cache, a call that takes a load holds its key's lock until the load has ended, and may have to wait for
// the lock. The calling thread must not wait, and a thread of the user's executors must not, because the lock's holder
// may wait for one of those. So GetAsync() answers the call itself if that takes neither a wait nor a load. Every other
// call goes to a thread of async_read_pool_.
//
// A thread of that pool does not wait for an update either. Otherwise two calls for a key that is being written would
// delay the calls for all other keys. It parks the call, and the update schedules it again when it has released the
// lock. A call that has been parked once and then finds the next update under way waits for the lock, whose queue is
// fair. So a series of updates cannot starve it.

#include <algorithm>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"
#include "tier_side.h"

namespace stockade::cache_internal {

void CacheCore::GetAsync(KeptKey&& key, Executor& executor, AnswerCallback&& done, const CacheGetOptions& options) {
  const auto async = std::make_shared<AsyncCall>(std::move(key), executor, std::move(done), NewCall(options));
  CallGate::Call inside(*gate_, async->key.shard);
  if (!inside.inside()) {
    Deliver(async, CancelledError());
  } else if (locks_reads()) {
    StartStrictAsync(async);
  } else {
    StartAsync(async);
  }
}

// Without memory for the task, the callback runs here.
void CacheCore::Deliver(Executor& executor, AnswerCallback done, Answer answer) noexcept {
  std::shared_ptr<AsyncReply> reply;
  try {
    reply = std::make_shared<AsyncReply>(executor, std::move(done));
  } catch (const std::bad_alloc&) {
    return RunCallback([&] { done(std::move(answer)); });
  }
  Deliver(std::move(reply), std::move(answer));
}

void CacheCore::RunCallback(absl::FunctionRef<void()> callback) noexcept {
  const absl::Status ran = GuardCallback<absl::Status>("a callback of GetAsync()", [&] {
    callback();
    return absl::OkStatus();
  });
  if (!ran.ok()) LogParts(LogSeverity::kError, ran.message());
}

void CacheCore::AnswerAsync(const AsyncPtr& async) noexcept {
  StopWatching(*async);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  const FlightPtr flight = std::move(async->call.flight);
  const Flight::Result& result = flight->FinalResult();
  if (async->call.joined >= result.valid_for_joins_before) return StartAsync(async);
  if (result.stale) async->call.result = kRequestStale;
  Reply(async, result.answer);
}

void CacheCore::Reply(const AsyncPtr& async, Answer answer) noexcept {
  CountRequest(async->call);
  Deliver(async, std::move(answer));
}

// Starts what a call needs to wait without a thread. ResourceExhausted: the threads cannot be started.
absl::Status CacheCore::StartAsyncThreads(const CacheCall& call) {
  absl::Status started = options_.load_executor != nullptr ? absl::OkStatus() : StartRefreshThreads();
  const bool timed = call.deadline != Instant::InfiniteFuture() || call.stop.stop_possible() ||
                     std::min(options_.load_soft_timeout, options_.load_hard_timeout) != absl::InfiniteDuration();
  if (started.ok() && timed) started = timers_->Start();
  return started;
}

// Answers the call or makes it wait.
void CacheCore::StartAsync(const AsyncPtr& async) noexcept {
  std::optional<Answer> answer;
  try {
    answer = ServeOrJoin(async->key.at(), async->call, nullptr,
                         [&](Instant, AfterUnlock& after)
                             STOCKADE_REQUIRES(kShardMutex) { return EnqueueAsync(async, after); });
  } catch (...) {
    answer = Abandon(async->call);
  }
  if (answer.has_value()) Reply(async, *std::move(answer));
}

// Has the call wait for the flight that it has joined.
absl::Status CacheCore::EnqueueAsync(const AsyncPtr& async, AfterUnlock& after) {
  CacheCall& call = async->call;
  const FlightPtr flight = call.flight;
  absl::Status refusal = StartAsyncThreads(call);
  try {
    if (refusal.ok()) {
      call.waited = true;
      WaitIn(flight->waiters, async);
      if (flight->phase == Flight::Phase::kReady) {
        const Instant now = Now();
        flight->IsReady(now) ? QueueUp(flight, now, after) : tier_->QueueUpLater(flight);
      }
      return absl::OkStatus();
    }
  } catch (...) {  // Before another thread can answer the call.
    if (async->waits()) StopWaiting(*async);
    refusal = ThrownError();
  }
  DropIfUnwanted(shards_[async->key.shard], *flight, after);
  return refusal;
}

// Adds the call to a list. Timers check it while it waits there.
void CacheCore::WaitIn(Waiter::List& list, const AsyncPtr& async) {
  async->Enter(list, async);
  if (async->call.flight != nullptr) waiters_.fetch_add(1, std::memory_order_relaxed);
  try {
    WatchAsync(async);
  } catch (...) {
    StopWaiting(*async);
    throw;
  }
}

void CacheCore::StopWaiting(AsyncCall& async) {
  StopWatching(async);
  if (async.call.flight != nullptr) waiters_.fetch_sub(1, std::memory_order_relaxed);
  async.Leave();
}

// Schedules checks of a waiting call.
void CacheCore::WatchAsync(const AsyncPtr& async) {
  const CacheCall& call = async->call;
  // Weak: a flight owns its calls, so objects that the calls keep alive must not own them.
  const auto check = [this, weak = std::weak_ptr(async)] {
    if (const AsyncPtr waiting = weak.lock()) CheckAsync(waiting);
  };
  const Instant at = call.flight == nullptr
                         ? call.deadline
                         : std::min({call.deadline, call.soft_deadline, call.flight->times.hard_deadline});
  if (async->timer.has_value()) timers_->Cancel(*std::exchange(async->timer, std::nullopt));
  if (at != Instant::InfiniteFuture()) async->timer = timers_->Schedule(at, check);
  if (call.stop.stop_possible() && !async->on_stop.has_value()) {
    async->on_stop.emplace(call.stop, [this, check] {
      try {
        timers_->Schedule(Instant::InfinitePast(), check);
      } catch (const std::bad_alloc&) {
        LogThrown("a call of GetAsync() does not end when it is stopped");
      }
    });
  }
}

// Runs on the timers' thread.
void CacheCore::CheckAsync(const AsyncPtr& async) noexcept {
  CallGate::Call inside(*gate_, async->key.shard);
  if (!inside.inside()) return;
  CacheCall& call = async->call;
  std::optional<Answer> answer;
  AfterUnlock after(*this);
  {
    Shard& shard = shards_[async->key.shard];
    const ShardLock lock(shard);
    if (!async->waits()) return;
    const Instant now = Now();
    answer = call.flight == nullptr ? Expired(call, now) : GiveUp(call, now, after);
    if (answer.has_value()) {
      StopWaiting(*async);
      if (call.flight != nullptr) DropIfUnwanted(shard, *call.flight, after);
    } else if (async->waits()) {
      WatchAsync(async);
    }
  }
  if (answer.has_value()) Reply(async, *std::move(answer));
  after.Run();
}

// Of a call that stops to wait. Only one thread does it: that which makes it leave its list, or answers its flight.
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
    RunCallback([&] { reply->Call(); });
  }
}

void CacheCore::StartStrictAsync(const AsyncPtr& async) noexcept {
  std::optional<Answer> answer;
  try {
    answer = FindOrQueue(async);
  } catch (...) {
    answer = ThrownError();
  }
  if (!answer.has_value()) return ScheduleRead(async->key.shard);
  Reply(async, *std::move(answer));
}

// Nothing: the call is in `ready` of its shard.
std::optional<Answer> CacheCore::FindOrQueue(const AsyncPtr& async) {
  CacheCall& call = async->call;
  if (std::optional<Answer> answer = TryAnswer(async->key.at(), call)) return answer;
  absl::Status started = async_read_pool_.Start();
  if (started.ok() && (call.deadline != Instant::InfiniteFuture() || call.stop.stop_possible())) {
    started = timers_->Start();
  }
  if (!started.ok()) return started;
  Shard& shard = shards_[async->key.shard];
  const ShardLock lock(shard);
  if (shard.closed) return CancelledError();
  WaitIn(shard.ready, async);
  return std::nullopt;
}

// Has a thread of the pool take the shard's next call. There is such a task for each call in `ready`, and there may be
// more, because calls leave it when their deadlines pass.
void CacheCore::ScheduleRead(size_t shard) noexcept {
  try {
    async_read_pool_.Schedule([this, gate = gate_, shard] {
      CallGate::Call inside(*gate, shard);
      if (inside.inside()) ReadNext(shard);
    });
  } catch (...) {  // No memory.
    Answer thrown = ThrownError();
    const AsyncPtr async = TakeReady(shard);
    if (async == nullptr) return;
    Reply(async, std::move(thrown));
  }
}

// Null: all were answered meanwhile.
AsyncPtr CacheCore::TakeReady(size_t index) {
  Shard& shard = shards_[index];
  const ShardLock lock(shard);
  if (shard.ready.empty()) return nullptr;
  AsyncPtr async = std::static_pointer_cast<AsyncCall>(shard.ready.front());
  StopWaiting(*async);
  return async;
}

// On a thread of the pool.
void CacheCore::ReadNext(size_t shard) noexcept {
  const AsyncPtr async = TakeReady(shard);
  if (async == nullptr) return;
  std::optional<Answer> answer;
  try {
    ReadHold reading;  // Ends before the callback runs.
    bool holds = TakeReadLock(async->key.hash, Instant::InfinitePast(), reading);
    if (!holds && Park(async)) return;
    if (!holds) holds = TakeReadLock(async->key.hash, async->call.deadline, reading);
    answer = holds ? FindOrLoad(async->key.at(), async->call, nullptr) : DeadlineError();
  } catch (...) {
    answer = ThrownError();
  }
  Reply(async, *std::move(answer));
}

// Has the call wait for the end of an update. False: none of the key is under way, or the call has waited for one.
bool CacheCore::Park(const AsyncPtr& async) {
  Shard& shard = shards_[async->key.shard];
  const ShardLock lock(shard);
  const auto updates = shard.updates.find(async->key.hash);
  if (updates == shard.updates.end() || async->outlasted_update || shard.closed) return false;
  WaitIn(updates->second.parked, async);
  return async->outlasted_update = true;
}

}  // namespace stockade::cache_internal
