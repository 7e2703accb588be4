// What needs the slow lock: takes that no single shard can serve, exact totals, the ways from wide to narrow and back.
#include <algorithm>
#include <functional>
#include <mutex>
#include <vector>

#include "inventory_metrics.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {
namespace {

using base_internal::Concat;
using base_internal::Fatal;

// One freeze in so many of a thread is timed, the first one being the first: where units run short every take may
// freeze, and two reads of the clock would be a good part of it. The help of stockade_inventory_freeze_seconds states
// it.
constexpr uint64_t kFreezeSampling = 16;

// The items of `lines`, in the order in which their slow locks are taken. Aborts on lines that make no sense.
std::vector<ShardedStock*> InLockOrder(std::span<const StockLine> lines) {
  std::vector<ShardedStock*> items;
  items.reserve(lines.size());
  for (const StockLine& line : lines) {
    if (line.stock == nullptr) Fatal("ShardedStock: TakeTogether(): a line has no stock");
    if (line.units < 1) {
      Fatal(Concat("ShardedStock '", line.stock->name(), "': TakeTogether(): a line of ", line.units,
                   " units: units must be at least 1"));
    }
    items.push_back(line.stock);
  }
  std::sort(items.begin(), items.end(), std::less<>());
  if (const auto twice = std::adjacent_find(items.begin(), items.end()); twice != items.end()) {
    Fatal(Concat("ShardedStock '", (*twice)->name(), "': TakeTogether(): two lines have this stock"));
  }
  return items;
}

}  // namespace

bool ShardedStock::TakeFreezing(uint64_t units) {
  const base_internal::MutexLock lock(*slow_lock_);
  const uint64_t total = Freeze();
  const bool enough = total >= units;
  TakeFrozen(enough ? units : 0, total);
  return enough;
}

int64_t ShardedStock::TakeAll() {
  fork_guard_.Check("ShardedStock", name_);
  if (SeenSoldOut()) return 0;
  const base_internal::MutexLock lock(*slow_lock_);
  const uint64_t total = Freeze();
  TakeFrozen(total, total);
  if (total > 0) CountTake(true);
  return static_cast<int64_t>(total);
}

absl::Status ShardedStock::DepositSlowly(uint64_t units) {
  const base_internal::MutexLock lock(*slow_lock_);
  // With the lock held no shard is frozen, and the thread's own one is open.
  if (TryAdd(OwnShard(), units)) return absl::OkStatus();
  const uint64_t total = Freeze();
  if (total > uint64_t{kMaxUnits} || units > uint64_t{kMaxUnits} - total) {
    Thaw();
    return absl::OutOfRangeError(
        Concat("ShardedStock '", name_, "': ", total, " units and ", units, " more would exceed ", kMaxUnits));
  }
  // The units for which this one did not fit may be gone.
  const bool stays_narrow = open() == 1 && total + units <= MostNarrow();
  Arrange(total + units, stays_narrow ? 1 : shards());
  return absl::OkStatus();
}

int64_t ShardedStock::Available() const {
  fork_guard_.Check("ShardedStock", name_);
  if (const auto units = SeenNarrow(); units.has_value()) return static_cast<int64_t>(*units);
  const base_internal::MutexLock lock(*slow_lock_);
  const uint64_t total = Freeze();
  Thaw();
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
  // What reads the shards one after another reads as many as have units, or more.
  count_.store(std::max(shards, count_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
  Arrange(total, total < static_cast<uint64_t>(shards) ? 1 : shards);
  count_.store(shards, std::memory_order_release);
  return absl::OkStatus();
}

// Freezes every open word, and returns the sum.
uint64_t ShardedStock::Freeze() const {
  if (metrics_internal::MetricSet* const set = metrics_->set(); set != nullptr) {
    const uint64_t freezes = set->cells().Add(set->cell_of(inventory_internal::kFreezes), 1);
    if (freezes % kFreezeSampling == 1) frozen_since_ = clock_->Now();
  }
  uint64_t total = 0;
  for (size_t i = 0; i < open(); ++i) {
    std::unique_lock lock(shards_[i].mutex, std::defer_lock);
    if (guard_ == ShardGuard::kMutex) lock.lock();
    total += shards_[i].word.fetch_or(kFrozen, std::memory_order_acq_rel) & kUnits;
  }
  return total;
}

// Ends a freeze.
void ShardedStock::Thaw() const {
  for (size_t i = 0; i < open(); ++i) {
    std::atomic<uint64_t>& word = shards_[i].word;
    word.store(word.load(std::memory_order_relaxed) & ~kFrozen, std::memory_order_release);
  }
  NoteThawed();
}

// Ends a freeze in which all words had `total`, and takes `units` of them.
void ShardedStock::TakeFrozen(uint64_t units, uint64_t total) {
  if (open() > 1 && total - units < static_cast<uint64_t>(shards())) return Arrange(total - units, 1);
  Gather(units);
  Thaw();
}

// Every open word is frozen and stays so; takes `units` out of those from the thread's own on, which have as many.
void ShardedStock::Gather(uint64_t units) {
  for (size_t shard = OwnShard(); units > 0; shard = (shard + 1) % open()) {
    std::atomic<uint64_t>& word = shards_[shard].word;
    const uint64_t held = word.load(std::memory_order_relaxed);
    const uint64_t taken = std::min(held & kUnits, units);
    word.store(held - taken, std::memory_order_relaxed);
    units -= taken;
  }
}

// Ends a freeze: spreads `units` evenly over the first `words`. Others that are open stay frozen.
void ShardedStock::Arrange(uint64_t units, int32_t words) {
  if (words == 1 && open() > 1) metrics_->Add(inventory_internal::kNarrowings);
  const uint64_t count = static_cast<uint64_t>(words);
  const uint64_t most = std::max<uint64_t>(count, open());
  open_.store(Open(words), std::memory_order_relaxed);
  for (uint64_t i = 0; i < most; ++i) {
    const uint64_t share = units / count + (i < units % count ? 1 : 0);
    shards_[i].word.store(i >= count ? kFrozen : count == 1 ? share | kAlone : share, std::memory_order_release);
  }
  NoteThawed();
}

void ShardedStock::NoteThawed() const {
  if (frozen_since_ == Instant::InfiniteFuture()) return;
  metrics_->ObserveSpan(inventory_internal::kFreezeSeconds, frozen_since_, clock_->Now());
  frozen_since_ = Instant::InfiniteFuture();
}

// Units of several items at once.
//
// Linearizable over all of them. A success, and a refusal found by counting, hold all items' slow locks and freeze
// every shard of every item before the first one is thawed. Between the last freeze and the first thaw no word of any
// of them changes, and each item's sum is its stock: that is the one moment at which all units are taken, or at which
// the item of the line that is returned was short. An item that is thawed while another is still frozen shows what it
// has after that moment, and of the one still frozen nobody can see what it had before: takes and deposits fail on the
// bit, and an exact total waits for its slow lock. A refusal of a narrow item that is empty takes place where its word
// is read. Since all sums are known before the first unit moves, nothing is ever undone.
//
// Free of deadlock. The only thing that is waited for with a slow lock held is another slow lock, by this function
// alone, and it takes them in the order of their items' addresses. (Of a shard's mutex the holder waits for nothing.)
// The slow locks are in a vector, which the analysis does not see.
STOCKADE_NO_THREAD_SAFETY_ANALYSIS const StockLine* ShardedStock::TakeTogether(std::span<const StockLine> lines) {
  const std::vector<ShardedStock*> items = InLockOrder(lines);
  for (ShardedStock* const item : items) item->fork_guard_.Check("ShardedStock", item->name_);
  if (lines.size() == 1) return lines[0].stock->Take(lines[0].units) ? nullptr : lines.data();
  const auto refuse = [](const StockLine& line) {
    line.stock->CountTake(false);
    return &line;
  };
  for (const StockLine& line : lines) {
    if (line.stock->SeenSoldOut()) return refuse(line);
  }

  // All that may fail, if there is no memory, comes before the first lock.
  locks_internal::ThreadRecord::Reserve(items.size() + locks_internal::ThreadRecord::kUsualHolds);
  std::vector<uint64_t> totals;
  totals.reserve(lines.size());
  std::vector<std::unique_lock<ReentrantMutex>> locks;
  locks.reserve(items.size());
  for (ShardedStock* const item : items) locks.emplace_back(*item->slow_lock_);
  for (const StockLine& line : lines) {
    if (line.stock->SeenSoldOut()) return refuse(line);
  }
  const StockLine* short_line = nullptr;
  for (const StockLine& line : lines) {
    totals.push_back(line.stock->Freeze());
    if (short_line == nullptr && totals.back() < static_cast<uint64_t>(line.units)) short_line = &line;
  }
  // All is frozen and known. From here on each item can go on by itself.
  for (size_t i = 0; i < lines.size(); ++i) {
    const uint64_t taken = short_line == nullptr ? static_cast<uint64_t>(lines[i].units) : 0;
    lines[i].stock->TakeFrozen(taken, totals[i]);
  }
  if (short_line != nullptr) return refuse(*short_line);
  for (const StockLine& line : lines) line.stock->CountTake(true);
  return nullptr;
}

}  // namespace stockade
