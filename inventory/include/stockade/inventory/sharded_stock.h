#ifndef STOCKADE_INVENTORY_SHARDED_STOCK_H_
#define STOCKADE_INVENTORY_SHARDED_STOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/clock.h"
#include "stockade/base/export.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/instant.h"
#include "stockade/base/thread_slot.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

class ReentrantMutex;
class ShardedStock;

namespace internal {
struct Item;
}

// The most units that one item may have: 2^61 - 1, about 2.3 * 10^18.
inline constexpr int64_t kMaxUnits = (int64_t{1} << 61) - 1;
// The most shards that one item may have.
inline constexpr int32_t kMaxShards = 256;

// What a shard is guarded by. The first is faster, and the default; the second is there to be compared with.
enum class ShardGuard {
  kCompareAndSwap,  // Nothing: a take is one read-modify-write.
  kMutex,           // A std::mutex each.
};

// What a ShardedStock is made from.
struct STOCKADE_EXPORT ShardedStockOptions {
  // Names the item in messages, and is the value of the label `inventory` in metrics. Not empty, and printable UTF-8:
  // no control characters.
  std::string name = "default";
  // Units there are at first: 0 to kMaxUnits.
  int64_t stock = 0;
  // Counters that the units are spread over, 1 to kMaxShards; threads that take from different ones do not slow each
  // other down. 0: as many as the machine has processors.
  int32_t shards = 0;
  // The most that Reshard() may make of them: `shards` to kMaxShards. Each takes 128 bytes from the beginning, and a
  // moment of whatever stops the shards. 0: no more than there are at first.
  int32_t max_shards = 0;
  ShardGuard guard = ShardGuard::kCompareAndSwap;
  // Null: no metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();
  // Times how long the shards are stopped, for metrics alone. Must outlive the item.
  Clock* clock = Clock::System();

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// One line of a basket: `units`, at least 1, of `stock`.
struct StockLine {
  ShardedStock* stock = nullptr;  // Not null.
  int64_t units = 1;              // At least 1.
};

// What an item looks like to people: each figure was true at some moment of the call, not all at the same one.
struct StockSnapshot {
  int64_t units = 0;  // The sum of shard_units.
  // Every shard was seen latched: at some moment there was nothing, and a take was refused by one load. Then units is
  // 0.
  bool latched = false;
  // By shard: those in use, and on to the last one beyond that still has units (see Reshard()), so that none is left
  // out and an index always means the same shard.
  std::vector<int64_t> shard_units = {};
};

// One item's stock: a number of units, split over shards so that many threads can take at once.
//
//   stockade::ShardedStock seats({.name = "seats", .stock = 500});
//   if (!seats.Take(2)) return SoldOut();   // At some moment during the call there were fewer than 2.
//   absl::Status back = seats.Deposit(2);
//
// Every operation but the looks (ApproximateAvailable(), Snapshot(), Imbalance()) is linearizable: never are more units
// taken than were put in, and Take() refuses only where at one moment within the call the shards together had fewer
// than it wanted. A take of several units is all or nothing, and gathers from several shards where no single one has
// enough.
//
// Thread-safe. What happens before a Deposit() happens before whatever follows a Take() of its units. While there are
// units to spare, takes and deposits are one compare-and-swap on a cache line that few threads share; near zero they
// take the item's slow lock and stop the shards for O(shards); once all is gone a refusal is one load. Only the slow
// lock ever blocks, and nothing is waited for while it is held, but for TakeTogether(), which waits for further items'
// slow locks. Unusable in a forked child.
class STOCKADE_EXPORT ShardedStock {
 public:
  // What ShardedStockOptions::shards of 0 means: as many as the machine has processors, 1 to kMaxShards.
  static int32_t DefaultShards();

  // Aborts with Validate()'s text on bad options.
  explicit ShardedStock(ShardedStockOptions options);
  ~ShardedStock();

  ShardedStock(const ShardedStock&) = delete;
  ShardedStock& operator=(const ShardedStock&) = delete;

  // Takes `units` (at least 1; aborts otherwise) and returns true; or takes nothing and returns false.
  bool Take(int64_t units = 1) {
    const uint32_t slot = internal::ThisThreadSlotIfAny();
    if (slot >= internal::kMaxThreadSlots || swapped_ == nullptr || fork_guard_.InForkedChild()) [[unlikely]] {
      return TakeSlowly(units);
    }
    // What most takes and refusals come to: one look at the own shard, and one compare-and-swap.
    std::atomic<uint64_t>& word = swapped_[ShardOf(slot)].word;
    uint64_t seen = word.load(std::memory_order_acquire);
    const uint64_t wanted = static_cast<uint64_t>(units);
    const bool latched = (seen & kLatched) != 0;
    // Below 1, `wanted` minus 1 is above all that a word can hold. A frozen one is above kUnits.
    if (latched ? units < 1 : wanted - 1 >= seen || seen > kUnits) [[unlikely]] {
      return TakeSlowly(units);
    }
    if (!latched && !word.compare_exchange_strong(seen, seen - wanted, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) [[unlikely]] {
      return TakeSlowly(units);
    }
    if (counts_ != nullptr && !counts_->TryAdd(slot, latched ? refusals_cell_ : takes_cell_, 1)) [[unlikely]] {
      CountTake(!latched);
    }
    return !latched;
  }

  // Takes the units of every line, all at one moment, and returns nullptr; or takes nothing at all, and returns a line
  // whose item had fewer at one moment within the call: one that is known to be sold out, or else the first in the
  // order of `lines` whose item is short. Aborts where a line has no stock or below 1 unit, or two have the same stock.
  // Callers may name the same items in different orders: no deadlock. Stops the shards of all items for O(shards of
  // all); only a single line is as cheap as Take(), and a sold-out item is refused without any lock.
  static const StockLine* TakeTogether(std::span<const StockLine> lines);

  // Takes whatever there is, at one moment within the call, and returns it: 0 where there is nothing. Stops the shards
  // for O(max_shards).
  int64_t TakeAll();

  // Puts `units` in: a restock, or what a cancelled order gives back. After it has returned they can be taken.
  //   InvalidArgument: `units` is below 1.
  //   OutOfRange: there would be more than kMaxUnits. Nothing was put in. (A shard below 2^53 units is not checked
  //   against the others, so that the total may come to kMaxUnits + 2^61 before this is said. It never wraps.)
  absl::Status Deposit(int64_t units);

  // The exact number of units at one moment within the call. Stops the shards for O(shards).
  int64_t Available() const;

  // The sum of the shards, read one after the other without stopping anybody: exact when nobody takes or deposits
  // meanwhile, otherwise off by at most the units that were moved during the call. O(shards).
  int64_t ApproximateAvailable() const;

  // For people and pages. Stops nobody, and has the bound of ApproximateAvailable(). O(max_shards).
  StockSnapshot Snapshot() const;

  // The units of the richest shard in use over the mean of those in use: 1 where all have the same, or none has any;
  // shards() where one has all. Stops nobody, so a guess while units move. O(shards).
  double Imbalance() const;

  // Spreads the units over `shards` shards from now on, as evenly as can be; while others take and put in. Stops the
  // shards for O(max_shards). For an item that turns out to be hotter, or colder, than was thought.
  //   InvalidArgument: `shards` is not within 1 to max_shards().  OutOfRange: there are more than kMaxUnits, which
  //   moved into few shards would leave no room for what Deposit() does not check. Nothing has changed.
  absl::Status Reshard(int32_t shards);

  // In use now, as Reshard() left it; the most there may be; and the name of the options. O(1).
  int32_t shards() const { return static_cast<int32_t>(in_use_.load(std::memory_order_relaxed) & UINT32_MAX); }
  int32_t max_shards() const { return max_shards_; }
  const std::string& name() const { return name_; }

 private:
  friend class ShardedStockPeer;  // Puts units into a given shard, for tests.
  friend struct internal::Item;

  // An item of an inventory, which counts takes and refusals itself: only steals and freezes go to its `metrics`, and
  // options.metrics is not used.
  ShardedStock(ShardedStockOptions options, internal::ComponentMetrics* metrics);

  // Invariants, of all shards of an item together. A word holds {latched, frozen, units}, the units in the low 62 bits.
  //  - The slow lock's holder alone sets or clears the bits. Without it: no word is frozen, and either all or none are
  //    latched.
  //  - A word with either bit set changes by the slow lock's holder alone: takes and deposits are compare-and-swaps
  //    that expect both bits clear. So while every word is frozen, their sum is the item's stock, and stands still.
  //  - A word is latched only from frozen, only while every word is frozen or latched, and only if the sum is zero. It
  //    goes back to frozen, and units are added only once no word is latched. So while any word is latched, the stock
  //    is zero: to see one is enough to refuse.
  //
  // Memory order: read-modify-writes are acquire and release, the slow lock's holder stores with release what it
  // acquired from every word, and a refusal's load is an acquire. Hence whoever takes a unit sees all that was done
  // before the unit was put in, whichever shards it went through.
  //
  // Of max_shards_ shards the first shards() are those that threads go to. The count is no more than a hint: a
  // thread that goes by an old one may put units into a shard beyond it. So whatever is said above of all shards is
  // said of all max_shards_, and what stops them stops those too.
  //
  // With ShardGuard::kMutex a take or a deposit holds the shard's mutex from its look at the word to its store, and so
  // does the slow lock's holder while it freezes the shard.
  struct alignas(128) Shard {  // Two lines: the prefetcher of x86 fetches them in pairs.
    std::atomic<uint64_t> word{0};
    std::mutex mutex;  // Of ShardGuard::kMutex.
  };

  static constexpr uint64_t kLatched = uint64_t{1} << 63;
  static constexpr uint64_t kFrozen = uint64_t{1} << 62;
  static constexpr uint64_t kBits = kLatched | kFrozen;
  static constexpr uint64_t kUnits = kFrozen - 1;

  enum class Outcome { kTaken, kRefused, kUnclear };

  static constexpr int kReciprocalBits = 24;

  // On the words, without the slow lock: sharded_stock.cc and sharded_stock_inline.h.
  // The shard that a thread goes to first: its slot modulo the shards, by two multiplications, for a division would
  // take longer than all else in a refusal. The reciprocal is rounded up, which with slots times shards at most 2^24
  // never reaches the next quotient.
  size_t ShardOf(uint64_t slot) const {
    static_assert(uint64_t{internal::kMaxThreadSlots} * kMaxShards <= uint64_t{1} << kReciprocalBits);
    const uint64_t in_use = in_use_.load(std::memory_order_relaxed);
    const uint64_t quotient = slot * (in_use >> 32) >> kReciprocalBits;
    return slot - quotient * (in_use & UINT32_MAX);
  }
  static Outcome Judge(uint64_t word, uint64_t units);
  bool TakeSlowly(int64_t units);
  Outcome TakeFrom(Shard& shard, uint64_t units);
  Outcome TakeLocked(Shard& shard, uint64_t units);
  Outcome TakeElsewhere(size_t own, uint64_t units);
  bool TryAdd(Shard& shard, uint64_t units);
  bool SeenLatched() const;
  uint64_t Share(uint64_t units, int32_t shard) const;
  static uint64_t InUse(int32_t shards);
  size_t OwnShard() const;
  void CountTake(bool taken) const;

  // These take the slow lock: sharded_stock_frozen.cc.
  bool TakeFreezing(uint64_t units);
  absl::Status DepositSlowly(uint64_t units);

  // These need it: sharded_stock_frozen.cc. Between a Freeze() and its Thaw() nobody but the caller changes a word.
  bool Latched() const;
  uint64_t Freeze() const;
  void Thaw(uint64_t left) const;
  void Unfreeze() const;
  void Latch() const;
  void Spread(uint64_t units);
  void Gather(uint64_t units);

  const std::string name_;
  // The shards in use, and above them their reciprocal (see InUse()): in one word, so that they agree. Written by the
  // slow lock's holder.
  std::atomic<uint64_t> in_use_;
  const int32_t max_shards_;
  const ShardGuard guard_;
  Clock* const clock_;
  const std::unique_ptr<Shard[]> shards_;
  Shard* const swapped_;  // shards_, or null where each has a mutex.
  const std::unique_ptr<ReentrantMutex> slow_lock_;
  // When the shards were stopped, where that is timed; otherwise infinite. Guarded by slow_lock_.
  mutable Instant frozen_since_ = Instant::InfiniteFuture();
  internal::ForkGuard fork_guard_;
  std::unique_ptr<internal::ComponentMetrics> own_metrics_;  // Null in an inventory. Last: its gauge reads the shards.
  internal::ComponentMetrics* metrics_;  // *own_metrics_, or those of the inventory that the item is in.
  // Where takes and refusals are counted: a refusal is so short that each load on the way there shows. Null: nowhere.
  internal::StripedCells* counts_ = nullptr;
  size_t takes_cell_ = 0;
  size_t refusals_cell_ = 0;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_SHARDED_STOCK_H_
