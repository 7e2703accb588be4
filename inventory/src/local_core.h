#ifndef STOCKADE_INVENTORY_LOCAL_CORE_H_
#define STOCKADE_INVENTORY_LOCAL_CORE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "buyer_book.h"
#include "inventory_core.h"
#include "inventory_metrics.h"
#include "order_book.h"
#include "order_record.h"
#include "ranked_mutex.h"
#include "reaper.h"
#include "request_checks.h"
#include "returned_units.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/mutex.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/inventory.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade::inventory_internal {

// The core of an inventory in one process.
//
// Lock order: the changes of SKUs; a buyer's stripe; stripes of orders, ascending; an item's mutex; the catalogue;
// items' slow locks, sorted; shards. Below those, each held alone and for a moment: the index of recovered orders, the
// reaper's, the ledger's. The ledger is appended to under these locks, which is what orders its records, but waited for
// under none.
class LocalCore final : public InventoryCore {
 public:
  explicit LocalCore(InventoryOptions options);
  ~LocalCore() override;

  // Once, before any other call: takes over what the ledger recovered, and starts the reaper.
  absl::Status Recover();

  void Await(std::span<OrderCall* const> calls) override;
  void Notify(std::shared_ptr<OrderCall> call) override;
  absl::Status ChangeSku(const SkuCall& call) override;  // catalogue.cc
  absl::Status Read(ReadCall& call) override;            // snapshot.cc
  absl::Status Health() const override;

  void CheckNotForked() const override { fork_guard_.Check("Inventory", name_); }
  bool InForkedChild() const override { return fork_guard_.InForkedChild(); }

  const absl::Status& NoMemory() const override { return checks_.NoMemory(); }

 private:
  struct NamedItem {
    struct Hash {
      uint64_t operator()(const NamedItem& named) const { return named.hash; }
    };

    uint64_t hash;  // Of its name.
    std::unique_ptr<Item> item;
  };

  // The outcome of a call that has not been waited for. `status` is valid once the record at `position` is durable.
  struct PendingStatus {
    absl::Status status = {};
    uint64_t position = 0;
  };

  // Grants, changes, takes back or finds. Does not wait for the ledger.
  void Ask(OrderCall& call);
  // `durable`: whether the record became durable that the answer depends on.
  void Answer(OrderCall& call, const absl::Status& durable);
  void CountAnswer(const OrderCall& call);
  // This, Outcome(), NotDurable() and Finish() never throw std::bad_alloc.
  absl::Status AwaitDurable(uint64_t position) const;
  // Of a call whose record at `position` has become durable, or not; OK if the answer of the call is valid.
  absl::Status Outcome(uint64_t position, const absl::Status& durable) {
    if (!durable.ok()) return NotDurable(durable);
    if (position != 0) orders_.NoteDurable(position);
    return absl::OkStatus();
  }
  absl::Status NotDurable(const absl::Status& why);
  absl::Status Finish(PendingStatus settled);

  // Grant(), ChangeOrder(), Return() and all that they call allocate what they need before the append to the ledger,
  // which is the last step that can fail. If they throw std::bad_alloc, nothing has changed. They set call.position to
  // the position of the record that the answer depends on.
  //
  // grant.cc. FindOrTake() and TakeNew() also need the buyer's lock if an item has a limit.
  absl::Status Grant(OrderCall& call);
  absl::Status FindOrTake(OrderCall& call, uint64_t fingerprint, ItemLines lines, OrderBook::Stripe& stripe)
      STOCKADE_REQUIRES(stripe.mutex);
  absl::Status AnswerAgain(OrderCall& call, OrderBook::Stripe& stripe, OrderRecord& record)
      STOCKADE_REQUIRES(stripe.mutex);
  absl::Status TakeNew(OrderCall& call, uint64_t fingerprint, ItemLines lines, OrderBook::Stripe& stripe)
      STOCKADE_REQUIRES(stripe.mutex);
  std::shared_ptr<OrderRecord> NewRecord(const OrderCall& call, uint64_t fingerprint, OrderId id, Instant now) const;
  void MakeRoomForBuyer(const OrderRecord& record);
  bool IsTimed() const;
  absl::Status CheckBuyer(const OrderCall& call, const ItemLines& lines);
  absl::Status CheckSame(const OrderCall& call, const OrderRecord& record) const;
  absl::Status TakeUnits(OrderCall& call, const ItemLines& lines);
  const absl::Status& Short(const ItemLine& wanted, OrderCall& call) const;

  // settle.cc: commits, cancels or extends.
  absl::Status ChangeOrder(OrderCall& call);

  // after_sale.cc
  absl::Status Return(OrderCall& call);
  // Locked if the order has an item with a limit. `stripe`: the order's, which must not be locked; null if there is no
  // such order.
  BuyerBook::Lock LockBuyerOf(OrderBook::Stripe* stripe, OrderId id);
  // What is to come back of an order.
  absl::Status FindReturned(const OrderCall& call, const OrderRecord& order, ItemLines& lines) const;
  // Takes the lines of a new `record` back. Needs the buyer's lock if an item has a limit.
  void TakeBack(OrderCall& call, OrderBook::Stripe& stripe, OrderBook::Ref record, OrderBook::Stripe& of_order,
                OrderRecord& order) STOCKADE_REQUIRES(stripe.mutex, of_order.mutex);
  // The id of the call is that of `record`.
  absl::Status ReturnAgain(OrderCall& call, const OrderRecord& record);

  // snapshot.cc
  absl::Status Find(OrderCall& call);
  absl::Status ReadState(ReadCall& call);
  absl::Status ReadFigures(ReadCall& call);
  absl::Status ReadSku(ReadCall& call);

  // catalogue.cc
  absl::Status AddSku(const SkuCall& call);
  absl::Status RemoveSku(const SkuCall& call);
  absl::Status Restock(const SkuCall& call);
  absl::Status Reshard(const SkuCall& call);
  // If the request has an id, needs its stripe locked; otherwise `stripe` is null.
  PendingStatus Deposit(const OrderCall& request, OrderBook::Stripe* stripe, uint64_t fingerprint)
      STOCKADE_REQUIRES(sku_changes_mutex_);

  // settle.cc. Ends a held record. Throws only if the ledger does, and has changed nothing then. Needs the buyer's lock
  // if an item has a limit, except for a commit.
  void End(OrderBook::Stripe& stripe, OrderRecord& record, LedgerRecord::Kind kind, Instant now)
      STOCKADE_REQUIRES(stripe.mutex);
  // Lets a held record last longer, if `ttl` from now is later than its end. Throws as End() does.
  void Extend(OrderBook::Stripe& stripe, OrderRecord& record, absl::Duration ttl, Instant now)
      STOCKADE_REQUIRES(stripe.mutex);
  // The pause before an expiry that the ledger refused is tried again: it must not be repeated without end while there
  // is no room.
  static constexpr absl::Duration kExpiryRetry = absl::Seconds(1);
  // Ends the order, if it is due. Returns the position of its last record.
  uint64_t Expire(OrderBook::Stripe& stripe, const OrderBook::Ref& record) STOCKADE_EXCLUDES(stripe.mutex);
  // Ends the order that is due first, if one is. Returns the position of its last record.
  std::optional<uint64_t> ExpireFirst(OrderBook::Stripe& stripe, Instant now);
  // Ends some of the orders that are due, and waits for the ledger with no lock held. Returns when to end the next
  // ones; nothing: no more will end.
  std::optional<absl::Duration> ExpireDue();

  // take_back.cc. Undoes the records that the ledger has refused, after which the ledger accepts records again. If it
  // throws std::bad_alloc, it has undone nothing, and the ledger goes on refusing records.
  void UndoRefusedRecords();
  void MakeRoomToUndo();
  void DropBuyersWithoutUnits() noexcept;
  void UndoRecord(const LedgerRecord& refused) STOCKADE_REQUIRES(sku_changes_mutex_);
  void UndoSkuChange(const LedgerRecord& refused) STOCKADE_REQUIRES(sku_changes_mutex_);
  void UndoReturn(const LedgerRecord& refused, OrderRecord& order);
  // Moves the units of a line back, and returns how.
  static Transfer UndoMove(Item& item, LedgerRecord::Kind kind, int64_t units);

  // recover.cc
  absl::Status RecoverFromLedger();
  // What came back, and by what.
  struct Returns {
    ReturnedUnits units;
    std::map<OrderId, const LedgerState::Change*> by_id = {};
  };
  // An order of which units came back is kept from then on: sets `ended_at`.
  absl::StatusOr<Returns> RecoverReturns(LedgerState& state) const;
  absl::Status RecoverForgotten(const LedgerState& state);
  absl::Status RecoverSku(const LedgerState::Sku& sku, int64_t taken);
  // `without_buyer`: units of the SKU that forgotten orders have sold, less those of the buyers before this one.
  absl::Status RecoverBought(const LedgerState::Bought& bought, int64_t& without_buyer);
  // Or a restock or a return, as its OrderRecord has it.
  absl::Status RecoverOrder(LedgerState::Order& order, const Returns& returns, Instant now, absl::Time wall);

  struct CrashPoints {
    std::string_view before;
    std::string_view appended;
    std::string_view given;
  };
  // If an item has a limit, MakeRoomForBuyer() comes first.
  void CountTaken(const OrderRecord& record) noexcept;
  // OK: changes can be written down, as far as is known.
  absl::Status Ready() {
    const bool sound = ledger_ == nullptr && !closing_.load(std::memory_order_relaxed);
    return sound ? absl::OkStatus() : AskLedger();
  }
  absl::Status AskLedger();
  // ResourceExhausted: it refuses.
  absl::Status LedgerHealth() const;
  // Carries every change to its end: its locks are held, it was decided, and what it takes has left the shards. `make`
  // returns its record, which is appended, if there is a ledger. Only then does `give`, which gets the record's
  // position and cannot fail, put units into the shards, and change what others see: so every prefix of the journal
  // covers what was taken. Throws only if `make` or the ledger does, and nothing is appended then.
  template <typename Make, typename Give>
  uint64_t Carry(CrashPoints at, Make make, Give give) {
    CrashPoint(at.before);
    const uint64_t position = ledger_ == nullptr ? 0 : ledger_->Append(make());
    [&]() noexcept {
      CrashPoint(at.appended);
      give(position);
      CrashPoint(at.given);
    }();
    return position;
  }

  // Null: none of this name. It may have been removed.
  Item* FindItem(std::string_view sku) {
    const RankedReadLock lock(catalogue_mutex_);
    return Named(sku);
  }
  Item* Named(std::string_view sku) STOCKADE_REQUIRES_SHARED(catalogue_mutex_) {
    const NamedItem* const found = FindNamed(sku);
    return found == nullptr ? nullptr : found->item.get();
  }
  NamedItem* FindNamed(std::string_view sku) STOCKADE_REQUIRES_SHARED(catalogue_mutex_) {
    return items_.Find(absl::HashOf(AbslView(sku)), [&](const NamedItem& named) { return named.item->sku == sku; });
  }
  Item* InsertItem(std::string_view sku, const SkuOptions& options, int64_t granted, int64_t available)
      STOCKADE_REQUIRES(catalogue_mutex_);
  // Locked where an item has a limit.
  BuyerBook::Lock LockBuyer(bool has_limit, const std::string& buyer);
  std::vector<std::unique_lock<Ranked<ReentrantMutex>>> LockAllOrders();
  SkuSnapshot SnapshotOf(const Item& item) const;
  void AddGauges();
  // Calls the registry, so no lock may be held. Without memory the SKU has none, or some of them.
  void AddSkuGauges(const Item& item) noexcept STOCKADE_EXCLUDES(sku_changes_mutex_, catalogue_mutex_);

  // Held while a SKU is added, removed, restocked or resharded, and while refused records are taken back. With all
  // stripes locked too, every change is both in memory and in the journal, or in neither.
  Ranked<ReentrantMutex> sku_changes_mutex_{LockRank::kSkuChanges, 0, "inventory SKU changes"};
  Ranked<ReentrantSharedMutex> catalogue_mutex_{LockRank::kCatalogue, 0, "inventory catalogue"};
  // By their names. Only an item whose addition is refused leaves.
  OpenTable<NamedItem, NamedItem::Hash> items_ STOCKADE_GUARDED_BY(catalogue_mutex_);
  uint32_t next_item_number_ STOCKADE_GUARDED_BY(catalogue_mutex_) = 0;
  // Refused by the ledger. Callers that looked them up may still use them. Has room for all that may be refused.
  std::vector<std::unique_ptr<Item>> never_added_ STOCKADE_GUARDED_BY(catalogue_mutex_);
  BuyerBook buyers_;
  OrderBook orders_;
  const std::string name_;
  RequestChecks checks_;
  std::unique_ptr<Ledger> ledger_;  // Null: memory only.
  Clock* const clock_;
  std::unique_ptr<Reaper> reaper_;
  size_t next_to_expire_ = 0;  // A stripe, modulo their number. Of the reaper's thread alone.
  const int32_t max_shards_;
  ForkGuard fork_guard_;
  // From the beginning of the destructor on, which has the ledger's last callbacks run: they find nothing but refusals.
  // Set with sku_changes_mutex_ held.
  std::atomic<bool> closing_{false};
  const absl::Duration retention_;
  const absl::Duration max_hold_;
  SkuMetrics sku_metrics_;
  ComponentMetrics metrics_;
  ComponentMetrics stock_metrics_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_LOCAL_CORE_H_
