// How a request gets its units: once.

#include "core.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using internal::Concat;

// More than this does not fit a clock of nanoseconds; nobody waits for it either.
const absl::Duration kForever = absl::Hours(24 * 36500);

// As the ledger keeps it.
absl::Duration WholeMicroseconds(absl::Duration ttl) {
  return ttl >= kForever ? absl::InfiniteDuration() : absl::Floor(ttl, absl::Microseconds(1));
}

absl::Time WholeMicroseconds(absl::Time at) {
  return at == absl::InfiniteFuture() ? at : absl::FromUnixMicros(absl::ToUnixMicros(at));
}

}  // namespace

absl::StatusOr<const internal::OrderRecord*> Inventory::Core::Grant(Request request) {
  const Instant start = clock_->Now();
  absl::StatusOr<const OrderRecord*> granted = GrantOrRefuse(request);
  if (granted.ok()) {
    metrics_.Observe(internal::kReserveSeconds, clock_->Now() - start);
  } else {
    metrics_.Add(internal::RefusalMetric(RefusalOf(granted.status())));
  }
  return granted;
}

absl::StatusOr<const internal::OrderRecord*> Inventory::Core::GrantOrRefuse(Request& request) {
  if (absl::Status healthy = Health(); !healthy.ok()) return healthy;
  if (request.request_id.empty()) return Refused(Refusal::kInvalid, "the request_id is empty");
  if (request.quantity < 1) {
    return Refused(Refusal::kInvalid, Concat("request '", request.request_id, "' wants ", request.quantity,
                                             " units; at least one can be taken"));
  }
  request.ttl = WholeMicroseconds(request.ttl);
  if (request.ttl <= absl::ZeroDuration()) {
    return Refused(Refusal::kInvalid, Concat("request '", request.request_id, "' has a ttl below a microsecond"));
  }
  Item* const item = FindItem(request.sku);
  RequestStripe& stripe = StripeOf(request.request_id);
  uint64_t position;
  OrderRecord* record;
  {
    std::unique_lock<ReentrantMutex> buyer_lock;
    if (item != nullptr) buyer_lock = LockBuyer(*item, request.buyer);
    std::lock_guard lock(stripe.mutex);
    absl::StatusOr<OrderRecord*> found = FindOrTake(request, item, stripe);
    if (!found.ok()) return found.status();
    record = *found;
    position = record->position;
  }
  // A repeat waits, too: the first answer is none before it is durable.
  if (absl::Status durable = AwaitDurable(position); !durable.ok()) return durable;
  return record;
}

absl::StatusOr<internal::OrderRecord*> Inventory::Core::FindOrTake(const Request& request, Item* item,
                                                                   RequestStripe& stripe) {
  if (const auto found = stripe.records.find(request.request_id); found != stripe.records.end()) {
    if (absl::Status same = CheckSame(request, *found->second); !same.ok()) return same;
    metrics_.Add(internal::kRepeats);
    return found->second.get();
  }
  if (item == nullptr) return Refused(Refusal::kUnknownSku, Concat("there is no SKU '", request.sku, "'"));
  if (absl::Status allowed = CheckBuyer(request, *item); !allowed.ok()) return allowed;
  if (!item->stock.Take(request.quantity)) {
    const int64_t unsold = item->granted.load(std::memory_order_relaxed) - item->sold.load(std::memory_order_relaxed);
    if (item->held.load(std::memory_order_relaxed) > 0 && unsold >= request.quantity) {
      return Refused(Refusal::kAllHeld, Concat("'", request.sku, "' has fewer than ", request.quantity,
                                               " units left, but some are held and may come back"));
    }
    return Refused(Refusal::kSoldOut,
                   Concat("'", request.sku, "' is sold out: fewer than ", request.quantity, " units left"));
  }
  const bool reserve = request.reserve;
  std::unique_ptr<OrderRecord> made(new OrderRecord{
      .id = last_id_.fetch_add(1, std::memory_order_relaxed) + 1,
      .item = item,
      .quantity = request.quantity,
      .request_id = request.request_id,
      .buyer = request.buyer,
      .reserved = reserve,
      .ttl = request.ttl,
      .expires_at = reserve ? WholeMicroseconds(clock_->WallNow() + request.ttl) : absl::InfiniteFuture(),
      .deadline = reserve ? clock_->Now() + request.ttl : Instant::InfiniteFuture(),
      .state = reserve ? OrderState::kHeld : OrderState::kSold});
  OrderRecord& record = *made;
  CountTaken(record);
  stripe.records.emplace(record.request_id, std::move(made));
  record.position = Append({.kind = reserve ? LedgerRecord::Kind::kReserve : LedgerRecord::Kind::kTake,
                            .order_id = record.id,
                            .request_id = record.request_id,
                            .sku = item->sku,
                            .quantity = record.quantity,
                            .buyer = record.buyer,
                            .expires_at = record.expires_at,
                            .ttl = record.ttl});
  Index(record);
  if (record.deadline != Instant::InfiniteFuture()) reaper_->Add(record);
  metrics_.Add(reserve ? internal::kReservations : internal::kTakes);
  return &record;
}

// Adds the record's units to what is held, sold and the buyer's.
void Inventory::Core::CountTaken(const OrderRecord& record) {
  // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): it loses sight of what a new-expression initializes.
  Item& item = *record.item;
  std::atomic<int64_t>& count = record.state == OrderState::kHeld ? item.held : item.sold;
  count.fetch_add(record.quantity, std::memory_order_relaxed);
  if (item.per_buyer_limit != 0) BuyerStripeOf(record.buyer).units[{&item, record.buyer}] += record.quantity;
}

absl::Status Inventory::Core::CheckBuyer(const Request& request, const Item& item) {
  if (item.per_buyer_limit == 0) return absl::OkStatus();
  if (request.buyer.empty()) {
    return Refused(Refusal::kInvalid, Concat("'", request.sku, "' has a limit per buyer, and request '",
                                             request.request_id, "' names no buyer"));
  }
  const auto& units = BuyerStripeOf(request.buyer).units;
  const auto found = units.find({&item, request.buyer});
  const int64_t has = found == units.end() ? 0 : found->second;
  if (request.quantity <= item.per_buyer_limit - has) return absl::OkStatus();
  return Refused(Refusal::kBuyerLimit,
                 Concat("buyer '", request.buyer, "' has ", has, " units of '", request.sku, "' and wants ",
                        request.quantity, " more, but a buyer may have ", item.per_buyer_limit));
}

absl::Status Inventory::Core::CheckSame(const Request& request, const OrderRecord& record) const {
  const auto differs = [&](std::string_view what) {
    return Refused(Refusal::kRequestMismatch,
                   Concat("request id '", request.request_id, "' was used before, with another ", what));
  };
  if (request.reserve != record.reserved) return differs("call (one of Reserve and Take)");
  if (request.sku != record.item->sku) return differs("sku");
  if (request.quantity != record.quantity) return differs("quantity");
  if (request.buyer != record.buyer) return differs("buyer");
  // A ledger that does not keep the ttl leaves an infinite one beside a finite expires_at: nothing to compare with.
  const bool ttl_known = record.ttl != absl::InfiniteDuration() || record.expires_at == absl::InfiniteFuture();
  if (request.reserve && ttl_known && request.ttl != record.ttl) return differs("ttl");
  return absl::OkStatus();
}

}  // namespace stockade
