// Running loaders and publishing their results, and the work that follows when no mutex is held.

#include "loads.h"

#include <algorithm>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// No mutex is held.
void CacheCore::Offer(LoadQueue queue, QueuedLoad load) noexcept {
  try {
    ExecutorOf(queue)->Schedule(std::move(load));
  } catch (...) {  // The task has been destroyed or will be, which answers its flights.
    LogThrownBy("an executor, which was to run a load,");
  }
}

// The executor may hold a mutex of its own, and waiters of the flights may be called back on that executor. The timers'
// thread therefore answers the flights.
void CacheCore::Dropped(LoadQueue queue, std::vector<FlightPtr> flights) noexcept {
  const auto dropped = std::make_shared<std::vector<FlightPtr>>(std::move(flights));
  try {
    if (!timers_->Start().ok()) return Refused(queue, *dropped);
    timers_->Schedule(Instant::InfinitePast(), [this, gate = gate_, queue, dropped] {
      CallGate::Call inside(*gate, 0);
      if (inside.inside()) Refused(queue, *dropped);
    });
  } catch (...) {  // Out of memory.
    Refused(queue, *dropped);
  }
}

// Answers the flights that no thread has begun. No mutex is held.
void CacheCore::Refused(LoadQueue queue, const std::vector<FlightPtr>& flights) noexcept {
  const absl::Status refusal = RefusedError(queue == LoadQueue::kLoad);
  for (const FlightPtr& flight : flights) {
    Aftermath after(*this);
    const ShardLock lock = Lock(shards_[flight->key.shard]);
    flight->Leave(queue);
    if (flight->started() || flight->queued() || flight->answered) continue;
    if (flight->in_background) Log(LogSeverity::kError, Concat(refusal.message()));
    Fail(*flight, refusal, Now(), after);
  }
}

// Whether the calling thread is to run the flight: no other thread does, and it is still wanted. The flight
// leaves `queue`.
bool CacheCore::BeginQueued(Flight& flight, LoadQueue queue) {
  Aftermath after(*this);
  Shard& shard = shards_[flight.key.shard];
  const ShardLock lock = Lock(shard);
  flight.Leave(queue);
  if (flight.phase != Flight::Phase::kReady || flight.answered) return false;
  if (flight.waiters.empty() && !flight.in_background) {
    if (!flight.queued()) Drop(shard, flight, after);
    return false;
  }
  Begin(flight, Now());
  return true;
}

// Runs the loader of a flight that this thread has begun; no mutex is held. Returns the runner's answer if it differs
// from the flight's.
std::optional<Answer> CacheCore::Run(const FlightPtr& flight, const Runner& runner) noexcept {
  if (flight->loader == nullptr && !has_.load) return RunBatch({flight}, runner);
  const Instant started = Now();
  Aftermath after(*this);
  LoaderFrame frame(flight.get());  // The weigher runs in it, too.
  bool threw = true;
  LoadResult loaded = Load({flight->key.holder->key(), flight->previous.box()}, flight->loader,
                           std::min(runner.deadline, flight->hard_deadline), runner.stop, threw);
  Answer& answer = *loaded.answer;
  if (threw && flight->in_background) LogFailedRefresh(answer.status());
  const Instant ended = Now();
  CountLoad(answer.status(), ended - started, ended >= flight->hard_deadline);
  return Publish(flight, {std::move(answer), std::move(loaded.entry), ended - started, ended}, runner, after);
}

// Stores the result and answers the flight in one step, so that a call finds either the flight or its result. Returns
// the runner's own answer if its caller gave up and others load again.
std::optional<Answer> CacheCore::Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner,
                                         Aftermath& after) noexcept {
  const Pinned previous = std::move(flight->previous);  // Only the runner uses it, and releases it without the mutex.
  const bool renews = IsNotModified(loaded.answer.status()) && previous != nullptr;
  if (IsNotModified(loaded.answer.status())) {
    if (!renews) {
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
  EntryPtr fresh;
  if (!late && loaded.answer.ok()) fresh = MakeEntry(flight->key.at(), *loaded.answer, loaded.entry, loaded.took, now);
  const bool fails = !knows && !gave_up && !absl::IsCancelled(loaded.answer.status());
  if (!late && (absent || fails)) fresh = MakeAbsence(flight->key.at(), loaded.answer.status(), loaded.entry, now);
  flight->RunWithin(nullptr);
  std::optional<Answer> own;
  const Slot* stored = nullptr;
  Shard& shard = shards_[flight->key.shard];
  {
    const ShardLock lock = Lock(shard);
    if (late && !flight->answered) Fail(*flight, HardTimeoutError(), now, after, loaded.entry);
    if (gave_up && !flight->answered && flight->waiters.size() > 1) {
      own = loaded.answer;
      if (shard.flights.IsCurrent(*flight)) {
        HandOn(flight, now, after);
        return own;
      }
      flight->fit_below = 0;  // They look up the key again.
    }
    Slot* old = nullptr;
    const bool found = TryFindEntry(flight->key.at(), old);
    const auto [was_current, unblocked] = shard.flights.Finish(*flight);
    const uint64_t first_void = knows ? flight->FirstVoid(loaded.entry.tags) : Flight::kNeverVoided;
    if (!was_current || !found) {
      // Stores nothing.
    } else if (!knows) {
      // A caller that gave up does not tell anything about the key, and an answered flight keeps its answer.
      const bool voided = flight->FirstVoid(loaded.entry.tags) != Flight::kNeverVoided;
      if (!gave_up && !flight->answered) {
        ReplaceError(*flight, old, now, loaded.answer, voided ? nullptr : fresh.get(), after);
      }
    } else if (first_void == Flight::kNeverVoided) {
      stored = Replace(flight->key.at(), old, fresh.get(), RemovalCause::kReplaced, renews, after, now);
    } else if (old != nullptr) {
      Remove(shard, *old, RemovalCause::kInvalidated, after);
    }
    if (!flight->answered) {
      flight->fit_below = std::min(flight->fit_below, first_void);
      AnswerFlight(*flight, std::move(loaded.answer), after);
    }
    if (unblocked != nullptr && !unblocked->answered) {
      if (options_.load_executor != nullptr || unblocked->NeedsExecutor()) QueueUp(unblocked, now, after);
      Rouse(*unblocked, false);
    }
  }
  flights_.fetch_sub(1, std::memory_order_relaxed);
  Wake(after);
  if (stored != nullptr) Trim(stored, after);
  return own;
}

// The runner's caller gave up, and others still wait for the flight. Called with the shard's mutex held.
void CacheCore::HandOn(const FlightPtr& flight, Instant now, Aftermath& after) {
  flight->phase = Flight::Phase::kReady;
  flight->hard_deadline = now + options_.load_hard_timeout;
  if (flight->NeedsExecutor()) QueueUp(flight, now, after);
  Rouse(*flight, true);
}

// Queues a ready flight on an executor. Called with the shard's mutex held.
void CacheCore::QueueUp(const FlightPtr& flight, Instant now, Aftermath& after) {
  if (flight->queued()) return;
  const bool load = options_.load_executor != nullptr && !flight->in_background;
  const LoadQueue queue = load ? LoadQueue::kLoad : LoadQueue::kRefresh;
  after.queued.emplace_back(queue, flight);
  EnterQueue(*flight, queue, now);
}

// The same if the caller passes the flight to the executor.
void CacheCore::EnterQueue(Flight& flight, LoadQueue queue, Instant now) {
  flight.Enter(queue);
  flight.hard_deadline = now + options_.load_hard_timeout;
}

// Wakes threads, and leaves callbacks in the list. Runs no user code; no mutex is held.
void CacheCore::Wake(Aftermath& after) {
  after.answered.remove_if([](const std::shared_ptr<Waiter>& waiter) {
    waiter->Wake(true);
    return !waiter->is_callback();
  });
}

// Does all the work in `after`. No mutex may be held, and this thread may not run a flight.
void CacheCore::Settle(Aftermath& after) noexcept {
  Wake(after);
  for (auto& [queue, flight] : std::exchange(after.queued, {})) {
    Offer(queue, QueuedLoad(*this, queue, {std::move(flight)}, false));
  }
  for (const std::shared_ptr<Waiter>& waiter : std::exchange(after.answered, {})) {
    const AsyncPtr async = std::static_pointer_cast<AsyncCall>(waiter);
    StopWatching(*async);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    const FlightPtr flight = std::move(async->call.flight);
    if (async->call.joined < flight->fit_below) {
      if (flight->stale) async->call.result = kRequestStale;
      CountRequest(async->call);
      Deliver(async, flight->answer);
    } else {
      StartAsync(async);
    }
  }
  if (after.stored_mortal) PlanSweep();
  if (after.may_exceed) Trim(nullptr, after);
  after.dropped.clear();
  if (!after.removed.empty()) Notify(std::exchange(after.removed, {}));
  if (!after.boxes.empty()) FreeBoxes(std::exchange(after.boxes, {}));
  if (after.retired) PlanReclaim();
}

}  // namespace stockade::cache_internal
