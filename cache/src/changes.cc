// Put, invalidation, shutdown.

#include "retired_entries.h"
#include "shard.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {
namespace {

// The number of a tag's entries that are removed while the mutex is held once.
constexpr size_t kStep = 256;

}  // namespace

bool CacheCore::TryOverwrite(const KeyAt& at, std::optional<absl::Duration> ttl,
                             absl::FunctionRef<void(CacheEntry&)> write) {
  if (has_.weigh || has_.on_removal) return false;
  Aftermath after(*this);
  Shard& shard = shards_[at.shard];
  const ShardLock lock = Lock(shard);
  CacheEntry* const entry = FindEntry(at);
  if (entry == nullptr || !entry->has_value || !entry->tags.empty() || Current(at) != nullptr) return false;
  const bool timeless = ttl.value_or(options_.ttl) == absl::InfiniteDuration() &&
                        entry->times.expires_at == Instant::InfiniteFuture() &&
                        shard.walk.over_at == Instant::InfiniteFuture();
  const Instant now = timeless ? Instant::InfinitePast() : Now();
  if (now >= entry->times.expires_at) return false;  // Its removal counts as an expiry.
  const std::optional<EntryTimes> times = freshness_.OfValue(now, ttl, absl::ZeroDuration());
  if (!times.has_value()) return false;
  entry->times = *times;
  write(*entry);
  ExpectExpiry(shard, *entry, after);
  SweepSome(shard, Shard::kSweptByStore, now, after);
  return true;
}

void CacheCore::Store(const KeyAt& at, const Pinned& pinned, const EntryOptions& entry) {
  Aftermath after(*this);
  const Instant now = Now();
  OwnedEntry fresh = MakeEntry(at, pinned, entry, absl::ZeroDuration(), now);
  const RemovalCause cause =
      entry.ttl.value_or(options_.ttl) > absl::ZeroDuration() ? RemovalCause::kReplaced : RemovalCause::kInvalidated;
  const CacheEntry* stored;
  {
    Shard& shard = shards_[at.shard];
    const ShardLock lock = Lock(shard);
    CacheEntry* const old = FindEntry(at);
    if (const FlightPtr flight = Current(at); flight != nullptr) {
      if (!flight->answered) AnswerFlight(*flight, pinned, after);
      Displace(shard, *flight, after);
    }
    stored = Replace(shard, old, std::move(fresh), cause, false, after, now);
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
    CacheEntry* const entry = FindEntry(at);
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

// While one exists, loaders of the shard get no previous value. NotModified() would store that value again, behind the
// steps of an invalidation.
class CacheCore::Clearing {
 public:
  explicit Clearing(Shard& shard) : shard_(shard) {
    const ShardLock lock = Lock(shard_);
    ++shard_.clearings;
  }
  ~Clearing() {
    const ShardLock lock = Lock(shard_);
    --shard_.clearings;
  }
  Clearing(const Clearing&) = delete;
  Clearing& operator=(const Clearing&) = delete;

 private:
  Shard& shard_;
};

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
    const Clearing clearing(shard);
    std::optional<EntryTable::Doomed> doomed;
    for (bool more = true; more;) {
      Aftermath after(*this);
      const ShardLock lock = Lock(shard);
      if (!doomed.has_value()) {
        shard.flights.DetachRunningIf([&](const Flight& flight) {
          CacheEntry* entry = nullptr;  // If Eq throws, the flight's entry may have the tag.
          return !TryFindEntry(flight.key.at(), entry) || (entry != nullptr && entry->HasTag(tag));
        });
        shard.flights.Void(tag);
        doomed = shard.entries.DoomTagged(tag);
      }
      CacheEntry* entry = shard.entries.AnyDoomed(tag);
      for (size_t step = 0; step < kStep && entry != nullptr; ++step) {
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
    const Clearing clearing(shard);
    for (uint64_t position = 0; position != EntryTable::kEnd;) {
      Aftermath after(*this);
      const ShardLock lock = Lock(shard);
      if (position == 0) shard.flights.DetachAllRunning();
      for (CacheEntry* const entry : shard.entries.Some(position)) {
        Remove(shard, *entry, RemovalCause::kInvalidated, after);
      }
    }
  }
  FlushRetired();
}

void CacheCore::Shutdown() {
  CheckNotInLoader();
  CheckNotInListener();
  gate_->Close();
  for (size_t index = 0; index < shard_count_; ++index) {
    Aftermath after(*this);
    std::list<AsyncPtr> cancelled;
    {
      Shard& shard = shards_[index];
      const ShardLock lock = Lock(shard);
      shard.closed = true;
      shard.flights.ForEach([&](Flight& flight) {
        if (!flight.answered) AnswerFlight(flight, CancelledError(), after);
      });
      for (auto& [hash, updates] : shard.updates) cancelled.splice(cancelled.end(), updates.parked);
      cancelled.splice(cancelled.end(), shard.ready);
      for (const AsyncPtr& async : cancelled) {
        StopWatching(*async);
        async->lobby = nullptr;
      }
    }
    for (const AsyncPtr& async : cancelled) {
      CountRequest(async->call);
      Deliver(async, CancelledError());
    }
  }
  gate_->AwaitEmpty();
  AwaitReads(this);
  StopThreads();
  for (size_t index = 0; index < shard_count_; ++index) {
    EntryTable& entries = shards_[index].entries;
    for (uint64_t position = 0; position != EntryTable::kEnd;) {
      Entries removed;
      for (CacheEntry* const entry : entries.Some(position)) removed.push_back(entries.Remove(*entry));
      retired_->Add(std::move(removed));
    }
  }
}

}  // namespace stockade::cache_internal
