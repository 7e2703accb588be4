#include "stockade/inventory/sharded_stock.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "inventory_metrics.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"
#include "stockade/base/thread_slot.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {
namespace {

using base_internal::Concat;

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
  const auto bad = [&](const auto&... what) {
    return absl::InvalidArgumentError(Concat("ShardedStock '", name, "': ", what...));
  };
  if (stock < 0 || stock > kMaxUnits) return bad("stock is ", stock, ", which is not within 0 to ", kMaxUnits);
  if (shards < 0 || shards > kMaxShards) return bad("shards is ", shards, ", which is not within 0 to ", kMaxShards);
  const int32_t least = ShardCount(shards);
  if (max_shards != 0 && (max_shards < least || max_shards > kMaxShards)) {
    return bad("max_shards is ", max_shards, ", which is not within ", least, " (the initial shards) to ", kMaxShards);
  }
  if (clock == nullptr) return bad("clock is null");
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
      count_(ShardCount(options.shards)),
      max_shards_(options.max_shards != 0 ? options.max_shards : shards()),
      guard_(options.guard),
      clock_(options.clock),
      shards_(std::make_unique<Shard[]>(static_cast<size_t>(max_shards_))),
      swapped_(guard_ == ShardGuard::kCompareAndSwap ? shards_.get() : nullptr),
      slow_lock_(std::make_unique<ReentrantMutex>(LockOptions{.name = "ShardedStock slow lock", .metrics = nullptr})),
      metrics_(metrics) {
  // What was checked, and each shard filled unchecked.
  static_assert(uint64_t{kMaxUnits} + kUncheckedUnits * kMaxShards <= kUnits);
  Arrange(static_cast<uint64_t>(options.stock), options.stock < shards() ? 1 : shards());
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
  Outcome outcome = TakeFrom(own, wanted);
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

// What a take of `units` comes to. kUnclear: the word has fewer, or is frozen. That proves nothing about the item.
inline ShardedStock::Outcome ShardedStock::Judge(uint64_t word, uint64_t units) {
  if ((word & kFrozen) != 0) return Outcome::kUnclear;
  if ((word & kUnits) >= units) return Outcome::kTaken;
  return (word & kAlone) != 0 ? Outcome::kRefused : Outcome::kUnclear;
}

inline ShardedStock::Outcome ShardedStock::TakeFrom(size_t shard, uint64_t units) {
  if (guard_ == ShardGuard::kMutex) return TakeLocked(shard, units);
  std::atomic<uint64_t>& stored = shards_[shard].word;
  uint64_t word = stored.load(std::memory_order_acquire);
  for (;;) {
    if (const Outcome outcome = Judge(word, units); outcome != Outcome::kTaken) return outcome;
    if (stored.compare_exchange_weak(word, word - units, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return Outcome::kTaken;
    }
  }
}

ShardedStock::Outcome ShardedStock::TakeLocked(size_t shard, uint64_t units) {
  const base_internal::MutexLock lock(shards_[shard].mutex);
  std::atomic<uint64_t>& stored = shards_[shard].word;
  const uint64_t word = stored.load(std::memory_order_acquire);
  const Outcome outcome = Judge(word, units);
  if (outcome == Outcome::kTaken) stored.store(word - units, std::memory_order_release);
  return outcome;
}

// For a take that its own shard could not settle.
[[gnu::noinline]] ShardedStock::Outcome ShardedStock::TakeElsewhere(size_t own, uint64_t units) {
  const auto freezing = [&] { return TakeFreezing(units) ? Outcome::kTaken : Outcome::kRefused; };
  const size_t count = open();
  if (count == 1) return freezing();
  own %= count;  // The count may have changed in between.

  // The richer of two others: near the end this empties the shards evenly, where a fixed neighbour would be mobbed.
  size_t first = (own + 1 + RandomBelow(count - 1)) % count;
  const size_t second = (own + 1 + RandomBelow(count - 1)) % count;
  const auto units_in = [&](size_t shard) { return shards_[shard].word.load(std::memory_order_relaxed) & kUnits; };
  if (units_in(second) > units_in(first)) first = second;
  Outcome outcome = TakeFrom(first, units);
  for (size_t step = 1; outcome == Outcome::kUnclear && step < count; ++step) {
    outcome = TakeFrom((own + step) % count, units);
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
  if (TryAdd(OwnShard(), added)) return absl::OkStatus();
  return DepositSlowly(added);
}

// So many units may be put into a word without a look at the others, and leave the stock narrow if it is.
inline bool ShardedStock::Fits(uint64_t word, uint64_t units) const {
  // A number of shards that is old may let it be narrow with more, until the next deposit.
  const uint64_t most = (word & kAlone) != 0 ? MostNarrow() : kUncheckedUnits;
  return (word & kFrozen) == 0 && units <= most && (word & kUnits) <= most - units;
}

bool ShardedStock::TryAdd(size_t shard, uint64_t units) {
  std::atomic<uint64_t>& stored = shards_[shard].word;
  if (guard_ == ShardGuard::kMutex) {
    const base_internal::MutexLock lock(shards_[shard].mutex);
    const uint64_t word = stored.load(std::memory_order_acquire);
    const bool fits = Fits(word, units);
    if (fits) stored.store(word + units, std::memory_order_release);
    return fits;
  }
  uint64_t word = stored.load(std::memory_order_relaxed);
  do {
    if (!Fits(word, units)) return false;
  } while (!stored.compare_exchange_weak(word, word + units, std::memory_order_acq_rel, std::memory_order_relaxed));
  return true;
}

// Word 0 is read last: so units that move into it are never missed, and the sum is not 0 because they move.
int64_t ShardedStock::ApproximateAvailable() const {
  fork_guard_.Check("ShardedStock", name_);
  uint64_t sum = 0;
  for (int32_t i = shards(); i-- > 0;) sum += shards_[i].word.load(std::memory_order_acquire) & kUnits;
  return static_cast<int64_t>(sum);
}

StockSnapshot ShardedStock::Snapshot() const {
  fork_guard_.Check("ShardedStock", name_);
  StockSnapshot snapshot{.narrow = open() == 1};
  snapshot.shard_units.resize(static_cast<size_t>(shards()));
  for (size_t i = snapshot.shard_units.size(); i-- > 0;) {  // As above.
    snapshot.shard_units[i] = static_cast<int64_t>(shards_[i].word.load(std::memory_order_acquire) & kUnits);
    snapshot.units += snapshot.shard_units[i];
  }
  return snapshot;
}

double ShardedStock::Imbalance() const {
  fork_guard_.Check("ShardedStock", name_);
  const size_t count = open();
  uint64_t richest = 0;
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t units = shards_[i].word.load(std::memory_order_relaxed) & kUnits;
    richest = std::max(richest, units);
    sum += units;
  }
  return sum == 0 ? 1 : static_cast<double>(richest) * static_cast<double>(count) / static_cast<double>(sum);
}

}  // namespace stockade
