#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_STORE_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_STORE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/cache/internal/cache_base.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/internal/slots.h"

namespace stockade::cache_internal {

class EntryTable;
struct AfterUnlock;
struct Loaded;
struct Shard;

// The entries of a cache: how they come, expire and go, and how the boxes that they leave are freed. It has the shards,
// each with a mutex. A key belongs to one of them, which has the key's entry and its flights.
class STOCKADE_EXPORT EntryStore : public CacheBase {
 public:
  EntryStore(LoadingCacheOptions&& options, Has has, Slab::Type slots);
  ~EntryStore() override;

  // Lookups without a lock announce this as their caller: see EntryIndex.
  const void* reader() const { return this; }
  int64_t size() const;
  int64_t weight() const;

 protected:
  friend class TierSide;
  friend struct AfterUnlock;

  // Does the work in `after`, which is not empty.
  virtual void Settle(AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex) = 0;

  size_t ShardOfHash(uint64_t hash) const { return (hash >> 40) & shard_mask_; }
  // Lookups of hits read the index of a shard without its mutex.
  const EntryIndex& IndexOf(uint64_t hash) const { return indexes_[ShardOfHash(hash)]; }

  static void GiveWay(const Shard& shard);
  Slot* FindEntry(const KeyAt& at) STOCKADE_REQUIRES(kShardMutex);
  // Returns false if Eq threw, so that it is unknown whether there is an entry.
  bool TryFindEntry(const KeyAt& at, Slot*& entry) noexcept STOCKADE_REQUIRES(kShardMutex);
  // The entry of the key if it has a value. Also null if Eq throws.
  Slot* FindValue(const KeyAt& at) noexcept STOCKADE_REQUIRES(kShardMutex);

  EntryPtr MakeEntry(const KeyAt& at, const Loaded& loaded, Instant now) noexcept STOCKADE_EXCLUDES(kShardMutex);
  EntryPtr MakeAbsence(const KeyAt& at, const Loaded& loaded, Instant now) noexcept;
  std::optional<int64_t> WeightOf(const KeyAt& at, const void* value) const STOCKADE_EXCLUDES(kShardMutex);
  // For the slot of an entry with these times.
  Instant HitsUntil(const EntryTimes& times) const {
    const Instant until = times.PlainHitUntil();
    return idle_.enabled() ? std::min(until, Slot::kNeverPlain) : until;
  }
  bool IsIdle(const Slot& slot, Instant now) const STOCKADE_REQUIRES(kShardMutex) {
    return idle_.IsIdle(slot.last_use.load(std::memory_order_relaxed), now);
  }
  void RecordUse(Slot& slot, Instant now) STOCKADE_REQUIRES(kShardMutex) {
    if (idle_.enabled()) slot.last_use.store(IdleClock::TickOf(now), std::memory_order_release);
  }
  void RemoveIfIdle(const KeyAt& at, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  EntryTimes TimesOf(const Slot& slot) const STOCKADE_REQUIRES(kShardMutex);
  EntryTimes& KeptTimesOf(Slot& slot) STOCKADE_REQUIRES(kShardMutex);
  const Slot* Replace(const KeyAt& at, Slot* old, NewEntry* fresh, RemovalCause cause, bool renews, AfterUnlock& after,
                      Instant now) noexcept STOCKADE_REQUIRES(kShardMutex);
  const Slot* Insert(const KeyAt& at, NewEntry& fresh, AfterUnlock& after, Instant now) noexcept
      STOCKADE_REQUIRES(kShardMutex);
  bool EvictsItsOwn(const EntryTable& entries, int64_t weight) const STOCKADE_REQUIRES(kShardMutex);
  bool TryReplaceVictim(Shard& shard, const KeyAt& at, NewEntry& fresh, bool& crowd) STOCKADE_REQUIRES(kShardMutex);
  bool CountCrowd(Shard& shard) STOCKADE_REQUIRES(kShardMutex);
  void LogCrowd() const noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Remove(Shard& shard, Slot& slot, RemovalCause cause, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void FreeSlot(Shard& shard, uint32_t id, RemovalCause cause, AfterUnlock& after) noexcept
      STOCKADE_REQUIRES(kShardMutex);
  void ReportLeaving(const Slot& slot, RemovalCause cause, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  RemovalCause VictimsCause(const Slot& victim, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  bool Exceeds() const { return weight_.load(std::memory_order_relaxed) > max_weight(); }
  void Trim(const Slot* spared, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex) {
    if (Exceeds()) EvictUntilItFits(spared, SIZE_MAX, after);
  }
  bool EvictUntilItFits(const Slot* spared, size_t most, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  // Changes the bound, and evicts until the weight is within it.
  void Bound(int64_t max_weight) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool EvictOne(size_t shard, const Slot* spared, Instant now, AfterUnlock& after) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  void Notify(std::list<Removal> removed) noexcept STOCKADE_EXCLUDES(kShardMutex);
  std::list<Removal> RemovalsBy(absl::FunctionRef<void()> body) STOCKADE_EXCLUDES(kShardMutex);

  // Boxes that have left their slots.
  void Retire(Shard& shard, const Box* box, int64_t weight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void FreeBoxes(BoxList boxes) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Empty(Shard& shard) STOCKADE_EXCLUDES(kShardMutex);
  void FlushRetired() noexcept STOCKADE_EXCLUDES(kShardMutex);
  void PlanReclaim() noexcept STOCKADE_EXCLUDES(kShardMutex);

  Instant LeavesAt(const Slot& slot, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  void ExpectExpiry(Shard& shard, const Slot& stored, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void SweepSome(Shard& shard, uint32_t slots, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void PlanSweep() noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Sweep() STOCKADE_EXCLUDES(kShardMutex);
  void CheckNotInListener() const;
  void CountRemoval(RemovalCause cause) noexcept;
  void AddEntries(int64_t count, int64_t weight) {
    // All shards share these lines, so they are only written if need be.
    if (count != 0) entries_.fetch_add(count, std::memory_order_relaxed);
    if (weight != 0) weight_.fetch_add(weight, std::memory_order_relaxed);
  }
  static absl::Status ScheduleReclaim(Executor::Task reclaim);

  const std::string weigher_label_;
  const std::string listener_label_;
  Freshness freshness_;
  const IdleClock idle_;
  // Fewer for a small bound, so that evicted entries are close to the least recently used ones. A power of two.
  const size_t shard_count_;
  const size_t shard_mask_;
  const double full_share_;                      // The part of max_weight from which on a shard is full.
  const std::unique_ptr<EntryIndex[]> indexes_;  // By shard.
  const std::unique_ptr<Shard[]> shards_;
  std::atomic<bool> reclaim_planned_{false};
  std::atomic<size_t> next_victim_{0};  // The shard that evicts next.
  const absl::Duration sweep_interval_;
  std::atomic<bool> sweep_planned_{false};

 private:
  struct Notices;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_STORE_H_
