// Lookups: they answer from the entries, or join a flight and wait for it or run it. And the refreshes that they start.

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "shard.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"
#include "tier_side.h"

namespace stockade::cache_internal {

// A tier trusts what is in the slot after its trust was read, so the slot must not have changed until then.
bool CacheCore::MayHitInTier(const Slot& slot, uint32_t seq, Instant plain_hit_until) const {
  SyncPoint();
  return MayHitInUse(slot, seq, std::min(plain_hit_until, tier_->cache->trusted_until()));
}

// `last_use` is that of the entry if the slot has not got another one until it was read.
bool CacheCore::MayHitInUse(const Slot& slot, uint32_t seq, Instant plain_hit_until) const {
  const uint32_t last_use = slot.last_use.load(std::memory_order_acquire);
  if (slot.seq.load(std::memory_order_relaxed) != seq) return false;
  const Instant coarse = options_.clock->CoarseNow();
  return (!idle_.enabled() || idle_.IsRecent(last_use, coarse)) && IsBefore(plain_hit_until, coarse);
}

// The coarse clock may be one tick late, so near the end the exact clock decides.
inline bool CacheCore::IsBefore(Instant plain_hit_until, Instant coarse) const {
  constexpr int64_t kLongestTick = 10'000'000;  // Nanoseconds: an upper bound for a clock's CoarseNow().
  if (coarse.nanoseconds() + kLongestTick < plain_hit_until.nanoseconds()) return true;
  return plain_hit_until != Instant::InfinitePast() && Now() < plain_hit_until;
}

bool CacheCore::MayHitInTime(Instant plain_hit_until) const {
  return IsBefore(plain_hit_until, options_.clock->CoarseNow());
}

CacheCall CacheCore::NewCall(const CacheGetOptions& options) const {
  const Instant now = Now();
  return {.begun = now, .deadline = now + options.timeout, .stop = options.stop};
}

void CacheCore::CountRequest(const CacheCall& call) {
  Count(call.result);
  if (call.waited) Observe(kWaitSeconds, Now() - call.begun);
}

Answer CacheCore::Find(const KeyAt& at, const CacheGetOptions& options, const MakeLoader* make_loader) noexcept {
  CacheCall call = NewCall(options);
  Answer answer = FindOrLoad(at, call, make_loader);
  CountRequest(call);
  return answer;
}

// Sets the result that the call counts as, but does not count it.
Answer CacheCore::FindOrLoad(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader) noexcept try {
  std::optional<ReadHold> reading;
  const auto enqueue = [&](Instant now, AfterUnlock&) STOCKADE_REQUIRES(kShardMutex) {
    EnqueueWaiter(call);
    // Under the same lock, so that no other call runs this call's loader.
    const bool is_first = call.result == kRequestMiss && call.flight->phase == Flight::Phase::kReady;
    if (is_first && call.queue == LoadQueue::kNone) {
      Begin(*call.flight, now);
      call.has_begun = true;
    }
    return absl::OkStatus();
  };
  for (;;) {
    if (call.flight == nullptr) {  // Otherwise FindAll() has had it join one.
      const bool locks = locks_reads() && !reading.has_value();
      if (locks && !TakeReadLock(at.hash, call.deadline, reading.emplace())) return DeadlineError();
      if (std::optional<Answer> answer = ServeOrJoin(at, call, make_loader, enqueue)) return *std::move(answer);
    }
    if (std::optional<Answer> answer = Wait(call)) return *std::move(answer);
    call.flight.reset();  // Here and not under the mutex, because it may be the last owner of a value.
  }
} catch (...) {
  return Abandon(call);
}

// The first step of every lookup that may load: answers it, or has it join a flight, which it starts if there is none,
// and wait for it. Returns nothing in the second case.
std::optional<Answer> CacheCore::ServeOrJoin(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader,
                                             Enqueue enqueue) {
  for (;;) {
    const Instant now = Now();
    AfterUnlock after(*this);
    ShardLock lock(shards_[at.shard]);
    RemoveIfIdle(at, now, after);
    Served served = Serve(at, now, true);
    call.result = served.result;
    if (served.answer.has_value()) {
      lock.Unlock();
      call.expires_at = served.expires_at;
      if (served.due.has_value()) {
        absl::StatusOr<LoaderPtr> loader = make_loader != nullptr ? (*make_loader)() : nullptr;
        if (loader.ok()) StartRefresh(at, *served.due, *std::move(loader));
      }
      return std::move(served.answer);
    }
    const FlightPtr current = Current(at);
    if (current != nullptr && TimeOutIfHung(current, now, after)) {
      lock.Unlock();
      after.Run();
      continue;
    }
    if (make_loader != nullptr && call.loader == nullptr && current == nullptr) {
      lock.Unlock();
      after.Run();
      absl::StatusOr<LoaderPtr> loader = (*make_loader)();
      if (!loader.ok()) return loader.status();
      call.loader = *std::move(loader);
      continue;
    }
    absl::Status refusal = Join(at, call, now);
    if (refusal.ok()) refusal = enqueue(now, after);
    lock.Unlock();
    after.Run();
    if (!refusal.ok()) return refusal;
    return std::nullopt;
  }
}

// Enqueues the calling thread as a waiter of the flight that the call has joined.
void CacheCore::EnqueueWaiter(CacheCall& call) {
  call.waiter = std::make_shared<ThreadWaiter>(*options_.clock, call.deadline, call.must_run_here);
  call.waiter->Enter(call.flight->waiters, call.waiter);
}

std::optional<Pinned> CacheCore::FindIfPresent(const KeyAt& at) {
  AfterUnlock after(*this);
  Served served;
  {
    ReadHold reading;  // Ends before user code runs, which may update the key.
    if (!locks_reads() || TakeReadLock(at.hash, Instant::InfinitePast(), reading)) {
      const Instant now = Now();
      Shard& shard = shards_[at.shard];
      const ShardLock lock(shard);
      RemoveIfIdle(at, now, after);
      served = Serve(at, now, false);
      Slot* const entry = served.answer.has_value() ? nullptr : FindEntry(at);
      if (entry != nullptr && TimesOf(*entry).Over(now)) Remove(shard, *entry, RemovalCause::kExpired, after);
    }
  }
  after.Run();
  Count(served.result);
  if (served.due.has_value()) StartRefresh(at, *served.due, nullptr);
  if (!served.answer.has_value() || !served.answer->ok()) return std::nullopt;
  return **std::move(served.answer);
}

// The answer of the table at `now`. Returns nothing if a load is needed. An expired entry stays, because the load may
// find that its value is still valid.
CacheCore::Served CacheCore::Serve(const KeyAt& at, Instant now, bool stale_too) {
  Served served;
  Slot* const entry = FindEntry(at);
  if (entry == nullptr) return served;
  RecordUse(*entry, now);  // Also if it has expired: a failed load may still serve it.
  const EntryTimes times = TimesOf(*entry);
  const bool current = MayServe(*entry, now);
  const bool fresh = current && now < times.expires_at;
  if (!fresh) {
    const bool backs_off =
        now < times.retry_at && now < times.stale_until && (current || options_.stale_if_error > absl::ZeroDuration());
    const bool revalidates = current && now < times.revalidate_until;
    if (!stale_too || !entry->has_value() || (!revalidates && !backs_off)) {
      if (!current) served.due = RefreshTrigger::kStale;  // For a lookup that does not load.
      return served;
    }
  }
  entry->Touch();
  served.expires_at = times.expires_at;
  if (!entry->has_value()) {
    served.result = kRequestNegative;
    served.answer = entry->extra->absence;
    return served;
  }
  served.answer = ValueOf(*entry);  // May throw.
  served.result = fresh ? kRequestHit : kRequestStale;
  if (times.MayBeDue(now)) {
    const FlightPtr current = Current(at);
    if (current == nullptr || IsHung(*current, now)) served.due = freshness_.Due(times, now);
  }
  return served;
}

// The answer of a call that need not wait. Nothing: a load is needed, and the call has time for it.
std::optional<Answer> CacheCore::TryAnswer(const KeyAt& at, CacheCall& call) {
  const Instant now = Now();
  Served served;
  AfterUnlock after(*this);
  {
    ReadHold reading;  // Ends before user code runs, which may update the key.
    if (!locks_reads() || TakeReadLock(at.hash, Instant::InfinitePast(), reading)) {
      const ShardLock lock(shards_[at.shard]);
      RemoveIfIdle(at, now, after);
      served = Serve(at, now, true);
    }
  }
  after.Run();
  call.result = served.result;
  if (!served.answer.has_value()) return Expired(call, now);
  if (served.due.has_value()) StartRefresh(at, *served.due, nullptr);
  return std::move(served.answer);
}

std::optional<Answer> CacheCore::FindAtOnce(const KeyAt& at, const CacheGetOptions& options) {
  CacheCall call = NewCall(options);
  std::optional<Answer> answer = TryAnswer(at, call);
  if (answer.has_value()) CountRequest(call);
  return answer;
}

CacheCore::Found CacheCore::FindEntryOf(const KeyAt& at, const CacheGetOptions& options) noexcept {
  static_assert(static_cast<int>(CacheSource::kNegative) == kRequestNegative, "sources are the first metrics");
  CacheCall call = NewCall(options);
  Answer answer = FindOrLoad(at, call, nullptr);
  CountRequest(call);
  return {std::move(answer), static_cast<CacheSource>(call.result), call.expires_at - Now()};
}

// A value that the tier does not vouch for is as good as expired.
CacheCore::Found CacheCore::FoundIn(const Slot& slot, Answer answer, Instant now) const {
  const Instant expires_at = MayServe(slot, now) ? slot.expires_at() : std::min(slot.expires_at(), now);
  const CacheSource source = !answer.ok()       ? CacheSource::kNegative
                             : now < expires_at ? CacheSource::kHit
                                                : CacheSource::kStale;
  return {std::move(answer), source, expires_at - now};
}

std::optional<CacheCore::Found> CacheCore::Peek(const KeyAt& at) {
  const Instant now = Now();
  const ShardLock lock(shards_[at.shard]);
  const Slot* const entry = FindEntry(at);
  if (entry == nullptr || IsIdle(*entry, now)) return std::nullopt;
  return FoundIn(*entry, entry->has_value() ? Answer(ValueOf(*entry)) : entry->extra->absence, now);
}

// In steps. An entry keeps its slot as long as it is in the cache.
absl::Status CacheCore::ForEach(absl::FunctionRef<bool(const Box& key, Found found)> visit) {
  constexpr size_t kVisitedAtOnce = 16;
  constexpr uint32_t kStep = 256;  // Slots, of which some are free.
  std::vector<std::pair<Pinned, Found>> step;
  step.reserve(kVisitedAtOnce);
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    for (uint32_t id = 1, end = UINT32_MAX; id < end;) {
      if (gate_->closed()) return CancelledError();
      const Instant now = Now();
      {
        const ShardLock lock(shard);
        end = shard.entries.end();
        const uint32_t last = end - id > kStep ? id + kStep : end;
        for (; id < last && step.size() < kVisitedAtOnce; ++id) {
          const Slot& slot = shard.entries[id];
          if (slot.free() || !slot.has_value() || IsIdle(slot, now)) continue;
          Removal entry = RemovalOf(slot, RemovalCause::kReplaced);
          step.emplace_back(std::move(entry.key), FoundIn(slot, std::move(entry.value), now));
        }
      }
      for (auto& [key, found] : step) {
        if (!visit(*key.box(), std::move(found))) return absl::OkStatus();
      }
      step.clear();
      GiveWay(shard);
    }
  }
  return absl::OkStatus();
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
    {
      const ShardLock lock(shards_[at.shard]);
      QueueUpRefresh(at, trigger, loader, after);
    }
    after.Run();
  } catch (...) {
    LogThrown("a refresh does not start");
  }
}

// Takes `loader` if it starts a refresh. Otherwise the caller destroys it, without the mutex.
void CacheCore::QueueUpRefresh(const KeyAt& at, RefreshTrigger trigger, LoaderPtr& loader, AfterUnlock& after) {
  const Instant now = Now();
  Shard& shard = shards_[at.shard];
  if (shard.closed) return;
  RemoveIfIdle(at, now, after);
  if (const FlightPtr current = Current(at); current != nullptr) TimeOutIfHung(current, now, after);
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
  if (flight->tier != nullptr) flight->tier->checks = checks;
  if (flight->phase == Flight::Phase::kReady) QueueUp(flight, now, after);
  Count(static_cast<CacheMetric>(kRefreshAhead + static_cast<size_t>(trigger)));
}

}  // namespace stockade::cache_internal
