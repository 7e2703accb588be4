#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_

// Bodies of CacheCore: running loaders and publishing their results. Included by cache_core.h.

#include <algorithm>
#include <iterator>

#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// A task that runs flights whose `queued` flag is set, as one batch or one by one. It may run after the cache is gone
// or after another thread has run the flights. A task that is destroyed without having run was dropped by its executor,
// and its flights are answered with an error.
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore<Key, Value, Hash, Eq>::QueuedLoad {
 public:
  QueuedLoad(CacheCore& core, bool FlightT::*queued, std::vector<FlightPtr> flights, bool batch)
      : core_(core), gate_(core.gate_), queued_(queued), flights_(std::move(flights)), batch_(batch) {}
  ~QueuedLoad() {
    if (flights_.empty()) return;
    CallGate::Call inside(*gate_, flights_.front()->shard);
    if (inside.inside()) core_.Dropped(queued_, std::move(flights_));
  }
  QueuedLoad(QueuedLoad&& other) noexcept
      : core_(other.core_),
        gate_(other.gate_),
        queued_(other.queued_),
        flights_(std::exchange(other.flights_, {})),
        batch_(other.batch_) {}
  QueuedLoad& operator=(QueuedLoad&&) = delete;

  void operator()() {
    const std::vector<FlightPtr> flights = std::exchange(flights_, {});
    CallGate::Call inside(*gate_, flights.front()->shard);
    if (!inside.inside()) return;
    if (batch_) {
      if (const auto begun = core_.BeginAll(flights, queued_); !begun.empty()) core_.RunBatch(begun, Runner());
    } else {
      for (const FlightPtr& flight : flights) {
        if (core_.BeginQueued(*flight, queued_)) core_.Run(flight, Runner());
      }
    }
  }

 private:
  CacheCore& core_;
  const std::shared_ptr<CallGate> gate_;
  bool FlightT::*queued_;
  std::vector<FlightPtr> flights_;
  bool batch_;
};

// No mutex is held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Offer(Executor* executor, QueuedLoad load) noexcept {
  try {
    executor->Schedule(std::move(load));
  } catch (...) {  // The task has been destroyed or will be, which answers its flights.
    LogThrownBy("an executor, which was to run a load,");
  }
}

// The executor may hold a mutex of its own, and waiters of the flights may be called back on that executor. The timers'
// thread therefore answers the flights.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Dropped(bool FlightT::*queued, std::vector<FlightPtr> flights) noexcept {
  const auto dropped = std::make_shared<std::vector<FlightPtr>>(std::move(flights));
  try {
    if (!timers_->Start().ok()) return Refused(queued, *dropped);
    timers_->Schedule(Instant::InfinitePast(), [this, gate = gate_, queued, dropped] {
      CallGate::Call inside(*gate, 0);
      if (inside.inside()) Refused(queued, *dropped);
    });
  } catch (...) {  // Out of memory.
    Refused(queued, *dropped);
  }
}

// Answers the flights that no thread has begun. No mutex is held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Refused(bool FlightT::*queued, const std::vector<FlightPtr>& flights) noexcept {
  const bool load = queued == &FlightT::on_load_executor;
  for (const FlightPtr& flight : flights) {
    Aftermath after(*this);
    const ShardLock lock = Lock(shards_[flight->shard]);
    (*flight).*queued = false;
    if (flight->started() || flight->queued() || flight->answered) continue;
    if (flight->in_background) LogRefusal(load);
    Fail(*flight, RefusedError(load), Now(), after);
  }
}

// Whether the calling thread is to run the flight: no other thread does, and it is still wanted. `queued`: the flag of
// the queue that the flight was in, if any.
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
  Begin(flight, Now());
  return true;
}

// Runs the loader of a flight that this thread has begun; no mutex is held. Returns the runner's answer if it differs
// from the flight's.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Run(const FlightPtr& flight, const Runner& runner) noexcept
    -> std::optional<Answer> {
  if (flight->loader == nullptr && !callbacks_.load) {
    return RunBatch({flight}, runner);
  }
  const auto& loader = flight->loader != nullptr ? *flight->loader : callbacks_.load;
  const Instant started = Now();
  ValueLoadContext<Value> context(options_.clock, std::min(runner.deadline, flight->hard_deadline), runner.stop,
                                  flight->previous.get(), &previous_asked_);
  Aftermath after(*this);
  LoaderFrame frame(flight.get());  // The weigher runs in it, too.
  bool threw = true;
  Answer answer = GuardCallback<Answer>(loader_label_, [&]() -> Answer {
    absl::StatusOr<Value> value = loader(flight->key, context);
    Answer loaded = value.ok() ? Answer(Pinned::Make(*std::move(value))) : Answer(value.status());
    threw = false;
    return loaded;
  });
  EntryOptions entry;  // Counts whatever came of the load, also if the loader threw.
  const auto copied = GuardCallback<absl::Status>(loader_label_, [&] {
    entry = context.entry();
    return absl::OkStatus();
  });
  if (!copied.ok()) answer = copied;
  if (threw && flight->in_background) LogFailedRefresh(answer.status());
  const Instant ended = Now();
  CountLoad(answer.status(), ended - started, ended >= flight->hard_deadline);
  return Publish(flight, {std::move(answer), std::move(entry), ended - started, ended}, runner, after);
}

// Stores the result and answers the flight in one step, so that a call finds either the flight or its result. Returns
// the runner's own answer if its caller gave up and others load again.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner,
                                              Aftermath& after) noexcept -> std::optional<Answer> {
  const Pinned previous = std::move(flight->previous);  // Only the runner uses it, and releases it without the mutex.
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
  Owned fresh, unused;
  if (!late && loaded.answer.ok()) fresh = MakeEntry(KeyOf(*flight), *loaded.answer, loaded.entry, loaded.took, now);
  const bool fails = !knows && !gave_up && !absl::IsCancelled(loaded.answer.status());
  if (!late && (absent || fails)) fresh = MakeAbsence(KeyOf(*flight), loaded.answer.status(), loaded.entry, now);
  flight->RunWithin(nullptr);
  std::optional<Answer> own;
  const Entry* stored = nullptr;
  Shard& shard = shards_[flight->shard];
  {
    const ShardLock lock = Lock(shard);
    if (late && !flight->answered) Fail(*flight, HardTimeoutError(), now, after, loaded.entry);
    if (gave_up && !flight->answered && (flight->waiters.size() > 1 || !flight->async.empty())) {
      own = loaded.answer;
      if (shard.flights.IsCurrent(*flight)) {
        HandOn(flight, now, after);
        return own;
      }
      flight->fit_below = 0;  // They look up the key again.
    }
    Entry* old = nullptr;
    const bool found = TryFindEntry(KeyOf(*flight), old);
    const auto [was_current, unblocked] = shard.flights.Finish(*flight);
    const uint64_t first_void = knows ? flight->FirstVoid(loaded.entry.tags) : FlightT::kNeverVoided;
    if (!was_current || !found) {
      // Stores nothing.
    } else if (!knows) {
      // A caller that gave up does not tell anything about the key, and an answered flight keeps its answer.
      const bool voided = flight->FirstVoid(loaded.entry.tags) != FlightT::kNeverVoided;
      if (!gave_up && !flight->answered) {
        ReplaceError(*flight, old, now, loaded.answer, voided ? unused : fresh, after);
      }
    } else if (first_void == FlightT::kNeverVoided) {
      stored = Replace(shard, old, std::move(fresh), RemovalCause::kReplaced, after, now);
    } else if (old != nullptr) {
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

// The runner's caller gave up, and others still wait for the flight. Called with the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::HandOn(const FlightPtr& flight, Instant now, Aftermath& after) {
  flight->phase = Phase::kReady;
  flight->hard_deadline = now + options_.load_hard_timeout;
  if (flight->in_background || !flight->async.empty()) QueueUp(flight, now, after);
  Rouse(*flight, true);
}

// Queues a ready flight on an executor. Called with the shard's mutex held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::QueueUp(const FlightPtr& flight, Instant now, Aftermath& after) {
  if (flight->queued()) return;
  const bool load = options_.load_executor != nullptr && !flight->in_background;
  (load ? after.for_load_executor : after.for_refresh_executor).push_back(flight);
  MarkQueued(*flight, load ? &FlightT::on_load_executor : &FlightT::on_refresh_executor, now);
}

// The same if the caller passes the flight to the executor.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::MarkQueued(FlightT& flight, bool FlightT::*queued, Instant now) {
  flight.*queued = true;
  flight.hard_deadline = now + options_.load_hard_timeout;
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_LOADS_H_
