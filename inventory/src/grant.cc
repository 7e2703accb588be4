// How a request gets its units: once.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
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

absl::Status LocalCore::Grant(const ReserveRequest& request, MakeAnswer answer, GrantNotes& notes) {
  const RequestLine line{.sku = request.sku, .quantity = request.quantity};
  return GrantLines({.kind = OrderKind::kReserve,
                     .lines = {&line, 1},
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = request.ttl,
                     .answer = answer},
                    notes);
}

absl::Status LocalCore::Grant(const TakeRequest& request, MakeAnswer answer, GrantNotes& notes) {
  const RequestLine line{.sku = request.sku, .quantity = request.quantity};
  return GrantLines({.kind = OrderKind::kTake,
                     .lines = {&line, 1},
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = absl::InfiniteDuration(),
                     .answer = answer},
                    notes);
}

absl::Status LocalCore::Grant(const BasketRequest& request, MakeAnswer answer, GrantNotes& notes) {
  absl::StatusOr<std::vector<RequestLine>> lines = checks_.SumUp(request);
  if (!lines.ok()) return std::move(lines).status();
  return GrantLines({.kind = OrderKind::kBasket,
                     .lines = *lines,
                     .request_id = request.request_id,
                     .buyer = request.buyer,
                     .ttl = request.ttl,
                     .answer = answer},
                    notes);
}

absl::Status LocalCore::GrantLines(Request request, GrantNotes& notes) {
  notes.start = clock_->Now();
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
  return FindOrTake(request, fingerprint, std::move(lines), stripe, notes);
}

void LocalCore::CountAnswer(const absl::Status& answered, const GrantNotes& notes) {
  if (!answered.ok()) {
    metrics_.Add(RefusalMetric(RefusalOf(answered)));
  } else if (notes.timed) {
    metrics_.ObserveSpan(kReserveSeconds, notes.start, clock_->Now());
  }
}

absl::Status LocalCore::CheckRequest(Request& request) const {
  if (absl::Status valid = checks_.CheckNames(request.request_id, request.buyer); !valid.ok()) return valid;
  for (const RequestLine& line : request.lines) {
    absl::Status valid = checks_.CheckLine(request.request_id, line.sku, line.quantity);
    if (!valid.ok()) return valid;
  }
  return checks_.CheckTtl(request.request_id, request.ttl);
}

absl::Status LocalCore::FindOrTake(const Request& request, uint64_t fingerprint, ItemLines lines,
                                   OrderBook::Stripe& stripe, GrantNotes& notes) {
  const OrderBook::Found found = orders_.Find(stripe, fingerprint, request.request_id, notes.start);
  // A repeat waits, too, also if it is refused: nothing is said of the first request before that is durable.
  if (found.record != nullptr) notes.position = found.record->position;
  if (found.forgotten) return checks_.Forgotten(request.request_id);
  if (found.record != nullptr) return AnswerAgain(request, stripe, *found.record, notes);
  if (absl::Status allowed = CheckBuyer(request, lines); !allowed.ok()) return allowed;
  return TakeNew(request, fingerprint, std::move(lines), stripe, notes);
}

absl::Status LocalCore::AnswerAgain(const Request& request, OrderBook::Stripe& stripe, OrderRecord& record,
                                    GrantNotes& notes) {
  if (absl::Status same = CheckSame(request, record); !same.ok()) return same;
  const Instant at = clock_->Now();
  const bool is_due = record.IsDue(at);
  request.answer(record, is_due ? OrderState::kExpired : record.state);
  if (is_due) {
    Expire(stripe, record, at);
    notes.position = record.position;
  }
  notes.timed = IsTimed(metrics_.Add(kRepeats));
  return absl::OkStatus();
}

absl::Status LocalCore::TakeNew(const Request& request, uint64_t fingerprint, ItemLines lines,
                                OrderBook::Stripe& stripe, GrantNotes& notes) {
  if (absl::Status taken = TakeUnits(request, lines); !taken.ok()) return taken;
  // Without memory the units go back. Until then they count as neither held nor sold, so requests that miss them are
  // told that they may come back (kAllHeld), not that they are sold.
  OrderBook::Ref record;
  const ItemLines* taken = &lines;
  bool is_in_book = false;
  absl::Cleanup undo = [&] {
    stripe.mutex.AssertHeld();
    if (is_in_book) orders_.Withdraw(stripe, record);
    for (const ItemLine& line : *taken) {
      (void)line.item->stock->Deposit(line.quantity);
      if (line.item->per_buyer_limit != 0) buyers_.Add(*line.item, request.buyer, 0);
    }
  };
  record = NewRecord(request, fingerprint, orders_.NextId(stripe), notes.start);
  record->lines = std::move(lines);
  taken = &record->lines;
  request.answer(*record, record->state);
  MakeRoomForBuyer(*record);
  const bool is_first_due = orders_.Add(stripe, record, notes.start);
  is_in_book = true;
  base_internal::CrashPoint("grant: units taken, before the append");
  record->position = Append([&] { return Written(*record); });
  std::move(undo).Cancel();
  // From here on nothing fails.
  base_internal::CrashPoint("grant: appended");
  notes.position = record->position;
  CountTaken(*record);
  if (is_first_due) reaper_->WakeBy(record->deadline);
  notes.timed = IsTimed(metrics_.Add(request.kind == OrderKind::kTake ? kTakes : kReservations));
  return absl::OkStatus();
}

// Without its lines.
std::shared_ptr<OrderRecord> LocalCore::NewRecord(const Request& request, uint64_t fingerprint, OrderId id,
                                                  Instant now) const {
  const bool reserve = request.kind != OrderKind::kTake;
  return std::make_shared<OrderRecord>(
      OrderRecord{.id = id,
                  .fingerprint = fingerprint,
                  .kind = request.kind,
                  .lines = {},
                  .request_id = request.request_id,
                  .buyer = request.buyer,
                  .ttl = request.ttl,
                  .expires_at = reserve ? WholeMicroseconds(clock_->WallNow() + request.ttl) : absl::InfiniteFuture(),
                  .deadline = reserve ? now + request.ttl : Instant::InfiniteFuture(),
                  .state = reserve ? OrderState::kHeld : OrderState::kSold,
                  .ended_at = reserve ? Instant::InfiniteFuture() : now});
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

void LocalCore::MakeRoomForBuyer(const OrderRecord& record) {
  for (const ItemLine& line : record.lines) {
    if (line.item->per_buyer_limit != 0 && !line.item->removed()) buyers_.MakeRoom(*line.item, record.buyer);
  }
}

// Adds the record's units to what is held, sold and the buyer's.
void LocalCore::CountTaken(const OrderRecord& record) noexcept {
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
