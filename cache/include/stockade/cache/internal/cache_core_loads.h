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
    if (inside.inside() && BeginQueued(*flight, queued)) Run(flight, Runner());
  });
}

// Whether the thread that has come for a flight is to run it: nobody has, and somebody still wants it. `queued`: the
// flag of the queue in which it was, if it was in one.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::BeginQueued(FlightT& flight, bool FlightT::*queued) {
  Aftermath after(*this);
  Shard& shard = shards_[flight.shard];
  const ShardLock lock = Lock(shard);
  if (queued != nullptr) flight.*queued = false;
  if (flight.phase != Phase::kReady || flight.answered) return false;
  if (!flight.awaited() && !flight.in_background) {
    if (!flight.queued()) Drop(shard, flight, after);
    return false;
  }
  Begin(shard, flight, Now());
  return true;
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
                                  flight->previous.get(), &previous_asked_);
  Aftermath after(*this);
  LoaderFrame frame(flight.get());  // The weigher runs in it too.
  Answer answer = [&] {
    return GuardCallback<Answer>(loader_label_, [&]() -> Answer {
      absl::StatusOr<Value> value = loader(flight->key, context);
      if (!value.ok()) return value.status();
      return Pinned::Make(*std::move(value));
    });
  }();
  const Instant ended = Now();
  CountLoad(answer.status(), ended - started, ended >= flight->hard_deadline);
  return Publish(flight, {std::move(answer), context.entry(), ended - started, ended}, runner, after);
}

// Stores what was loaded and answers the flight, in one step: a call finds the flight, or else its result. Returns the
// runner's own answer where its caller gave up, and others load again.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner,
                                              Aftermath& after) -> std::optional<Answer> {
  const Pinned previous = std::move(flight->previous);  // Only the runner uses it, and drops it without the mutex.
  if (IsNotModified(loaded.answer.status())) {
    if (previous == nullptr) {
      loaded.answer = NothingToKeepError();
    } else {
      loaded.answer = previous;
      loaded.entry.tags.insert(loaded.entry.tags.end(), flight->previous_tags.begin(), flight->previous_tags.end());
    }
  }
  const bool late = loaded.ended >= flight->hard_deadline;
  const bool absent = absl::IsNotFound(loaded.answer.status());
  const bool knows = loaded.answer.ok() || absent;
  const bool gave_up = (absl::IsDeadlineExceeded(loaded.answer.status()) && loaded.ended >= runner.deadline) ||
                       (absl::IsCancelled(loaded.answer.status()) && runner.stop.stop_requested());
  const Instant now = Now();
  Owned fresh;
  if (!late && loaded.answer.ok()) fresh = MakeEntry(flight->key, *loaded.answer, loaded.entry, loaded.took, now);
  if (!late && absent) fresh = MakeAbsence(flight->key, loaded.answer.status(), loaded.entry, now);
  flight->RunWithin(nullptr);
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
      // A caller that gave up says nothing of the key; and whoever is answered is so for good.
      if (!gave_up && !flight->answered) ReplaceError(shard, *flight, now, loaded.answer, after);
    } else if (was_current && first_void == FlightT::kNeverVoided) {
      stored = Replace(shard, flight->key, std::move(fresh), RemovalCause::kReplaced, after, now);
    } else if (Entry* const old = was_current ? FindEntry(shard, flight->key) : nullptr; old != nullptr) {
      Remove(shard, *old, RemovalCause::kInvalidated, after);
    }
    if (!flight->answered) {
      flight->fit_below = std::min(flight->fit_below, first_void);
      AnswerFlight(*flight, std::move(loaded.answer), after);
    }
    if (unblocked != nullptr && !unblocked->answered) {
      if (options_.load_executor != nullptr || unblocked->in_background || !unblocked->async.empty()) {
        QueueUp(unblocked, now, after);
      }
      Rouse(*unblocked, false);
    }
  }
  flights_.fetch_sub(1, std::memory_order_relaxed);
  Wake(after);
  if (stored != nullptr) Trim(stored, after);
  return own;
}

// The runner's caller gave up: the flight is for those who still wait. With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::HandOn(const FlightPtr& flight, Instant now, Aftermath& after) {
  flight->phase = Phase::kReady;
  flight->hard_deadline = now + options_.load_hard_timeout;
  if (flight->in_background || !flight->async.empty()) QueueUp(flight, now, after);
  Rouse(*flight, true);
}

// The flight is ready and has an executor run it. With the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::QueueUp(const FlightPtr& flight, Instant now, Aftermath& after) {
  if (flight->queued()) return;
  const bool load = options_.load_executor != nullptr && !flight->in_background;
  MarkQueued(*flight, load ? &FlightT::on_load_executor : &FlightT::on_refresh_executor, now);
  (load ? after.for_load_executor : after.for_refresh_executor).push_back(flight);
}

// The same, where the caller hands it over.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::MarkQueued(FlightT& flight, bool FlightT::*queued, Instant now) {
  flight.*queued = true;
  flight.hard_deadline = now + options_.load_hard_timeout;
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_
