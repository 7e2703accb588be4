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

#include "absl/functional/any_invocable.h"
#include "buyer_book.h"
#include "inventory_core.h"
#include "inventory_metrics.h"
#include "order_book.h"
#include "order_record.h"
#include "ranked_mutex.h"
#include "reaper.h"
#include "request_checks.h"
#include "sku_metrics.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/mutex.h"
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
  using OrderRef = std::shared_ptr<const OrderRecord>;

  // The answer to a request, which may be a refusal. It is valid once the record at `position` is durable.
  struct GrantResult {
    absl::StatusOr<OrderRef> order;
    uint64_t position = 0;
    OrderState state = OrderState::kHeld;  // Of the order, at `position`.
    Instant start;
    bool timed = false;  // For stockade_inventory_reserve_seconds.
  };
  struct PendingStatus {
    absl::Status status = {};
    uint64_t position = 0;
  };

  explicit LocalCore(InventoryOptions options);
  ~LocalCore() override;

  // Once, before any other call: takes over what the ledger recovered, and starts the reaper.
  absl::Status Recover();

  absl::Status AddSku(std::string_view sku, const SkuOptions& options) override;
  absl::Status EnsureSku(std::string_view sku, const SkuOptions& options) override;
  absl::Status RemoveSku(std::string_view sku) override;
  absl::Status Restock(std::string_view sku, int64_t units, const std::string* request_id) override;
  absl::Status Reshard(std::string_view sku, int32_t shards) override;

  // call_forms.cc
  absl::StatusOr<Reservation> Reserve(const ReserveRequest& request) override;
  void ReserveAsync(const ReserveRequest& request, Executor& executor,
                    absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) override;
  std::vector<absl::StatusOr<Reservation>> ReserveMany(std::span<const ReserveRequest> requests) override;
  absl::StatusOr<BasketReservation> ReserveBasket(const BasketRequest& request) override;
  void ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) override;
  absl::StatusOr<Order> Take(const TakeRequest& request) override;
  void TakeAsync(const TakeRequest& request, Executor& executor,
                 absl::AnyInvocable<void(absl::StatusOr<Order>)> done) override;
  std::vector<absl::StatusOr<Order>> TakeMany(std::span<const TakeRequest> requests) override;
  absl::Status Commit(OrderId id) override;
  void CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) override;
  std::vector<absl::Status> CommitMany(std::span<const OrderId> ids) override;
  absl::Status Cancel(OrderId id) override;
  void CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) override;
  std::vector<absl::Status> CancelMany(std::span<const OrderId> ids) override;

  absl::StatusOr<OrderState> StateOf(OrderId id) override;
  absl::StatusOr<int64_t> Available(std::string_view sku) override;
  absl::StatusOr<StockFigures> Figures(std::string_view sku) override;
  absl::StatusOr<SkuSnapshot> Snapshot(std::string_view sku) override;
  std::vector<SkuSnapshot> Snapshot() override;
  absl::Status Health() const override;

  void CheckNotForked() const override { fork_guard_.Check("Inventory", name_); }
  bool InForkedChild() const override { return fork_guard_.InForkedChild(); }

  // What the forms of the calls above consist of. These do not wait for the ledger, and what they return is passed to
  // Finish(), whatever it is.
  GrantResult Grant(const ReserveRequest& request);
  GrantResult Grant(const TakeRequest& request);
  GrantResult Grant(const BasketRequest& request);
  // Cancels the order if it `gives_back` its units; otherwise commits it.
  PendingStatus EndOrder(OrderId id, bool gives_back);

  // The answer, given whether it is durable.
  absl::StatusOr<OrderRef> Finish(GrantResult granted, const absl::Status& durable);
  absl::Status Finish(PendingStatus settled, const absl::Status& durable);
  absl::Status AwaitDurable(uint64_t position) const;
  // Calls `done` as soon as AwaitDurable() would return, with what it would return; perhaps at once.
  void WhenDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done);

 private:
  // Any of the requests.
  struct Request {
    OrderKind kind;
    std::span<const RequestLine> lines;  // Each SKU once, ascending.
    const std::string& request_id;
    const std::string& buyer;
    absl::Duration ttl;
  };

  // grant.cc. FindOrTake() also needs the buyer's lock if an item has a limit. It sets granted.timed, and
  // granted.position to the position of the record that the answer depends on.
  GrantResult GrantLines(Request request);
  absl::Status CheckRequest(Request& request) const;
  absl::StatusOr<OrderBook::Ref> FindOrTake(const Request& request, uint64_t fingerprint, ItemLines lines,
                                            OrderBook::Stripe& stripe, GrantResult& granted)
      STOCKADE_REQUIRES(stripe.mutex);
  bool IsTimed(uint64_t counted) const;
  absl::Status CheckBuyer(const Request& request, const ItemLines& lines);
  absl::Status CheckSame(const Request& request, const OrderRecord& record) const;
  absl::Status TakeUnits(const Request& request, const ItemLines& lines);
  absl::Status Short(const ItemLine& wanted) const;

  // catalogue.cc
  // `may_exist`: OK if an item of this name is for sale on the same terms.
  absl::Status AddItem(std::string_view call, std::string_view sku, const SkuOptions& options, bool may_exist);
  // If the request has an id, needs its stripe locked; otherwise `stripe` is null.
  PendingStatus Deposit(const Request& request, OrderBook::Stripe* stripe, uint64_t fingerprint)
      STOCKADE_REQUIRES(sku_changes_mutex_);

  // settle.cc
  absl::Status CommitLocked(OrderBook::Stripe& stripe, OrderRecord& record, Instant now)
      STOCKADE_REQUIRES(stripe.mutex);
  absl::Status CancelLocked(OrderBook::Stripe& stripe, OrderRecord& record, Instant now)
      STOCKADE_REQUIRES(stripe.mutex);
  void GiveBack(OrderBook::Stripe& stripe, OrderRecord& record, LedgerRecord::Kind kind, OrderState state, Instant now)
      STOCKADE_REQUIRES(stripe.mutex);
  // The pause before an expiry that the ledger refused is tried again: it must not be repeated without end while there
  // is no room.
  static constexpr absl::Duration kExpiryRetry = absl::Seconds(1);
  // Ends a held record whose deadline has come.
  void Expire(OrderBook::Stripe& stripe, OrderRecord& record, Instant now) STOCKADE_REQUIRES(stripe.mutex);
  // Ends the order that is due first, if one is. Returns the position of its last record.
  std::optional<uint64_t> ExpireFirst(OrderBook::Stripe& stripe, Instant now);
  // Ends some of the orders that are due, and waits for the ledger with no lock held. Returns when to end the next
  // ones; nothing: no more will end.
  std::optional<absl::Duration> ExpireDue();

  // take_back.cc. Undoes the records that the ledger has refused, after which the ledger accepts records again.
  void UndoRefusedRecords();
  void UndoRecord(const LedgerRecord& refused) STOCKADE_REQUIRES(sku_changes_mutex_);
  void UndoSkuChange(const LedgerRecord& refused) STOCKADE_REQUIRES(sku_changes_mutex_);
  void UndoGrant(OrderBook::Stripe& stripe, const OrderBook::Ref& record) STOCKADE_REQUIRES(stripe.mutex);
  void UndoEnd(OrderBook::Stripe& stripe, OrderRecord& record, LedgerRecord::Kind kind) STOCKADE_REQUIRES(stripe.mutex);

  // recover.cc
  absl::Status RecoverFromLedger();
  absl::Status RecoverForgotten(const LedgerState& state);
  absl::Status RecoverSku(const LedgerState::Sku& sku, int64_t taken);
  // `without_buyer`: units of the SKU that forgotten orders have sold, less those of the buyers before this one.
  absl::Status RecoverBought(const LedgerState::Bought& bought, int64_t& without_buyer);
  absl::Status RecoverOrder(const LedgerState::Order& order);
  absl::Status RecoverRestock(const LedgerState::Restock& restock);

  void CountTaken(const OrderRecord& record);
  // OK: changes can be written down, as far as is known.
  absl::Status Ready();
  // ResourceExhausted: it refuses.
  absl::Status LedgerHealth() const;
  // Appends what `make` returns, if there is a ledger; its position.
  template <typename Make>
  uint64_t Append(Make make) {
    return ledger_ == nullptr ? 0 : ledger_->Append(make());
  }

  // Null: none of this name. It may have been removed.
  Item* FindItem(std::string_view sku);
  Item* InsertItem(std::string_view sku, const SkuOptions& options, int64_t granted, int64_t available)
      STOCKADE_REQUIRES(catalogue_mutex_);
  // Locked where an item has a limit.
  BuyerBook::Lock LockBuyer(bool has_limit, const std::string& buyer);
  std::vector<std::unique_lock<Ranked<ReentrantMutex>>> LockAllOrders();
  SkuSnapshot SnapshotOf(const Item& item) const;
  void AddGauges();
  // Calls the registry, so no lock may be held.
  void AddSkuGauges(const Item& item) STOCKADE_EXCLUDES(sku_changes_mutex_, catalogue_mutex_);

  // Held while a SKU is added, removed or restocked, and while refused records are taken back. With all stripes locked
  // too, every change is both in memory and in the journal, or in neither.
  Ranked<ReentrantMutex> sku_changes_mutex_{LockRank::kSkuChanges, 0, "inventory SKU changes"};
  Ranked<ReentrantSharedMutex> catalogue_mutex_{LockRank::kCatalogue, 0, "inventory catalogue"};
  // Its items stay where they are; only an item whose addition is refused leaves.
  std::map<std::string, std::unique_ptr<Item>, std::less<>> items_ STOCKADE_GUARDED_BY(catalogue_mutex_);
  uint32_t next_item_number_ STOCKADE_GUARDED_BY(catalogue_mutex_) = 0;
  // Refused by the ledger. Callers that looked them up may still use them.
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
  base_internal::ForkGuard fork_guard_;
  // From the beginning of the destructor on, which has the ledger's last callbacks run: they find nothing but refusals.
  // Set with sku_changes_mutex_ held.
  std::atomic<bool> closing_{false};
  const absl::Duration retention_;
  SkuMetrics sku_metrics_;
  metrics_internal::ComponentMetrics metrics_;
  metrics_internal::ComponentMetrics stock_metrics_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_LOCAL_CORE_H_
