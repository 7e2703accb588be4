#include "order_book.h"

#include <algorithm>
#include <iterator>

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
  for (const uint64_t fingerprint : forgotten) StripeOf(fingerprint).forgotten.insert(fingerprint);
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

OrderBook::Found OrderBook::Find(const Stripe& stripe, uint64_t fingerprint, const std::string& request_id,
                                 Instant now) const {
  const auto found = stripe.records.find(Stripe::ById{fingerprint, request_id});
  if (found == stripe.records.end()) return {.forgotten = stripe.forgotten.contains(fingerprint)};
  return {.record = found->record, .forgotten = Forgotten(*found->record, now)};
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
  return (*record)->kind == OrderKind::kRestock ? nullptr : *record;
}

bool OrderBook::Add(Stripe& stripe, Ref record, Instant now) {
  OrderRecord& added = *record;
  stripe.made.push_back(record);
  stripe.records.insert({.fingerprint = added.fingerprint, .record = std::move(record)});
  ForgetSome(stripe, now);
  if (added.state == OrderState::kHeld) return AddDue(stripe, added, added.deadline);
  stripe.ended.push_back(&added);
  return false;
}

absl::Status OrderBook::AddRecovered(Stripe& stripe, Ref record, Instant now) {
  OrderRecord& added = *record;
  if (added.id < 1 || added.id > kMaxRecoveredId) return absl::InvalidArgumentError("its id is out of range");
  first_id_ = std::max(first_id_, added.id + 1);
  if (Forgotten(added, now)) {
    stripe.forgotten.insert(added.fingerprint);
    return absl::OkStatus();
  }
  {
    const MutexLock lock(recovered_mutex_);
    if (!recovered_.try_emplace(added.id, record).second) return absl::InvalidArgumentError("its id appears twice");
  }
  if (!stripe.records.insert({.fingerprint = added.fingerprint, .record = std::move(record)}).second) {
    return absl::InvalidArgumentError("its request id is not unique");
  }
  if (added.state == OrderState::kHeld) {
    (void)AddDue(stripe, added, added.deadline);
  } else {
    stripe.ended.push_back(&added);
  }
  return absl::OkStatus();
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
  stripe.ended.push_back(&record);
  if (record.deadline == Instant::InfiniteFuture()) return;
  --stripe.held_due;
  DropEnded(stripe);
}

void OrderBook::DropEnded(Stripe& stripe) {
  const auto has_ended = [&](const Stripe::Deadline& deadline) STOCKADE_REQUIRES(stripe.mutex) {
    const Ref* const record = Remembered(stripe, deadline.id);
    return record == nullptr || *record == nullptr || (*record)->state != OrderState::kHeld;
  };
  // Once in as many times as there are, so that it costs O(1) a time.
  if (stripe.due.size() > 2 * stripe.held_due + 64) {
    std::erase_if(stripe.due, has_ended);
    std::make_heap(stripe.due.begin(), stripe.due.end());
  }
  while (!stripe.due.empty() && has_ended(stripe.due.front())) {
    std::pop_heap(stripe.due.begin(), stripe.due.end());
    stripe.due.pop_back();
  }
  const Instant earliest = stripe.due.empty() ? Instant::InfiniteFuture() : stripe.due.front().at;
  // The time only moves later: a reader that misses the change wakes up once in vain.
  if (earliest != stripe.earliest_due.load(std::memory_order_relaxed)) {
    stripe.earliest_due.store(earliest, std::memory_order_relaxed);
  }
}

OrderBook::Ref OrderBook::FirstDue(Stripe& stripe, Instant now) {
  if (stripe.due.empty() || stripe.due.front().at > now) return nullptr;
  return *Remembered(stripe, stripe.due.front().id);
}

void OrderBook::ForgetSome(Stripe& stripe, Instant now) {
  // Two for each that comes, so that the book shrinks to what is remembered however long nobody came.
  for (int i = 0; i < 2 && !stripe.ended.empty() && MayForget(*stripe.ended.front(), now); ++i) {
    const OrderRecord& record = *stripe.ended.front();
    stripe.ended.pop_front();
    Forget(stripe, record);
  }
}

void OrderBook::Forget(Stripe& stripe, const OrderRecord& record) {
  const OrderId id = record.id;
  const uint64_t fingerprint = record.fingerprint;
  stripe.forgotten.insert(fingerprint);
  stripe.records.erase(stripe.records.find(Stripe::ById{fingerprint, record.request_id}));
  if (id < first_id_) {
    const MutexLock lock(recovered_mutex_);
    recovered_.erase(id);
    return;
  }
  DropPlace(stripe, id);
}

void OrderBook::DropPlace(Stripe& stripe, OrderId id) {
  stripe.made[(id - first_id_) / stripes_.size() - stripe.forgotten_front] = nullptr;
  while (!stripe.made.empty() && stripe.made.front() == nullptr) {
    stripe.made.pop_front();
    ++stripe.forgotten_front;
  }
}

void OrderBook::DropFromEnded(Stripe& stripe, const OrderRecord& record) {
  // It ended of late.
  const auto found = std::find(stripe.ended.rbegin(), stripe.ended.rend(), &record);
  stripe.ended.erase(std::next(found).base());
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
  stripe.records.erase(stripe.records.find(Stripe::ById{record->fingerprint, record->request_id}));
  DropPlace(stripe, record->id);
  DropEnded(stripe);
}

void OrderBook::Reopen(Stripe& stripe, OrderRecord& record, Instant due_at) {
  record.state = OrderState::kHeld;
  record.ended_at = Instant::InfiniteFuture();
  DropFromEnded(stripe, record);
  // What is left of its deadline would do, but not for one that is to wait.
  std::erase_if(stripe.due, [&](const Stripe::Deadline& deadline) { return deadline.id == record.id; });
  std::make_heap(stripe.due.begin(), stripe.due.end());
  (void)AddDue(stripe, record, due_at);
}

}  // namespace stockade::inventory_internal
