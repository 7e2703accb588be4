#include "core.h"

#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {

using base_internal::Concat;

Inventory::Core::Core(InventoryOptions options)
    : buyers_(static_cast<size_t>(options.stripes)),
      orders_(static_cast<size_t>(options.stripes), options.retention),
      name_(std::move(options.name)),
      ledger_(std::move(options.ledger)),
      clock_(options.clock),
      max_shards_(options.max_shards),
      retention_(options.retention),
      sku_metrics_(options.metrics, name_, options.sku_metrics),
      metrics_(options.metrics, inventory_internal::InventoryMetricDefs(), {{"inventory", name_}}) {
  AddGauges();
}

// The reaper uses everything else, and what the ledger still has to tell all but the reaper.
Inventory::Core::~Core() {
  {
    const base_internal::MutexLock lock(sku_changes_mutex_);
    closing_.store(true, std::memory_order_seq_cst);
  }
  reaper_.reset();
  ledger_.reset();
}

absl::Status Inventory::Core::Refused(Refusal refusal, std::string_view what) const {
  return inventory_internal::Refuse(refusal, Concat("Inventory '", name_, "': ", what));
}

absl::Status Inventory::Core::CheckLength(std::string_view what, std::string_view name, size_t most) const {
  if (name.size() <= most) return absl::OkStatus();
  // Without the name itself: the text may go to a log.
  return Refused(Refusal::kInvalid,
                 Concat("the ", what, " has ", name.size(), " bytes; at most ", most, " are allowed"));
}

absl::Status Inventory::Core::NoSuchOrder(OrderId id) const {
  return absl::NotFoundError(Concat("Inventory '", name_, "': there is no order ", id));
}

absl::Status Inventory::Core::NoSuchSku(std::string_view call, std::string_view sku) const {
  if (absl::Status valid = CheckLength("sku", sku, max_sku_bytes_); !valid.ok()) return valid;
  return Refused(Refusal::kUnknownSku, Concat(call, ": there is no SKU '", base_internal::Printable(sku, 100), "'"));
}

absl::Status Inventory::Core::AwaitDurable(uint64_t position) const {
  return position == 0 ? absl::OkStatus() : ledger_->AwaitDurable(position);
}

void Inventory::Core::WhenDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) {
  if (position == 0) {
    done(absl::OkStatus());
  } else {
    ledger_->NotifyDurable(position, std::move(done));
  }
}

absl::Status Inventory::Core::Finish(PendingStatus settled, const absl::Status& durable) {
  if (durable.ok()) {
    if (settled.position != 0) orders_.NoteDurable(settled.position);
    return std::move(settled.status);
  }
  if (absl::IsResourceExhausted(durable)) {
    UndoRefusedRecords();
    return Refused(Refusal::kUnavailable, Concat("nothing has changed: ", durable.message()));
  }
  return Refused(Refusal::kUnavailable, Concat("not known to be durable: ", durable.message()));
}

absl::Status Inventory::Core::Ready() {
  absl::Status health = LedgerHealth();
  // If there is no room later, the operation that meets this is refused then.
  if (absl::IsResourceExhausted(health)) {
    UndoRefusedRecords();
    return absl::OkStatus();
  }
  return health.ok() ? health : Refused(Refusal::kUnavailable, Concat(health.message()));
}

absl::Status Inventory::Core::Health() const {
  absl::Status health = LedgerHealth();
  return health.ok() ? health : Refused(Refusal::kUnavailable, Concat(health.message()));
}

absl::Status Inventory::Core::LedgerHealth() const {
  if (closing_.load(std::memory_order_relaxed)) [[unlikely]]
    return absl::UnavailableError("it is being destroyed");
  if (ledger_ == nullptr) return absl::OkStatus();
  absl::Status health = ledger_->Health();
  if (health.ok()) return health;
  return absl::Status(health.code(), Concat("the ledger writes nothing: ", health.message()));
}

absl::StatusOr<int64_t> Inventory::Core::Available(std::string_view sku) {
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  const inventory_internal::RankedReadLock lock(catalogue_mutex_);
  const auto found = items_.find(sku);
  if (found == items_.end() || found->second->removed()) return NoSuchSku("Available", sku);
  return found->second->stock->Available();
}

absl::StatusOr<StockFigures> Inventory::Core::Figures(std::string_view sku) {
  Item* const item = FindItem(sku);
  if (item == nullptr) return NoSuchSku("Figures", sku);
  const auto orders = LockAllOrders();
  const base_internal::MutexLock lock(item->mutex);
  return StockFigures{.granted = item->granted(),
                      .available = item->removed() ? 0 : item->stock->Available(),
                      .held = item->units.held(),
                      .sold = item->units.sold()};
}

inventory_internal::Item* Inventory::Core::FindItem(std::string_view sku) {
  const inventory_internal::RankedReadLock lock(catalogue_mutex_);
  const auto found = items_.find(sku);
  return found == items_.end() ? nullptr : found->second.get();
}

inventory_internal::BuyerBook::Lock Inventory::Core::LockBuyer(bool has_limit, const std::string& buyer) {
  return has_limit ? buyers_.LockFor(buyer) : inventory_internal::BuyerBook::Lock();
}

std::vector<std::unique_lock<inventory_internal::Ranked<ReentrantMutex>>> Inventory::Core::LockAllOrders() {
  std::vector<std::unique_lock<inventory_internal::Ranked<ReentrantMutex>>> locks;
  locks.reserve(orders_.stripe_count());
  for (size_t i = 0; i < orders_.stripe_count(); ++i) locks.emplace_back(orders_.stripe(i).mutex);
  return locks;
}

}  // namespace stockade
