// Lookups, and the refreshes that they start.

#include "shard.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"
#include "strict.h"

namespace stockade::cache_internal {

// The coarse clock may be one tick late, so near the end the exact clock decides.
bool CacheCore::IsQuiet(Instant quiet_until) const {
  constexpr int64_t kLongestTick = 10'000'000;  // Nanoseconds: an upper bound for a clock's CoarseNow().
  if (quiet_until == Instant::InfiniteFuture()) return true;
  if (quiet_until == Instant::InfinitePast()) return false;
  const int64_t latest = options_.clock->CoarseNow().nanoseconds() + kLongestTick;
  return latest < quiet_until.nanoseconds() || Now() < quiet_until;
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
  for (;;) {
    ShardLock lock;
    if (call.flight != nullptr) {  // Of FindAll().
      lock = Lock(shards_[at.shard]);
    } else {
      if (options_.strict && !TakeReadLock(at.hash, call.deadline, reading)) return DeadlineError();
      if (std::optional<Answer> answer = Open(at, call, make_loader, lock)) return *std::move(answer);
      Sit(call);
    }
    if (std::optional<Answer> answer = Await(call, std::move(lock))) return *std::move(answer);
    call.flight.reset();  // Here and not under the mutex, because it may be the last owner of a value.
  }
}

// The first step of every lookup that may load: answers it, or has it join a flight, which it starts if there is none.
// In the second case, returns nothing and locks the shard's mutex.
std::optional<Answer> CacheCore::Open(const KeyAt& at, CacheCall& call, const MakeLoader* make_loader,
                                      ShardLock& lock) {
  for (;;) {
    const Instant now = Now();
    Aftermath after(*this);
    ShardLock locked = Lock(shards_[at.shard]);
    std::optional<RefreshTrigger> due;
    if (std::optional<Answer> served = Serve(at, now, true, call.result, due)) {
      locked.unlock();
      if (due.has_value()) {
        absl::StatusOr<LoaderPtr> loader = make_loader != nullptr ? (*make_loader)() : nullptr;
        if (loader.ok()) StartRefresh(at, *due, *std::move(loader));
      }
      return served;
    }
    call.result = kRequestMiss;
    if (TimeOutHung(at, now, after)) continue;
    if (make_loader != nullptr && call.loader == nullptr && Current(at) == nullptr) {
      locked.unlock();
      absl::StatusOr<LoaderPtr> loader = (*make_loader)();
      if (!loader.ok()) return loader.status();
      call.loader = *std::move(loader);
      continue;
    }
    if (absl::Status refusal = Join(at, call, now); !refusal.ok()) return refusal;
    lock = std::move(locked);
    return std::nullopt;
  }
}

std::optional<Pinned> CacheCore::FindIfPresent(const KeyAt& at) {
  Aftermath after(*this);
  ReadHold reading;
  CacheMetric result = kRequestMiss;
  std::optional<RefreshTrigger> due;
  std::optional<Answer> answer;
  if (!options_.strict || TakeReadLock(at.hash, Instant::InfinitePast(), reading)) {
    const Instant now = Now();
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
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
// find that its value is still valid. Called with the shard's mutex held.
std::optional<Answer> CacheCore::Serve(const KeyAt& at, Instant now, bool stale_too, CacheMetric& result,
                                       std::optional<RefreshTrigger>& due) {
  Slot* const entry = FindEntry(at);
  if (entry == nullptr) return std::nullopt;
  const EntryTimes times = TimesOf(*entry);
  const bool fresh = now < times.expires_at;
  if (!fresh) {
    if (!stale_too || !entry->has_value()) return std::nullopt;
    const bool backs_off = now < times.retry_at && now < times.stale_until;
    if (now >= times.revalidate_until && !backs_off) return std::nullopt;
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
  if (const absl::Status started = StartRefreshThreads(); !started.ok()) {
    Log(LogSeverity::kWarning, Named(Concat(": a refresh is skipped: ", started.message())));
    return;
  }
  try {
    Aftermath after(*this);
    const Instant now = Now();
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
    if (shard.closed) return;
    TimeOutHung(at, now, after);
    if (trigger == RefreshTrigger::kManual) {
      Slot* const entry = FindEntry(at);
      if (entry != nullptr && entry->IsError()) Remove(shard, *entry, RemovalCause::kInvalidated, after);
    }
    if (Current(at) != nullptr) return;
    if (trigger != RefreshTrigger::kManual) {
      const Slot* const entry = FindEntry(at);
      if (entry == nullptr || !entry->has_value() || !TimesOf(*entry).MayBeDue(now)) return;
    }
    const FlightPtr flight = StartFlight(at, std::move(loader), now);
    flight->in_background = true;
    if (flight->phase == Flight::Phase::kReady) QueueUp(flight, now, after);
    Count(static_cast<CacheMetric>(kRefreshAhead + static_cast<size_t>(trigger)));
  } catch (...) {
    LogThrown("a refresh does not start");
  }
}

}  // namespace stockade::cache_internal
