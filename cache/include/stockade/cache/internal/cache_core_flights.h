#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_FLIGHTS_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_FLIGHTS_H_

// Bodies of CacheCore: flights begun, joined, waited for and given up. Included by cache_core.h. With the mutex of the
// flight's shard held, all of them.

#include <algorithm>
#include <functional>

#include "stockade/cache/internal/cache_core.h"

namespace stockade::internal {

// Gives the call a place with the key's current flight, begun for it where there is none. Or says why not.
template <typename Key, typename Value, typename Hash, typename Eq>
absl::Status CacheCore<Key, Value, Hash, Eq>::Join(size_t index, const Key& key, Call& call, Instant now) {
  Shard& shard = shards_[index];
  if (shard.closed) return CancelledError();
  if (AsksForItself(key)) return CircleError();
  if (call.stop.stop_requested()) return StoppedError();
  if (call.deadline <= now) return DeadlineError();
  call.flight = shard.flights.Current(key);
  if (call.flight == nullptr) {
    if (call.loader == nullptr && !HasLoader()) return NoLoaderError();
    call.flight = StartFlight(index, key, call.loader, now);
  } else {
    call.result = kRequestCoalesced;
  }
  call.joined = call.flight->voids;
  call.soft_deadline = Instant::InfiniteFuture();
  if (options_.load_soft_timeout != absl::InfiniteDuration()) {
    const Entry* const entry = FindEntry(shard, key);
    if (entry != nullptr && entry->value != nullptr && now < entry->times.stale_until) {
      call.soft_deadline = call.begun + options_.load_soft_timeout;
    }
  }
  return absl::OkStatus();
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::StartFlight(size_t index, const Key& key, LoaderPtr loader, Instant now)
    -> FlightPtr {
  FlightPtr flight = shards_[index].flights.Start(this, key, index, std::move(loader));
  flight->hard_deadline = now + options_.load_hard_timeout;
  flights_.fetch_add(1, std::memory_order_relaxed);
  return flight;
}

// The calling thread is going to run the flight, which is ready.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Begin(Shard& shard, FlightT& flight, Instant now) {
  const Entry* const entry = FindEntry(shard, flight.key);
  const bool has_value = entry != nullptr && entry->value != nullptr && shard.clearings == 0;
  flight.Begin(now + options_.load_hard_timeout, has_value ? entry->value : nullptr,
               has_value ? entry->TagNames() : std::vector<std::string>());
}

// The call, which has joined a flight, is a thread's.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Sit(Call& call) const {
  call.waiter = std::make_shared<FlightWaiter>(*options_.clock, call.deadline, LoaderFrame::Innermost() != nullptr);
  call.waiter->place = call.flight->waiters.insert(call.flight->waiters.end(), call.waiter);
  call.waiter->seated = true;
}

// Waits for the flight that the call has joined, or runs it. Returns with `lock` released. Nothing: what the flight
// brought is not for this call, which has to look again.
//
// A call within a loader never waits for an executor's thread to become free: it runs what has not started itself, so a
// full executor cannot hang it.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::Await(const Key& key, Call& call, ShardLock& lock, Aftermath& after)
    -> std::optional<Answer> {
  const FlightPtr flight = call.flight;
  Shard& shard = shards_[flight->shard];
  Executor* const executor = ExecutorFor(call);
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  std::optional<Answer> answer;
  FlightWait wait;  // Declared after `flight`: the edge ends before its target may.
  bool waits = false;
  while (!flight->answered) {
    const Instant now = Now();
    answer = GiveUp(shard, key, call, now, after);
    if (answer.has_value() || flight->answered) break;
    if (flight->phase == Phase::kReady && executor == nullptr && MayRunHere(call)) {
      Begin(shard, *flight, now);
      lock.unlock();
      answer = Run(flight, {call.deadline, call.stop});
      lock = Lock(shard);
    } else if (flight->phase == Phase::kReady && executor != nullptr && !((*flight).*QueuedFlag(executor))) {
      MarkQueued(*flight, QueuedFlag(executor), now);
      lock.unlock();
      RunQueued(executor, flight, QueuedFlag(executor));
      lock = Lock(shard);
    } else if (call.stop.stop_possible() && !on_stop.has_value()) {
      on_stop.emplace(call.stop, [waiter = call.waiter] { waiter->Wake(false); });
    } else if (!waits && !wait.TryBegin(flight.get())) {
      answer = CircleError();
    } else {
      if (!waits) waiters_.fetch_add(1, std::memory_order_relaxed);
      waits = call.waited = call.waiter->parked = true;
      const Instant until = std::min({call.deadline, call.soft_deadline, flight->hard_deadline});
      lock.unlock();
      if (call.waiter->Wait(until)) break;
      lock = Lock(shard);
      call.waiter->parked = false;
    }
    if (answer.has_value()) break;
  }
  wait.End();
  if (lock.owns_lock()) {
    Leave(shard, call, after);
    lock.unlock();
  }
  if (waits) waiters_.fetch_sub(1, std::memory_order_relaxed);
  if (answer.has_value() || call.joined >= flight->fit_below) return answer;
  if (flight->stale) call.result = kRequestStale;
  return flight->answer;
}

// What a call takes that has waited long enough for its flight; nothing: it waits on, or the flight has timed out by
// now and has its answer.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::GiveUp(Shard& shard, const Key& key, Call& call, Instant now, Aftermath& after)
    -> std::optional<Answer> {
  if (call.stop.stop_requested()) return StoppedError();
  if (now >= call.deadline) return DeadlineError();
  if (IsHung(*call.flight, now)) {
    TimeOut(shard, *call.flight, now, after);
  } else if (now >= call.soft_deadline) {
    call.soft_deadline = Instant::InfiniteFuture();
    const Entry* const entry = FindEntry(shard, key);
    if (entry != nullptr && entry->value != nullptr && now < entry->times.stale_until) {
      call.result = kRequestStale;
      return entry->value;
    }
  }
  return std::nullopt;
}

// A flight that became ready while all who wait for it are parked: wakes the one that can wait longest, so that the
// next runner does not give up as well. With `relay` that one alone runs it, or a loader that needs it. Those are woken
// too: the one may leave the flight to an executor, for which they must not wait. O(who waits).
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Rouse(FlightT& flight, bool relay) {
  FlightWaiter* longest = nullptr;
  for (const auto& waiter : flight.waiters) {
    if (!waiter->parked) continue;
    if (waiter->nested) waiter->Wake(false);
    if (longest == nullptr || waiter->deadline > longest->deadline) longest = waiter.get();
  }
  flight.roused = longest;
  flight.relayed = relay && longest != nullptr;
  if (longest != nullptr) longest->Wake(false);
}

template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::MayRunHere(const Call& call) const {
  return !call.flight->relayed || call.flight->roused == call.waiter.get() || LoaderFrame::Innermost() != nullptr;
}

// Where the call has its flight run; null: on its own thread.
template <typename Key, typename Value, typename Hash, typename Eq>
Executor* CacheCore<Key, Value, Hash, Eq>::ExecutorFor(const Call& call) {
  if (LoaderFrame::Innermost() != nullptr) return nullptr;
  if (options_.load_executor != nullptr) return options_.load_executor;
  return call.soft_deadline != Instant::InfiniteFuture() ? RefreshExecutor() : nullptr;
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Leave(Shard& shard, const Call& call, Aftermath& after) {
  FlightT& flight = *call.flight;
  if (!call.waiter->seated) return;
  call.waiter->seated = false;
  flight.waiters.erase(call.waiter->place);
  if (flight.phase == Phase::kReady && flight.roused == call.waiter.get()) Rouse(flight, flight.relayed);
  DropIfUnwanted(shard, flight, after);
}

// Ends a flight that has not started and that nobody is left to run. One in the background that is ready is queued.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::DropIfUnwanted(Shard& shard, FlightT& flight, Aftermath& after) {
  if (flight.started() || flight.awaited() || flight.queued() || flight.in_background) return;
  Drop(shard, flight, after);
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Drop(Shard& shard, FlightT& flight, Aftermath& after) {
  after.dropped.push_back(shard.flights.Drop(flight));
  flights_.fetch_sub(1, std::memory_order_relaxed);
}

// The calling thread runs a loader of this key already, if a detached one.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::AsksForItself(const Key& key) const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() == this && frame->flight()->IsFor(&key)) return true;
  }
  return false;
}

// Once a flight; it must not have been.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::AnswerFlight(FlightT& flight, Answer answer, Aftermath& after) {
  flight.answer = std::move(answer);
  flight.answered = true;
  for (const auto& waiter : flight.waiters) waiter->seated = false;
  after.woken.splice(after.woken.end(), flight.waiters);
  for (AsyncPtr& async : flight.async) {
    StopWaiting(*async);
    after.answered.push_back(std::move(async));
  }
  flight.async.clear();
}

// The flight, which has its answer, is no longer the current one.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Displace(Shard& shard, FlightT& flight, Aftermath& after) {
  if (flight.started()) {
    shard.flights.DetachRunning(flight.key);
  } else {
    Drop(shard, flight, after);
  }
}

// Past its hard time-out. One that waits for nothing but its turn on a caller's thread is given time anew.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::IsHung(FlightT& flight, Instant now) const {
  if (flight.answered || now < flight.hard_deadline) return false;
  if (flight.phase != Phase::kReady || flight.queued()) return true;
  flight.hard_deadline = now + options_.load_hard_timeout;
  return false;
}

// Frees the key of a current flight that is past its hard time-out; true: there was one.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::TimeOutHung(Shard& shard, const Key& key, Instant now, Aftermath& after) {
  const FlightPtr current = shard.flights.Current(key);
  if (current == nullptr || !IsHung(*current, now)) return false;
  TimeOut(shard, *current, now, after);
  return true;
}

// The flight is past its hard time-out and has no answer yet.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::TimeOut(Shard& shard, FlightT& flight, Instant now, Aftermath& after) {
  const bool is_current = shard.flights.Current(flight.key).get() == &flight;
  Answer answer = HardTimeoutError();
  if (is_current) ReplaceError(shard, flight, now, answer, after);
  AnswerFlight(flight, std::move(answer), after);
  if (is_current) Displace(shard, flight, after);
}

// Puts the old value in the error's place, where it may still stand in, and sets when to try again. An entry of which
// nothing can be made any more leaves.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::ReplaceError(Shard& shard, FlightT& flight, Instant now, Answer& error,
                                                   Aftermath& after) {
  Entry* const old = FindEntry(shard, flight.key);
  if (old == nullptr) return;
  if (old->times.Over(now)) return Remove(shard, *old, RemovalCause::kExpired, after);
  old->times.retry_at = now + options_.retry_backoff;
  if (old->value == nullptr || now >= old->times.stale_until) return;
  flight.stale = now >= old->times.expires_at;
  error = old->value;
}

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_FLIGHTS_H_
