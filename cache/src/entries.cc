// Creation, replacement and eviction of entries.

#include <algorithm>
#include <iterator>

#include "retired_entries.h"
#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {
namespace {

std::vector<std::string> EachOnce(std::vector<std::string> tags) {
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  return tags;
}

}  // namespace

bool CacheCore::TryFindEntry(const KeyAt& at, CacheEntry*& entry) noexcept {
  try {
    entry = FindEntry(at);
    return true;
  } catch (...) {
    LogThrown("an entry is not found");
    return false;
  }
}

CacheEntry* CacheCore::FindValue(const KeyAt& at) noexcept {
  CacheEntry* entry = nullptr;
  return TryFindEntry(at, entry) && entry != nullptr && entry->has_value ? entry : nullptr;
}

// Returns null if the value is not to be stored or the copy of the key throws. Runs the weigher, so no mutex may be
// held.
OwnedEntry CacheCore::MakeEntry(const KeyAt& at, const Pinned& value, const EntryOptions& options,
                                absl::Duration load_time, Instant now) noexcept {
  try {
    const std::optional<EntryTimes> times = freshness_.OfValue(now, options.ttl, load_time);
    if (!times.has_value()) return nullptr;
    const std::optional<int64_t> weight = WeightOf(at, *value.box());
    if (!weight.has_value() || *weight > options_.max_weight) return nullptr;
    return NewEntry(at, {value, absl::OkStatus(), *weight, *times, EachOnce(options.tags)});
  } catch (...) {
    LogThrown("a value is not stored");
    return nullptr;
  }
}

// For a NotFoundError, or for another error that is to be cached. Returns null in the same cases as MakeEntry().
OwnedEntry CacheCore::MakeAbsence(const KeyAt& at, const absl::Status& absence, const EntryOptions& options,
                                  Instant now) noexcept {
  try {
    const bool absent = absl::IsNotFound(absence);
    const std::optional<EntryTimes> times =
        absent ? freshness_.OfAbsence(now, options.ttl) : freshness_.OfError(now, options.ttl);
    if (!times.has_value() || options_.negative_weight > options_.max_weight) return nullptr;
    return NewEntry(at, {nullptr, absence, options_.negative_weight, *times, EachOnce(options.tags)});
  } catch (...) {
    LogThrown("an absence or an error is not cached");
    return nullptr;
  }
}

std::optional<int64_t> CacheCore::WeightOf(const KeyAt& at, const ValueBox& value) const {
  if (!has_.weigh) return 1;
  const auto weight = GuardCallback<absl::StatusOr<int64_t>>(
      weigher_label_, [&]() -> absl::StatusOr<int64_t> { return Weigh(at.key, value); });
  if (weight.ok()) return std::max<int64_t>(*weight, 1);
  Log(LogSeverity::kError, Concat(weight.status().message(), "; the value is not stored"));
  return std::nullopt;
}

// Replaces the key's entry, `old` or null, by `fresh`, which may be null. Returns the stored entry, or null. `cause` is
// the cause for an entry that has not expired. `renews`: the value of `old` is stored again, so it does not leave the
// cache.
const CacheEntry* CacheCore::Replace(Shard& shard, CacheEntry* old, OwnedEntry fresh, RemovalCause cause, bool renews,
                                     Aftermath& after, Instant now) {
  if (fresh == nullptr) {
    if (old != nullptr) Remove(shard, *old, now >= old->times.expires_at ? RemovalCause::kExpired : cause, after);
    return nullptr;
  }
  const CacheEntry* const stored = fresh.get();
  AddEntries(old == nullptr ? 1 : 0, stored->weight - (old == nullptr ? 0 : old->weight));
  ExpectExpiry(shard, *stored, after);
  if (old == nullptr) {
    shard.entries.Insert(std::move(fresh));
  } else if (renews) {
    after.renewed.push_back(shard.entries.Replace(*old, std::move(fresh)));
  } else {
    old->cause = now >= old->times.expires_at ? RemovalCause::kExpired : cause;
    CountRemoval(old->cause);
    after.removed.push_back(shard.entries.Replace(*old, std::move(fresh)));
  }
  SweepSome(shard, Shard::kSweptByStore, now, after);
  return stored;
}

void CacheCore::Remove(Shard& shard, CacheEntry& entry, RemovalCause cause, Aftermath& after) {
  AddEntries(-1, -entry.weight);
  CountRemoval(cause);
  entry.cause = cause;
  after.removed.push_back(shard.entries.Remove(entry));
}

// Evicts until the weight is within its bound; no mutex is held. `spared` was just stored and is evicted last. It may
// not exist any more, so only its address is used. The shards take turns, so evicted entries are close to the least
// recently used ones.
void CacheCore::Trim(const CacheEntry* spared, Aftermath& after) {
  size_t shard = 0;
  for (size_t in_vain = 0; weight() > options_.max_weight && in_vain < shard_count_;) {
    // After a shard without a victim comes the next one, whatever other threads have drawn meanwhile, so that none is
    // left out.
    shard = in_vain == 0 ? next_victim_.fetch_add(1, std::memory_order_relaxed) : shard + 1;
    in_vain = EvictOne(shard & shard_mask_, spared, after) ? 0 : in_vain + 1;
  }
}

bool CacheCore::EvictOne(size_t index, const CacheEntry* spared, Aftermath& after) {
  const Instant now = Now();
  Shard& shard = shards_[index];
  const ShardLock lock = Lock(shard);
  OwnedEntry victim = shard.entries.Evict(spared);
  if (victim == nullptr) return false;
  victim->cause = now < victim->times.expires_at ? RemovalCause::kSize : RemovalCause::kExpired;
  AddEntries(-1, -victim->weight);
  CountRemoval(victim->cause);
  after.removed.push_back(std::move(victim));
  return true;
}

// Entries that the calling thread has removed while the listener runs for another entry. A listener that removes
// entries adds to this list instead of nesting, so that a chain of removals cannot exhaust the stack.
struct CacheCore::Notices {
  const CacheCore* core;
  Entries pending;
  Notices* outer;  // Of another cache.

  static inline constinit thread_local Notices* innermost = nullptr;

  static Notices* Of(const CacheCore* core) {
    Notices* notices = innermost;
    while (notices != nullptr && notices->core != core) notices = notices->outer;
    return notices;
  }
};

// Invokes the listener and has the entries freed. No mutex is held.
void CacheCore::Notify(Entries removed) {
  if (!has_.on_removal) return Retire(std::move(removed));
  if (Notices* const notices = Notices::Of(this); notices != nullptr) {
    std::move(removed.begin(), removed.end(), std::back_inserter(notices->pending));
    return;
  }
  Notices notices{this, std::move(removed), Notices::innermost};
  Notices::innermost = &notices;
  while (!notices.pending.empty()) {
    Entries told = std::exchange(notices.pending, {});
    for (const OwnedEntry& entry : told) {
      if (!entry->has_value) continue;
      const absl::Status status = GuardCallback<absl::Status>(listener_label_, [&] {
        TellRemoval(*entry);
        return absl::OkStatus();
      });
      if (!status.ok()) Log(LogSeverity::kError, Concat(status.message()));
    }
    Retire(std::move(told));
  }
  Notices::innermost = notices.outer;
}

// Has entries freed, now or within 100 ms. No mutex is held.
void CacheCore::Retire(Entries entries) {
  if (retired_->Add(std::move(entries)) && options_.clock == Clock::System()) PlanReclaim();
}

void CacheCore::FlushRetired() {
  if (retired_->Flush() && options_.clock == Clock::System()) PlanReclaim();
}

void CacheCore::PlanReclaim() noexcept {
  if (reclaim_planned_.load(std::memory_order_relaxed)) return;
  if (reclaim_planned_.exchange(true, std::memory_order_relaxed)) return;
  try {
    const absl::Status planned = ScheduleReclaim([this, gate = gate_] {
      CallGate::Call inside(*gate, 0);
      if (!inside.inside()) return;
      reclaim_planned_.store(false, std::memory_order_relaxed);  // First: later entries plan another reclaim.
      if (retired_->Flush()) PlanReclaim();
    });
    // No thread: the next retired entry tries again.
    if (!planned.ok()) reclaim_planned_.store(false, std::memory_order_relaxed);
  } catch (...) {  // Out of memory: the same.
    reclaim_planned_.store(false, std::memory_order_relaxed);
  }
}

void CacheCore::CheckNotInListener() const {
  if (Notices::Of(this) != nullptr) DestroyedFromWithin("listener");
}

}  // namespace stockade::cache_internal
