#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_ASYNC_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_ASYNC_H_

// Bodies of CacheCore: calls that are answered by a callback. Included by cache_core.h.

#include <algorithm>

#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::GetAsync(const Key& key, Executor& executor, typename Async::Done done,
                                               const CacheGetOptions& options) {
  CheckFork();
  if (!done) NoCallbackFatal();
  const size_t index = ShardOf(key);
  CallGate::Call inside(*gate_, index);
  const auto async = std::make_shared<Async>(key, index, executor, std::move(done), NewCall(options));
  if (!inside.inside()) {
    Deliver(*async, CancelledError());
  } else if (options_.strict) {
    // It may wait for the key's lock, which no thread of the user's executors must do: the lock's holder may wait for
    // one.
    AsyncReadPool()->Schedule([this, gate = gate_, async] {
      CallGate::Call later(*gate, async->shard);
      if (later.inside()) {
        Answer answer = Find(async->shard, async->key, async->call, nullptr);
        CountRequest(async->call);
        Deliver(*async, std::move(answer));
      } else {
        Deliver(*async, absl::CancelledError("the cache was destroyed"));
      }
    });
  } else {
    StartAsync(async);
  }
}

// Gives the call its answer, or has it wait. No mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StartAsync(const AsyncPtr& async) {
  Shard& shard = shards_[async->shard];
  Call& call = async->call;
  for (;;) {
    const Instant now = Now();
    std::optional<RefreshTrigger> due;
    Aftermath after(*this);
    ShardLock lock = Lock(shard);
    std::optional<Answer> answer = Serve(shard, async->key, now, true, call.result, due);
    if (!answer.has_value()) {
      call.result = kRequestMiss;
      if (TimeOutHung(shard, async->key, now, after)) continue;
      if (absl::Status refusal = Join(async->shard, async->key, call, now); !refusal.ok()) answer = refusal;
    }
    if (answer.has_value()) {
      lock.unlock();
      if (due.has_value()) StartRefresh(async->shard, async->key, *due, nullptr);
      CountRequest(call);
      return Deliver(*async, *std::move(answer));
    }
    waiters_.fetch_add(1, std::memory_order_relaxed);
    call.waited = async->waits = true;
    async->place = call.flight->async.insert(call.flight->async.end(), async);
    if (call.flight->phase == Phase::kReady) QueueUp(call.flight, now, after);
    WatchAsync(async);
    return;
  }
}

// Has the timers look after a call that waits. With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::WatchAsync(const AsyncPtr& async) {
  const Call& call = async->call;
  // Weak: a flight has its calls, and what they keep alive must not keep them.
  const auto check = [this, weak = std::weak_ptr(async)] {
    if (const AsyncPtr waiting = weak.lock()) CheckAsync(waiting);
  };
  const Instant at = std::min({call.deadline, call.soft_deadline, call.flight->hard_deadline});
  if (async->timer.has_value()) timers_->Cancel(*std::exchange(async->timer, std::nullopt));
  if (at != Instant::InfiniteFuture()) async->timer = timers_->Schedule(at, check);
  if (call.stop.stop_possible() && !async->on_stop.has_value()) {
    async->on_stop.emplace(call.stop, [this, check] { timers_->Schedule(Instant::InfinitePast(), check); });
  }
}

// On the timers' thread.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::CheckAsync(const AsyncPtr& async) {
  CallGate::Call inside(*gate_, async->shard);
  if (!inside.inside()) return;
  Call& call = async->call;
  std::optional<Answer> answer;
  Aftermath after(*this);
  {
    Shard& shard = shards_[async->shard];
    const ShardLock lock = Lock(shard);
    if (!async->waits) return;
    const Instant now = Now();
    answer = GiveUp(shard, async->key, call, now, after);
    if (!answer.has_value()) {
      if (async->waits) WatchAsync(async);
      return;
    }
    StopWaiting(*async);
    call.flight->async.erase(async->place);
    DropIfUnwanted(shard, *call.flight, after);
  }
  CountRequest(call);
  Deliver(*async, *std::move(answer));
}

// With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StopWaiting(Async& async) {
  async.waits = false;
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  if (async.timer.has_value()) timers_->Cancel(*async.timer);
  async.timer.reset();
  async.on_stop.reset();
}

// Touches nothing of the cache.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Deliver(Async& async, Answer answer) {
  async.executor.Schedule([done = std::move(async.done), answer = std::move(answer)]() mutable {
    if (answer.ok()) {
      done(Handle(*std::move(answer)));
    } else {
      done(answer.status());
    }
  });
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_ASYNC_H_
