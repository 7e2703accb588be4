#include "stockade/inventory/inventory.h"

#include <new>
#include <type_traits>
#include <utility>

#include "local_core.h"
#include "refuse.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"
#include "stockade/locks/internal/thread_record.h"

namespace stockade {

using base_internal::Concat;

namespace {

// Made while there is memory, by the first inventory.
const absl::Status& NothingHasChanged() {
  static const absl::Status* const status = new absl::Status(
      inventory_internal::Refuse(Refusal::kUnavailable, "Inventory: nothing has changed: there is no memory"));
  return *status;
}

// Runs a call of `core`. Here a lack of memory becomes an answer. What a core changes before its last allocation, it
// says itself.
template <typename Call>
auto Guarded(const inventory_internal::InventoryCore& core, const Call& call) -> decltype(call()) {
  core.CheckNotForked();
  try {
    // No lock of the call allocates then. The process would end if one could not.
    locks_internal::ThreadRecord::Reserve(locks_internal::ThreadRecord::kUsualHolds);
    return call();
  } catch (const std::bad_alloc&) {
    if constexpr (std::is_constructible_v<decltype(call()), const absl::Status&>) {
      return core.NoMemory();
    } else {
      return {};  // There are no answers without memory.
    }
  }
}

// The same for a call that takes `done`.
template <typename Done, typename Call>
void GuardedAsync(const inventory_internal::InventoryCore& core, std::string_view name, Done& done, const Call& call) {
  // Before anything has changed: nobody could use the order.
  if (!done) base_internal::Fatal(Concat("Inventory: ", name, "() was called without a callback"));
  const absl::Status reserved = Guarded(core, [] { return absl::OkStatus(); });
  if (reserved.ok()) return call();
  std::move(done)(reserved);  // Not on the executor, which would need memory.
}

}  // namespace

inventory_internal::InventoryCore::InventoryCore() { (void)NothingHasChanged(); }

inventory_internal::InventoryCore::~InventoryCore() = default;

const absl::Status& inventory_internal::InventoryCore::NoMemory() const { return NothingHasChanged(); }

absl::Status InventoryOptions::Validate() const {
  if (absl::Status valid = base_internal::CheckName("Inventory: name", name); !valid.ok()) return valid;
  const auto bad = [&](std::string_view what) {
    return absl::InvalidArgumentError(Concat("Inventory '", name, "': ", what));
  };
  if (clock == nullptr) return bad("clock is null");
  if (stripes < 1 || stripes > 4096) return bad(Concat("stripes is ", stripes, ", which is not within 1 to 4096"));
  if (retention <= absl::ZeroDuration())
    return bad(Concat("retention is ", absl::FormatDuration(retention), ", which is not above 0"));
  if (max_shards < 0 || max_shards > kMaxShards) {
    return bad(Concat("max_shards is ", max_shards, ", which is not within 0 to ", kMaxShards));
  }
  if (sku_metrics < 0) return bad(Concat("sku_metrics is ", sku_metrics, ", which is below 0"));
  return absl::OkStatus();
}

absl::Status SkuOptions::Validate() const {
  if (stock < 0 || stock > kMaxUnits) {
    return absl::InvalidArgumentError(Concat("stock is ", stock, ", which is not within 0 to ", kMaxUnits));
  }
  if (shards < 0 || shards > kMaxShards) {
    return absl::InvalidArgumentError(Concat("shards is ", shards, ", which is not within 0 to ", kMaxShards));
  }
  if (per_buyer_limit < 0) {
    return absl::InvalidArgumentError(Concat("per_buyer_limit is ", per_buyer_limit, ", which is below 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Inventory>> Inventory::Create(InventoryOptions options) {
  try {
    if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
    auto core = std::make_unique<inventory_internal::LocalCore>(std::move(options));
    if (absl::Status recovered = core->Recover(); !recovered.ok()) return recovered;
    return std::unique_ptr<Inventory>(new Inventory(std::move(core)));
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kUnavailable, "");  // A text would take memory.
  }
}

Inventory::Inventory(InventoryOptions options) {
  absl::StatusOr<std::unique_ptr<Inventory>> made = Create(std::move(options));
  if (!made.ok()) base_internal::Fatal(Concat(made.status().message()));
  core_ = std::move((*made)->core_);
}

Inventory::Inventory(std::unique_ptr<inventory_internal::InventoryCore> core) : core_(std::move(core)) {}

Inventory::~Inventory() {
  // In a forked child: the reaper, and any thread that held a lock, stayed with the parent.
  if (core_ != nullptr && core_->InForkedChild()) (void)core_.release();
}

absl::Status Inventory::AddSku(std::string_view sku, const SkuOptions& options) {
  return Guarded(*core_, [&] { return core_->AddSku(sku, options); });
}

absl::Status Inventory::EnsureSku(std::string_view sku, const SkuOptions& options) {
  return Guarded(*core_, [&] { return core_->EnsureSku(sku, options); });
}

absl::Status Inventory::RemoveSku(std::string_view sku) {
  return Guarded(*core_, [&] { return core_->RemoveSku(sku); });
}

absl::Status Inventory::Restock(const RestockRequest& request) {
  return Guarded(*core_, [&] { return core_->Restock(request.sku, request.quantity, &request.request_id); });
}

absl::Status Inventory::Restock(std::string_view sku, int64_t units) {
  return Guarded(*core_, [&] { return core_->Restock(sku, units, nullptr); });
}

absl::Status Inventory::Reshard(std::string_view sku, int32_t shards) {
  return Guarded(*core_, [&] { return core_->Reshard(sku, shards); });
}

absl::StatusOr<Reservation> Inventory::Reserve(const ReserveRequest& request) {
  return Guarded(*core_, [&] { return core_->Reserve(request); });
}

void Inventory::ReserveAsync(const ReserveRequest& request, Executor& executor,
                             absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) {
  GuardedAsync(*core_, "ReserveAsync", done, [&] { core_->ReserveAsync(request, executor, std::move(done)); });
}

std::vector<absl::StatusOr<Reservation>> Inventory::ReserveMany(std::span<const ReserveRequest> requests) {
  return Guarded(*core_, [&] { return core_->ReserveMany(requests); });
}

absl::StatusOr<BasketReservation> Inventory::ReserveBasket(const BasketRequest& request) {
  return Guarded(*core_, [&] { return core_->ReserveBasket(request); });
}

void Inventory::ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                   absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) {
  GuardedAsync(*core_, "ReserveBasketAsync", done,
               [&] { core_->ReserveBasketAsync(request, executor, std::move(done)); });
}

absl::StatusOr<Order> Inventory::Take(const TakeRequest& request) {
  return Guarded(*core_, [&] { return core_->Take(request); });
}

void Inventory::TakeAsync(const TakeRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<Order>)> done) {
  GuardedAsync(*core_, "TakeAsync", done, [&] { core_->TakeAsync(request, executor, std::move(done)); });
}

std::vector<absl::StatusOr<Order>> Inventory::TakeMany(std::span<const TakeRequest> requests) {
  return Guarded(*core_, [&] { return core_->TakeMany(requests); });
}

absl::Status Inventory::Commit(OrderId id) {
  return Guarded(*core_, [&] { return core_->Commit(id); });
}

void Inventory::CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  GuardedAsync(*core_, "CommitAsync", done, [&] { core_->CommitAsync(id, executor, std::move(done)); });
}

std::vector<absl::Status> Inventory::CommitMany(std::span<const OrderId> ids) {
  return Guarded(*core_, [&] { return core_->CommitMany(ids); });
}

absl::Status Inventory::Cancel(OrderId id) {
  return Guarded(*core_, [&] { return core_->Cancel(id); });
}

void Inventory::CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  GuardedAsync(*core_, "CancelAsync", done, [&] { core_->CancelAsync(id, executor, std::move(done)); });
}

std::vector<absl::Status> Inventory::CancelMany(std::span<const OrderId> ids) {
  return Guarded(*core_, [&] { return core_->CancelMany(ids); });
}

absl::StatusOr<OrderState> Inventory::StateOf(OrderId id) const {
  return Guarded(*core_, [&] { return core_->StateOf(id); });
}

absl::StatusOr<int64_t> Inventory::Available(std::string_view sku) const {
  return Guarded(*core_, [&] { return core_->Available(sku); });
}

absl::StatusOr<StockFigures> Inventory::Figures(std::string_view sku) const {
  return Guarded(*core_, [&] { return core_->Figures(sku); });
}

absl::StatusOr<SkuSnapshot> Inventory::Snapshot(std::string_view sku) const {
  return Guarded(*core_, [&] { return core_->Snapshot(sku); });
}

std::vector<SkuSnapshot> Inventory::Snapshot() const {
  return Guarded(*core_, [&] { return core_->Snapshot(); });
}

absl::Status Inventory::Health() const {
  return Guarded(*core_, [&] { return core_->Health(); });
}

}  // namespace stockade
