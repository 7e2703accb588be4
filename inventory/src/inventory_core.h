#ifndef STOCKADE_INVENTORY_INVENTORY_CORE_H_
#define STOCKADE_INVENTORY_INVENTORY_CORE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/inventory/inventory.h"

namespace stockade::inventory_internal {

// What stands behind an Inventory: one function for each of its calls, with the contract that inventory.h states.
// Inventory calls CheckNotForked() before each of the others, and destroys the core unless it is InForkedChild().
//
// A call may throw std::bad_alloc if it has changed nothing and has no callback. Inventory returns NoMemory() then.
class STOCKADE_EXPORT InventoryCore {
 public:
  InventoryCore();
  virtual ~InventoryCore();

  InventoryCore(const InventoryCore&) = delete;
  InventoryCore& operator=(const InventoryCore&) = delete;

  virtual absl::Status AddSku(std::string_view sku, const SkuOptions& options) = 0;
  virtual absl::Status EnsureSku(std::string_view sku, const SkuOptions& options) = 0;
  virtual absl::Status RemoveSku(std::string_view sku) = 0;
  // `request_id`: null without one.
  virtual absl::Status Restock(std::string_view sku, int64_t units, const std::string* request_id) = 0;
  virtual absl::Status Reshard(std::string_view sku, int32_t shards) = 0;

  virtual absl::StatusOr<Reservation> Reserve(const ReserveRequest& request) = 0;
  virtual void ReserveAsync(const ReserveRequest& request, Executor& executor,
                            absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) = 0;
  virtual std::vector<absl::StatusOr<Reservation>> ReserveMany(std::span<const ReserveRequest> requests) = 0;

  virtual absl::StatusOr<BasketReservation> ReserveBasket(const BasketRequest& request) = 0;
  virtual void ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                  absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) = 0;

  virtual absl::StatusOr<Order> Take(const TakeRequest& request) = 0;
  virtual void TakeAsync(const TakeRequest& request, Executor& executor,
                         absl::AnyInvocable<void(absl::StatusOr<Order>)> done) = 0;
  virtual std::vector<absl::StatusOr<Order>> TakeMany(std::span<const TakeRequest> requests) = 0;

  virtual absl::Status Commit(OrderId id) = 0;
  virtual void CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) = 0;
  virtual std::vector<absl::Status> CommitMany(std::span<const OrderId> ids) = 0;

  virtual absl::Status Cancel(OrderId id) = 0;
  virtual void CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) = 0;
  virtual std::vector<absl::Status> CancelMany(std::span<const OrderId> ids) = 0;

  virtual absl::StatusOr<OrderState> StateOf(OrderId id) = 0;
  virtual absl::StatusOr<int64_t> Available(std::string_view sku) = 0;
  virtual absl::StatusOr<StockFigures> Figures(std::string_view sku) = 0;
  virtual absl::StatusOr<SkuSnapshot> Snapshot(std::string_view sku) = 0;
  virtual std::vector<SkuSnapshot> Snapshot() = 0;
  virtual absl::Status Health() const = 0;

  // kUnavailable: nothing has changed, because there is no memory. A copy of it allocates nothing.
  virtual const absl::Status& NoMemory() const;

  // Aborts in a forked child, naming the inventory.
  virtual void CheckNotForked() const = 0;
  virtual bool InForkedChild() const = 0;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_INVENTORY_CORE_H_
