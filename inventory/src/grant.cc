// How a request gets its units: once.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "local_core.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

// One call in so many of a thread is timed if there is no ledger, the first one being the first: a reading of the clock
// is a tenth of one. The help of stockade_inventory_reserve_seconds states it.
constexpr uint64_t kReserveSampling = 64;

// `state`: the record's own may change at any time.
void MakeAnswer(OrderCall& call, const OrderRecord& record, OrderState state) {
  Granted granted{.id = record.id,
                  .state = state,
                  .expires_at = record.expires_at,
                  .request_id = record.request_id,
                  .buyer = record.buyer,
                  .sku = record.lines[0].item->sku,
                  .quantity = record.lines[0].quantity};
  if (record.kind == Kind::kReserveBasket) granted.lines = LinesOf<std::vector<OrderLine>>(record);
  call.Make(std::move(granted));
}

}  // namespace

absl::Status LocalCore::Grant(OrderCall& call) {
  call.timed = IsTimed();
  if (call.timed) call.start = clock_->Now();
  if (absl::Status healthy = Ready(); !healthy.ok()) return healthy;
  if (absl::Status valid = checks_.Check(call); !valid.ok()) return valid;
  ItemLines lines;
  bool has_limit = false;
  {
    const RankedReadLock lock(catalogue_mutex_);
    for (const RequestLine& line : call.lines) {
      // Field by field: a copy of a pair that was written in halves waits until both are in the cache.
      ItemLine& added = lines.emplace_back();
      added.item = Named(line.sku);
      added.quantity = line.quantity;
      // One that is unknown may be added, and sold to this very request, before the stripe is locked.
      has_limit |= added.item == nullptr || added.item->per_buyer_limit != 0;
    }
  }
  const uint64_t fingerprint = orders_.FingerprintOf(*call.request_id);
  OrderBook::Stripe& stripe = orders_.StripeOf(fingerprint);
  const BuyerBook::Lock buyer_lock = LockBuyer(has_limit, *call.buyer);
  const MutexLock lock(stripe.mutex);
  return FindOrTake(call, fingerprint, std::move(lines), stripe);
}

void LocalCore::CountAnswer(const OrderCall& call) {
  if (!call.status.ok()) {
    metrics_.Add(RefusalMetric(call.refusal != Refusal::kNone ? call.refusal : RefusalOf(call.status)));
  } else if (call.timed) {
    metrics_.ObserveSpan(kReserveSeconds, call.start, clock_->Now());
  }
}

absl::Status LocalCore::FindOrTake(OrderCall& call, uint64_t fingerprint, ItemLines lines, OrderBook::Stripe& stripe) {
  const OrderBook::Found found = orders_.Find(stripe, fingerprint, *call.request_id, *clock_);
  // A repeat waits, too, also if it is refused: nothing is said of the first request before that is durable.
  if (found.record != nullptr) call.position = found.record->position;
  if (found.forgotten) return checks_.Forgotten(*call.request_id);
  if (found.record != nullptr) return AnswerAgain(call, stripe, *found.record);
  if (absl::Status allowed = CheckBuyer(call, lines); !allowed.ok()) return allowed;
  return TakeNew(call, fingerprint, std::move(lines), stripe);
}

absl::Status LocalCore::AnswerAgain(OrderCall& call, OrderBook::Stripe& stripe, OrderRecord& record) {
  if (absl::Status same = CheckSame(call, record); !same.ok()) return same;
  const Instant at = clock_->Now();
  const bool is_due = record.IsDue(at);
  MakeAnswer(call, record, is_due ? OrderState::kExpired : record.state);
  if (is_due) {
    End(stripe, record, Kind::kExpire, at);
    call.position = record.position;
  }
  metrics_.Add(kRepeats);
  return absl::OkStatus();
}

absl::Status LocalCore::TakeNew(OrderCall& call, uint64_t fingerprint, ItemLines lines, OrderBook::Stripe& stripe) {
  if (absl::Status taken = TakeUnits(call, lines); !taken.ok()) return taken;
  const Instant now = clock_->Now();
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
      if (line.item->per_buyer_limit != 0) buyers_.Add(*line.item, *call.buyer, 0);
    }
  };
  record = NewRecord(call, fingerprint, orders_.NextId(stripe), now);
  record->lines = std::move(lines);
  taken = &record->lines;
  MakeAnswer(call, *record, record->state);
  MakeRoomForBuyer(*record);
  const bool is_first_due = orders_.Add(stripe, record, now);
  is_in_book = true;
  const auto make = [&] {
    return LedgerRecord{.kind = record->kind,
                        .order_id = record->id,
                        .request_id = record->request_id,
                        .lines = LinesOf<OrderLines>(*record),
                        .buyer = record->buyer,
                        .expires_at = record->expires_at,
                        .ttl = record->ttl};
  };
  call.position = Carry({"grant: units taken, before the append", "grant: appended", "grant: counted"}, make,
                        [&](uint64_t position) {
                          record->position = position;
                          CountTaken(*record);
                        });
  std::move(undo).Cancel();
  if (is_first_due) reaper_->WakeBy(record->deadline);
  metrics_.Add(call.kind == Kind::kTake ? kTakes : kReservations);
  return absl::OkStatus();
}

// Without its lines.
std::shared_ptr<OrderRecord> LocalCore::NewRecord(const OrderCall& call, uint64_t fingerprint, OrderId id,
                                                  Instant now) const {
  const bool reserve = StateAfter(call.kind) == OrderState::kHeld;
  auto record = std::make_shared<OrderRecord>();
  record->id = id;
  record->fingerprint = fingerprint;
  record->kind = call.kind;
  record->request_id = *call.request_id;
  if (call.is_request()) record->buyer = *call.buyer;
  record->ttl = call.ttl;
  record->expires_at = reserve ? WholeMicroseconds(clock_->WallNow() + call.ttl) : absl::InfiniteFuture();
  record->deadline = reserve ? now + call.ttl : Instant::InfiniteFuture();
  record->state = reserve ? OrderState::kHeld : OrderState::kSold;
  if (!reserve) record->ended_at = now;
  return record;
}

bool LocalCore::IsTimed() const {
  static thread_local uint64_t calls = 0;  // Of all inventories.
  return metrics_.enabled() && (ledger_ != nullptr || calls++ % kReserveSampling == 0);
}

absl::Status LocalCore::TakeUnits(OrderCall& call, const ItemLines& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const Item* const item = lines[i].item;
    if (item != nullptr && !item->removed()) continue;
    return checks_.UnknownSku(call.lines[i].sku);
  }
  if (lines.size() == 1) {
    return lines[0].item->stock->Take(lines[0].quantity) ? absl::OkStatus() : Short(lines[0], call);
  }
  absl::InlinedVector<StockLine, 4> wanted;
  wanted.reserve(lines.size());
  for (const ItemLine& line : lines) wanted.push_back({.stock = line.item->stock.get(), .units = line.quantity});
  const StockLine* const missing = ShardedStock::TakeTogether(wanted);
  return missing == nullptr ? absl::OkStatus() : Short(lines[static_cast<size_t>(missing - wanted.data())], call);
}

const absl::Status& LocalCore::Short(const ItemLine& wanted, OrderCall& call) const {
  // What is neither sold nor there is held, or on its way.
  Item& item = *wanted.item;
  const bool held = item.Unsold() >= wanted.quantity;
  call.refusal = held ? Refusal::kAllHeld : Refusal::kSoldOut;
  return held ? item.all_held.Get([&] { return checks_.AllHeld(item.sku); })
              : item.sold_out.Get([&] { return checks_.SoldOut(item.sku); });
}

void LocalCore::MakeRoomForBuyer(const OrderRecord& record) {
  for (const ItemLine& line : record.lines) {
    if (line.item->counts_buyers()) buyers_.MakeRoom(*line.item, record.buyer);
  }
}

// Adds the record's units to what is held or sold, and to the buyer's.
void LocalCore::CountTaken(const OrderRecord& record) noexcept {
  for (const ItemLine& line : record.lines) {
    line.item->Move({Account::kAvailable, AccountOf(record.state)}, line.left());
    if (line.item->counts_buyers()) buyers_.Add(*line.item, record.buyer, line.left());
  }
}

absl::Status LocalCore::CheckBuyer(const OrderCall& call, const ItemLines& lines) {
  for (const ItemLine& line : lines) {
    if (line.item == nullptr || !line.item->counts_buyers()) continue;
    const Item& item = *line.item;
    if (call.buyer->empty()) return checks_.MissingBuyer(*call.request_id, item.sku);
    const int64_t has = buyers_.Units(item, *call.buyer);
    if (line.quantity <= item.per_buyer_limit - has) continue;
    return checks_.OverBuyerLimit(*call.buyer, has, {.sku = item.sku, .quantity = line.quantity}, item.per_buyer_limit);
  }
  return absl::OkStatus();
}

absl::Status LocalCore::CheckSame(const OrderCall& call, const OrderRecord& record) const {
  const auto differs = [&](std::string_view what) { return checks_.Mismatch(*call.request_id, what); };
  if (call.kind != record.kind) return differs(RequestChecks::kCallKind);
  if (*call.buyer != record.buyer) return differs("buyer");
  if (!std::ranges::equal(call.lines, record.lines, {}, &RequestLine::sku,
                          [](const ItemLine& line) { return std::string_view(line.item->sku); })) {
    return differs("sku");
  }
  if (!std::ranges::equal(call.lines, record.lines, {}, &RequestLine::quantity, &ItemLine::quantity)) {
    return differs("quantity");
  }
  // A ledger that does not keep the ttl leaves an infinite one beside a finite expires_at: nothing to compare with.
  const bool ttl_known = record.ttl != absl::InfiniteDuration() || record.expires_at == absl::InfiniteFuture();
  if (call.kind != Kind::kTake && ttl_known && call.ttl != record.ttl) return differs("ttl");
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
