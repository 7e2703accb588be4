// What people and pages see of the SKUs and orders.

#include <algorithm>
#include <new>
#include <utility>

#include "local_core.h"

namespace stockade::inventory_internal {

SkuSnapshot LocalCore::SnapshotOf(const Item& item) const {
  StockSnapshot stock = item.stock->Snapshot();
  return {.sku = item.sku,
          .granted = item.granted(),
          .available = stock.units,
          .held = item.units.held(),
          .sold = item.units.sold(),
          .per_buyer_limit = item.per_buyer_limit,
          .sold_out = stock.units == 0,
          .shards = item.stock->shards(),
          .shard_units = std::move(stock.shard_units)};
}

absl::Status LocalCore::Read(ReadCall& call) {
  switch (call.kind) {
    case ReadCall::Kind::kState: return ReadState(call);
    case ReadCall::Kind::kFigures: return ReadFigures(call);
    case ReadCall::Kind::kAvailable:
    case ReadCall::Kind::kSnapshot: return ReadSku(call);
    case ReadCall::Kind::kSnapshots: break;
  }
  const RankedReadLock lock(catalogue_mutex_);
  call.all.reserve(items_.size());
  items_.ForEach([&](const NamedItem& named) {
    if (!named.item->removed()) call.all.push_back(SnapshotOf(*named.item));
  });
  std::ranges::sort(call.all, {}, &SkuSnapshot::sku);
  return absl::OkStatus();
}

absl::Status LocalCore::Find(OrderCall& call) {
  if (closing_.load(std::memory_order_relaxed)) return Health();  // A callback of the ledger's destructor.
  const FindRequest& find = *call.find;
  if (absl::Status valid = checks_.CheckFind(find); !valid.ok()) return valid;
  const bool by_id = find.order != 0;
  const uint64_t fingerprint = by_id ? 0 : orders_.FingerprintOf(find.request_id);
  OrderBook::Stripe* const stripe = by_id ? orders_.StripeOfOrder(find.order) : &orders_.StripeOf(fingerprint);
  if (stripe == nullptr) return checks_.NoSuchOrder(find);
  for (;;) {
    OrderBook::Ref record;
    {
      const MutexLock lock(stripe->mutex);
      const Instant now = clock_->Now();
      if (by_id) {
        record = orders_.FindById(*stripe, find.order, now);
      } else {
        OrderBook::Found found = orders_.Find(*stripe, fingerprint, find.request_id, *clock_);
        // Nothing is said of a request before it is durable.
        if (found.record != nullptr) call.position = found.record->position;
        if (found.forgotten && !find.buyer.has_value()) return checks_.ForgottenOrder(find);
        if (!found.forgotten) record = std::move(found.record);
      }
      if (record == nullptr || record->buyer != find.buyer.value_or(record->buyer)) return checks_.NoSuchOrder(find);
      if (!IsGrant(record->kind)) return checks_.IsNoOrder(find, record->change != nullptr);
      if (!record->IsDue(now)) {
        const bool is_held = record->state == OrderState::kHeld;
        call.position = record->position;
        OrderInfo info{.id = record->id,
                       .state = record->state,
                       .request_id = record->request_id,
                       .buyer = record->buyer,
                       .expires_at = is_held ? record->expires_at + record->extended : absl::InfiniteFuture()};
        info.lines.reserve(record->lines.size());
        for (const auto& [item, quantity, returned] : record->lines) {
          info.lines.push_back({.sku = item->sku, .quantity = quantity, .returned = returned});
        }
        call.Make(std::move(info));
        return absl::OkStatus();
      }
    }
    // The answer will say that it has expired, so a record has to say so first.
    if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
    (void)Expire(*stripe, record);
  }
}

absl::Status LocalCore::ReadState(ReadCall& call) {
  OrderBook::Stripe* const stripe = orders_.StripeOfOrder(call.order);
  if (stripe == nullptr) return checks_.NoSuchOrder(call.order);
  const MutexLock lock(stripe->mutex);
  const Instant now = clock_->Now();
  const OrderBook::Ref record = orders_.FindById(*stripe, call.order, now);
  if (record == nullptr) return checks_.NoSuchOrder(call.order);
  call.state = record->IsDue(now) ? OrderState::kExpired : record->state;
  return absl::OkStatus();
}

absl::Status LocalCore::ReadFigures(ReadCall& call) {
  Item* const item = FindItem(call.sku);
  if (item == nullptr) return checks_.NoSuchSku(call.name, call.sku);
  const auto orders = LockAllOrders();
  const MutexLock lock(item->mutex);
  call.of_sku.granted = item->granted();
  call.of_sku.available = item->removed() ? 0 : item->stock->Available();
  call.of_sku.held = item->units.held();
  call.of_sku.sold = item->units.sold();
  return absl::OkStatus();
}

absl::Status LocalCore::ReadSku(ReadCall& call) {
  const bool exact = call.kind == ReadCall::Kind::kAvailable;
  if (absl::Status healthy = exact ? Ready() : absl::OkStatus(); !healthy.ok()) return healthy;
  const RankedReadLock lock(catalogue_mutex_);
  const Item* const item = Named(call.sku);
  if (item == nullptr || item->removed()) return checks_.NoSuchSku(call.name, call.sku);
  if (!exact) call.of_sku = SnapshotOf(*item);
  if (exact) call.of_sku.available = item->stock->Available();
  return absl::OkStatus();
}

void LocalCore::AddGauges() {
  const auto over_all = [this](StockMetric metric, auto read, auto combine) {
    stock_metrics_.AddGauge(metric, [this, read, combine] {
      double result = 0;
      const RankedReadLock lock(catalogue_mutex_);
      items_.ForEach([&](const NamedItem& named) { result = combine(result, static_cast<double>(read(*named.item))); });
      return result;
    });
  };
  const std::plus<> sum;
  over_all(kAvailableUnits, &AvailableUnits, sum);
  over_all(
      kHeldUnits, [](const Item& item) { return item.units.held(); }, sum);
  over_all(
      kSoldUnits, [](const Item& item) { return item.units.sold(); }, sum);
  over_all(
      kOversoldUnits, [](const Item& item) { return item.Oversold(); }, sum);
  stock_metrics_.AddGauge(kBuyersOverLimit, [this] { return static_cast<double>(buyers_.over_limit()); });
  over_all(
      kShardImbalance, [](const Item& item) { return item.removed() ? 0 : item.stock->Imbalance(); },
      [](double a, double b) { return std::max(a, b); });
}

void LocalCore::AddSkuGauges(const Item& item) noexcept try {
  ComponentMetrics* const metrics = sku_metrics_.Add(item.sku);
  if (metrics == nullptr) return;
  const auto add = [&](SkuMetric metric, auto read) {
    metrics->AddGauge(metric, [this, &item, read] {
      const RankedReadLock lock(catalogue_mutex_);
      return static_cast<double>(read(item));
    });
  };
  add(kSkuAvailableUnits, &AvailableUnits);
  add(kSkuHeldUnits, [](const Item& of) { return of.units.held(); });
  add(kSkuSoldUnits, [](const Item& of) { return of.units.sold(); });
} catch (const std::bad_alloc&) {  // The SKU is added, and can be sold.
}

}  // namespace stockade::inventory_internal
