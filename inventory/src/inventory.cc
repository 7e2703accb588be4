#include "stockade/inventory/inventory.h"

#include <new>
#include <utility>

#include "local_core.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {

using base_internal::Concat;

inventory_internal::InventoryCore::~InventoryCore() = default;

absl::Status InventoryOptions::Validate() const {
  if (absl::Status valid = base_internal::CheckName("Inventory: name", name); !valid.ok()) return valid;
  const auto bad = [&](const auto&... what) {
    return absl::InvalidArgumentError(Concat("Inventory '", name, "': ", what...));
  };
  if (clock == nullptr) return bad("clock is null");
  if (stripes < 1 || stripes > 4096) return bad("stripes is ", stripes, ", which is not within 1 to 4096");
  if (retention <= absl::ZeroDuration())
    return bad("retention is ", absl::FormatDuration(retention), ", which is not above 0");
  if (max_hold < absl::ZeroDuration() || max_hold > inventory_internal::kForever) {
    return bad("max_hold is ", absl::FormatDuration(max_hold), ", which is not within 0 to 36,500 days");
  }
  if (max_shards < 0 || max_shards > kMaxShards) {
    return bad("max_shards is ", max_shards, ", which is not within 0 to ", kMaxShards);
  }
  if (sku_metrics < 0) return bad("sku_metrics is ", sku_metrics, ", which is below 0");
  return absl::OkStatus();
}

absl::Status SkuOptions::Validate() const {
  const auto bad = [](const auto&... what) { return absl::InvalidArgumentError(Concat(what...)); };
  if (stock < 0 || stock > kMaxUnits) return bad("stock is ", stock, ", which is not within 0 to ", kMaxUnits);
  if (shards < 0 || shards > kMaxShards) return bad("shards is ", shards, ", which is not within 0 to ", kMaxShards);
  if (per_buyer_limit < 0) return bad("per_buyer_limit is ", per_buyer_limit, ", which is below 0");
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

}  // namespace stockade
