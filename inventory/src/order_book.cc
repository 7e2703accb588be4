#include "order_book.h"

#include <algorithm>
#include <utility>

namespace stockade::inventory_internal {
namespace {

// So that a stripe's ids stay within what a ledger keeps, for as many orders as nobody can make.
constexpr OrderId kMaxRecoveredId = OrderId{1} << 62;

std::vector<std::unique_ptr<OrderBook::Stripe>> MakeStripes(size_t count) {
  std::vector<std::unique_ptr<OrderBook::Stripe>> stripes;
  stripes.reserve(count);
  for (size_t i = 0; i < count; ++i) stripes.push_back(std::make_unique<OrderBook::Stripe>(static_cast<uint32_t>(i)));
  return stripes;
}

}  // namespace

OrderBook::OrderBook(size_t stripes, absl::Duration retention)
    : retention_(retention), stripes_(MakeStripes(stripes)) {}

// No other thread uses the book yet, so it locks no stripe.
STOCKADE_NO_THREAD_SAFETY_ANALYSIS absl::Status OrderBook::TakeOver(FingerprintKey key,
                                                                    const std::vector<uint64_t>& forgotten,
                                                                    OrderId last_id) {
  if (last_id > kMaxRecoveredId) return absl::InvalidArgumentError("its id is out of range");
  fingerprint_ = RequestFingerprint(key);
  for (const uint64_t fingerprint : forgotten) AddForgotten(StripeOf(fingerprint), fingerprint);
  first_id_ = std::max(first_id_, last_id + 1);
  return absl::OkStatus();
}

void OrderBook::NoteDurable(uint64_t position) {
  uint64_t known = durable_.load(std::memory_order_relaxed);
  while (known < position && !durable_.compare_exchange_weak(known, position, std::memory_order_relaxed)) {
  }
}

OrderBook::Stripe* OrderBook::StripeOfOrder(OrderId id) {
  if (id >= first_id_) return stripes_[(id - first_id_) % stripes_.size()].get();
  const MutexLock lock(recovered_mutex_);
  const auto found = recovered_.find(id);
  return found == recovered_.end() ? nullptr : &StripeOf(found->second->fingerprint);
}

std::array<OrderBook::Lock, 2> OrderBook::LockBoth(Stripe& one, Stripe* other) {
  if (other == nullptr || other == &one) return {Lock(one.mutex), Lock()};
  Stripe* const first = one.number < other->number ? &one : other;
  Stripe* const second = first == &one ? other : &one;
  // A list is evaluated from the left.
  return {Lock(first->mutex), Lock(second->mutex)};
}

const OrderBook::Stripe::Entry* OrderBook::FindEntry(const Stripe& stripe, uint64_t fingerprint,
                                                     const std::string& request_id) {
  return stripe.records.Find(fingerprint, [&](const Stripe::Entry& entry) {
    return entry.fingerprint == fingerprint && entry.record->request_id == request_id;
  });
}

bool OrderBook::IsForgotten(const Stripe& stripe, uint64_t fingerprint) {
  return stripe.forgotten.Find(fingerprint, [&](uint64_t other) { return other == fingerprint; }) != nullptr;
}

void OrderBook::AddForgotten(Stripe& stripe, uint64_t fingerprint) {
  if (IsForgotten(stripe, fingerprint)) return;
  stripe.forgotten.MakeRoom();
  stripe.forgotten.Insert(fingerprint);
}

OrderBook::Found OrderBook::Find(const Stripe& stripe, uint64_t fingerprint, const std::string& request_id,
                                 Clock& clock) const {
  const Stripe::Entry* const found = FindEntry(stripe, fingerprint, request_id);
  if (found == nullptr) return {.forgotten = IsForgotten(stripe, fingerprint)};
  return {.record = found->record, .forgotten = Forgotten(*found->record, clock.Now())};
}

const OrderBook::Ref* OrderBook::Remembered(const Stripe& stripe, OrderId id) {
  if (id >= first_id_) {
    const uint64_t place = (id - first_id_) / stripes_.size() - stripe.forgotten_front;
    return place < stripe.made.size() ? &stripe.made[place] : nullptr;
  }
  // The map only shrinks by now, which leaves the others where they are; this one goes with the stripe locked.
  const MutexLock lock(recovered_mutex_);
  const auto found = recovered_.find(id);
  return found == recovered_.end() ? nullptr : &found->second;
}

OrderBook::Ref OrderBook::FindById(const Stripe& stripe, OrderId id, Instant now) {
  const Ref* const record = Remembered(stripe, id);
  if (record == nullptr || *record == nullptr || Forgotten(**record, now)) return nullptr;
  return IsGrant((*record)->kind) ? *record : nullptr;
}

bool OrderBook::Add(Stripe& stripe, Ref record, Instant now) {
  OrderRecord& added = *record;
  stripe.records.MakeRoom();
  MakeRoomForDue(stripe, 1);
  stripe.made.push_back(record);
  // Nothing below allocates.
  stripe.records.Insert({.fingerprint = added.fingerprint, .record = std::move(record)});
  ForgetSome(stripe, now);
  if (added.state == OrderState::kHeld) return AddDue(stripe, added, added.deadline);
  AddEnded(stripe, added);
  return false;
}

absl::Status OrderBook::AddRecovered(Stripe& stripe, Ref record, Instant now) {
  OrderRecord& added = *record;
  if (added.id < 1 || added.id > kMaxRecoveredId) return absl::InvalidArgumentError("its id is out of range");
  first_id_ = std::max(first_id_, added.id + 1);
  if (Forgotten(added, now)) {
    AddForgotten(stripe, added.fingerprint);
    return absl::OkStatus();
  }
  stripe.records.MakeRoom();
  MakeRoomForDue(stripe, 1);
  {
    const MutexLock lock(recovered_mutex_);
    if (!recovered_.try_emplace(added.id, record).second) return absl::InvalidArgumentError("its id appears twice");
  }
  if (FindEntry(stripe, added.fingerprint, added.request_id) != nullptr) {
    return absl::InvalidArgumentError("its request id is not unique");
  }
  stripe.records.Insert({.fingerprint = added.fingerprint, .record = std::move(record)});
  if (added.state == OrderState::kHeld) {
    (void)AddDue(stripe, added, added.deadline);
  } else {
    AddEnded(stripe, added);
  }
  return absl::OkStatus();
}

void OrderBook::MakeRoomForDue(Stripe& stripe, size_t more) {
  const size_t wanted = stripe.due.size() + more;
  if (wanted > stripe.due.capacity()) stripe.due.reserve(std::max(wanted, 2 * stripe.due.capacity()));
}

void OrderBook::MakeRoomToReopen(Stripe& stripe) {
  size_t ends = 0;
  VisitUndecidedEnds(stripe, [&](const OrderRecord&) { ++ends; });
  MakeRoomForDue(stripe, ends);
}

bool OrderBook::AddDue(Stripe& stripe, const OrderRecord& record, Instant at) {
  if (at == Instant::InfiniteFuture()) return false;
  stripe.due.push_back({.at = at, .id = record.id});
  std::push_heap(stripe.due.begin(), stripe.due.end());
  ++stripe.held_due;
  if (stripe.due.front().id != record.id) return false;
  stripe.earliest_due.store(at, std::memory_order_seq_cst);
  return true;
}

void OrderBook::End(Stripe& stripe, OrderRecord& record, OrderState state, Instant now) {
  record.state = state;
  record.ended_at = now;
  AddEnded(stripe, record);
  if (record.deadline == Instant::InfiniteFuture()) return;
  --stripe.held_due;
  DropStaleDue(stripe);
}

void OrderBook::DropStaleDue(Stripe& stripe) {
  const auto is_stale = [&](const Stripe::Deadline& due) STOCKADE_REQUIRES(stripe.mutex) {
    const Ref* const record = Remembered(stripe, due.id);
    if (record == nullptr || *record == nullptr || (*record)->state != OrderState::kHeld) return true;
    return due.at < (*record)->deadline;  // Later: its expiry was refused, and waits.
  };
  // Once in as many times as there are, so that it costs O(1) a time.
  if (stripe.due.size() > 2 * stripe.held_due + 64) {
    std::erase_if(stripe.due, is_stale);
    std::make_heap(stripe.due.begin(), stripe.due.end());
  }
  while (!stripe.due.empty() && is_stale(stripe.due.front())) {
    std::pop_heap(stripe.due.begin(), stripe.due.end());
    stripe.due.pop_back();
  }
  const Instant earliest = stripe.due.empty() ? Instant::InfiniteFuture() : stripe.due.front().at;
  // The time only moves later: a reader that misses the change wakes up once in vain.
  if (earliest != stripe.earliest_due.load(std::memory_order_relaxed)) {
    stripe.earliest_due.store(earliest, std::memory_order_relaxed);
  }
}

void OrderBook::Extend(Stripe& stripe, OrderRecord& record, absl::Duration by) {
  record.extended += by;
  record.deadline = record.deadline + by;
  stripe.due.push_back({.at = record.deadline, .id = record.id});
  std::push_heap(stripe.due.begin(), stripe.due.end());
  DropStaleDue(stripe);
}

void OrderBook::Prolong(Stripe& stripe, OrderRecord& record, Instant now) {
  DropFromEnded(stripe, record);
  AddEnded(stripe, record);
  record.ended_at = now;
}

OrderBook::Ref OrderBook::FirstDue(Stripe& stripe, Instant now) {
  if (stripe.due.empty() || stripe.due.front().at > now) return nullptr;
  return *Remembered(stripe, stripe.due.front().id);
}

void OrderBook::ForgetSome(Stripe& stripe, Instant now) {
  // Two for each that comes, so that the book shrinks to what is remembered however long nobody came.
  for (int i = 0; i < 2 && stripe.first_ended != nullptr && MayForget(*stripe.first_ended, now); ++i) {
    // Without memory the record stays, and is forgotten later.
    if (!stripe.forgotten.TryMakeRoom()) return;
    OrderRecord& record = *stripe.first_ended;
    DropFromEnded(stripe, record);
    Forget(stripe, record);
  }
}

void OrderBook::Forget(Stripe& stripe, const OrderRecord& record) {
  const OrderId id = record.id;
  const uint64_t fingerprint = record.fingerprint;
  if (!IsForgotten(stripe, fingerprint)) stripe.forgotten.Insert(fingerprint);
  EraseEntry(stripe, record);
  if (id < first_id_) {
    const MutexLock lock(recovered_mutex_);
    recovered_.erase(id);
    return;
  }
  DropPlace(stripe, id);
}

void OrderBook::EraseEntry(Stripe& stripe, const OrderRecord& record) {
  stripe.records.Erase(FindEntry(stripe, record.fingerprint, record.request_id));
}

void OrderBook::DropPlace(Stripe& stripe, OrderId id) {
  stripe.made[(id - first_id_) / stripes_.size() - stripe.forgotten_front] = nullptr;
  while (!stripe.made.empty() && stripe.made.front() == nullptr) {
    stripe.made.pop_front();
    ++stripe.forgotten_front;
  }
}

void OrderBook::AddEnded(Stripe& stripe, OrderRecord& record) {
  record.ended_before = stripe.last_ended;
  record.ended_after = nullptr;
  (stripe.last_ended == nullptr ? stripe.first_ended : stripe.last_ended->ended_after) = &record;
  stripe.last_ended = &record;
}

void OrderBook::DropFromEnded(Stripe& stripe, OrderRecord& record) {
  (record.ended_before == nullptr ? stripe.first_ended : record.ended_before->ended_after) = record.ended_after;
  (record.ended_after == nullptr ? stripe.last_ended : record.ended_after->ended_before) = record.ended_before;
  record.ended_before = record.ended_after = nullptr;
}

OrderBook::Ref OrderBook::FindUndecided(const Stripe& stripe, OrderId id) {
  const Ref* const record = Remembered(stripe, id);
  return record == nullptr ? nullptr : *record;
}

void OrderBook::Withdraw(Stripe& stripe, const Ref& record) {
  if (record->state != OrderState::kHeld) {
    DropFromEnded(stripe, *record);
  } else if (record->deadline != Instant::InfiniteFuture()) {
    --stripe.held_due;
  }
  // A caller that found the record before sees that it holds nothing.
  record->state = OrderState::kCancelled;
  EraseEntry(stripe, *record);
  DropPlace(stripe, record->id);
  DropStaleDue(stripe);
}

void OrderBook::Reopen(Stripe& stripe, OrderRecord& record, Instant due_at) {
  record.state = OrderState::kHeld;
  record.ended_at = Instant::InfiniteFuture();
  DropFromEnded(stripe, record);
  ReplaceDue(stripe, record, due_at);
}

void OrderBook::Shorten(Stripe& stripe, OrderRecord& record, absl::Duration by) {
  record.extended -= by;
  record.deadline = record.deadline - by;
  --stripe.held_due;
  ReplaceDue(stripe, record, record.deadline);
}

void OrderBook::ReplaceDue(Stripe& stripe, const OrderRecord& record, Instant at) {
  // What is left of its deadline would do, but not for one that is to wait.
  std::erase_if(stripe.due, [&](const Stripe::Deadline& due) { return due.id == record.id; });
  std::make_heap(stripe.due.begin(), stripe.due.end());
  DropStaleDue(stripe);
  (void)AddDue(stripe, record, at);
}

}  // namespace stockade::inventory_internal
