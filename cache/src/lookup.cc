// Lookups: they answer from the entries, or join a flight and wait for it or run it. And the refreshes that they start.

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "shard.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// The coarse clock may be one tick late, so near the end the exact clock decides. A tier trusts what is in the slot
// after its trust was read, so the slot must not have changed until then.
bool CacheCore::MayHit(const Slot& slot, uint32_t seq, Instant plain_hit_until) const {
  constexpr int64_t kLongestTick = 10'000'000;  // Nanoseconds: an upper bound for a clock's CoarseNow().
  if (tier_ != nullptr) {
    SyncPoint();
    plain_hit_until = std::min(plain_hit_until, tier_->cache->trusted_until());
    if (slot.seq.load(std::memory_order_relaxed) != seq) return false;
  }
  if (plain_hit_until == Instant::InfiniteFuture()) return true;
  if (plain_hit_until == Instant::InfinitePast()) return false;
  const int64_t latest = options_.clock->CoarseNow().nanoseconds() + kLongestTick;
  return latest < plain_hit_until.nanoseconds() || Now() < plain_hit_until;
}

CacheCall CacheCore::NewCall(const CacheGetOptions& options) const {
  const Instant now = Now();
  return {.begun = now, .deadline = now + options.timeout, .stop = options.stop};
}

void CacheCore::CountRequest(const CacheCall& call) {
  Count(call.result);
  if (call.waited) Observe(kWaitSeconds, Now() - call.begun);
}

// Blocks if a load is needed.
Answer CacheCore::Find(const KeyAt& at, const CacheGetOptions& options, const MakeLoader* make_loader) noexcept {
  CacheCall call = NewCall(options);
  Answer answer = Find(at, call, make_loader);
  CountRequest(call);
  return answer;
}

// Blocks if a load is needed. Sets the result that the call counts as, but does not count it.
Answer CacheCore::Find(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader) noexcept {
  try {
    return FindOrLoad(at, call, make_loader);
  } catch (...) {
    Answer thrown = ThrownError();
    Abandon(call);
    return thrown;
  }
}

Answer CacheCore::FindOrLoad(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader) {
  ReadHold reading;
  const auto enqueue = [&](AfterUnlock&) STOCKADE_REQUIRES(kShardMutex) {
    EnqueueWaiter(call);
    return absl::OkStatus();
  };
  for (;;) {
    if (call.flight == nullptr) {  // Otherwise FindAll() has had it join one.
      if (options_.strict && !TakeReadLock(at.hash, call.deadline, reading)) return DeadlineError();
      if (std::optional<Answer> answer = ServeOrJoin(at, call, make_loader, enqueue)) return *std::move(answer);
    }
    if (std::optional<Answer> answer = Wait(call)) return *std::move(answer);
    call.flight.reset();  // Here and not under the mutex, because it may be the last owner of a value.
  }
}

// The first step of every lookup that may load: answers it, or has it join a flight, which it starts if there is none,
// and wait for it. Returns nothing in the second case.
std::optional<Answer> CacheCore::ServeOrJoin(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader,
                                             Enqueue enqueue) {
  for (;;) {
    const Instant now = Now();
    AfterUnlock after(*this);
    ShardLock lock(shards_[at.shard]);
    std::optional<RefreshTrigger> due;
    if (std::optional<Answer> served = Serve(at, now, true, call.result, due)) {
      lock.Unlock();
      if (due.has_value()) {
        absl::StatusOr<LoaderPtr> loader = make_loader != nullptr ? (*make_loader)() : nullptr;
        if (loader.ok()) StartRefresh(at, *due, *std::move(loader));
      }
      return served;
    }
    call.result = kRequestMiss;
    if (TimeOutHung(at, now, after)) continue;
    if (make_loader != nullptr && call.loader == nullptr && Current(at) == nullptr) {
      lock.Unlock();
      absl::StatusOr<LoaderPtr> loader = (*make_loader)();
      if (!loader.ok()) return loader.status();
      call.loader = *std::move(loader);
      continue;
    }
    absl::Status refusal = Join(at, call, now);
    if (refusal.ok()) refusal = enqueue(after);
    if (!refusal.ok()) return refusal;
    return std::nullopt;
  }
}

// Adds the call to the key's current flight, which it starts if there is none. Otherwise returns the reason why not.
absl::Status CacheCore::Join(const KeyAt& at, CacheCall& call, Instant now) {
  if (shards_[at.shard].closed) return CancelledError();
  if (absl::Status refusal = CheckNotItsOwn(at.key); !refusal.ok()) return refusal;
  if (call.stop.stop_requested()) return StoppedError();
  if (call.deadline <= now) return DeadlineError();
  call.flight = Current(at);
  if (call.flight != nullptr && !MayJoin(*call.flight, now)) {
    shards_[at.shard].flights.DetachRunning(*call.flight);
    call.flight = nullptr;
  }
  if (call.flight == nullptr) {
    if (call.loader == nullptr && !HasLoader()) {
      return absl::FailedPreconditionError(Named(" has no loader; only GetOrLoad() and Put() fill it"));
    }
    call.flight = StartFlight(at, call.loader, now);
  } else {
    call.result = kRequestCoalesced;
  }
  call.joined = call.flight->tag_invalidations;
  call.soft_deadline = Instant::InfiniteFuture();
  if (options_.load_soft_timeout != absl::InfiniteDuration()) {
    const Slot* const entry = FindValue(at);
    if (entry != nullptr && now < TimesOf(*entry).stale_until) {
      call.soft_deadline = call.begun + options_.load_soft_timeout;
    }
  }
  return absl::OkStatus();
}

// Enqueues the calling thread as a waiter of the flight that the call has joined.
void CacheCore::EnqueueWaiter(CacheCall& call) {
  call.waiter = std::make_shared<ThreadWaiter>(*options_.clock, call.deadline, MustRunHere(call));
  call.waiter->Enter(call.flight->waiters, call.waiter);
}

// Waits for the flight that the call has joined, or runs it. Returns nothing if the flight's result is
// not valid for this call, which must look up the key again.
//
// A call within a loader, or on a thread of the executor itself, never waits for a thread of an executor: it runs the
// flight itself if that has not started, so that a full executor cannot block it.
std::optional<Answer> CacheCore::Wait(CacheCall& call) {
  AfterUnlock after(*this);
  const FlightPtr flight = call.flight;
  Shard& shard = shards_[flight->key.shard];
  const LoadQueue queue = QueueFor(call);
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  std::optional<Answer> answer;
  FlightWait wait;  // Declared after `flight`: the edge ends before its target may.
  bool waits = false;
  const absl::Cleanup leaves = [&] {
    if (waits) waiters_.fetch_sub(1, std::memory_order_relaxed);
  };
  for (;;) {
    ShardLock lock(shard);
    call.waiter->parked = false;
    const Instant now = Now();
    if (!answer.has_value() && !flight->answered) answer = GiveUp(call, now, after);
    if (answer.has_value() || flight->answered) {
      wait.End();
      Leave(shard, call, after);
      break;
    }
    const bool ready = flight->phase == Flight::Phase::kReady && now >= flight->not_before;
    if (ready && queue == LoadQueue::kNone && MayRunHere(call)) {
      Begin(*flight, now);
      lock.Unlock();
      answer = Run({&flight, 1}, false, {call.deadline, call.stop});
    } else if (ready && queue != LoadQueue::kNone && !flight->In(queue)) {
      QueuedLoad load(*this, queue, flight);
      EnterQueue(*flight, queue, now);
      lock.Unlock();
      Offer(queue, std::move(load));
    } else if (call.stop.stop_possible() && !on_stop.has_value()) {
      on_stop.emplace(call.stop, [waiter = call.waiter] { waiter->Wake(false); });
    } else if (std::string circle; !waits && !wait.TryBegin(flight.get(), circle)) {
      answer = CircleError(circle);
    } else {
      if (!std::exchange(waits, true)) waiters_.fetch_add(1, std::memory_order_relaxed);
      call.waited = call.waiter->parked = true;
      Instant until = std::min({call.deadline, call.soft_deadline, flight->times.hard_deadline});
      if (now < flight->not_before && MayRunHere(call)) until = std::min(until, flight->not_before);
      lock.Unlock();
      if (call.waiter->Wait(until)) break;
    }
  }
  const Flight::Result& result = flight->FinalResult();
  if (answer.has_value() || call.joined >= result.valid_for_joins_before) return answer;
  if (result.stale) call.result = kRequestStale;
  return result.answer;
}

// The answer for a call that its caller has stopped, or whose deadline has passed.
std::optional<Answer> CacheCore::Expired(const CacheCall& call, Instant now) const {
  if (call.stop.stop_requested()) return StoppedError();
  if (now >= call.deadline) return DeadlineError();
  return std::nullopt;
}

// The answer for a call that has waited long enough for its flight. Returns nothing if the call continues to wait, or
// if the flight has timed out and has its answer.
std::optional<Answer> CacheCore::GiveUp(CacheCall& call, Instant now, AfterUnlock& after) {
  if (std::optional<Answer> expired = Expired(call, now)) return expired;
  if (IsHung(*call.flight, now)) {
    FailHung(call.flight, now, after);
  } else if (now >= call.soft_deadline) {
    call.soft_deadline = Instant::InfiniteFuture();
    const Slot* const entry = FindValue(call.flight->key.at());
    if (entry != nullptr && now < TimesOf(*entry).stale_until) {
      call.result = kRequestStale;
      return ValueOf(*entry);
    }
  }
  return std::nullopt;
}

absl::Status CacheCore::CircleError(std::string_view circle) const {
  return absl::FailedPreconditionError(
      Named(Concat(": a loader requested a key whose load waits for the loader's own: ", circle)));
}

// Refuses a key whose loader this thread already runs, also if that flight is detached.
absl::Status CacheCore::CheckNotItsOwn(const void* key) const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() != this || !frame->flight()->IsFor(key)) continue;
    std::string circle = Concat("'", options_.name, "' key ", TextOf(key));
    for (const LoaderFrame* f = LoaderFrame::Innermost(); f != frame->outer(); f = f->outer()) {
      circle = Concat(f->flight()->Text(), " -> ", circle);
    }
    return CircleError(circle);
  }
  return absl::OkStatus();
}

bool CacheCore::MayRunHere(const CacheCall& call) {
  return !call.flight->relayed || call.flight->chosen_runner == call.waiter.get() || MustRunHere(call);
}

Executor* CacheCore::ExecutorOf(LoadQueue queue) {
  return queue == LoadQueue::kLoad ? options_.load_executor : RefreshExecutor();
}

// The queue for loads of the call, independent of the calling thread; none for the caller's own thread.
LoadQueue CacheCore::PreferredQueue(const CacheCall& call) {
  if (options_.load_executor != nullptr) return LoadQueue::kLoad;
  // If no threads can be started, the call cannot return before its load.
  const bool returns_early = call.soft_deadline != Instant::InfiniteFuture() && StartRefreshThreads().ok();
  return returns_early ? LoadQueue::kRefresh : LoadQueue::kNone;
}

// Whether the calling thread must not wait for an executor, because it runs a loader or is a thread that the executor
// needs.
bool CacheCore::MustRunHere(const CacheCall& call) {
  if (LoaderFrame::Innermost() != nullptr) return true;
  const LoadQueue queue = PreferredQueue(call);
  return queue != LoadQueue::kNone && ExecutorOf(queue)->RunningInThisThread();
}

// The queue from which the call's flight is run; none for the calling thread.
LoadQueue CacheCore::QueueFor(const CacheCall& call) {
  return MustRunHere(call) ? LoadQueue::kNone : PreferredQueue(call);
}

void CacheCore::Leave(Shard& shard, const CacheCall& call, AfterUnlock& after) noexcept {
  Flight& flight = *call.flight;
  if (!call.waiter->waits()) return;
  call.waiter->Leave();
  if (flight.phase == Flight::Phase::kReady && flight.chosen_runner == call.waiter.get())
    ChooseRunner(flight, flight.relayed);
  DropIfUnwanted(shard, flight, after);
}

// Gives up the call's place with a flight after an exception. The mutex is not held.
void CacheCore::Abandon(CacheCall& call) noexcept {
  if (call.flight == nullptr) return;
  AfterUnlock after(*this);
  const FlightPtr flight = std::move(call.flight);
  Shard& shard = shards_[flight->key.shard];
  const ShardLock lock(shard);
  if (call.waiter != nullptr && call.waiter->waits()) {
    call.flight = flight;
    Leave(shard, call, after);
    call.flight.reset();
  } else if (!flight->answered) {
    DropIfUnwanted(shard, *flight, after);
  }
}

std::optional<Pinned> CacheCore::FindIfPresent(const KeyAt& at) {
  AfterUnlock after(*this);
  ReadHold reading;
  CacheMetric result = kRequestMiss;
  std::optional<RefreshTrigger> due;
  std::optional<Answer> answer;
  if (!options_.strict || TakeReadLock(at.hash, Instant::InfinitePast(), reading)) {
    const Instant now = Now();
    Shard& shard = shards_[at.shard];
    const ShardLock lock(shard);
    answer = Serve(at, now, false, result, due);
    Slot* const entry = answer.has_value() ? nullptr : FindEntry(at);
    if (entry != nullptr && TimesOf(*entry).Over(now)) Remove(shard, *entry, RemovalCause::kExpired, after);
  }
  Count(result);
  if (due.has_value()) StartRefresh(at, *due, nullptr);
  if (!answer.has_value() || !answer->ok()) return std::nullopt;
  return **std::move(answer);
}

// The answer of the table at `now`. Returns nothing if a load is needed. An expired entry stays, because the load may
// find that its value is still valid.
std::optional<Answer> CacheCore::Serve(const KeyAt& at, Instant now, bool stale_too, CacheMetric& result,
                                       std::optional<RefreshTrigger>& due) {
  Slot* const entry = FindEntry(at);
  if (entry == nullptr) return std::nullopt;
  const EntryTimes times = TimesOf(*entry);
  const bool current = MayServe(*entry, now);
  const bool fresh = current && now < times.expires_at;
  if (!fresh) {
    const bool backs_off =
        now < times.retry_at && now < times.stale_until && (current || options_.stale_if_error > absl::ZeroDuration());
    const bool revalidates = current && now < times.revalidate_until;
    if (!stale_too || !entry->has_value() || (!revalidates && !backs_off)) {
      if (!current) due = RefreshTrigger::kStale;  // For a lookup that does not load.
      return std::nullopt;
    }
  }
  entry->Touch();
  if (!entry->has_value()) {
    result = kRequestNegative;
    return entry->extra->absence;
  }
  result = fresh ? kRequestHit : kRequestStale;
  if (times.MayBeDue(now)) {
    const FlightPtr current = Current(at);
    if (current == nullptr || IsHung(*current, now)) due = freshness_.Due(times, now);
  }
  return ValueOf(*entry);
}

// Loads in the background unless the key is being loaded. Except with a manual trigger, also does nothing if the value
// is no longer due.
void CacheCore::StartRefresh(const KeyAt& at, RefreshTrigger trigger, LoaderPtr loader) noexcept {
  if (loader == nullptr && !HasLoader()) return;
  try {
    if (const absl::Status started = StartRefreshThreads(); !started.ok()) {
      Log(LogSeverity::kWarning, Named(Concat(": a refresh is skipped: ", started.message())));
      return;
    }
    AfterUnlock after(*this);
    const Instant now = Now();
    Shard& shard = shards_[at.shard];
    const ShardLock lock(shard);
    if (shard.closed) return;
    TimeOutHung(at, now, after);
    if (trigger == RefreshTrigger::kManual) {
      Slot* const entry = FindEntry(at);
      if (entry != nullptr && entry->IsError()) Remove(shard, *entry, RemovalCause::kInvalidated, after);
    }
    if (Current(at) != nullptr) return;
    bool checks = false;
    if (trigger != RefreshTrigger::kManual) {
      const Slot* const entry = FindEntry(at);
      if (entry == nullptr || !entry->has_value()) return;
      checks = !MayServe(*entry, now);
      if (!checks && !TimesOf(*entry).MayBeDue(now)) return;
    }
    const FlightPtr flight = StartFlight(at, std::move(loader), now, true);
    flight->checks = checks;
    if (flight->phase == Flight::Phase::kReady) QueueUp(flight, now, after);
    Count(static_cast<CacheMetric>(kRefreshAhead + static_cast<size_t>(trigger)));
  } catch (...) {
    LogThrown("a refresh does not start");
  }
}

}  // namespace stockade::cache_internal
