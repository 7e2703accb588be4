#include "stockade/inventory/inventory.h"

#include <utility>

#include "local_core.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {

inventory_internal::InventoryCore::~InventoryCore() = default;

using base_internal::Concat;

namespace {

// Before anything has changed: nobody could use the order.
template <typename Callback>
void CheckCallback(const Callback& done, std::string_view call) {
  if (!done) base_internal::Fatal(Concat("Inventory: ", call, "() was called without a callback"));
}

}  // namespace

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
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  auto core = std::make_unique<inventory_internal::LocalCore>(std::move(options));
  if (absl::Status recovered = core->Recover(); !recovered.ok()) return recovered;
  return std::unique_ptr<Inventory>(new Inventory(std::move(core)));
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

absl::Status Inventory::AddSku(std::string_view sku, const SkuOptions& options) { return core().AddSku(sku, options); }

absl::Status Inventory::EnsureSku(std::string_view sku, const SkuOptions& options) {
  return core().EnsureSku(sku, options);
}

absl::Status Inventory::RemoveSku(std::string_view sku) { return core().RemoveSku(sku); }

absl::Status Inventory::Restock(const RestockRequest& request) {
  return core().Restock(request.sku, request.quantity, &request.request_id);
}

absl::Status Inventory::Restock(std::string_view sku, int64_t units) { return core().Restock(sku, units, nullptr); }

absl::Status Inventory::Reshard(std::string_view sku, int32_t shards) { return core().Reshard(sku, shards); }

absl::StatusOr<Reservation> Inventory::Reserve(const ReserveRequest& request) { return core().Reserve(request); }

void Inventory::ReserveAsync(const ReserveRequest& request, Executor& executor,
                             absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) {
  CheckCallback(done, "ReserveAsync");
  core().ReserveAsync(request, executor, std::move(done));
}

std::vector<absl::StatusOr<Reservation>> Inventory::ReserveMany(std::span<const ReserveRequest> requests) {
  return core().ReserveMany(requests);
}

absl::StatusOr<BasketReservation> Inventory::ReserveBasket(const BasketRequest& request) {
  return core().ReserveBasket(request);
}

void Inventory::ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                   absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) {
  CheckCallback(done, "ReserveBasketAsync");
  core().ReserveBasketAsync(request, executor, std::move(done));
}

absl::StatusOr<Order> Inventory::Take(const TakeRequest& request) { return core().Take(request); }

void Inventory::TakeAsync(const TakeRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<Order>)> done) {
  CheckCallback(done, "TakeAsync");
  core().TakeAsync(request, executor, std::move(done));
}

std::vector<absl::StatusOr<Order>> Inventory::TakeMany(std::span<const TakeRequest> requests) {
  return core().TakeMany(requests);
}

absl::Status Inventory::Commit(OrderId id) { return core().Commit(id); }

void Inventory::CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  CheckCallback(done, "CommitAsync");
  core().CommitAsync(id, executor, std::move(done));
}

std::vector<absl::Status> Inventory::CommitMany(std::span<const OrderId> ids) { return core().CommitMany(ids); }

absl::Status Inventory::Cancel(OrderId id) { return core().Cancel(id); }

void Inventory::CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  CheckCallback(done, "CancelAsync");
  core().CancelAsync(id, executor, std::move(done));
}

std::vector<absl::Status> Inventory::CancelMany(std::span<const OrderId> ids) { return core().CancelMany(ids); }

absl::StatusOr<OrderState> Inventory::StateOf(OrderId id) const { return core().StateOf(id); }

absl::StatusOr<int64_t> Inventory::Available(std::string_view sku) const { return core().Available(sku); }

absl::StatusOr<StockFigures> Inventory::Figures(std::string_view sku) const { return core().Figures(sku); }

absl::StatusOr<SkuSnapshot> Inventory::Snapshot(std::string_view sku) const { return core().Snapshot(sku); }

std::vector<SkuSnapshot> Inventory::Snapshot() const { return core().Snapshot(); }

absl::Status Inventory::Health() const { return core().Health(); }

inventory_internal::InventoryCore& Inventory::core() const {
  core_->CheckNotForked();
  return *core_;
}

}  // namespace stockade
