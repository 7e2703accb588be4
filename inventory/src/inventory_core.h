#ifndef STOCKADE_INVENTORY_INVENTORY_CORE_H_
#define STOCKADE_INVENTORY_INVENTORY_CORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "order_call.h"
#include "stockade/base/clock.h"
#include "stockade/base/export.h"
#include "stockade/base/timer_queue.h"
#include "stockade/inventory/inventory.h"

namespace stockade::inventory_internal {

// A change of a SKU, with the fields that its kind uses.
struct SkuCall {
  enum class Kind { kAdd, kEnsure, kRemove, kRestock, kReshard };

  Kind kind;
  std::string_view name;  // Of the call, for messages.
  std::string_view sku;
  const SkuOptions* options = nullptr;      // kAdd, kEnsure
  int64_t units = 0;                        // kRestock
  const std::string* request_id = nullptr;  // kRestock; null without one.
  int32_t shards = 0;                       // kReshard
};

// A question, with the fields that its kind uses, and then its answer.
struct ReadCall {
  enum class Kind { kState, kAvailable, kFigures, kSnapshot, kSnapshots };

  Kind kind;
  std::string_view name = {};  // Of the call, for messages.
  std::string_view sku = {};   // kAvailable, kFigures, kSnapshot
  OrderId order = 0;           // kState

  OrderState state = OrderState::kHeld;
  SkuSnapshot of_sku = {};  // As far as the kind tells it.
  std::vector<SkuSnapshot> all = {};
};

// What stands behind an Inventory. Its calls have the contract that inventory.h states; call_forms.cc has their forms.
// Inventory calls CheckNotForked() before each of the others, and destroys the core unless it is InForkedChild().
//
// A call may throw std::bad_alloc if it has changed nothing. Inventory returns NoMemory() then.
class STOCKADE_EXPORT InventoryCore {
 public:
  // `clock` is that of the time-outs, and must outlive this.
  explicit InventoryCore(Clock* clock) : clock_(*clock), timers_(clock) {}
  virtual ~InventoryCore();

  InventoryCore(const InventoryCore&) = delete;
  InventoryCore& operator=(const InventoryCore&) = delete;

  // Asks for all `calls`, which are of one type, and blocks until each has its answer. Calls with one request id are
  // asked one after another.
  virtual void Await(std::span<OrderCall* const> calls) = 0;
  // Asks for `call`, and has it Deliver() its answer once it has that, perhaps at once. Throws std::bad_alloc if it was
  // not asked for.
  virtual void Notify(std::shared_ptr<OrderCall> call) = 0;
  virtual absl::Status ChangeSku(const SkuCall& call) = 0;
  virtual absl::Status Read(ReadCall& call) = 0;
  virtual absl::Status Health() const = 0;

  // kUnavailable: nothing has changed, because there is no memory. A copy of it allocates nothing.
  virtual const absl::Status& NoMemory() const = 0;

  // Aborts in a forked child, naming the inventory.
  virtual void CheckNotForked() const = 0;
  virtual bool InForkedChild() const = 0;

  Clock& clock() { return clock_; }
  base_internal::TimerQueue& timers() { return timers_; }

 private:
  Clock& clock_;
  base_internal::TimerQueue timers_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_INVENTORY_CORE_H_
