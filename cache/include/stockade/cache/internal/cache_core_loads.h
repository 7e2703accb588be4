#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_

// Bodies of CacheCore: loaders run, and what becomes of what they say. Included by cache_core.h.

#include <algorithm>
#include <iterator>

#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

// Hands over a flight whose `queued` is set; no mutex held. The task may come up when the cache is gone, or when
// somebody else has run the flight.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::RunQueued(Executor* executor, FlightPtr flight, bool FlightT::*queued) {
  executor->Schedule([this, gate = gate_, flight = std::move(flight), queued] {
    CallGate::Call inside(*gate, flight->shard);
    if (!inside.inside()) return;
    {
      Shard& shard = shards_[flight->shard];
      const ShardLock lock = Lock(shard);
      (*flight).*queued = false;
      if (flight->phase != Phase::kReady || flight->answered) return;
      Begin(shard, *flight, Now());
    }
    Run(flight, Runner());
  });
}

// Runs the loader of a flight that this thread has begun; no mutex held. Returns the answer of the runner where that is
// not the flight's.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Run(const FlightPtr& flight, const Runner& runner) -> std::optional<Answer> {
  if (flight->loader == nullptr && !callbacks_.load) {
    return RunBatch({flight}, runner);
  }
  const auto& loader = flight->loader != nullptr ? *flight->loader : callbacks_.load;
  const Instant started = Now();
  ValueLoadContext<Value> context(options_.clock, std::min(runner.deadline, flight->hard_deadline), runner.stop,
                                  flight->previous.get());
  Answer answer = [&] {
    LoaderFrame frame(flight.get());
    return GuardCallback<Answer>(loader_label_, [&]() -> Answer {
      absl::StatusOr<Value> value = loader(flight->key, context);
      if (!value.ok()) return value.status();
      return std::make_shared<const Value>(*std::move(value));
    });
  }();
  const Instant ended = Now();
  CountLoad(answer.status(), ended - started, ended >= flight->hard_deadline);
  return Publish(flight, {std::move(answer), context.entry(), ended - started, ended}, runner);
}

// Stores what was loaded and answers the flight, in one step: a call finds the flight, or else its result. Returns the
// runner's own answer where its caller gave up, and others load again.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner)
    -> std::optional<Answer> {
  if (IsNotModified(loaded.answer.status())) {
    if (flight->previous == nullptr) {
      loaded.answer = NothingToKeepError();
    } else {
      loaded.answer = flight->previous;
      loaded.entry.tags.insert(loaded.entry.tags.end(), flight->previous_tags.begin(), flight->previous_tags.end());
    }
  }
  const bool late = loaded.ended >= flight->hard_deadline;
  const bool absent = absl::IsNotFound(loaded.answer.status());
  const bool knows = loaded.answer.ok() || absent;
  const bool gave_up = (absl::IsDeadlineExceeded(loaded.answer.status()) && loaded.ended >= runner.deadline) ||
                       (absl::IsCancelled(loaded.answer.status()) && runner.stop.stop_requested());
  const Instant now = Now();
  Aftermath after(*this);
  Entries fresh;
  if (!late && loaded.answer.ok()) fresh = MakeEntry(flight->key, *loaded.answer, loaded.entry, loaded.took, now);
  if (!late && absent) fresh = MakeAbsence(flight->key, loaded.answer.status(), loaded.entry, now);
  std::optional<Answer> own;
  const Entry* stored = nullptr;
  Shard& shard = shards_[flight->shard];
  {
    const ShardLock lock = Lock(shard);
    if (late && !flight->answered) TimeOut(shard, *flight, now, after);
    if (gave_up && !flight->answered && (flight->waiters.size() > 1 || !flight->async.empty())) {
      own = loaded.answer;
      if (shard.flights.Current(flight->key) == flight) {
        HandOn(flight, now, after);
        return own;
      }
      flight->fit_below = 0;  // They look again.
    }
    const auto [was_current, unblocked] = shard.flights.Finish(*flight);
    const uint64_t first_void = knows ? flight->FirstVoid(loaded.entry.tags) : FlightT::kNeverVoided;
    if (was_current && !knows) {
      ReplaceError(shard, *flight, now, loaded.answer, after);
    } else if (was_current && first_void == FlightT::kNeverVoided) {
      stored = Replace(shard, flight->key, fresh, after, now);
    } else if (Entry* const old = was_current ? shard.entries.Find(flight->key) : nullptr; old != nullptr) {
      Remove(shard, *old, RemovalCause::kInvalidated, after);
    }
    if (!flight->answered) {
      flight->fit_below = std::min(flight->fit_below, first_void);
      AnswerFlight(*flight, std::move(loaded.answer), after);
    }
    if (unblocked != nullptr && !unblocked->answered) {
      unblocked->hard_deadline = Instant::InfiniteFuture();
      if (options_.load_executor != nullptr || unblocked->in_background || !unblocked->async.empty()) {
        QueueUp(unblocked, now, after);
      }
      Rouse(*unblocked, false);
    }
  }
  flights_.fetch_sub(1, std::memory_order_relaxed);
  Settle(after);  // Those who wait come before the bound.
  if (stored != nullptr) Trim(stored);
  return own;
}

// The runner's caller gave up: the flight is for those who still wait. With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::HandOn(const FlightPtr& flight, Instant now, Aftermath& after) {
  flight->phase = Phase::kReady;
  flight->hard_deadline = Instant::InfiniteFuture();
  if (!flight->async.empty()) QueueUp(flight, now, after);
  Rouse(*flight, true);
}

// The flight is ready and has an executor run it. With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::QueueUp(const FlightPtr& flight, Instant now, Aftermath& after) {
  if (flight->on_load_executor || flight->on_refresh_executor) return;
  const bool load = options_.load_executor != nullptr && !flight->in_background;
  (load ? flight->on_load_executor : flight->on_refresh_executor) = true;
  flight->hard_deadline = now + options_.load_hard_timeout;
  (load ? after.for_load_executor : after.for_refresh_executor).push_back(flight);
}

// The same, where the caller hands it over.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::MarkQueued(FlightT& flight, const Executor* executor, Instant now) {
  flight.*QueuedFlag(executor) = true;
  flight.hard_deadline = now + options_.load_hard_timeout;
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_
