#ifndef STOCKADE_INVENTORY_SHARDED_STOCK_H_
#define STOCKADE_INVENTORY_SHARDED_STOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/clock.h"
#include "stockade/base/export.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/thread_slot.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

class ReentrantMutex;
class ShardedStock;

namespace inventory_internal {
struct Item;
}

// The largest number of units of one item: 2^61 - 1, about 2.3 * 10^18.
inline constexpr int64_t kMaxUnits = (int64_t{1} << 61) - 1;
// The largest number of shards of one item.
inline constexpr int32_t kMaxShards = 256;

// How a shard is synchronized. kCompareAndSwap is faster and the default; kMutex exists for comparison.
enum class ShardGuard {
  kCompareAndSwap,  // No lock: a take is one read-modify-write.
  kMutex,           // One std::mutex per shard.
};

// Options of a ShardedStock.
struct STOCKADE_EXPORT ShardedStockOptions {
  // The item's name in messages and the value of the metrics label `inventory`. Must not be empty and must be printable
  // UTF-8 without control characters.
  std::string name = "default";
  // The initial number of units: 0 to kMaxUnits.
  int64_t stock = 0;
  // The number of shards that the units are spread over: 1 to kMaxShards. Threads that take from different shards do
  // not slow each other down. 0 means the number of the machine's processors.
  int32_t shards = 0;
  // The largest number of shards for Reshard(): `shards` to kMaxShards. Each shard uses 128 bytes from the beginning. 0
  // means the initial number.
  int32_t max_shards = 0;
  ShardGuard guard = ShardGuard::kCompareAndSwap;
  // Null disables metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();
  // Measures how long the shards are stopped; only for metrics. Must outlive the item.
  Clock* clock = Clock::System();

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// One line of a basket: `units`, at least 1, of `stock`.
struct StockLine {
  ShardedStock* stock = nullptr;  // Not null.
  int64_t units = 1;              // At least 1.
};

// A view of an item for display. Each figure was true at some moment during the call, but not all at the same moment.
struct StockSnapshot {
  int64_t units = 0;  // The sum of shard_units.
  // All units were in the first shard: there was one shard, or few units were left.
  bool narrow = false;
  // The units of each of shards().
  std::vector<int64_t> shard_units = {};
};

// The stock of one item: a number of units, split over shards so that many threads can take units at the same time.
//
//   stockade::ShardedStock seats({.name = "seats", .stock = 500});
//   if (!seats.Take(2)) return SoldOut();   // At some moment during the call there were fewer than 2.
//   absl::Status back = seats.Deposit(2);
//
// All operations except ApproximateAvailable(), Snapshot() and Imbalance() are linearizable. The units taken never
// exceed those put in, and Take() refuses only if all shards together had fewer units than wanted at one moment during
// the call. A take of several units is all or nothing; it combines units of several shards if no single shard has
// enough.
//
// Thread-safe. Everything before a Deposit() happens before everything after a Take() of its units. While there are
// enough units, a take or a deposit is one compare-and-swap on a cache line that few threads share. A take that finds
// too few in each shard acquires the item's slow lock and stops the shards for O(shards). If it leaves fewer units than
// shards, the stock becomes narrow: all units are in the first shard, where a take or a deposit is one compare-and-swap
// and a refusal is one load. Four units per shard make it wide again. Only the slow lock blocks, and with
// ShardGuard::kMutex a shard's mutex. Its holder waits for nothing else, except that TakeTogether() waits for the slow
// locks of further items. Not usable in a forked child.
class STOCKADE_EXPORT ShardedStock {
 public:
  // The number of shards that ShardedStockOptions::shards == 0 stands for: the number of processors, limited to 1 to
  // kMaxShards.
  static int32_t DefaultShards();

  // Aborts with the message of Validate() if an option is invalid.
  explicit ShardedStock(ShardedStockOptions options);
  ~ShardedStock();

  ShardedStock(const ShardedStock&) = delete;
  ShardedStock& operator=(const ShardedStock&) = delete;

  // Takes `units` (at least 1; aborts otherwise) and returns true, or takes nothing and returns false.
  bool Take(int64_t units = 1) {
    const uint32_t slot = base_internal::ThisThreadSlotIfAny();
    if (slot >= base_internal::kMaxThreadSlots || swapped_ == nullptr || fork_guard_.InForkedChild()) [[unlikely]] {
      return TakeSlowly(units);
    }
    // The path of most takes and refusals: one load of a shard, and one compare-and-swap.
    std::atomic<uint64_t>& word = swapped_[ShardOf(slot)].word;
    uint64_t seen = word.load(std::memory_order_acquire);
    const uint64_t wanted = static_cast<uint64_t>(units);
    const uint64_t left = seen & ~kAlone;
    const bool sold_out = seen == kAlone;
    // If `units` is below 1, `wanted` - 1 is larger than any word. A frozen word is larger than kUnits.
    if (sold_out ? units < 1 : wanted - 1 >= left || left > kUnits) [[unlikely]] {
      return TakeSlowly(units);
    }
    if (!sold_out && !word.compare_exchange_strong(seen, seen - wanted, std::memory_order_acq_rel,
                                                   std::memory_order_relaxed)) [[unlikely]] {
      return TakeSlowly(units);
    }
    if (counts_ != nullptr && !counts_->TryAdd(slot, sold_out ? refusals_cell_ : takes_cell_, 1)) [[unlikely]] {
      CountTake(!sold_out);
    }
    return !sold_out;
  }

  // Takes the units of all lines at one moment and returns nullptr. Otherwise takes nothing and returns a line whose
  // item had fewer units at one moment during the call: a line whose item is known to be sold out, or else the first
  // line, in the order of `lines`, whose item has too few. Aborts if a line has no stock or less than 1 unit, or if two
  // lines have the same stock. Callers may list the same items in different orders without a deadlock. Stops the shards
  // of all items for O(number of all shards). A single line costs as much as Take(), and a sold-out item is refused
  // without a lock. Throws std::bad_alloc, and takes nothing, if there is no memory for a list of the lines.
  static const StockLine* TakeTogether(std::span<const StockLine> lines);

  // Takes all units that exist at one moment during the call and returns their number, which may be 0. Stops the shards
  // for O(shards).
  int64_t TakeAll();

  // Adds `units`: a restock, or the units of a cancelled order. They can be taken when it has returned.
  //   InvalidArgument: `units` is below 1.
  //   OutOfRange: the total would exceed kMaxUnits. Nothing was added. (A deposit into a shard below 2^53 units does
  //     not check the other shards, so the total may reach kMaxUnits + 2^61 before this error occurs. It never wraps.)
  absl::Status Deposit(int64_t units);

  // The exact number of units at one moment during the call. One load while the stock is narrow; otherwise it stops the
  // shards for O(shards).
  int64_t Available() const;

  // The sum of the shards, which are read one after another without stopping them. Exact if no units are taken,
  // deposited or moved between shards meanwhile; otherwise off by at most these. Not 0 because units are moved.
  // O(shards).
  int64_t ApproximateAvailable() const;

  // A view for display. Does not stop the shards, and is as exact as ApproximateAvailable(). O(shards).
  StockSnapshot Snapshot() const;

  // The units of the fullest shard divided by the mean of the shards: 1 if all have the same number, or the stock is
  // narrow. Does not stop the shards, so it is approximate while units move. O(shards).
  double Imbalance() const;

  // Spreads the units evenly over `shards` shards, while other threads take and deposit. For an item with more, or
  // less, contention than expected. Stops the shards for O(shards).
  //   InvalidArgument: `shards` is not within 1 to max_shards(). Nothing has changed.
  absl::Status Reshard(int32_t shards);

  // The number of shards, the largest number for Reshard(), and the name from the options. O(1).
  int32_t shards() const { return count_.load(std::memory_order_acquire); }
  int32_t max_shards() const { return max_shards_; }
  const std::string& name() const { return name_; }

 private:
  friend class ShardedStockPeer;  // Puts units into a given shard, for tests.
  friend struct inventory_internal::Item;

  // An item of an inventory, which counts takes and refusals itself: the item adds only steals and freezes to
  // `metrics`, and options.metrics is not used.
  ShardedStock(ShardedStockOptions options, metrics_internal::ComponentMetrics* metrics);

  // Invariants over all shards of an item. A word has 62 bits of units and two bits: kFrozen, and in word 0 kAlone,
  // which means that all units of the item are in it. While it is alone the stock is narrow, and only word 0 is open.
  // While the stock is wide, the first shards() words are open. A word that is not open is frozen and has no units.
  //  - Only the holder of the slow lock sets or clears the two bits. When the lock is free, no open word is frozen.
  //  - Only the holder of the slow lock changes a frozen word: takes and deposits are compare-and-swaps that expect the
  //    bit to be clear. While every word is frozen, their sum therefore is the item's stock and does not change. Only
  //    then does the stock become narrow or wide, or are units moved between words.
  //  - So while word 0 is alone and not frozen, all others are frozen, and the stock is what word 0 has: one load is
  //    enough to refuse a take. Two loads, of two words, prove nothing: the stock may have been wide in between.
  //  - A word takes what is put in without a look at the others up to kUncheckedUnits. So the sum, over the open words,
  //    of the larger of that and their units never exceeds kUnits: a deposit that is not checked does not change it, a
  //    take never raises it, and while there are more than kMaxUnits, units are spread so that each word has as many.
  //
  // Memory order: read-modify-writes are acquire and release. The holder of the slow lock stores with release what it
  // acquired from every open word, and a refusal's load is an acquire. A thread that takes a unit therefore sees
  // everything that was done before the unit was put in, whichever shards it moved through.
  //
  // Which word a thread tries first is a hint: the number of open words may have changed since.
  //
  // With ShardGuard::kMutex, a take or a deposit holds the shard's mutex from its load of the word to its store, and so
  // does the holder of the slow lock while it freezes the shard.
  static constexpr uint64_t kAlone = uint64_t{1} << 63;
  static constexpr uint64_t kFrozen = uint64_t{1} << 62;
  static constexpr uint64_t kUnits = kFrozen - 1;
  struct alignas(128) Shard {  // Two cache lines, because x86 prefetches them in pairs.
    std::atomic<uint64_t> word{kFrozen};
    base_internal::Mutex mutex;  // For ShardGuard::kMutex.
  };
  // Up to here a shard is filled without a look at the others: kMaxShards of them make kMaxUnits + 1.
  static constexpr uint64_t kUncheckedUnits = uint64_t{1} << 53;
  static_assert(kUncheckedUnits * kMaxShards == uint64_t{kMaxUnits} + 1);
  // More units a shard than are needed to stay wide, so that cancels and takes near one number move none to and fro.
  static constexpr uint64_t kWideUnits = 4;

  enum class Outcome { kTaken, kRefused, kUnclear };

  static constexpr int kReciprocalBits = 24;

  // These work on the words without the slow lock: sharded_stock.cc. ShardOf() is the shard that a thread tries first:
  // its slot modulo the number of open ones. It uses two multiplications, because a division would take longer than the
  // rest of a refusal. The reciprocal is rounded up; with slots times shards at most 2^24, the result never reaches the
  // next quotient.
  size_t ShardOf(uint64_t slot) const {
    static_assert(uint64_t{base_internal::kMaxThreadSlots} * kMaxShards <= uint64_t{1} << kReciprocalBits);
    const uint64_t open = open_.load(std::memory_order_relaxed);
    const uint64_t quotient = slot * (open >> 32) >> kReciprocalBits;
    return slot - quotient * (open & UINT32_MAX);
  }
  static uint64_t Open(int32_t words) {
    const uint64_t count = static_cast<uint64_t>(words);
    return ((uint64_t{1} << kReciprocalBits) + count - 1) / count << 32 | count;
  }
  size_t open() const { return open_.load(std::memory_order_relaxed) & UINT32_MAX; }
  // Inline, since a call would cost as much as the work: what is visible outside of position-independent code is not
  // inlined otherwise.
  size_t OwnShard() const {
    const uint32_t slot = base_internal::ThisThreadSlot();
    return slot == base_internal::kNoSlot ? 0 : ShardOf(slot);
  }
  // The item's units, if it is narrow. One load.
  std::optional<uint64_t> SeenNarrow() const {
    const uint64_t word = shards_[0].word.load(std::memory_order_acquire);
    return (word & (kAlone | kFrozen)) == kAlone ? std::optional(word & kUnits) : std::nullopt;
  }
  // With more units a stock is wide, if it has more shards than one.
  uint64_t MostNarrow() const {
    return shards() == 1 ? kUncheckedUnits : kWideUnits * static_cast<uint64_t>(shards()) - 1;
  }
  bool SeenSoldOut() const { return SeenNarrow().value_or(1) == 0; }
  static Outcome Judge(uint64_t word, uint64_t units);
  bool TakeSlowly(int64_t units);
  Outcome TakeFrom(size_t shard, uint64_t units);
  Outcome TakeLocked(size_t shard, uint64_t units);
  Outcome TakeElsewhere(size_t own, uint64_t units);
  bool Fits(uint64_t word, uint64_t units) const;
  bool TryAdd(size_t shard, uint64_t units);
  void CountTake(bool taken) const;

  // These acquire the slow lock: sharded_stock_slow.cc.
  bool TakeFreezing(uint64_t units);
  absl::Status DepositSlowly(uint64_t units);

  // sharded_stock_slow.cc. Between Freeze() and its Thaw() only the caller changes words.
  uint64_t Freeze() const STOCKADE_REQUIRES(*slow_lock_);
  void Thaw() const STOCKADE_REQUIRES(*slow_lock_);
  void TakeFrozen(uint64_t units, uint64_t total) STOCKADE_REQUIRES(*slow_lock_);
  void Gather(uint64_t units) STOCKADE_REQUIRES(*slow_lock_);
  void Arrange(uint64_t units, int32_t words) STOCKADE_REQUIRES(*slow_lock_);
  void NoteThawed() const STOCKADE_REQUIRES(*slow_lock_);

  const std::string name_;
  // shards(). Written by the holder of the slow lock, as is open_.
  std::atomic<int32_t> count_;
  // The number of open words, and in the upper half its reciprocal, in one word so that they are consistent.
  std::atomic<uint64_t> open_{0};
  const int32_t max_shards_;
  const ShardGuard guard_;
  Clock* const clock_;
  const std::unique_ptr<Shard[]> shards_;
  Shard* const swapped_;  // shards_, or null if each shard has a mutex.
  const std::unique_ptr<ReentrantMutex> slow_lock_;
  // When the shards were stopped, if that is measured; otherwise infinite.
  mutable Instant frozen_since_ STOCKADE_GUARDED_BY(*slow_lock_) = Instant::InfiniteFuture();
  base_internal::ForkGuard fork_guard_;
  struct OwnMetrics;
  std::unique_ptr<OwnMetrics> own_metrics_;      // Null in an inventory. Last: its gauge reads the shards.
  metrics_internal::ComponentMetrics* metrics_;  // Of *own_metrics_, or of the item's inventory.
  // The cells that count takes and refusals. Kept here because a refusal is so short that every load matters. Null if
  // disabled.
  metrics_internal::StripedCells* counts_ = nullptr;
  size_t takes_cell_ = 0;
  size_t refusals_cell_ = 0;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_SHARDED_STOCK_H_
