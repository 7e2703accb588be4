#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "fleet_sql.h"
#include "fleet_workers.h"

namespace stockade::inventory_internal {
namespace {

// After a repeat was met, so many packets of the lane look for repeats first: a repeat that is met in a transaction
// rolls all of it back.
constexpr int kLooksAfterRepeat = 8;

// Requests for more look first, so that no sum of those that do not overflows.
constexpr int64_t kLargeQuantity = int64_t{1} << 40;

size_t LinesOf(const FleetGrants& calls) {
  size_t lines = 0;
  for (const auto& call : calls) lines += call->lines.size();
  return lines;
}

}  // namespace

bool FleetGranter::LooksFirst(const FleetGrantCall& call) const {
  if (call.look || look_batches_ > 0) return true;
  for (size_t i = 0; i < call.skus.size(); ++i) {
    const auto known = shared_.hints.find(call.skus[i]);
    if (known == shared_.hints.end() || known->second.scarce || call.lines[i].quantity > kLargeQuantity) return true;
    const int64_t limit = known->second.per_buyer_limit;
    if (limit != 0 && (call.buyer.empty() || call.lines[i].quantity > limit)) return true;
  }
  return false;
}

bool FleetGranter::Serve(FleetGrants calls) {
  FleetGrants looking;
  FleetGrants trying;
  FleetGrants later;
  absl::flat_hash_set<FleetHash> ids;
  {
    const MutexLock lock(shared_.hints_mutex);
    for (std::unique_ptr<FleetGrantCall>& call : calls) {
      const bool is_first = ids.insert(call->request).second;  // The first one decides.
      call->look |= !is_first;
      (!is_first ? later : LooksFirst(*call) ? looking : trying).push_back(std::move(call));
    }
  }
  shared_.queues.PutBack(std::move(later));
  if (!looking.empty() && !Look(std::move(looking), trying)) {
    shared_.queues.PutBack(std::move(trying));
    return false;
  }
  return (trying.empty() || Try(std::move(trying))) && node_.Fill();
}

bool FleetGranter::Look(FleetGrants calls, FleetGrants& trying) {
  FleetGrantRows rows;
  const Instant sent = shared_.clock.Now();
  if (!ReadGrantRows(lane_, GrantQueryOf(calls, shared_.ledger.keys.imported.has_value()), rows)) {
    lane_.NoteLost(LinesOf(calls));
    shared_.queues.PutBack(std::move(calls));
    return false;
  }
  shared_.NoteLatches(rows.skus, sent);
  if (rows.is_cut && calls.size() > 1) {
    lane_.NoteLost(calls.size());
    for (auto& call : calls) call->look = true;
    shared_.queues.PutBack(std::move(calls));
    return true;
  }
  lane_.NotePassed();
  FleetGrantPlanner planner(std::move(rows), shared_.checks, [&](const FleetGrantCall& call, OrderId order) {
    // Its own order, if a reply was lost.
    shared_.metrics.Add(call.tried != order ? kRepeats : call.kind == OrderKind::kTake ? kTakes : kReservations);
  });
  for (std::unique_ptr<FleetGrantCall>& call : calls) planner.Decide(std::move(call));
  std::ranges::move(planner.trying, std::back_inserter(trying));
  for (auto& [call, order] : planner.due) Expire(std::move(call), order);
  look_batches_ = planner.found_repeat() ? kLooksAfterRepeat : std::max(look_batches_ - 1, 0);
  NoteRows(planner);
  shared_.queues.PutBack(std::move(planner.later));
  latcher_.LatchEmpty(planner.rows().skus, planner.short_skus());
  return true;
}

void FleetGranter::Expire(std::unique_ptr<FleetGrantCall> call, OrderId order) {
  if (++call->surprises > call->max_surprises) return call->done(shared_.queues.TooManySurprises());
  auto expiry = std::make_unique<FleetEndCall>();
  expiry->start = call->start;
  expiry->id = order;
  expiry->to = OrderState::kExpired;
  expiry->done = [&queues = shared_.queues, call = std::move(call)](const absl::Status&) mutable {
    call->look = true;
    queues.Enqueue(std::move(call));
  };
  shared_.queues.Enqueue(std::move(expiry));
}

void FleetGranter::NoteRows(const FleetGrantPlanner& planner) {
  const MutexLock lock(shared_.hints_mutex);
  for (const auto& [id, row] : planner.rows().skus) {
    node_.NoteRow(id, row);
    if (row.removed) {
      shared_.hints.erase(id);
      continue;
    }
    FleetSkuHint& hint = shared_.hints[id];
    hint.per_buyer_limit = row.per_buyer_limit;
    hint.segments = std::max<int32_t>(static_cast<int32_t>(row.segment_units.size()), 1);
    hint.scarce = planner.short_skus().contains(id);
    hint.has_nodes = row.has_nodes;
    if (!CheckWhole(shared_.checks, row).ok()) continue;
    const int64_t own = row.segment_units[static_cast<size_t>(lane_.index() % hint.segments)];
    if (own >= shared_.options.max_batch) hint.merged = false;
    if (row.segment_units[static_cast<size_t>(hint.SegmentOf(lane_.index()))] >= planner.Wanted(id)) continue;
    merging_.insert(id);
    hint.merged = true;
  }
}

FleetGrantBatch FleetGranter::Plan(const FleetGrants& calls) {
  FleetGrantBatch trial;
  trial.Add(calls);
  std::set<uint64_t> asks;
  {
    const MutexLock lock(shared_.hints_mutex);
    for (auto& [sku, payment] : trial.payments) {
      const FleetSkuHint& hint = shared_.hints[sku];
      payment.limit = hint.per_buyer_limit;
      payment.segment = hint.SegmentOf(lane_.index());
      payment.merges = merging_.erase(sku) > 0;
      if (payment.merges) {
        node_.NoteMerged(sku);
      } else if (shared_.dispenser != nullptr && hint.has_nodes) {
        asks.insert(sku);
      }
    }
  }
  if (!asks.empty()) node_.Ask(asks, trial);
  return trial;
}

bool FleetGranter::Try(FleetGrants calls) {
  if (!lane_.Prepare().ok()) {
    shared_.queues.PutBack(std::move(calls));
    return false;
  }
  std::ranges::sort(calls, {}, [](const auto& call) { return call->request; });
  const OrderId first = lane_.NextOrders(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) calls[i]->tried = first + i;
  const FleetGrantBatch trial = Plan(calls);
  const FleetOutcome outcome =
      shared_.queues.RunUntilKnown(lane_, trial.Packet(calls, first, shared_.ledger.keys.imported.has_value()));
  outcome.is_lost() ? lane_.NoteLost(LinesOf(calls)) : lane_.NotePassed();
  if (outcome.kind != FleetOutcome::Kind::kDone) return TryFailed(std::move(calls), outcome, trial);
  if (outcome.now == 0) {
    // Committed, but the reply was lost: when, only the rows say.
    for (auto& call : calls) call->look = call->in_doubt = true;
    shared_.queues.PutBack(std::move(calls));
    return true;
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool holds = calls[i]->kind != OrderKind::kTake;
    shared_.metrics.Add(holds ? kReservations : kTakes);
    AnswerGranted(*calls[i], first + i, holds ? OrderState::kHeld : OrderState::kSold, outcome.now,
                  holds ? FleetMicros(calls[i]->ttl) : kNever);
  }
  return true;
}

bool FleetGranter::TryFailed(FleetGrants calls, const FleetOutcome& outcome, const FleetGrantBatch& trial) {
  using Kind = FleetOutcome::Kind;
  if (outcome.kind == Kind::kUnknown) {
    for (auto& call : calls) call->done(shared_.queues.InDoubt(outcome.status));
    return false;
  }
  const std::optional<uint64_t> sku =
      outcome.kind == Kind::kSurprise ? trial.SkuOf(outcome.tag) : std::optional<uint64_t>();
  node_.NoteUnpaid(trial, sku);
  if (outcome.kind != Kind::kSurprise) return shared_.queues.PutBackUndone(std::move(calls), outcome);
  if (outcome.tag == FleetGrantBatch::kRequests) look_batches_ = kLooksAfterRepeat;
  if (outcome.tag == FleetGrantBatch::kOrders) lane_.Renew();  // Its ids are taken.
  if (sku.has_value() && !trial.payments.at(*sku).fence.has_value()) {
    const MutexLock lock(shared_.hints_mutex);
    FleetSkuHint& hint = shared_.hints[*sku];
    hint.merged = hint.segments > 1 || hint.has_nodes;
    if (hint.merged) merging_.insert(*sku);
  }
  for (auto& call : calls) {
    call->look |=
        outcome.tag < FleetGrantBatch::kOrders || (sku.has_value() && std::ranges::count(call->skus, *sku) > 0);
  }
  shared_.queues.TryAgain(std::move(calls));
  return true;
}

}  // namespace stockade::inventory_internal
