#include "core.h"

#include "refuse.h"
#include "stockade/base/strings.h"

namespace stockade {

using internal::Concat;

Inventory::Core::Core(InventoryOptions options)
    : name_(std::move(options.name)),
      ledger_(std::move(options.ledger)),
      clock_(options.clock),
      stripe_count_(static_cast<size_t>(options.stripes)),
      buyer_stripes_(std::make_unique<BuyerStripe[]>(stripe_count_)),
      request_stripes_(std::make_unique<RequestStripe[]>(stripe_count_)),
      index_stripes_(std::make_unique<IndexStripe[]>(stripe_count_)),
      metrics_(options.metrics, internal::InventoryMetricDefs(), {{"inventory", name_}}) {
  AddGauge(internal::kAvailableUnits, [](const Item& item) { return item.stock.ApproximateAvailable(); });
  AddGauge(internal::kHeldUnits, [](const Item& item) { return item.held.load(std::memory_order_relaxed); });
  AddGauge(internal::kSoldUnits, [](const Item& item) { return item.sold.load(std::memory_order_relaxed); });
}

// The reaper uses everything else.
Inventory::Core::~Core() { reaper_.reset(); }

void Inventory::Core::AddGauge(internal::InventoryMetric metric, int64_t (*read)(const Item&)) {
  metrics_.AddGauge(metric, [this, read] {
    double sum = 0;
    std::shared_lock lock(items_mutex_);
    for (const auto& [sku, item] : items_) sum += static_cast<double>(read(*item));
    return sum;
  });
}

absl::Status Inventory::Core::Refused(Refusal refusal, std::string_view what) const {
  return internal::Refuse(refusal, Concat("Inventory '", name_, "': ", what));
}

absl::Status Inventory::Core::NoSuchOrder(OrderId id) const {
  return absl::NotFoundError(Concat("Inventory '", name_, "': there is no order ", id));
}

uint64_t Inventory::Core::Append(LedgerRecord record) {
  return ledger_ == nullptr ? 0 : ledger_->Append(std::move(record));
}

absl::Status Inventory::Core::AwaitDurable(uint64_t position) const {
  if (position == 0) return absl::OkStatus();
  absl::Status durable = ledger_->AwaitDurable(position);
  if (durable.ok()) return durable;
  return Refused(Refusal::kUnavailable, Concat("not known to be durable: ", durable.message()));
}

absl::Status Inventory::Core::Health() const {
  if (ledger_ == nullptr) return absl::OkStatus();
  absl::Status health = ledger_->Health();
  if (health.ok()) return health;
  return Refused(Refusal::kUnavailable, Concat("the ledger has failed: ", health.message()));
}

absl::Status Inventory::Core::AddSku(std::string_view sku, const SkuOptions& options) {
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  if (sku.empty()) return Refused(Refusal::kInvalid, "AddSku: the sku is empty");
  if (absl::Status valid = options.Validate(); !valid.ok()) {
    return Refused(Refusal::kInvalid, Concat("AddSku '", sku, "': ", valid.message()));
  }
  uint64_t position;
  {
    std::lock_guard lock(items_mutex_);
    if (items_.contains(sku)) {
      return absl::AlreadyExistsError(Concat("Inventory '", name_, "': there is a SKU '", sku, "' already"));
    }
    auto item = std::make_unique<Item>(std::string(sku), options, options.stock, &metrics_);
    // Appended before anybody can find the SKU and append what needs it.
    position = Append({.kind = LedgerRecord::Kind::kAddSku,
                       .sku = item->sku,
                       .quantity = options.stock,
                       .shards = item->stock.shards(),
                       .per_buyer_limit = options.per_buyer_limit});
    items_.emplace(item->sku, std::move(item));
  }
  return AwaitDurable(position);
}

absl::Status Inventory::Core::Restock(std::string_view sku, int64_t units) {
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  if (units < 1) {
    return Refused(Refusal::kInvalid, Concat("Restock '", sku, "': ", units, " units; at least one can be added"));
  }
  Item* const item = FindItem(sku);
  if (item == nullptr) return Refused(Refusal::kUnknownSku, Concat("Restock: there is no SKU '", sku, "'"));
  uint64_t position;
  {
    std::lock_guard lock(item->restock_mutex);
    const int64_t granted = item->granted.load(std::memory_order_relaxed);
    if (units > kMaxUnits - granted) {
      return absl::OutOfRangeError(Concat("Inventory '", name_, "': Restock '", sku, "': ", units, " units on top of ",
                                          granted, " are more than ", kMaxUnits));
    }
    position = Append({.kind = LedgerRecord::Kind::kRestock, .sku = item->sku, .quantity = units});
    item->granted.store(granted + units, std::memory_order_relaxed);
    // Cannot fail: what is in the shards is at most what was granted.
    (void)item->stock.Deposit(units);
  }
  if (absl::Status durable = AwaitDurable(position); !durable.ok()) return durable;
  metrics_.Add(internal::kRestocks);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Inventory::Core::Available(std::string_view sku) {
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  const Item* const item = FindItem(sku);
  if (item == nullptr) return Refused(Refusal::kUnknownSku, Concat("there is no SKU '", sku, "'"));
  return item->stock.Available();
}

absl::StatusOr<StockFigures> Inventory::Core::Figures(std::string_view sku) {
  Item* const item = FindItem(sku);
  if (item == nullptr) return Refused(Refusal::kUnknownSku, Concat("there is no SKU '", sku, "'"));
  std::vector<std::unique_lock<ReentrantMutex>> stripes;
  for (size_t i = 0; i < stripe_count_; ++i) stripes.emplace_back(request_stripes_[i].mutex);
  std::lock_guard lock(item->restock_mutex);
  return StockFigures{.granted = item->granted.load(std::memory_order_relaxed),
                      .available = item->stock.Available(),
                      .held = item->held.load(std::memory_order_relaxed),
                      .sold = item->sold.load(std::memory_order_relaxed)};
}

internal::Item* Inventory::Core::FindItem(std::string_view sku) {
  std::shared_lock lock(items_mutex_);
  const auto found = items_.find(sku);
  return found == items_.end() ? nullptr : found->second.get();
}

internal::OrderRecord* Inventory::Core::FindOrder(OrderId id) {
  IndexStripe& stripe = index_stripes_[id % stripe_count_];
  std::shared_lock lock(stripe.mutex);
  const auto found = stripe.orders.find(id);
  return found == stripe.orders.end() ? nullptr : found->second;
}

void Inventory::Core::Index(OrderRecord& record) {
  IndexStripe& stripe = index_stripes_[record.id % stripe_count_];
  std::lock_guard lock(stripe.mutex);
  stripe.orders.emplace(record.id, &record);
}

Inventory::Core::RequestStripe& Inventory::Core::StripeOf(const std::string& request_id) {
  return request_stripes_[std::hash<std::string>()(request_id) % stripe_count_];
}

Inventory::Core::BuyerStripe& Inventory::Core::BuyerStripeOf(const std::string& buyer) {
  return buyer_stripes_[std::hash<std::string>()(buyer) % stripe_count_];
}

std::unique_lock<ReentrantMutex> Inventory::Core::LockBuyer(const Item& item, const std::string& buyer) {
  if (item.per_buyer_limit == 0) return {};
  return std::unique_lock(BuyerStripeOf(buyer).mutex);
}

}  // namespace stockade
