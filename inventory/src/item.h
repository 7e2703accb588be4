#ifndef STOCKADE_INVENTORY_ITEM_H_
#define STOCKADE_INVENTORY_ITEM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "order_rules.h"
#include "ranked_mutex.h"
#include "stockade/base/thread_slot.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::inventory_internal {

// Units that change hands from many threads: counters that a few threads share, added up when they are read.
//
// All counts only grow, and with release, modulo 2^64: see Item::Oversold() and Item::Unsold().
class OrderedUnits {
 public:
  // Those that come to orders have left the stock, and those that go from them are about to be put back, or withdrawn.
  void Count(Transfer transfer, int64_t units) {
    if (transfer.from == Account::kSold) {
      comes_back_.store(true, std::memory_order_release);
      Add(&Cell::unsold_again, units);
    }
    if (ToOrders(transfer) < 0) Add(&Cell::returned, units);
    if (ToOrders(transfer) > 0) Add(&Cell::taken, units);
    if (transfer.to == Account::kSold) Add(&Cell::sold, units);
  }

  uint64_t taken() const { return Sum(&Cell::taken); }
  uint64_t returned() const { return Sum(&Cell::returned); }
  // Those that were ever sold, and those of them that are sold no more.
  uint64_t ever_sold() const { return Sum(&Cell::sold); }
  uint64_t unsold_again() const { return comes_back_.load(std::memory_order_acquire) ? Sum(&Cell::unsold_again) : 0; }
  // Exact while nobody changes them. Otherwise what is on its way to be sold or returned may still show as held, but
  // never less than nothing.
  int64_t sold() const {
    const uint64_t again = unsold_again();  // First: it was sold before.
    return static_cast<int64_t>(ever_sold() - again);
  }
  int64_t held() const {
    const uint64_t back = returned();  // First: what has come back is sold no more, and was taken.
    const uint64_t ended = back + static_cast<uint64_t>(sold());
    return std::max<int64_t>(0, static_cast<int64_t>(taken() - ended));
  }

 private:
  static constexpr size_t kCells = 8;
  struct alignas(64) Cell {
    std::atomic<uint64_t> taken{0};
    std::atomic<uint64_t> returned{0};
    std::atomic<uint64_t> sold{0};
    std::atomic<uint64_t> unsold_again{0};
  };

  void Add(std::atomic<uint64_t> Cell::*count, int64_t units) {
    (cells_[ThisThreadSlot() % kCells].*count).fetch_add(static_cast<uint64_t>(units), std::memory_order_release);
  }
  uint64_t Sum(std::atomic<uint64_t> Cell::*count) const {
    uint64_t sum = 0;
    for (const Cell& cell : cells_) sum += (cell.*count).load(std::memory_order_acquire);
    return sum;
  }

  std::array<Cell, kCells> cells_;
  std::atomic<bool> comes_back_{false};  // Set before the first of unsold_again: most SKUs have none.
};

// A status that is made once for every few threads: copies of one share a count of references, for which all threads
// would contend.
class StatusCopies {
 public:
  ~StatusCopies() {
    for (const auto& copy : copies_) delete copy.load(std::memory_order_relaxed);
  }

  // Calls `make` if this thread's is not there yet.
  template <typename Make>
  const absl::Status& Get(Make make) {
    std::atomic<const absl::Status*>& copy = copies_[ThisThreadSlot() % kCopies];
    const absl::Status* found = copy.load(std::memory_order_acquire);
    if (found == nullptr) {
      auto made = std::make_unique<const absl::Status>(make());
      if (copy.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) found = made.release();
    }
    return *found;
  }

 private:
  static constexpr size_t kCopies = 8;
  std::array<std::atomic<const absl::Status*>, kCopies> copies_{};
};

// One SKU of an inventory. It stays until the inventory ends; a removed one stays without its stock.
//
// Invariant: granted() == stock + held + sold, except within an operation. Operations on orders hold the order's
// stripe, a restock holds `mutex`, and a removal holds all of those. So a caller that holds all stripes and `mutex`
// reads four figures that agree.
struct Item {
  Item(std::string name, uint32_t item_number, int64_t buyer_limit, int64_t stocked, ShardedStockOptions options,
       ComponentMetrics* metrics)
      : mutex(LockRank::kItem, item_number, "inventory item"),
        sku(std::move(name)),
        per_buyer_limit(buyer_limit),
        stock(new ShardedStock(std::move(options), metrics)),
        put_up(static_cast<uint64_t>(stocked)) {}

  bool removed() const { return stock == nullptr; }
  // Of a removed SKU nobody asks any more.
  bool counts_buyers() const { return per_buyer_limit != 0 && !removed(); }

  // Moves units, except that they have left the shards if TakesFirst(). Needs the stripe for units of an order, and
  // `mutex` for other units from or to outside. The order of the steps is what Oversold() relies on.
  void Move(Transfer transfer, int64_t moved) {
    const auto count = static_cast<uint64_t>(moved);
    if (transfer.from == Account::kOutside) put_up.fetch_add(count, std::memory_order_release);
    units.Count(transfer, moved);
    if (transfer.to == Account::kOutside) withdrawn_units.fetch_add(count, std::memory_order_release);
    // Cannot fail: what is in the shards is at most what was granted.
    if (transfer.to == Account::kAvailable && moved > 0) (void)stock->Deposit(moved);
  }
  // As it was at one moment: that at which put_up was read with no withdrawal around it.
  int64_t granted() const {
    for (;;) {
      const uint64_t gone = withdrawn_units.load(std::memory_order_acquire);
      const uint64_t up = put_up.load(std::memory_order_acquire);
      if (withdrawn_units.load(std::memory_order_relaxed) == gone) return static_cast<int64_t>(up - gone);
    }
  }

  // At least as many as were available or held at one moment of the call: that at which granted() was read. What was
  // sold meanwhile is not counted as sold, but what came back meanwhile is there; what is written off is counted as
  // sold no more before it is withdrawn.
  int64_t Unsold() const {
    const uint64_t sold = units.ever_sold();
    const int64_t all = granted();
    return all - static_cast<int64_t>(sold - units.unsold_again());
  }

  // Units that orders have beyond those that were granted: must be 0; a nonzero value is a bug. Takes no lock, and
  // units that move meanwhile never raise it above 0. The reason is that all four counts only grow: a unit is counted
  // as put up or returned before it goes into the shards, and as taken or withdrawn after it has left them. So a caller
  // that has read the count of a take also reads, afterwards, the count that put the unit there. It is exact once
  // nothing moves.
  int64_t Oversold() const {
    const uint64_t out = withdrawn_units.load(std::memory_order_acquire) + units.taken();
    const uint64_t in = units.returned() + put_up.load(std::memory_order_acquire);
    return std::max<int64_t>(0, static_cast<int64_t>(out - in));
  }

  Ranked<ReentrantMutex> mutex;
  OrderedUnits units;  // Changed under the stripe of the order that changes.
  const std::string sku;
  const int64_t per_buyer_limit;  // 0: none.
  // Null once removed: that happens with all stripes, `mutex` and the catalogue locked, so that holding one of them is
  // enough to use it.
  std::unique_ptr<ShardedStock> stock;
  // What was `stock`, from its removal until that is durable.
  std::unique_ptr<ShardedStock> withdrawn STOCKADE_GUARDED_BY(mutex) = nullptr;
  // Of the record that added or removed it in the ledger; 0: durable since recovery, or no ledger. Guarded by the
  // inventory's sku_changes_mutex_.
  uint64_t position = 0;
  // The answers for lack of units.
  StatusCopies sold_out;
  StatusCopies all_held;
  std::atomic<uint64_t> put_up;              // Ever, and withdrawn_units as well: neither falls.
  std::atomic<uint64_t> withdrawn_units{0};  // By a removal, the end of an order after it, or a write-off.
};

inline int64_t AvailableUnits(const Item& item) { return item.removed() ? 0 : item.stock->ApproximateAvailable(); }

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_ITEM_H_
