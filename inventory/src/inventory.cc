#include "stockade/inventory/inventory.h"

#include <utility>

#include "core.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {

using base_internal::Concat;

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
  auto core = std::make_unique<Core>(std::move(options));
  if (absl::Status recovered = core->Recover(); !recovered.ok()) return recovered;
  return std::unique_ptr<Inventory>(new Inventory(std::move(core)));
}

Inventory::Inventory(InventoryOptions options) {
  absl::StatusOr<std::unique_ptr<Inventory>> made = Create(std::move(options));
  if (!made.ok()) base_internal::Fatal(Concat(made.status().message()));
  core_ = std::move((*made)->core_);
}

Inventory::Inventory(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Inventory::~Inventory() {
  // In a forked child: the reaper, and any thread that held a lock, stayed with the parent.
  if (core_ != nullptr && core_->InForkedChild()) (void)core_.release();
}

absl::Status Inventory::AddSku(std::string_view sku, const SkuOptions& options) {
  core_->CheckNotForked();
  return core_->AddSku(sku, options);
}

absl::Status Inventory::RemoveSku(std::string_view sku) {
  core_->CheckNotForked();
  return core_->RemoveSku(sku);
}

absl::Status Inventory::Restock(const RestockRequest& request) {
  core_->CheckNotForked();
  return core_->Restock(request.sku, request.quantity, &request.request_id);
}

absl::Status Inventory::Restock(std::string_view sku, int64_t units) {
  core_->CheckNotForked();
  return core_->Restock(sku, units, nullptr);
}

absl::Status Inventory::Reshard(std::string_view sku, int32_t shards) {
  core_->CheckNotForked();
  return core_->Reshard(sku, shards);
}

absl::StatusOr<OrderState> Inventory::StateOf(OrderId id) const {
  core_->CheckNotForked();
  return core_->StateOf(id);
}

absl::StatusOr<int64_t> Inventory::Available(std::string_view sku) const {
  core_->CheckNotForked();
  return core_->Available(sku);
}

absl::StatusOr<StockFigures> Inventory::Figures(std::string_view sku) const {
  core_->CheckNotForked();
  return core_->Figures(sku);
}

absl::StatusOr<SkuSnapshot> Inventory::Snapshot(std::string_view sku) const {
  core_->CheckNotForked();
  return core_->Snapshot(sku);
}

std::vector<SkuSnapshot> Inventory::Snapshot() const {
  core_->CheckNotForked();
  return core_->Snapshot();
}

absl::Status Inventory::Health() const {
  core_->CheckNotForked();
  return core_->Health();
}

}  // namespace stockade
