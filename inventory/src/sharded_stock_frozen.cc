// What needs the slow lock: takes that no single shard can serve, refusals, exact totals, the way out of a latch.
#include <algorithm>
#include <mutex>

#include "inventory_metrics.h"
#include "sharded_stock_inline.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {
namespace {

using base_internal::Concat;

// One freeze in so many of a thread is timed, the first one being the first: where units run short every take may
// freeze, and two reads of the clock would be a good part of it. The help of stockade_inventory_freeze_seconds states
// it.
constexpr uint64_t kFreezeSampling = 16;

}  // namespace

bool ShardedStock::TakeFreezing(uint64_t units) {
  const base_internal::MutexLock lock(*slow_lock_);
  if (Latched()) return false;
  const uint64_t total = Freeze();
  const bool enough = total >= units;
  if (enough) Gather(units);
  Thaw(enough ? total - units : total);
  return enough;
}

int64_t ShardedStock::TakeAll() {
  fork_guard_.Check("ShardedStock", name_);
  if (SeenLatched()) return 0;
  const base_internal::MutexLock lock(*slow_lock_);
  if (Latched()) return 0;
  const uint64_t total = Freeze();
  Gather(total);
  Thaw(0);
  if (total > 0) CountTake(true);
  return static_cast<int64_t>(total);
}

absl::Status ShardedStock::DepositSlowly(uint64_t units) {
  const base_internal::MutexLock lock(*slow_lock_);
  // With the lock held no shard is frozen, so this fails only on a latch or a full shard.
  if (TryAdd(shards_[OwnShard()], units)) return absl::OkStatus();
  const uint64_t total = Freeze();
  const bool fits = total <= uint64_t{kMaxUnits} && units <= uint64_t{kMaxUnits} - total;
  if (fits) Spread(units);
  Thaw(fits ? total + units : total);
  if (fits) return absl::OkStatus();
  return absl::OutOfRangeError(
      Concat("ShardedStock '", name_, "': ", total, " units and ", units, " more would exceed ", kMaxUnits));
}

int64_t ShardedStock::Available() const {
  fork_guard_.Check("ShardedStock", name_);
  if (SeenLatched()) return 0;
  const base_internal::MutexLock lock(*slow_lock_);
  if (Latched()) return 0;
  const uint64_t total = Freeze();
  Thaw(total);
  return static_cast<int64_t>(total);
}

absl::Status ShardedStock::Reshard(int32_t shards) {
  fork_guard_.Check("ShardedStock", name_);
  if (shards < 1 || shards > max_shards_) {
    return absl::InvalidArgumentError(Concat("ShardedStock '", name_, "': Reshard(", shards,
                                             "): shards must be within 1 to max_shards, which is ", max_shards_));
  }
  const base_internal::MutexLock lock(*slow_lock_);
  const uint64_t total = Freeze();
  if (total > uint64_t{kMaxUnits}) {
    Thaw(total);
    return absl::OutOfRangeError(Concat("ShardedStock '", name_, "': Reshard(", shards, "): ", total, " units exceed ",
                                        kMaxUnits, ", and cannot be moved"));
  }
  in_use_.store(InUse(shards), std::memory_order_relaxed);
  Gather(total);
  if (total > 0) Spread(total);
  Thaw(total);
  return absl::OkStatus();
}

// Without a frozen shard, all are latched or none.
bool ShardedStock::Latched() const { return (shards_[0].word.load(std::memory_order_relaxed) & kLatched) != 0; }

// Freezes every shard, latched ones too, and returns the sum.
uint64_t ShardedStock::Freeze() const {
  if (metrics_internal::MetricSet* const set = metrics_->set(); set != nullptr) {
    const uint64_t freezes = set->cells().Add(set->cell_of(inventory_internal::kFreezes), 1);
    if (freezes % kFreezeSampling == 1) frozen_since_ = clock_->Now();
  }
  uint64_t total = 0;
  for (int32_t i = 0; i < max_shards_; ++i) {
    std::unique_lock lock(shards_[i].mutex, std::defer_lock);
    if (guard_ == ShardGuard::kMutex) lock.lock();
    total += shards_[i].word.fetch_or(kFrozen, std::memory_order_acq_rel) & kUnits;
  }
  return total;
}

// Ends a freeze; `left` is what all shards have now.
void ShardedStock::Thaw(uint64_t left) const {
  if (left == 0) {
    Latch();
  } else {
    Unfreeze();
  }
  if (frozen_since_ != Instant::InfiniteFuture()) {
    metrics_->ObserveSpan(inventory_internal::kFreezeSeconds, frozen_since_, clock_->Now());
    frozen_since_ = Instant::InfiniteFuture();
  }
}

// Every shard is frozen, none is latched.
void ShardedStock::Unfreeze() const {
  for (int32_t i = 0; i < max_shards_; ++i) {
    std::atomic<uint64_t>& word = shards_[i].word;
    word.store(word.load(std::memory_order_relaxed) & kUnits, std::memory_order_release);
  }
}

// Every shard is frozen and empty; all have been latched before, or none.
void ShardedStock::Latch() const {
  if (!Latched()) metrics_->Add(inventory_internal::kLatches);
  for (int32_t i = 0; i < max_shards_; ++i) shards_[i].word.store(kLatched, std::memory_order_release);
}

// Every shard is frozen and stays so; takes `units` out of those from the thread's own on, which have as many.
void ShardedStock::Gather(uint64_t units) {
  const size_t count = static_cast<size_t>(max_shards_);
  for (size_t shard = OwnShard(); units > 0; shard = (shard + 1) % count) {
    std::atomic<uint64_t>& word = shards_[shard].word;
    const uint64_t held = word.load(std::memory_order_relaxed) & kUnits;
    const uint64_t taken = std::min(held, units);
    word.store((held - taken) | kFrozen, std::memory_order_release);
    units -= taken;
  }
}

// Every shard is frozen and stays so; no latch is left when the first unit is added.
void ShardedStock::Spread(uint64_t units) {
  for (int32_t i = 0; i < max_shards_; ++i) {
    std::atomic<uint64_t>& word = shards_[i].word;
    word.store((word.load(std::memory_order_relaxed) & kUnits) | kFrozen, std::memory_order_release);
  }
  for (int32_t i = 0; i < shards(); ++i) {
    std::atomic<uint64_t>& word = shards_[i].word;
    word.store(word.load(std::memory_order_relaxed) + Share(units, i), std::memory_order_release);
  }
}

}  // namespace stockade
