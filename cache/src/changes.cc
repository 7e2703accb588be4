// Put and invalidation.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "shard.h"
#include "stockade/cache/internal/cache_core.h"
#include "strict.h"

namespace stockade::cache_internal {
namespace {

// The number of slots that an invalidation looks at while it holds the mutex once.
constexpr uint32_t kStep = 16;

// While the result exists, loaders of the shard get no previous value. NotModified() would store that value again,
// behind the steps of an invalidation.
template <typename Shard>
auto Clear(Shard& shard) {
  const auto add = [&shard](int count) {
    SyncPoint();
    const MutexLock lock(shard.mutex);
    shard.clearings += count;
  };
  add(1);
  return absl::Cleanup([add] { add(-1); });
}

}  // namespace

bool CacheCore::TryOverwrite(const KeyAt& at, const void* value) {
  if (!puts_are_plain_) return false;
  SyncPoint();
  Shard& shard = shards_[at.shard];
  const ShardLock lock(shard.mutex, std::try_to_lock);
  if (!lock.owns_lock() || !shard.flights.empty() || shard.walk.over_at != Instant::InfiniteFuture()) return false;
  Slot* const entry = FindEntry(at);
  if (entry == nullptr || entry->extra != nullptr || entry->expires_at() != Instant::InfiniteFuture()) return false;
  NewEntry fresh{value, nullptr, 1, Instant::InfiniteFuture(), nullptr};
  Write(*entry, nullptr, &fresh);
  return true;
}

// Takes the time only if something may expire, and makes a box for the key only if it is new.
void CacheCore::Store(const KeyAt& at, const void* value, const Pinned& box, const EntryOptions& entry) {
  Aftermath after(*this);
  const absl::Duration ttl = entry.ttl.value_or(options_.ttl);
  const bool expires = ttl != absl::InfiniteDuration();
  Instant now = expires ? Now() : Instant::InfinitePast();
  const std::optional<EntryTimes> times = freshness_.OfValue(now, entry.ttl, absl::ZeroDuration());
  const std::optional<int64_t> weight = times.has_value() ? WeightOf(at, value) : std::nullopt;
  const bool fits = weight.has_value() && *weight <= options_.max_weight;
  const RemovalCause cause =
      entry.ttl.value_or(options_.ttl) > absl::ZeroDuration() ? RemovalCause::kReplaced : RemovalCause::kInvalidated;
  NewEntry fresh;
  if (fits) {
    fresh = {value, box, *weight, times->QuietUntil(), EntryExtra::For(*times, entry.tags)};
  }
  const Slot* stored = nullptr;
  {
    Shard& shard = shards_[at.shard];
    ShardLock lock = Lock(shard);
    Slot* old = FindEntry(at);
    if (old == nullptr && fits && has_.key_boxes) {
      lock.unlock();
      fresh.box = BoxFor(at.key, nullptr);
      lock.lock();
      old = FindEntry(at);
    }
    if (const FlightPtr flight = Current(at); flight != nullptr) {
      if (!flight->answered) AnswerFlight(*flight, box == nullptr ? Boxed(value) : box, after);
      Displace(shard, *flight, after);
    }
    const bool may_be_over = shard.walk.over_at != Instant::InfiniteFuture() ||
                             (old != nullptr && old->expires_at() != Instant::InfiniteFuture());
    if (!expires && may_be_over) now = Now();
    stored = Replace(at, old, fits ? &fresh : nullptr, cause, false, after, now);
  }
  Wake(after);
  if (stored != nullptr) Trim(stored, after);
}

void CacheCore::Invalidate(const KeyAt& at) noexcept {
  Aftermath after(*this);
  InvalidateWithin(at, after);
}

void CacheCore::InvalidateWithin(const KeyAt& at, Aftermath& after) noexcept {
  try {
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
    Slot* const entry = FindEntry(at);
    shard.flights.DetachRunning(at.hash, at.key);
    if (entry != nullptr) Remove(shard, *entry, RemovalCause::kInvalidated, after);
  } catch (...) {
    InvalidateUnknown();
  }
}

void CacheCore::InvalidateUnknown() noexcept {
  LogThrown("an invalidation removes all entries");
  InvalidateAll();
}

// The tags of a load's result are unknown while it runs: the load records the tag and is checked at its end. If the key
// has an entry with the tag, the load is detached. All this is the first step. Then the entries with the tag are
// removed in steps, so that no other call waits for long. This includes entries that another such call has set apart
// and not removed yet, because this call must not return before they are removed.
void CacheCore::InvalidateTag(std::string_view tag) {
  CheckFork();
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return;
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    const auto clearing = Clear(shard);
    std::optional<EntryTable::Doomed> doomed;
    for (bool more = true; more; GiveWay(shard)) {
      Aftermath after(*this);
      const ShardLock lock = Lock(shard);
      if (!doomed.has_value()) {
        shard.flights.DetachRunningIf([&](const Flight& flight) {
          Slot* entry = nullptr;  // If Eq throws, the flight's entry may have the tag.
          return !TryFindEntry(flight.key.at(), entry) || (entry != nullptr && entry->HasTag(tag));
        });
        shard.flights.Void(tag);
        doomed = shard.entries.DoomTagged(tag);
      }
      Slot* entry = shard.entries.AnyDoomed(tag);
      for (uint32_t step = 0; step < kStep && entry != nullptr; ++step) {
        Remove(shard, *entry, RemovalCause::kInvalidated, after);
        entry = shard.entries.AnyDoomed(tag);
      }
      more = entry != nullptr;
      if (!more) shard.entries.ForgetDoomed(*doomed);
    }
  }
  FlushRetired();
}

// Works in steps like InvalidateTag(). A load that begins between two steps is as new as this call, so the flights of a
// shard are detached once, at the beginning.
void CacheCore::InvalidateAll() {
  CheckFork();
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return;
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    const auto clearing = Clear(shard);
    uint32_t end = 1;
    for (uint32_t next = 1; next == 1 || next < end; GiveWay(shard)) {
      Aftermath after(*this);
      const ShardLock lock = Lock(shard);
      if (next == 1) {
        shard.flights.DetachRunningIf([](const Flight&) { return true; });
        end = shard.entries.end();
      }
      for (const uint32_t stop = next + kStep; next < stop; ++next) {
        if (next < end && !shard.entries[next].free()) {
          Remove(shard, shard.entries[next], RemovalCause::kInvalidated, after);
        }
      }
    }
  }
  FlushRetired();
}

}  // namespace stockade::cache_internal
