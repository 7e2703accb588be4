// How a request gets its units: once.

#include <algorithm>

#include "core.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using base_internal::Concat;
using inventory_internal::OrderKind;

// More than this does not fit a clock of nanoseconds; nobody waits for it either.
const absl::Duration kForever = absl::Hours(24 * 36500);

// One grant in so many of a thread is timed where there is no ledger, the first one being the first: a reading of the
// clock is a tenth of one. The help of stockade_inventory_reserve_seconds states it.
constexpr uint64_t kReserveSampling = 64;

// Rounded down to what the ledger keeps.
absl::Duration WholeMicroseconds(absl::Duration ttl) {
  return ttl >= kForever ? absl::InfiniteDuration() : absl::Microseconds(absl::ToInt64Microseconds(ttl));
}

absl::Time WholeMicroseconds(absl::Time at) {
  return at == absl::InfiniteFuture() ? at : absl::FromUnixMicros(absl::ToUnixMicros(at));
}

// As the ledger keeps it.
LedgerRecord Written(const inventory_internal::OrderRecord& record) {
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

Inventory::Core::GrantResult Inventory::Core::Grant(const ReserveRequest& request) {
  const Line line{.sku = request.sku, .quantity = request.quantity};
  return GrantLines({.kind = OrderKind::kReserve,
                     .lines = {&line, 1},
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = request.ttl});
}

Inventory::Core::GrantResult Inventory::Core::Grant(const TakeRequest& request) {
  const Line line{.sku = request.sku, .quantity = request.quantity};
  return GrantLines({.kind = OrderKind::kTake,
                     .lines = {&line, 1},
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = absl::InfiniteDuration()});
}

Inventory::Core::GrantResult Inventory::Core::GrantLines(Request request) {
  GrantResult granted{.order = OrderRef(), .start = clock_->Now()};
  granted.order = [&]() -> absl::StatusOr<OrderRef> {
    if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
    if (absl::Status valid = CheckRequest(request); !valid.ok()) return valid;
    ItemLines lines;
    bool has_limit = false;
    {
      const inventory_internal::RankedReadLock lock(catalogue_mutex_);
      for (const Line& line : request.lines) {
        const auto found = items_.find(line.sku);
        lines.push_back({.item = found == items_.end() ? nullptr : found->second.get(), .quantity = line.quantity});
        // One that is unknown may be added, and sold to this very request, before the stripe is locked.
        has_limit |= lines.back().item == nullptr || lines.back().item->per_buyer_limit != 0;
      }
    }
    const uint64_t fingerprint = orders_.FingerprintOf(request.request_id);
    OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
    const inventory_internal::BuyerBook::Lock buyer_lock = LockBuyer(has_limit, request.buyer);
    const base_internal::MutexLock lock(stripe.mutex);
    absl::StatusOr<OrderBook::Ref> order = FindOrTake(request, fingerprint, std::move(lines), stripe, granted);
    if (!order.ok()) return order.status();
    granted.state = (*order)->state;
    return OrderRef(*std::move(order));
  }();
  return granted;
}

absl::StatusOr<Inventory::Core::OrderRef> Inventory::Core::Finish(GrantResult granted, const absl::Status& durable) {
  if (absl::Status known = Finish(PendingStatus{.position = granted.position}, durable); !known.ok())
    granted.order = known;
  if (!granted.order.ok()) {
    metrics_.Add(inventory_internal::RefusalMetric(RefusalOf(granted.order.status())));
  } else if (granted.timed) {
    metrics_.ObserveSpan(inventory_internal::kReserveSeconds, granted.start, clock_->Now());
  }
  return std::move(granted.order);
}

absl::Status Inventory::Core::CheckRequest(Request& request) const {
  if (absl::Status valid = CheckNames(request.request_id, request.buyer); !valid.ok()) return valid;
  for (const Line& line : request.lines) {
    absl::Status valid = CheckLine(request.request_id, line.sku, line.quantity);
    if (!valid.ok()) return valid;
  }
  request.ttl = WholeMicroseconds(request.ttl);
  if (request.ttl <= absl::ZeroDuration()) {
    return Refused(Refusal::kInvalid, Concat("request '", request.request_id, "' has a ttl below a microsecond"));
  }
  return absl::OkStatus();
}

absl::Status Inventory::Core::CheckNames(std::string_view request_id, std::string_view buyer) const {
  if (request_id.empty()) return Refused(Refusal::kInvalid, "the request_id is empty");
  if (absl::Status valid = CheckLength("request_id", request_id, kMaxRequestIdBytes); !valid.ok()) return valid;
  return CheckLength("buyer", buyer, kMaxBuyerBytes);
}

absl::Status Inventory::Core::CheckLine(const std::string& request_id, std::string_view sku, int64_t quantity) const {
  if (absl::Status valid = CheckLength("sku", sku, max_sku_bytes_); !valid.ok()) return valid;
  if (quantity >= 1) return absl::OkStatus();
  return Refused(Refusal::kInvalid, Concat("request '", request_id, "' wants ", quantity, " units of '", sku,
                                           "'; the quantity must be at least 1"));
}

absl::StatusOr<inventory_internal::OrderBook::Ref> Inventory::Core::FindOrTake(const Request& request,
                                                                               uint64_t fingerprint, ItemLines lines,
                                                                               OrderBook::Stripe& stripe,
                                                                               GrantResult& granted) {
  const Instant now = granted.start;
  OrderBook::Found found = orders_.Find(stripe, fingerprint, request.request_id, now);
  // A repeat waits, too, also if it is refused: nothing is said of the first request before that is durable.
  if (found.record != nullptr) granted.position = found.record->position;
  if (found.forgotten) {
    return Forgotten(request.request_id);
  }
  if (found.record != nullptr) {
    if (absl::Status same = CheckSame(request, *found.record); !same.ok()) return same;
    if (const Instant at = clock_->Now(); found.record->IsDue(at)) {
      Expire(stripe, *found.record, at);
      granted.position = found.record->position;
    }
    granted.timed = IsTimed(metrics_.Add(inventory_internal::kRepeats));
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
  granted.timed = IsTimed(metrics_.Add(reserve ? inventory_internal::kReservations : inventory_internal::kTakes));
  return record;
}

// By what the thread has counted of the kind; 0 without metrics.
bool Inventory::Core::IsTimed(uint64_t counted) const {
  return ledger_ != nullptr ? counted > 0 : counted % kReserveSampling == 1;
}

absl::Status Inventory::Core::TakeUnits(const Request& request, const ItemLines& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const Item* const item = lines[i].item;
    if (item != nullptr && !item->removed()) continue;
    return Refused(Refusal::kUnknownSku, Concat("there is no SKU '", request.lines[i].sku, "'"));
  }
  if (lines.size() == 1) {
    return lines[0].item->stock->Take(lines[0].quantity) ? absl::OkStatus() : Short(*lines[0].item, lines[0].quantity);
  }
  absl::InlinedVector<StockLine, 4> wanted;
  wanted.reserve(lines.size());
  for (const auto& [item, quantity] : lines) wanted.push_back({.stock = item->stock.get(), .units = quantity});
  const StockLine* const missing = ShardedStock::TakeTogether(wanted);
  return missing == nullptr ? absl::OkStatus() : Short(*lines[missing - wanted.data()].item, missing->units);
}

absl::Status Inventory::Core::Short(const Item& item, int64_t wanted) const {
  // What is neither sold nor there is held, or on its way.
  if (item.granted() - item.units.sold() >= wanted) {
    return Refused(Refusal::kAllHeld, Concat("'", item.sku, "' has fewer than ", wanted,
                                             " units left, but some are held and may come back"));
  }
  return Refused(Refusal::kSoldOut, Concat("'", item.sku, "' is sold out: fewer than ", wanted, " units left"));
}

// Adds the record's units to what is held, sold and the buyer's.
void Inventory::Core::CountTaken(const OrderRecord& record) {
  for (const inventory_internal::ItemLine& line : record.lines) {
    line.item->units.Take(line.quantity);
    if (record.state == OrderState::kSold) line.item->units.Sell(line.quantity);
    // Of a removed SKU nobody asks any more; recovery meets those.
    if (line.item->per_buyer_limit == 0 || line.item->removed()) continue;
    buyers_.Add(*line.item, record.buyer, line.quantity);
  }
}

absl::Status Inventory::Core::CheckBuyer(const Request& request, const ItemLines& lines) {
  for (const inventory_internal::ItemLine& line : lines) {
    if (line.item == nullptr || line.item->per_buyer_limit == 0 || line.item->removed()) continue;
    const Item& item = *line.item;
    if (request.buyer.empty()) {
      return Refused(Refusal::kInvalid, Concat("'", item.sku, "' has a limit per buyer, and request '",
                                               request.request_id, "' names no buyer"));
    }
    const int64_t has = buyers_.Units(item, request.buyer);
    if (line.quantity <= item.per_buyer_limit - has) continue;
    return Refused(Refusal::kBuyerLimit,
                   Concat("buyer '", request.buyer, "' has ", has, " units of '", item.sku, "' and wants ",
                          line.quantity, " more, but a buyer may have ", item.per_buyer_limit));
  }
  return absl::OkStatus();
}

absl::Status Inventory::Core::Forgotten(const std::string& request_id) const {
  return Refused(Refusal::kRequestForgotten,
                 Concat("request id '", request_id, "' was used before, and its answer is no longer kept"));
}

absl::Status Inventory::Core::CheckSame(const Request& request, const OrderRecord& record) const {
  const auto differs = [&](std::string_view what) {
    return Refused(Refusal::kRequestMismatch,
                   Concat("request id '", request.request_id, "' was used before, with another ", what));
  };
  if (request.kind != record.kind) return differs("call (one of Reserve, ReserveBasket, Take and Restock)");
  if (request.buyer != record.buyer) return differs("buyer");
  if (!std::ranges::equal(request.lines, record.lines, {}, &Line::sku,
                          [](const inventory_internal::ItemLine& line) { return std::string_view(line.item->sku); })) {
    return differs("sku");
  }
  if (!std::ranges::equal(request.lines, record.lines, {}, &Line::quantity, &inventory_internal::ItemLine::quantity)) {
    return differs("quantity");
  }
  // A ledger that does not keep the ttl leaves an infinite one beside a finite expires_at: nothing to compare with.
  const bool ttl_known = record.ttl != absl::InfiniteDuration() || record.expires_at == absl::InfiniteFuture();
  if (request.kind != OrderKind::kTake && ttl_known && request.ttl != record.ttl) return differs("ttl");
  return absl::OkStatus();
}

}  // namespace stockade
