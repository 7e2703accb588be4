// SKUs: adding, restocking, resharding and removing them, and what they have.

#include <algorithm>
#include <utility>

#include "fleet_core.h"
#include "fleet_plan.h"
#include "fleet_sql.h"
#include "request_fingerprint.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// SKUs that one query of Snapshot() reads, each of one moment. Other calls get their turn before the next.
constexpr size_t kSkusAtOnce = 1'000;
// Rows of buyers of a removed SKU that one statement deletes.
constexpr size_t kBuyersAtOnce = 10'000;

}  // namespace

FleetCore::Stepped FleetCore::RunPacket(FleetLane& lane, const FleetPacket& packet) {
  const FleetOutcome outcome = shared_.queues.RunUntilKnown(lane, packet);
  if (outcome.kind == FleetOutcome::Kind::kDone) return absl::OkStatus();
  if (outcome.kind == FleetOutcome::Kind::kUnknown) return shared_.queues.InDoubt(outcome.status);
  return std::nullopt;
}

absl::Status FleetCore::ChangeSku(const SkuCall& call) {
  switch (call.kind) {
    case SkuCall::Kind::kAdd:
    case SkuCall::Kind::kEnsure: return AddSku(call);
    case SkuCall::Kind::kRemove: return RemoveSku(call);
    case SkuCall::Kind::kRestock: return Restock(call);
    case SkuCall::Kind::kReshard: return Reshard(call);
  }
  return absl::OkStatus();
}

absl::Status FleetCore::AddSku(const SkuCall& call) {
  const std::string_view sku = call.sku;
  const SkuOptions& options = *call.options;
  const RequestChecks& checks = shared_.checks;
  if (absl::Status valid = checks.CheckNewSku(call.name, sku, options, shared_.dispenser != nullptr); !valid.ok()) {
    return valid;
  }
  const uint64_t id = shared_.ledger.keys.SkuId(sku);
  return RunStep([&](FleetLane& lane) -> Stepped {
    FleetSkuRows rows;
    if (!shared_.ReadSkus(lane, OneSku(id), rows)) return std::nullopt;
    if (!rows.empty()) {
      const FleetSkuRow& row = rows.begin()->second;
      if (row.name != sku)
        return absl::InternalError(Concat("the SKUs '", sku, "' and '", row.name, "' have one hash"));
      if (call.kind == SkuCall::Kind::kAdd || row.removed) return checks.SkuExists(sku, row.removed);
      if (row.per_buyer_limit == options.per_buyer_limit) return absl::OkStatus();
      return checks.OtherBuyerLimit(sku, row.per_buyer_limit, options.per_buyer_limit);
    }
    return RunPacket(lane, {{statements::AddSku{.sku = id,
                                                .name = std::string(sku),
                                                .stock = options.stock,
                                                .per_buyer_limit = options.per_buyer_limit,
                                                .segments = std::max(options.shards, 1),
                                                .has_nodes = options.redis_segments}}});
  });
}

absl::Status FleetCore::RemoveSku(const SkuCall& call) {
  const uint64_t id = shared_.ledger.keys.SkuId(call.sku);
  return RunStep([&](FleetLane& lane) -> Stepped {
    FleetSkuRows rows;
    if (!shared_.ReadSkus(lane, OneSku(id), rows)) return std::nullopt;
    if (rows.empty() || rows.begin()->second.removed) return shared_.checks.NoSuchSku(call.name, call.sku);
    Stepped removed = RunPacket(lane, {{statements::RemoveSku{id}}});
    if (!removed.has_value() || !removed->ok()) return removed;
    rows.clear();
    (void)shared_.ReadSkus(lane, OneSku(id), rows);  // Ends the lease of this process.
    // Nothing reads the buyers any more. What is left of them after a failure, or after `patience`, does no harm.
    const Instant end = shared_.clock.Now() + shared_.options.patience;
    bool is_more = true;
    while (is_more && shared_.clock.Now() < end && DeleteBuyers(lane, id, kBuyersAtOnce, is_more)) {
    }
    return absl::OkStatus();
  });
}

absl::Status FleetCore::Restock(const SkuCall& call) {
  if (absl::Status valid = shared_.checks.CheckRestock(call.request_id, call.sku, call.units); !valid.ok()) {
    return valid;
  }
  const FleetHash request =
      call.request_id == nullptr ? FleetHash{} : shared_.ledger.keys.RequestHash(*call.request_id);
  FleetLatch in_limbo;  // Where its units are, if that is there.
  absl::Status restocked = RunStep([&](FleetLane& lane) { return RestockOnce(lane, call, request, in_limbo); });
  // Until then other processes may still say that the SKU is sold out.
  if (restocked.ok() && in_limbo.mode == FleetMode::kDraining) {
    return AwaitOne([&](Done done) {
      AnswerOnceMoved({{shared_.ledger.keys.SkuId(call.sku), in_limbo}}, std::move(done));
    });
  }
  return restocked;
}

FleetCore::Stepped FleetCore::RestockOnce(FleetLane& lane, const SkuCall& call, const FleetHash& request,
                                          FleetLatch& in_limbo) {
  const uint64_t id = shared_.ledger.keys.SkuId(call.sku);
  Stepped repeated;
  if (call.request_id != nullptr && !FindRestock(lane, call, request, repeated)) return std::nullopt;
  FleetSkuRows rows;
  if (!shared_.ReadSkus(lane, OneSku(id), rows)) return std::nullopt;
  if (repeated.has_value()) {
    if (repeated->ok() && !rows.empty()) in_limbo = rows.begin()->second.latch;
    return repeated;
  }
  if (rows.empty() || rows.begin()->second.removed) return shared_.checks.NoSuchSku(call.name, call.sku);
  const FleetSkuRow& row = rows.begin()->second;
  if (absl::Status whole = CheckWhole(shared_.checks, row); !whole.ok()) return whole;
  if (call.units > kMaxUnits - row.granted) return shared_.checks.TooManyUnits(call.sku, call.units, row.granted);

  if (!lane.Prepare().ok()) return std::nullopt;
  std::optional<std::pair<FleetHash, OrderId>> order;
  if (call.request_id != nullptr) order.emplace(request, lane.NextOrders(1));
  Stepped restocked = RunPacket(lane, RestockPacket(id, row, call.units, order));
  if (!restocked.has_value() || !restocked->ok()) return restocked;
  shared_.metrics.Add(kRestocks);
  if (DepositsToLimbo(row.latch)) {
    in_limbo = row.latch;
    in_limbo.mode = FleetMode::kDraining;
    in_limbo.limbo += call.units;
    shared_.NoteDeposit(id, in_limbo);
  }
  return restocked;
}

bool FleetCore::FindRestock(FleetLane& lane, const SkuCall& call, const FleetHash& request, Stepped& repeated) {
  const RequestChecks& checks = shared_.checks;
  const std::string& request_id = *call.request_id;
  FleetRequestRow used;
  if (!LookUpRequest(lane, request_id, request, used)) return false;
  FleetOrderRows orders;
  int64_t now = 0;
  if (!used.is_forgotten && used.order == 0) return true;
  if (!used.is_forgotten && !ReadOrderRows(lane, {{used.order}}, orders, now)) return false;
  if (orders.empty()) {
    repeated = checks.Forgotten(request_id);
    return true;
  }
  const FleetOrderRow& order = orders.begin()->second;
  const auto line = order.lines.find(shared_.ledger.keys.SkuId(call.sku));
  if (absl::Status whole = CheckWhole(checks, order); !whole.ok()) {
    repeated = std::move(whole);
  } else if (used.is_change || order.kind != OrderKind::kRestock) {
    repeated = checks.Mismatch(request_id, RequestChecks::kCallKind);
  } else if (line == order.lines.end()) {
    repeated = checks.Mismatch(request_id, "sku");
  } else if (line->second != call.units) {
    repeated = checks.Mismatch(request_id, "quantity");
  } else {
    shared_.metrics.Add(kRepeats);
    repeated = absl::OkStatus();
  }
  return true;
}

absl::Status FleetCore::Reshard(const SkuCall& call) {
  const RequestChecks& checks = shared_.checks;
  if (absl::Status valid = checks.CheckLength("sku", call.sku, kMaxSkuBytes); !valid.ok()) return valid;
  if (call.shards < 1 || call.shards > kMaxShards) {
    return absl::InvalidArgumentError(Concat("Inventory '", shared_.options.name, "': Reshard '",
                                             Printable(call.sku, 100), "': ", call.shards,
                                             " shards, which is not within 1 to ", kMaxShards));
  }
  const uint64_t id = shared_.ledger.keys.SkuId(call.sku);
  return RunStep([&](FleetLane& lane) -> Stepped {
    FleetSkuRows rows;
    if (!shared_.ReadSkus(lane, OneSku(id), rows)) return std::nullopt;
    if (rows.empty() || rows.begin()->second.removed) return checks.NoSuchSku(call.name, call.sku);
    if (absl::Status whole = CheckWhole(checks, rows.begin()->second); !whole.ok()) return whole;
    return RunPacket(lane, {{statements::Reshard{id, call.shards}}});
  });
}

absl::Status FleetCore::Read(ReadCall& call) {
  if (call.kind == ReadCall::Kind::kState) return ReadState(call);
  return call.kind == ReadCall::Kind::kSnapshots ? ReadAllSkus(call) : ReadSku(call);
}

absl::Status FleetCore::AskForSkus(std::string_view which, FleetSkuRows& rows) {
  return RunStep(
      [&](FleetLane& lane) { return shared_.ReadSkus(lane, which, rows) ? Stepped(absl::OkStatus()) : std::nullopt; },
      /*reads=*/true);
}

absl::Status FleetCore::ReadSku(ReadCall& call) {
  FleetSkuRows rows;
  absl::Status read = AskForSkus(OneSku(shared_.ledger.keys.SkuId(call.sku)), rows);
  if (!read.ok()) return read;
  if (rows.empty() || (rows.begin()->second.removed && call.kind != ReadCall::Kind::kFigures)) {
    return shared_.checks.NoSuchSku(call.name, call.sku);
  }
  const FleetSkuRow& row = rows.begin()->second;
  if (const std::string damage = row.Damage(); !damage.empty()) {
    return shared_.checks.Refused(Refusal::kUnavailable,
                                  Concat("the ledger is damaged: '", row.name, "' has ", damage));
  }
  call.of_sku = row.Snapshot();
  return absl::OkStatus();
}

absl::Status FleetCore::ReadAllSkus(ReadCall& call) {
  for (uint64_t last = 0;;) {
    FleetSkuRows rows;
    absl::Status read = AskForSkus(SkusAfter(shared_.ledger.tables, last, kSkusAtOnce), rows);
    if (!read.ok()) return read;
    for (const auto& [id, row] : rows) call.all.push_back(row.Snapshot());
    if (rows.size() < kSkusAtOnce) break;
    last = rows.rbegin()->first;
  }
  std::ranges::sort(call.all, {}, &SkuSnapshot::sku);
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
