#include "stockade/inventory/sharded_stock.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "inventory_metrics.h"
#include "sharded_stock_inline.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"
#include "stockade/base/thread_slot.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {
namespace {

using base_internal::Concat;

// Up to here a shard is filled without a look at the others: kMaxShards of them make kMaxUnits + 1.
constexpr uint64_t kUncheckedUnits = uint64_t{1} << 53;
static_assert(kUncheckedUnits * kMaxShards == uint64_t{kMaxUnits} + 1);

int32_t ShardCount(int32_t wanted) { return wanted != 0 ? wanted : ShardedStock::DefaultShards(); }

void DieIfBad(const ShardedStockOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) base_internal::Fatal(Concat(valid.message()));
}

// A number below `bound`, cheap and good enough to spread threads over shards (xorshift).
size_t RandomBelow(size_t bound) {
  thread_local uint64_t state = (base_internal::ThisThreadSlot() + uint64_t{1}) * 0x9e3779b97f4a7c15;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return static_cast<size_t>((state >> 32) * bound >> 32);
}

}  // namespace

absl::Status ShardedStockOptions::Validate() const {
  if (absl::Status valid = base_internal::CheckName("ShardedStock: name", name); !valid.ok()) return valid;
  if (stock < 0 || stock > kMaxUnits) {
    return absl::InvalidArgumentError(
        Concat("ShardedStock '", name, "': stock is ", stock, ", which is not within 0 to ", kMaxUnits));
  }
  if (shards < 0 || shards > kMaxShards) {
    return absl::InvalidArgumentError(
        Concat("ShardedStock '", name, "': shards is ", shards, ", which is not within 0 to ", kMaxShards));
  }
  const int32_t least = ShardCount(shards);
  if (max_shards != 0 && (max_shards < least || max_shards > kMaxShards)) {
    return absl::InvalidArgumentError(Concat("ShardedStock '", name, "': max_shards is ", max_shards,
                                             ", which is not within ", least, " (the initial shards) to ", kMaxShards));
  }
  if (clock == nullptr) return absl::InvalidArgumentError(Concat("ShardedStock '", name, "': clock is null"));
  return absl::OkStatus();
}

int32_t ShardedStock::DefaultShards() {
  return static_cast<int32_t>(std::clamp<uint32_t>(std::thread::hardware_concurrency(), 1, kMaxShards));
}

// Of a stock without an inventory.
struct ShardedStock::OwnMetrics {
  OwnMetrics(MetricsRegistry* registry, const metrics_internal::MetricLabels& labels)
      : requests(registry, inventory_internal::InventoryMetricDefs(), labels),
        stock(registry, inventory_internal::StockMetricDefs(), labels) {}

  metrics_internal::ComponentMetrics requests;
  metrics_internal::ComponentMetrics stock;
};

ShardedStock::ShardedStock(ShardedStockOptions options) : ShardedStock(options, nullptr) {
  own_metrics_ =
      std::make_unique<OwnMetrics>(options.metrics, metrics_internal::MetricLabels{{"inventory", options.name}});
  metrics_ = &own_metrics_->stock;
  metrics_->AddGauge(inventory_internal::kAvailableUnits,
                     [this] { return static_cast<double>(ApproximateAvailable()); });
  metrics_->AddGauge(inventory_internal::kShardImbalance, [this] { return Imbalance(); });
  if (metrics_internal::MetricSet* const set = own_metrics_->requests.set(); set != nullptr) {
    counts_ = &set->cells();
    takes_cell_ = set->cell_of(inventory_internal::kTakes);
    refusals_cell_ = set->cell_of(inventory_internal::kRefusedSoldOut);
  }
}

ShardedStock::ShardedStock(ShardedStockOptions options, metrics_internal::ComponentMetrics* metrics)
    : name_((DieIfBad(options), std::move(options.name))),
      in_use_(InUse(ShardCount(options.shards))),
      max_shards_(options.max_shards != 0 ? options.max_shards : ShardCount(options.shards)),
      guard_(options.guard),
      clock_(options.clock),
      shards_(std::make_unique<Shard[]>(static_cast<size_t>(max_shards_))),
      swapped_(guard_ == ShardGuard::kCompareAndSwap ? shards_.get() : nullptr),
      slow_lock_(std::make_unique<ReentrantMutex>(LockOptions{.name = "ShardedStock slow lock", .metrics = nullptr})),
      metrics_(metrics) {
  // No sum of shards reaches the bits: what was checked, or moved, and each shard filled unchecked.
  static_assert(uint64_t{kMaxUnits} + kUncheckedUnits * kMaxShards <= kUnits);
  // Unlatched without a unit is legal: the first take finds out.
  for (int32_t i = 0; i < max_shards_; ++i) {
    shards_[i].word.store(Share(static_cast<uint64_t>(options.stock), i), std::memory_order_relaxed);
  }
}

ShardedStock::~ShardedStock() {
  // In a forked child: another thread of the parent may have been in it at the fork.
  if (fork_guard_.InForkedChild()) (void)own_metrics_.release();
}

bool ShardedStock::TakeSlowly(int64_t units) {
  fork_guard_.Check("ShardedStock", name_);
  if (units < 1) {
    base_internal::Fatal(Concat("ShardedStock '", name_, "': Take(", units, "): units must be at least 1"));
  }
  const uint64_t wanted = static_cast<uint64_t>(units);
  const size_t own = OwnShard();
  Outcome outcome = TakeFrom(shards_[own], wanted);
  if (outcome == Outcome::kUnclear) [[unlikely]] {
    outcome = TakeElsewhere(own, wanted);
  }
  const bool taken = outcome == Outcome::kTaken;
  CountTake(taken);
  return taken;
}

// An inventory counts its own.
void ShardedStock::CountTake(bool taken) const {
  if (counts_ != nullptr) counts_->Add(taken ? takes_cell_ : refusals_cell_, 1);
}

inline ShardedStock::Outcome ShardedStock::TakeFrom(Shard& shard, uint64_t units) {
  if (guard_ == ShardGuard::kMutex) return TakeLocked(shard, units);
  uint64_t word = shard.word.load(std::memory_order_acquire);
  for (;;) {
    if (const Outcome outcome = Judge(word, units); outcome != Outcome::kTaken) return outcome;
    if (shard.word.compare_exchange_weak(word, word - units, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return Outcome::kTaken;
    }
  }
}

ShardedStock::Outcome ShardedStock::TakeLocked(Shard& shard, uint64_t units) {
  const base_internal::MutexLock lock(shard.mutex);
  const uint64_t word = shard.word.load(std::memory_order_acquire);
  const Outcome outcome = Judge(word, units);
  if (outcome == Outcome::kTaken) shard.word.store(word - units, std::memory_order_release);
  return outcome;
}

// For a take that its own shard could not settle.
[[gnu::noinline]] ShardedStock::Outcome ShardedStock::TakeElsewhere(size_t own, uint64_t units) {
  const auto freezing = [&] { return TakeFreezing(units) ? Outcome::kTaken : Outcome::kRefused; };
  const size_t count = static_cast<size_t>(shards());
  if (count == 1) return freezing();
  own %= count;  // The count may have changed in between.

  // The richer of two others: near the end this empties the shards evenly, where a fixed neighbour would be mobbed.
  size_t first = (own + 1 + RandomBelow(count - 1)) % count;
  const size_t second = (own + 1 + RandomBelow(count - 1)) % count;
  const auto units_in = [&](size_t shard) { return shards_[shard].word.load(std::memory_order_relaxed) & kUnits; };
  if (units_in(second) > units_in(first)) first = second;
  Outcome outcome = TakeFrom(shards_[first], units);
  for (size_t step = 1; outcome == Outcome::kUnclear && step < count; ++step) {
    outcome = TakeFrom(shards_[(own + step) % count], units);
  }
  if (outcome == Outcome::kTaken) metrics_->Add(inventory_internal::kSteals);
  return outcome == Outcome::kUnclear ? freezing() : outcome;
}

absl::Status ShardedStock::Deposit(int64_t units) {
  fork_guard_.Check("ShardedStock", name_);
  if (units < 1) {
    return absl::InvalidArgumentError(
        Concat("ShardedStock '", name_, "': Deposit(", units, "): units must be at least 1"));
  }
  const uint64_t added = static_cast<uint64_t>(units);
  if (TryAdd(shards_[OwnShard()], added)) return absl::OkStatus();
  return DepositSlowly(added);
}

bool ShardedStock::TryAdd(Shard& shard, uint64_t units) {
  const auto fits = [units](uint64_t word) {
    return (word & kBits) == 0 && units <= kUncheckedUnits && word <= kUncheckedUnits - units;
  };
  if (guard_ == ShardGuard::kMutex) {
    const base_internal::MutexLock lock(shard.mutex);
    const uint64_t word = shard.word.load(std::memory_order_acquire);
    if (fits(word)) shard.word.store(word + units, std::memory_order_release);
    return fits(word);
  }
  uint64_t word = shard.word.load(std::memory_order_relaxed);
  do {
    if (!fits(word)) return false;
  } while (!shard.word.compare_exchange_weak(word, word + units, std::memory_order_acq_rel, std::memory_order_relaxed));
  return true;
}

int64_t ShardedStock::ApproximateAvailable() const {
  fork_guard_.Check("ShardedStock", name_);
  uint64_t sum = 0;
  for (int32_t i = 0; i < max_shards_; ++i) sum += shards_[i].word.load(std::memory_order_acquire) & kUnits;
  return static_cast<int64_t>(sum);
}

StockSnapshot ShardedStock::Snapshot() const {
  fork_guard_.Check("ShardedStock", name_);
  StockSnapshot snapshot{.latched = true};
  snapshot.shard_units.reserve(static_cast<size_t>(max_shards_));
  for (int32_t i = 0; i < max_shards_; ++i) {
    const uint64_t word = shards_[i].word.load(std::memory_order_acquire);
    snapshot.latched = snapshot.latched && (word & kLatched) != 0;
    snapshot.shard_units.push_back(static_cast<int64_t>(word & kUnits));
    snapshot.units += snapshot.shard_units.back();
  }
  const size_t in_use = static_cast<size_t>(shards());
  while (snapshot.shard_units.size() > in_use && snapshot.shard_units.back() == 0) snapshot.shard_units.pop_back();
  return snapshot;
}

double ShardedStock::Imbalance() const {
  fork_guard_.Check("ShardedStock", name_);
  const int32_t in_use = shards();
  uint64_t richest = 0;
  uint64_t sum = 0;
  for (int32_t i = 0; i < in_use; ++i) {
    const uint64_t units = shards_[i].word.load(std::memory_order_relaxed) & kUnits;
    richest = std::max(richest, units);
    sum += units;
  }
  return sum == 0 ? 1 : static_cast<double>(richest) * in_use / static_cast<double>(sum);
}

// The part of `units` that shard `shard` gets when they are spread.
uint64_t ShardedStock::Share(uint64_t units, int32_t shard) const {
  const uint64_t count = static_cast<uint64_t>(shards());
  if (static_cast<uint64_t>(shard) >= count) return 0;
  return units / count + (static_cast<uint64_t>(shard) < units % count ? 1 : 0);
}

}  // namespace stockade
