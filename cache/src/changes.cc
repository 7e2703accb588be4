// Put, invalidation, updates, and the locks of strict mode. Updates of a strict cache with a tier are in
// strict_update.cc.
//
// Locks cannot deadlock. An update holds no other lock of a cache while it waits for its key's lock, because updates
// are refused within a loader, a strict read or another update of any cache. A read waits for a lock only if it is the
// thread's outermost read, and a read of several keys holds no lock while it waits for one.
//
// Reads within loaders and updates acquire no lock. This is safe, because everything that they store for a key that is
// being written is invalidated after the write.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"
#include "tier_side.h"

namespace stockade::cache_internal {

using locks_internal::ThreadRecord;

namespace {

// The number of slots that an invalidation looks at while it holds the mutex once.
constexpr uint32_t kStep = 16;

}  // namespace

// While it exists, loaders of the shard get no previous value. NotModified() would store that value again, behind the
// steps of an invalidation.
class CacheCore::Clearing {
 public:
  explicit Clearing(Shard& shard) : shard_(shard) { Add(1); }
  ~Clearing() { Add(-1); }
  Clearing(const Clearing&) = delete;
  Clearing& operator=(const Clearing&) = delete;

 private:
  void Add(int count) STOCKADE_EXCLUDES(kShardMutex) {
    const ShardLock lock(shard_);
    shard_.clearings += count;
  }

  Shard& shard_;
};

bool CacheCore::TryPut(const KeyAt& at, const void* value) {
  if (!puts_are_plain_) return false;
  SyncPoint();
  Shard& shard = shards_[at.shard];
  IndexOf(at.hash).Prefetch(at.hash);
  bool crowd = false;
  if (!ShardLock::TryLock(shard)) return false;
  ShardLock lock(shard, std::adopt_lock);
  if (!shard.flights.empty() || shard.walk.over_at != Instant::InfiniteFuture()) return false;
  NewEntry fresh{value, nullptr, 1, Instant::InfiniteFuture(), nullptr};
  Slot* const entry = FindEntry(at);
  if (entry == nullptr) {
    if (has_.key_boxes || !TryReplaceVictim(shard, at, fresh, crowd)) return false;
    lock.Unlock();
    if (crowd) LogCrowd();
    return true;
  }
  if (entry->extra != nullptr || entry->expires_at() != Instant::InfiniteFuture()) return false;
  Write(*entry, nullptr, &fresh);
  return true;
}

// Takes the time only if something may expire, and makes a box for the key only if it is new.
void CacheCore::Store(const KeyAt& at, const void* value, const Pinned& box, const EntryOptions& entry) {
  if (tier_ != nullptr) return tier_->Put(at, box == nullptr ? Boxed(value) : box, entry);
  AfterUnlock after(*this);
  const absl::Duration ttl = entry.ttl.value_or(options_.ttl);
  const bool expires = ttl != absl::InfiniteDuration() || idle_.enabled();
  Instant now = expires ? Now() : Instant::InfinitePast();
  const std::optional<EntryTimes> times = freshness_.OfValue(now, entry.ttl, absl::ZeroDuration());
  const std::optional<int64_t> weight = times.has_value() ? WeightOf(at, value) : std::nullopt;
  const bool fits = weight.has_value() && *weight <= max_weight();
  const RemovalCause cause =
      entry.ttl.value_or(options_.ttl) > absl::ZeroDuration() ? RemovalCause::kReplaced : RemovalCause::kInvalidated;
  NewEntry fresh;
  if (fits) {
    fresh = {value, box, *weight, HitsUntil(*times), EntryExtra::For(*times, entry.tags)};
  }
  const Slot* stored = nullptr;
  {
    Shard& shard = shards_[at.shard];
    ShardLock lock(shard);
    Slot* old = FindEntry(at);
    if (old == nullptr && fits && has_.key_boxes) {
      lock.Unlock();
      fresh.box = BoxFor(at.key, nullptr, false);
      lock.Lock();
      old = FindEntry(at);
    }
    if (const FlightPtr flight = Current(at); flight != nullptr) {
      if (!flight->answered()) {
        if (fits) flight->result.expires_at = times->expires_at;
        AnswerFlight(*flight, box == nullptr ? Boxed(value) : box, after);
      }
      RemoveCurrent(shard, *flight, after);
    }
    const bool may_be_over = shard.walk.over_at != Instant::InfiniteFuture() ||
                             (old != nullptr && old->expires_at() != Instant::InfiniteFuture());
    if (!expires && may_be_over) now = Now();
    stored = Replace(at, old, fits ? &fresh : nullptr, cause, false, after, now);
  }
  Wake(after);
  if (stored != nullptr) Trim(stored, after);
  after.Run();
}

void CacheCore::Invalidate(const KeyAt& at) noexcept {
  AfterUnlock after(*this);
  InvalidateWithin(at, after);
  after.Run();
}

void CacheCore::InvalidateKeys(std::span<const KeyAt> keys) {
  if (tier_ != nullptr) return tier_->InvalidateKeys(keys);
  InSteps(keys.size(), [&](size_t index, AfterUnlock& after) { ClearKey(keys[index], kAnyPosition, after); });
}

void CacheCore::PutAll(std::span<const KeyAt> keys, std::span<const Pinned> boxes, const EntryOptions& entry) {
  tier_->PutAll(keys, boxes, entry);
}

// After a few keys, what they have removed is destroyed and told.
void CacheCore::InSteps(size_t count, absl::FunctionRef<void(size_t index, AfterUnlock& after)> step) {
  constexpr size_t kKeysPerStep = 64;
  for (size_t index = 0; index < count;) {
    AfterUnlock after(*this);
    const size_t end = std::min(count, index + kKeysPerStep);
    for (; index < end; ++index) step(index, after);
    after.Run();
  }
}

void CacheCore::InvalidateWithin(const KeyAt& at, AfterUnlock& after) noexcept {
  try {
    if (tier_ == nullptr) return ClearKey(at, kAnyPosition, after);
    std::string key;
    const TierInvalidated done = tier_->InvalidateKey(
        at, [&] { ClearKey(at, kAnyPosition, after); }, key, /*with_lease=*/false);
    if (done.accepted) ClearKey(at, done.position, after);
  } catch (...) {
    InvalidateUnknown();
  }
}

// Removes the key's entry and detaches its load, if they are older than the position `before`.
void CacheCore::ClearKey(const KeyAt& at, uint64_t before, AfterUnlock& after) {
  Shard& shard = shards_[at.shard];
  const ShardLock lock(shard);
  Slot* const entry = FindEntry(at);
  if (const FlightPtr flight = Current(at); flight != nullptr && flight->LeasePosition() < before) {
    DropOldLease(flight, before, after);
    shard.flights.DetachRunning(*flight);
  }
  if (entry != nullptr && entry->stamp().position < before) Remove(shard, *entry, RemovalCause::kInvalidated, after);
}

// A flight that has not begun stays, because it will load current data. But the tier would refuse that for an old
// lease.
void CacheCore::DropOldLease(const FlightPtr& flight, uint64_t before, AfterUnlock& after) {
  if (!flight->started() && flight->LeasePosition() < before) GiveBackLease(flight, after);
}

// Needs no memory, because what has thrown may be std::bad_alloc. Without memory a tier may not get the invalidation;
// then other processes keep their entries.
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
  try {
    if (tier_ == nullptr) return ClearTag(tag, kAnyPosition);
    const TierInvalidated done = tier_->Invalidate(
        {TierTarget::Kind::kTag, tag}, [&] { ClearTag(tag, kAnyPosition); }, false);
    if (done.accepted) ClearTag(tag, done.position);
  } catch (...) {
    InvalidateUnknown();
  }
}

// Throws std::bad_alloc only before it removes entries of a shard: from when entries are set apart on, nothing needs
// memory.
void CacheCore::ClearTag(std::string_view tag, uint64_t before) {
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    const Clearing clearing(shard);
    std::optional<EntryTable::Doomed> doomed;
    for (bool more = true; more; GiveWay(shard)) {
      AfterUnlock after(*this);
      ShardLock lock(shard);
      if (!doomed.has_value()) {
        shard.flights.DetachRunningIf([&](const FlightPtr& flight) STOCKADE_REQUIRES(kShardMutex) {
          Slot* entry = nullptr;  // If Eq throws, the flight's entry may have the tag.
          return flight->LeasePosition() < before &&
                 (!TryFindEntry(flight->key.at(), entry) || (entry != nullptr && entry->HasTag(tag)));
        });
        shard.flights.NoteInvalidation(tag, before);
        doomed = shard.entries.DoomTagged(tag);
      }
      Slot* entry = shard.entries.AnyDoomed(tag);
      for (uint32_t step = 0; step < kStep && entry != nullptr; ++step) {
        if (entry->stamp().position < before || !shard.entries.TrySpare(*entry, tag)) {
          Remove(shard, *entry, RemovalCause::kInvalidated, after);
        }
        entry = shard.entries.AnyDoomed(tag);
      }
      more = entry != nullptr;
      if (!more) shard.entries.ForgetDoomed(*doomed);
      lock.Unlock();
      after.Run();
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
  if (tier_ == nullptr) return ClearAll(kAnyPosition);
  try {
    const TierInvalidated done = tier_->Invalidate(
        {TierTarget::Kind::kAll}, [&] { ClearAll(kAnyPosition); }, false);
    if (done.accepted) ClearAll(done.position);
  } catch (...) {
    LogThrown("an invalidation of all entries may not reach other processes");
    ClearAll(kAnyPosition);
  }
}

void CacheCore::ClearAll(uint64_t before) noexcept {
  for (size_t index = 0; index < shard_count_; ++index) {
    Shard& shard = shards_[index];
    const Clearing clearing(shard);
    uint32_t end = 1;
    for (uint32_t next = 1; next == 1 || next < end; GiveWay(shard)) {
      AfterUnlock after(*this);
      ShardLock lock(shard);
      if (next == 1) {
        shard.flights.DetachRunningIf([&](const FlightPtr& flight) STOCKADE_REQUIRES(kShardMutex) {
          DropOldLease(flight, before, after);
          return flight->LeasePosition() < before;
        });
        end = shard.entries.end();
      }
      for (const uint32_t stop = next + kStep; next < stop; ++next) {
        if (next < end && !shard.entries[next].free() && shard.entries[next].stamp().position < before) {
          Remove(shard, shard.entries[next], RemovalCause::kInvalidated, after);
        }
      }
      lock.Unlock();
      after.Run();
    }
  }
  FlushRetired();
}

// Lives as long as an update of a strict cache has, or waits for, its key's lock.
class CacheCore::UpdateMark {
 public:
  UpdateMark(CacheCore& core, const KeyAt& at) : core_(core), hash_(at.hash), shard_(at.shard) { Begin(); }
  // The lock must be released.
  ~UpdateMark() {
    for (size_t woken = End(); woken > 0; --woken) core_.ScheduleRead(shard_);
  }
  UpdateMark(const UpdateMark&) = delete;
  UpdateMark& operator=(const UpdateMark&) = delete;

 private:
  void Begin() STOCKADE_EXCLUDES(kShardMutex) {
    Shard& shard = core_.shards_[shard_];
    const ShardLock lock(shard);
    ++shard.updates[hash_].under_way;
  }
  // Returns the number of calls that have waited for it.
  size_t End() STOCKADE_EXCLUDES(kShardMutex) {
    Shard& shard = core_.shards_[shard_];
    const ShardLock lock(shard);
    const auto updates = shard.updates.find(hash_);
    const size_t woken = updates->second.parked.size();
    Waiter::MoveAll(updates->second.parked, shard.ready, true);
    if (--updates->second.under_way == 0) shard.updates.erase(updates);
    return woken;
  }

  CacheCore& core_;
  const uint64_t hash_;
  const size_t shard_;
};

absl::Status CacheCore::CheckMayUpdate() const {
  if (!IsNested()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Named(": UpdateThrough() was called within a loader, another update or a strict read"));
}

absl::Status CacheCore::UpdateThrough(const KeyAt& at, absl::FunctionRef<absl::Status()> write,
                                      absl::Duration timeout) {
  try {
    if (absl::Status may = CheckMayUpdate(); !may.ok()) return may;
    if (strict_in_fleet()) {
      return absl::FailedPreconditionError(Named(
          ": UpdateThrough(): with strict and a tier, `write` must take the lock, whose token the database checks"));
    }
    AfterUnlock after(*this);
    absl::Status written = Update(at, write, timeout, after);
    after.Run();
    return written;
  } catch (...) {  // Before the write, because later code catches its own exceptions.
    return ThrownError();
  }
}

absl::StatusOr<UpdateReport> CacheCore::UpdateThrough(const KeyAt& at, LockedWrite write, absl::Duration timeout) {
  try {
    if (absl::Status may = CheckMayUpdate(); !may.ok()) return may;
    if (!strict_in_fleet()) {
      return absl::FailedPreconditionError(
          Named(": UpdateThrough(): there is a lock for `write` only with strict and a tier"));
    }
    const Instant deadline = Clock::System()->Now() + timeout;
    ThreadRecord::Reserve(1);
    const auto writing = key_locks_->TryLockFor(at.hash, timeout);
    if (!writing.has_value()) {
      return absl::DeadlineExceededError(Named(": UpdateThrough(): another update of the key has its lock"));
    }
    AfterUnlock after(*this);
    absl::StatusOr<UpdateReport> report = tier_->Update(at, write, deadline - Clock::System()->Now(), after);
    after.Run();
    return report;
  } catch (...) {  // Before the write, because later code catches its own exceptions.
    return ThrownError();
  }
}

// Holds the key's lock, and has released it when it returns.
absl::Status CacheCore::Update(const KeyAt& at, absl::FunctionRef<absl::Status()> write, absl::Duration timeout,
                               AfterUnlock& after) {
  std::optional<UpdateMark> mark;  // Ends after the lock.
  if (locks_reads()) mark.emplace(*this, at);
  ThreadRecord::Reserve(1);
  const auto writing = key_locks_->TryLockFor(at.hash, timeout);
  if (!writing.has_value()) return DeadlineError();
  InvalidateWithin(at, after);
  absl::Status written = [&] {
    const UpdateFrame frame(this, at.hash);
    return GuardCallback<absl::Status>(write_label_, write);
  }();
  InvalidateWithin(at, after);
  return written;
}

// Returns false if the deadline passed.
bool CacheCore::TakeReadLock(uint64_t hash, Instant deadline, ReadHold& hold) {
  if (IsNested()) return true;
  ThreadRecord::Reserve(1);
  if (deadline == Instant::InfiniteFuture()) {
    hold.guard = key_locks_->LockShared(hash);
  } else {
    hold.guard = key_locks_->TryLockSharedFor(hash, deadline - Now());
  }
  if (hold.guard.has_value()) hold.frame.emplace();
  return hold.guard.has_value();
}

// Answers the parts whose lock is not free before the deadline. If a lock is not free, it releases all others, waits
// for that lock, and then tries the others again.
void CacheCore::TakeReadLocks(std::span<Part> parts, Instant deadline, LockGuards& guards) {
  if (IsNested()) return;
  for (Part* awaited = parts.empty() ? nullptr : &parts.front(); awaited != nullptr;) {
    guards.clear();
    ReadHold first;
    if (TakeReadLock(awaited->at.hash, deadline, first)) {
      guards.push_back(*std::move(first.guard));
    } else {
      awaited->answer = DeadlineError();
    }
    Part* next = nullptr;
    for (Part& part : parts) {
      if (&part == awaited || part.answer.has_value()) continue;
      ThreadRecord::Reserve(1);
      auto guard = key_locks_->TryLockShared(part.at.hash);
      if (guard.has_value()) {
        guards.push_back(*std::move(guard));
      } else if (Now() >= deadline) {
        part.answer = DeadlineError();
      } else {
        next = &part;
        break;
      }
    }
    awaited = next;
  }
}

}  // namespace stockade::cache_internal
