// How a request gets its units: once.

#include <algorithm>

#include "local_core.h"
#include "stockade/base/crash_point.h"

namespace stockade::inventory_internal {
namespace {

// One grant in so many of a thread is timed where there is no ledger, the first one being the first: a reading of the
// clock is a tenth of one. The help of stockade_inventory_reserve_seconds states it.
constexpr uint64_t kReserveSampling = 64;

// As the ledger keeps it.
LedgerRecord Written(const OrderRecord& record) {
  LedgerRecord written{.kind = LedgerRecord::Kind::kReserveBasket,
                       .order_id = record.id,
                       .request_id = record.request_id,
                       .buyer = record.buyer,
                       .expires_at = record.expires_at,
                       .ttl = record.ttl};
  if (record.kind == OrderKind::kBasket) {
    written.lines = inventory_internal::LinesOf(record);
    return written;
  }
  written.kind = record.kind == OrderKind::kReserve ? LedgerRecord::Kind::kReserve : LedgerRecord::Kind::kTake;
  written.sku = record.lines[0].item->sku;
  written.quantity = record.lines[0].quantity;
  return written;
}

}  // namespace

LocalCore::GrantResult LocalCore::Grant(const ReserveRequest& request) {
  const RequestLine line{.sku = request.sku, .quantity = request.quantity};
  return GrantLines({.kind = OrderKind::kReserve,
                     .lines = {&line, 1},
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = request.ttl});
}

LocalCore::GrantResult LocalCore::Grant(const TakeRequest& request) {
  const RequestLine line{.sku = request.sku, .quantity = request.quantity};
  return GrantLines({.kind = OrderKind::kTake,
                     .lines = {&line, 1},
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = absl::InfiniteDuration()});
}

LocalCore::GrantResult LocalCore::Grant(const BasketRequest& request) {
  absl::StatusOr<std::vector<RequestLine>> lines = checks_.SumUp(request);
  if (!lines.ok()) return {.order = std::move(lines).status(), .start = clock_->Now()};
  return GrantLines({.kind = OrderKind::kBasket,
                     .lines = *lines,
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = request.ttl});
}

LocalCore::GrantResult LocalCore::GrantLines(Request request) {
  GrantResult granted{.order = OrderRef(), .start = clock_->Now()};
  granted.order = [&]() -> absl::StatusOr<OrderRef> {
    if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
    if (absl::Status valid = CheckRequest(request); !valid.ok()) return valid;
    ItemLines lines;
    bool has_limit = false;
    {
      const RankedReadLock lock(catalogue_mutex_);
      for (const RequestLine& line : request.lines) {
        const auto found = items_.find(line.sku);
        lines.push_back({.item = found == items_.end() ? nullptr : found->second.get(), .quantity = line.quantity});
        // One that is unknown may be added, and sold to this very request, before the stripe is locked.
        has_limit |= lines.back().item == nullptr || lines.back().item->per_buyer_limit != 0;
      }
    }
    const uint64_t fingerprint = orders_.FingerprintOf(request.request_id);
    OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
    const BuyerBook::Lock buyer_lock = LockBuyer(has_limit, request.buyer);
    const base_internal::MutexLock lock(stripe.mutex);
    absl::StatusOr<OrderBook::Ref> order = FindOrTake(request, fingerprint, std::move(lines), stripe, granted);
    if (!order.ok()) return order.status();
    granted.state = (*order)->state;
    return OrderRef(*std::move(order));
  }();
  return granted;
}

absl::StatusOr<LocalCore::OrderRef> LocalCore::Finish(GrantResult granted, const absl::Status& durable) {
  if (absl::Status known = Finish(PendingStatus{.position = granted.position}, durable); !known.ok())
    granted.order = known;
  if (!granted.order.ok()) {
    metrics_.Add(RefusalMetric(RefusalOf(granted.order.status())));
  } else if (granted.timed) {
    metrics_.ObserveSpan(kReserveSeconds, granted.start, clock_->Now());
  }
  return std::move(granted.order);
}

absl::Status LocalCore::CheckRequest(Request& request) const {
  if (absl::Status valid = checks_.CheckNames(request.request_id, request.buyer); !valid.ok()) return valid;
  for (const RequestLine& line : request.lines) {
    absl::Status valid = checks_.CheckLine(request.request_id, line.sku, line.quantity);
    if (!valid.ok()) return valid;
  }
  return checks_.CheckTtl(request.request_id, request.ttl);
}

absl::StatusOr<OrderBook::Ref> LocalCore::FindOrTake(const Request& request, uint64_t fingerprint, ItemLines lines,
                                                     OrderBook::Stripe& stripe, GrantResult& granted) {
  const Instant now = granted.start;
  OrderBook::Found found = orders_.Find(stripe, fingerprint, request.request_id, now);
  // A repeat waits, too, also if it is refused: nothing is said of the first request before that is durable.
  if (found.record != nullptr) granted.position = found.record->position;
  if (found.forgotten) return checks_.Forgotten(request.request_id);
  if (found.record != nullptr) {
    if (absl::Status same = CheckSame(request, *found.record); !same.ok()) return same;
    if (const Instant at = clock_->Now(); found.record->IsDue(at)) {
      Expire(stripe, *found.record, at);
      granted.position = found.record->position;
    }
    granted.timed = IsTimed(metrics_.Add(kRepeats));
    return std::move(found.record);
  }
  if (absl::Status allowed = CheckBuyer(request, lines); !allowed.ok()) return allowed;
  if (absl::Status taken = TakeUnits(request, lines); !taken.ok()) return taken;
  const bool reserve = request.kind != OrderKind::kTake;
  const auto record = std::make_shared<OrderRecord>(
      OrderRecord{.id = orders_.NextId(stripe),
                  .fingerprint = fingerprint,
                  .kind = request.kind,
                  .lines = std::move(lines),
                  .request_id = request.request_id,
                  .buyer = request.buyer,
                  .ttl = request.ttl,
                  .expires_at = reserve ? WholeMicroseconds(clock_->WallNow() + request.ttl) : absl::InfiniteFuture(),
                  .deadline = reserve ? now + request.ttl : Instant::InfiniteFuture(),
                  .state = reserve ? OrderState::kHeld : OrderState::kSold,
                  .ended_at = reserve ? Instant::InfiniteFuture() : now});
  CountTaken(*record);
  base_internal::CrashPoint("grant: units taken, before the append");
  record->position = Append([&] { return Written(*record); });
  base_internal::CrashPoint("grant: appended");
  granted.position = record->position;
  if (orders_.Add(stripe, record, now)) reaper_->WakeBy(record->deadline);
  granted.timed = IsTimed(metrics_.Add(reserve ? kReservations : kTakes));
  return record;
}

// By what the thread has counted of the kind; 0 without metrics.
bool LocalCore::IsTimed(uint64_t counted) const {
  return ledger_ != nullptr ? counted > 0 : counted % kReserveSampling == 1;
}

absl::Status LocalCore::TakeUnits(const Request& request, const ItemLines& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const Item* const item = lines[i].item;
    if (item != nullptr && !item->removed()) continue;
    return checks_.UnknownSku(request.lines[i].sku);
  }
  if (lines.size() == 1) {
    return lines[0].item->stock->Take(lines[0].quantity) ? absl::OkStatus() : Short(lines[0]);
  }
  absl::InlinedVector<StockLine, 4> wanted;
  wanted.reserve(lines.size());
  for (const auto& [item, quantity] : lines) wanted.push_back({.stock = item->stock.get(), .units = quantity});
  const StockLine* const missing = ShardedStock::TakeTogether(wanted);
  return missing == nullptr ? absl::OkStatus() : Short(lines[static_cast<size_t>(missing - wanted.data())]);
}

absl::Status LocalCore::Short(const ItemLine& wanted) const {
  // What is neither sold nor there is held, or on its way.
  const Item& item = *wanted.item;
  return checks_.Short({.sku = item.sku, .quantity = wanted.quantity}, item.granted() - item.units.sold());
}

// Adds the record's units to what is held, sold and the buyer's.
void LocalCore::CountTaken(const OrderRecord& record) {
  for (const ItemLine& line : record.lines) {
    line.item->units.Take(line.quantity);
    if (record.state == OrderState::kSold) line.item->units.Sell(line.quantity);
    // Of a removed SKU nobody asks any more; recovery meets those.
    if (line.item->per_buyer_limit == 0 || line.item->removed()) continue;
    buyers_.Add(*line.item, record.buyer, line.quantity);
  }
}

absl::Status LocalCore::CheckBuyer(const Request& request, const ItemLines& lines) {
  for (const ItemLine& line : lines) {
    if (line.item == nullptr || line.item->per_buyer_limit == 0 || line.item->removed()) continue;
    const Item& item = *line.item;
    if (request.buyer.empty()) return checks_.MissingBuyer(request.request_id, item.sku);
    const int64_t has = buyers_.Units(item, request.buyer);
    if (line.quantity <= item.per_buyer_limit - has) continue;
    return checks_.OverBuyerLimit(request.buyer, has, {.sku = item.sku, .quantity = line.quantity},
                                  item.per_buyer_limit);
  }
  return absl::OkStatus();
}

absl::Status LocalCore::CheckSame(const Request& request, const OrderRecord& record) const {
  const auto differs = [&](std::string_view what) { return checks_.Mismatch(request.request_id, what); };
  if (request.kind != record.kind) return differs(RequestChecks::kCallKind);
  if (request.buyer != record.buyer) return differs("buyer");
  if (!std::ranges::equal(request.lines, record.lines, {}, &RequestLine::sku,
                          [](const ItemLine& line) { return std::string_view(line.item->sku); })) {
    return differs("sku");
  }
  if (!std::ranges::equal(request.lines, record.lines, {}, &RequestLine::quantity, &ItemLine::quantity)) {
    return differs("quantity");
  }
  // A ledger that does not keep the ttl leaves an infinite one beside a finite expires_at: nothing to compare with.
  const bool ttl_known = record.ttl != absl::InfiniteDuration() || record.expires_at == absl::InfiniteFuture();
  if (request.kind != OrderKind::kTake && ttl_known && request.ttl != record.ttl) return differs("ttl");
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
