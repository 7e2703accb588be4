#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_

// Bodies of CacheCore: flights begun, joined, run and ended. Included by cache_core.h.

#include <algorithm>

#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

// Called with `lock` on the shard's mutex and returns without it. A call within a loader never waits for an executor's
// thread to become free: it runs what has not started itself, so a full executor cannot hang it.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::LoadOrJoin(size_t index, const Key& key, std::unique_lock<std::mutex>& lock,
                                                 Instant begun, Instant deadline) -> Answer {
  Shard& shard = shards_[index];
  absl::Status refusal;
  if (shard.closed) {
    refusal = CancelledError();
  } else if (AsksForItself(key)) {
    refusal = CircleError();
  } else if (deadline <= begun) {
    refusal = DeadlineError();
  }
  if (!refusal.ok()) {
    Count(kRequestMiss);
    return refusal;
  }

  FlightPtr flight = shard.flights.Current(key);
  const bool leads = flight == nullptr;
  if (leads) {
    flight = shard.flights.Start(this, key, index);
    flights_.fetch_add(1, std::memory_order_relaxed);
  }
  const bool runs_here = options_.load_executor == nullptr || LoaderFrame::Innermost() != nullptr;
  bool waited = false;
  FlightWait wait;  // Declared after `flight`: the edge ends before its target may.
  ++flight->calls;
  while (!flight->answered) {
    if (flight->phase == Phase::kReady && runs_here) {
      flight->phase = Phase::kRunning;
      lock.unlock();
      Run(flight, deadline);
      lock = Lock(shard);
      continue;
    }
    if (flight->phase == Phase::kReady && !flight->on_load_executor) {
      flight->on_load_executor = true;
      lock.unlock();
      Submit(options_.load_executor, flight);
      lock = Lock(shard);
      continue;
    }
    if (!waited) {
      if (!wait.TryBegin(flight.get())) {
        refusal = CircleError();
        break;
      }
      waited = true;
      waiters_.fetch_add(1, std::memory_order_relaxed);
    }
    if (!options_.clock->WaitUntil(flight->changed, lock, deadline) && !flight->answered) {
      refusal = DeadlineError();
      break;
    }
  }
  wait.End();
  if (--flight->calls == 0 && !flight->started() && !flight->on_load_executor && !flight->on_refresh_executor) {
    // Nobody is left who would run it.
    shard.flights.Drop(flight);
    flights_.fetch_sub(1, std::memory_order_relaxed);
  }
  const bool stale = refusal.ok() && flight->stale;
  Answer answer = refusal.ok() ? flight->answer : Answer(refusal);
  lock.unlock();

  Count(stale ? kRequestStale : leads ? kRequestMiss : kRequestCoalesced);
  if (waited) {
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    Observe(kWaitSeconds, Now() - begun);
  }
  return answer;
}

// The calling thread runs a loader of this key already, if a detached one.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::AsksForItself(const Key& key) const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() == this && Eq()(static_cast<const FlightT*>(frame->flight())->key, key)) return true;
  }
  return false;
}

// Runs the loader of a flight that this thread has made kRunning; no mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Run(const FlightPtr& flight, Instant caller_deadline) {
  const Instant started = Now();
  LoadContext context(options_.clock, std::min(caller_deadline, started + options_.load_timeout));
  Answer loaded = [&] {
    LoaderFrame frame(flight.get());
    return GuardCallback<Answer>(loader_label_, [&]() -> Answer {
      absl::StatusOr<Value> value = loader_(flight->key, context);
      if (!value.ok()) return value.status();
      return std::make_shared<const Value>(*std::move(value));
    });
  }();
  CountLoad(loaded.status().code());
  Observe(kLoadSeconds, Now() - started);
  Publish(flight, std::move(loaded), context.ttl());
}

// The task may come up when the cache is gone, or when somebody else has run the flight.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Submit(Executor* executor, FlightPtr flight) {
  executor->Schedule([this, gate = gate_, flight = std::move(flight)] {
    CallGate::Call call(*gate, flight->shard);
    if (!call.inside()) return;
    {
      const auto lock = Lock(shards_[flight->shard]);
      if (flight->phase != Phase::kReady || flight->answered) return;
      flight->phase = Phase::kRunning;
    }
    Run(flight, Instant::InfiniteFuture());
  });
}

// Stores what was loaded and answers the flight, in one step: a call finds the flight, or else its result.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Publish(const FlightPtr& flight, Answer loaded,
                                              std::optional<absl::Duration> ttl) {
  const Instant now = Now();
  const bool absent = absl::IsNotFound(loaded.status());
  Entries fresh;
  if (loaded.ok()) fresh = MakeEntry(flight->key, *loaded, ttl, now);
  if (absent) fresh = MakeAbsence(flight->key, loaded.status(), now);
  Entries removed;
  FlightPtr submit;
  const Entry* stored = nullptr;
  Shard& shard = shards_[flight->shard];
  {
    const auto lock = Lock(shard);
    auto [was_current, unblocked] = shard.flights.Finish(flight);
    if (was_current && (loaded.ok() || absent)) {
      stored = Replace(shard, flight->key, fresh, removed, now);
    } else if (was_current) {
      ReplaceError(shard, *flight, now, loaded);
    }
    if (!flight->answered) flight->Answer(loaded);
    // Without an executor the calls that wait for it run it.
    if (unblocked != nullptr && !unblocked->answered && options_.load_executor != nullptr) {
      unblocked->on_load_executor = true;
      submit = std::move(unblocked);
    }
  }
  flights_.fetch_sub(1, std::memory_order_relaxed);
  if (submit != nullptr) Submit(options_.load_executor, std::move(submit));
  if (stored != nullptr) Trim(stored);
}

// Puts the old value in the error's place, where it may still stand in, and sets when to try again.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::ReplaceError(Shard& shard, FlightT& flight, Instant now, Answer& error) {
  Entry* const old = shard.entries.Find(flight.key);
  if (old == nullptr || old->value == nullptr || now >= old->times.stale_until) return;
  old->times.retry_at = now + options_.retry_backoff;
  flight.stale = now >= old->times.expires_at;
  error = old->value;
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_
