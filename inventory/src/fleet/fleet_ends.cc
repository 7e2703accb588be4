#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "fleet_sql.h"
#include "fleet_workers.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

std::vector<OrderId> IdsOf(const FleetEnds& calls) {
  std::vector<OrderId> ids;
  for (const auto& call : calls) ids.push_back(call->id);
  return ids;
}

// Those of orders that an earlier call is about.
FleetEnds TakeRepeats(FleetEnds& calls) {
  FleetEnds repeats;
  absl::flat_hash_set<OrderId> ids;
  std::erase_if(calls, [&](std::unique_ptr<FleetEndCall>& call) {
    if (ids.insert(call->id).second) return false;
    repeats.push_back(std::move(call));
    return true;
  });
  return repeats;
}

}  // namespace

bool FleetEnder::Serve(FleetEnds calls) {
  shared_.queues.PutBack(TakeRepeats(calls));
  FleetEndPlanner ending(std::move(calls), shared_.checks, shared_.options.max_hold);
  FleetOrderRows orders;
  std::vector<OrderId> large;
  int64_t now = 0;
  if (!ReadOrderRows(lane_, IdsOf(ending.calls), orders, now, &large)) return GoneAway(ending);
  std::ranges::sort(large);
  FleetEnds large_calls;
  std::erase_if(ending.calls, [&](std::unique_ptr<FleetEndCall>& call) {
    if (!std::ranges::binary_search(large, call->id)) return false;
    call->is_large = true;
    call->lines = kSmallLines + 1;
    large_calls.push_back(std::move(call));
    return true;
  });
  if (!large_calls.empty()) {
    shared_.queues.PutBack(std::move(large_calls), /*others_first=*/true);
    shared_.queues.WakeUp();
  }
  ending.Decide(std::move(orders), now);
  shared_.queues.PutBack(SplitOff(ending.calls, lane_.most_lines()));
  return EndOrders(ending, /*is_large=*/false);
}

bool FleetEnder::ServeLarge(FleetEnds calls) {
  shared_.queues.PutBack(TakeRepeats(calls));
  if (!CountLines(calls)) {
    lane_.NoteLost(calls.size());
    shared_.queues.PutBack(std::move(calls));
    return false;
  }
  shared_.queues.PutBack(SplitOff(calls, lane_.most_lines()));
  return calls.empty() || EndLarge(std::move(calls));
}

bool FleetEnder::CountLines(FleetEnds& calls) {
  std::map<OrderId, uint64_t> lines;
  if (!CountOrderLines(lane_, IdsOf(calls), lines)) return false;
  std::erase_if(calls, [&](std::unique_ptr<FleetEndCall>& call) {
    const auto found = lines.find(call->id);
    call->lines = found == lines.end() ? 1 : found->second;
    if (call->lines <= kMaxBasketLines) return false;
    call->done(CheckWhole(shared_.checks, FleetOrderRow{.id = call->id, .damage = Concat(call->lines, " lines")}));
    return true;
  });
  return true;
}

bool FleetEnder::EndLarge(FleetEnds calls) {
  FleetEndPlanner ending(std::move(calls), shared_.checks, shared_.options.max_hold);
  FleetOrderRows orders;
  int64_t now = 0;
  if (!ReadOrderRows(lane_, IdsOf(ending.calls), orders, now)) return GoneAway(ending);
  ending.Decide(std::move(orders), now);
  return EndOrders(ending, /*is_large=*/true);
}

bool FleetEnder::GoneAway(FleetEndPlanner& ending) {
  lane_.NoteLost(ending.lines());
  shared_.queues.PutBack(std::move(ending.calls));
  return false;
}

bool FleetEnder::EndOrders(FleetEndPlanner& ending, bool is_large) {
  if (ending.calls.empty()) {
    lane_.NotePassed();
    return true;
  }
  const std::vector<uint64_t> ids = ending.Skus();
  FleetSkuRows skus;
  if (!ids.empty() && !shared_.ReadSkus(lane_, TheseSkus(ids), skus)) return GoneAway(ending);
  const std::map<uint64_t, absl::Status> damaged = ending.DecideSkus(std::move(skus));
  for (const uint64_t sku : ids) {
    const auto found = damaged.find(sku);
    if (found == damaged.end()) {
      damaged_.erase(sku);
    } else if (damaged_.insert(sku).second) {
      Log(LogSeverity::kError, Concat(found->second.message()));
    }
  }
  if (ending.calls.empty()) return true;

  using Kind = FleetOutcome::Kind;
  const FleetOutcome outcome = shared_.queues.RunUntilKnown(lane_, ending.Packet(lane_.index()));
  outcome.is_lost() ? lane_.NoteLost(ending.lines()) : lane_.NotePassed();
  if (!is_large) shared_.queues.NoteSmallEnds();
  if (outcome.kind == Kind::kUnknown) {
    for (auto& call : ending.calls) call->done(shared_.queues.InDoubt(outcome.status));
    return false;
  }
  if (outcome.kind == Kind::kSurprise) {
    shared_.queues.TryAgain(std::move(ending.calls));  // Something has changed since the orders were read.
    return true;
  }
  if (outcome.kind != Kind::kDone) return shared_.queues.PutBackUndone(std::move(ending.calls), outcome);
  for (const auto& [sku, latch] : ending.Limbo()) shared_.NoteDeposit(sku, latch);
  for (auto& call : ending.calls) {
    const OrderState state = ending.StateOf(*call);
    shared_.metrics.Add(state == OrderState::kSold        ? kCommits
                        : state == OrderState::kCancelled ? kCancels
                        : state == OrderState::kHeld      ? kExtensions
                                                          : kExpirations);
    ending.AnswerDone(*call);
  }
  return true;
}

}  // namespace stockade::inventory_internal
