#ifndef STOCKADE_INVENTORY_CORE_H_
#define STOCKADE_INVENTORY_CORE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "inventory_metrics.h"
#include "order_record.h"
#include "reaper.h"
#include "stockade/base/fork_guard.h"
#include "stockade/inventory/inventory.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {

// What an Inventory is made of.
//
// Lock order: buyer stripe; request stripes, ascending; an item's restock_mutex; an item's slow lock; its shards. Below
// those, each held alone and for a moment: items_mutex_, an index stripe's, the reaper's, the ledger's. The ledger is
// appended to under these locks, which is what orders its records, but waited for under none.
class Inventory::Core {
 public:
  // A ReserveRequest or a TakeRequest.
  struct Request {
    const std::string& sku;
    int64_t quantity;
    const std::string& request_id;
    const std::string& buyer;
    bool reserve;
    absl::Duration ttl;
  };

  explicit Core(InventoryOptions options);
  ~Core();

  // Once, before any other call: takes over what the ledger recovered, and starts the reaper.
  absl::Status Recover();

  absl::Status AddSku(std::string_view sku, const SkuOptions& options);
  absl::Status Restock(std::string_view sku, int64_t units);
  // The record lives as long as the inventory; its constant members may be read.
  absl::StatusOr<const internal::OrderRecord*> Grant(Request request);
  absl::Status Commit(OrderId id);
  absl::Status Cancel(OrderId id);
  absl::StatusOr<OrderState> StateOf(OrderId id);
  absl::StatusOr<int64_t> Available(std::string_view sku);
  absl::StatusOr<StockFigures> Figures(std::string_view sku);
  absl::Status Health() const;

  void CheckNotForked() const { fork_guard_.Check("Inventory", name_); }
  bool InForkedChild() const { return fork_guard_.InForkedChild(); }

 private:
  using Item = internal::Item;
  using OrderRecord = internal::OrderRecord;

  struct alignas(64) RequestStripe {
    ReentrantMutex mutex{LockOptions{.name = "inventory request stripe", .metrics = nullptr}};
    std::unordered_map<std::string, std::unique_ptr<OrderRecord>> records;  // By request id. Guarded by mutex.
  };
  struct alignas(64) BuyerStripe {
    ReentrantMutex mutex{LockOptions{.name = "inventory buyer stripe", .metrics = nullptr}};
    // Units held and bought, of SKUs with a limit: by SKU and buyer. Guarded by mutex. Never 0.
    std::map<std::pair<const Item*, std::string>, int64_t> units;
  };
  // Orders by id: every record that is in a request stripe.
  struct alignas(64) IndexStripe {
    std::shared_mutex mutex;
    std::unordered_map<OrderId, OrderRecord*> orders;  // Guarded by mutex.
  };

  absl::StatusOr<const OrderRecord*> GrantOrRefuse(Request& request);
  // These need the request's stripe, and the buyer's where the item has a limit.
  absl::StatusOr<OrderRecord*> FindOrTake(const Request& request, Item* item, RequestStripe& stripe);
  absl::Status CheckBuyer(const Request& request, const Item& item);
  absl::Status CheckSame(const Request& request, const OrderRecord& record) const;
  void GiveBack(OrderRecord& record, LedgerRecord::Kind kind, OrderState state);

  void Expire(OrderRecord& record);
  absl::Status RecoverSku(const LedgerState::Sku& sku, int64_t taken);
  absl::Status RecoverOrder(const LedgerState::Order& order);
  void Index(OrderRecord& record);
  void CountTaken(const OrderRecord& record);

  absl::Status Refused(Refusal refusal, std::string_view what) const;
  absl::Status NoSuchOrder(OrderId id) const;
  uint64_t Append(LedgerRecord record);
  absl::Status AwaitDurable(uint64_t position) const;

  Item* FindItem(std::string_view sku);
  OrderRecord* FindOrder(OrderId id);
  RequestStripe& StripeOf(const std::string& request_id);
  BuyerStripe& BuyerStripeOf(const std::string& buyer);
  // Locked where the item has a limit.
  std::unique_lock<ReentrantMutex> LockBuyer(const Item& item, const std::string& buyer);
  void AddGauge(internal::InventoryMetric metric, int64_t (*read)(const Item&));

  const std::string name_;
  const std::unique_ptr<Ledger> ledger_;  // Null: memory only.
  Clock* const clock_;
  const size_t stripe_count_;
  internal::ForkGuard fork_guard_;

  std::shared_mutex items_mutex_;
  std::map<std::string, std::unique_ptr<Item>, std::less<>> items_;  // Guarded by items_mutex_. Only grows.
  const std::unique_ptr<BuyerStripe[]> buyer_stripes_;
  const std::unique_ptr<RequestStripe[]> request_stripes_;
  const std::unique_ptr<IndexStripe[]> index_stripes_;
  std::atomic<OrderId> last_id_{0};
  std::unique_ptr<internal::Reaper> reaper_;
  internal::ComponentMetrics metrics_;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_CORE_H_
