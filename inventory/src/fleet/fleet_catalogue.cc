// SKUs: adding, restocking, resharding and removing them, and what they have.

#include <algorithm>
#include <utility>

#include "fleet_core.h"
#include "request_fingerprint.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// SKUs that one query of Snapshot() reads, each of one moment. Other calls get their turn before the next.
constexpr size_t kSkusAtOnce = 1'000;
// Rows of buyers of a removed SKU that one statement deletes.
constexpr int kBuyersAtOnce = 10'000;

}  // namespace

absl::Status FleetCore::CheckWhole(const FleetSkuRow& row) const {
  if (row.damage.empty() && row.segment_units.size() == static_cast<size_t>(row.segments)) return absl::OkStatus();
  return checks_.Refused(
      Refusal::kUnavailable,
      Concat("nothing has changed: the ledger is damaged: '", row.name, "' has ",
             row.damage.empty() ? Concat(row.segment_units.size(), " rows of stock instead of ", row.segments)
                                : row.damage));
}

absl::Status FleetCore::CheckWhole(const FleetOrderRow& row) const {
  if (row.damage.empty()) return absl::OkStatus();
  return checks_.Refused(Refusal::kUnavailable,
                         Concat("nothing has changed: the ledger is damaged: order ", row.id, " has ", row.damage));
}

bool FleetCore::ReadSkus(FleetLane& writer, std::string_view where, FleetSkuRows& rows) {
  const Instant sent = clock_.Now();
  FleetSkuTable table;
  const MySqlReply reply = writer.Read(FleetSkusQuery(ledger_.tables, where), MySqlInto(table));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  AddFleetSkus(table, rows);
  NoteLatches(rows, sent);
  return true;
}

std::optional<absl::Status> FleetCore::Finish(const FleetOutcome& outcome) const {
  switch (outcome.kind) {
    case FleetOutcome::Kind::kDone: return absl::OkStatus();
    case FleetOutcome::Kind::kUnknown: return InDoubt(outcome.status);
    case FleetOutcome::Kind::kSurprise:
    case FleetOutcome::Kind::kAgain:
    case FleetOutcome::Kind::kAway: return std::nullopt;
  }
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
  if (absl::Status valid = checks_.CheckNewSku(call.name, sku, options, dispenser_ != nullptr); !valid.ok()) {
    return valid;
  }
  const uint64_t id = ledger_.keys.SkuId(sku);
  return RunStep([&](FleetLane& writer) -> std::optional<absl::Status> {
    FleetSkuRows rows;
    if (!ReadSkus(writer, Concat("s.sku_id=", id), rows)) return std::nullopt;
    if (!rows.empty()) {
      const FleetSkuRow& row = rows.begin()->second;
      if (row.name != sku)
        return absl::InternalError(Concat("the SKUs '", sku, "' and '", row.name, "' have one hash"));
      if (call.kind == SkuCall::Kind::kAdd || row.removed) return checks_.SkuExists(sku, row.removed);
      if (row.per_buyer_limit == options.per_buyer_limit) return absl::OkStatus();
      return checks_.OtherBuyerLimit(sku, row.per_buyer_limit, options.per_buyer_limit);
    }
    const int32_t segments = std::max(options.shards, 1);
    std::string stock;
    for (int32_t i = 0; i < segments; ++i) {
      stock += Concat(i == 0 ? "" : ",", "(", id, ",", i, ",",
                      options.stock / segments + (i < options.stock % segments ? 1 : 0), ",0,0)");
    }
    FleetPacket packet;
    packet.Add(Concat("INSERT INTO ", ledger_.tables.skus,
                      " (sku_id,sku,granted,per_buyer_limit,segments,removed,sold_forgotten,redis_segments) VALUES (",
                      id, ",", MySqlLiteral(sku), ",", options.stock, ",", options.per_buyer_limit, ",", segments,
                      ",0,0,", options.redis_segments ? 1 : 0, ")"));
    packet.Add(Concat("INSERT INTO ", ledger_.tables.stock, " (sku_id,segment,units,held,sold) VALUES ", stock));
    return Finish(RunUntilKnown(writer, packet));
  });
}

absl::Status FleetCore::RemoveSku(const SkuCall& call) {
  const uint64_t id = ledger_.keys.SkuId(call.sku);
  return RunStep([&](FleetLane& writer) -> std::optional<absl::Status> {
    FleetSkuRows rows;
    if (!ReadSkus(writer, Concat("s.sku_id=", id), rows)) return std::nullopt;
    if (rows.empty() || rows.begin()->second.removed) return checks_.NoSuchSku(call.name, call.sku);
    FleetPacket packet;
    packet.AddGuarded(Concat("UPDATE ", ledger_.tables.skus, " SET removed=1,granted=granted-limbo,limbo=0,mode=0",
                             " WHERE sku_id=", id, " AND removed=0"),
                      1);
    packet.Add(Concat("SELECT SUM(units) INTO @units FROM ", ledger_.tables.stock, kByKey, " WHERE sku_id=", id,
                      " FOR UPDATE"));
    packet.AddGuarded(
        Concat("UPDATE ", ledger_.tables.skus, " SET granted=granted-COALESCE(@units,0) WHERE sku_id=", id), 1);
    packet.Add(Concat("UPDATE ", ledger_.tables.stock, kByKey, " SET units=0,latched=0 WHERE sku_id=", id));
    const FleetOutcome outcome = RunUntilKnown(writer, packet);
    if (outcome.kind != FleetOutcome::Kind::kDone) return Finish(outcome);
    rows.clear();
    (void)ReadSkus(writer, Concat("s.sku_id=", id), rows);  // Ends the lease of this process.
    // Nothing reads the buyers any more. What is left of them after a failure, or after `patience`, does no harm.
    const Instant end = clock_.Now() + options_.patience;
    while (clock_.Now() < end) {
      const MySqlReply deleted = writer.Read(
          Concat("DELETE FROM ", ledger_.tables.buyers, " WHERE sku_id=", id, " ORDER BY buyer LIMIT ", kBuyersAtOnce));
      if (!deleted.status.ok() || deleted.rows_matched.front() != kBuyersAtOnce) break;
    }
    return absl::OkStatus();
  });
}

absl::Status FleetCore::Restock(const SkuCall& call) {
  const auto& [sku, units, request_id] = std::tie(call.sku, call.units, call.request_id);
  if (absl::Status valid = checks_.CheckRestock(request_id, sku, units); !valid.ok()) return valid;
  const uint64_t id = ledger_.keys.SkuId(sku);
  const FleetHash request = request_id == nullptr ? FleetHash{} : ledger_.keys.RequestHash(*request_id);
  FleetLatch in_limbo;  // Where its units are, if that is there.
  absl::Status restocked = RunStep([&](FleetLane& writer) -> std::optional<absl::Status> {
    if (request_id != nullptr) {
      std::optional<absl::Status> repeated;
      if (!FindRestock(writer, *request_id, request, id, units, repeated)) return std::nullopt;
      if (repeated.has_value()) {
        FleetSkuRows rows;
        if (!ReadSkus(writer, Concat("s.sku_id=", id), rows)) return std::nullopt;
        if (repeated->ok() && !rows.empty()) in_limbo = rows.begin()->second.latch;
        return repeated;
      }
    }
    FleetSkuRows rows;
    if (!ReadSkus(writer, Concat("s.sku_id=", id), rows)) return std::nullopt;
    if (rows.empty() || rows.begin()->second.removed) return checks_.NoSuchSku(call.name, sku);
    const FleetSkuRow& row = rows.begin()->second;
    if (absl::Status whole = CheckWhole(row); !whole.ok()) return whole;
    if (units > kMaxUnits - row.granted) return checks_.TooManyUnits(sku, units, row.granted);

    if (absl::Status ready = writer.Prepare(); !ready.ok()) return std::nullopt;
    FleetPacket packet;
    const bool to_limbo = DepositsToLimbo(row.latch);
    packet.AddGuarded(Concat("UPDATE ", ledger_.tables.skus, " SET granted=granted+", units,
                             to_limbo ? Concat(",", LimboSet(units)) : "", " WHERE sku_id=", id,
                             " AND removed=0 AND granted<=", kMaxUnits - units, " AND ", IsStill(row.latch)),
                      1);
    if (request_id != nullptr) {
      const OrderId order = writer.NextOrders(1);
      packet.Add(Concat("INSERT INTO ", ledger_.tables.requests, " (id,order_id) VALUES (", FleetHashLiteral(request),
                        ",", order, ")"));
      packet.Add(Concat("INSERT INTO ", ledger_.tables.orders,
                        " (order_id,fence,request,sku_id,quantity,buyer,kind,state,created_at,ttl_us,at) VALUES (",
                        order, ",@fence,", FleetHashLiteral(request), ",", id, ",", units, ",",
                        FleetHashLiteral(FleetHash{}), ",", static_cast<int>(OrderKind::kRestock), ",",
                        static_cast<int>(OrderState::kSold), ",@now,", kNever, ",@now)"));
    }
    const auto segments = static_cast<int32_t>(row.segment_units.size());
    if (!to_limbo) {
      packet.AddGuarded(Concat("UPDATE ", ledger_.tables.stock, kByKey, " SET units=units+",
                               Share(Concat(units), Concat(segments), "segment"), " WHERE sku_id=", id, kOfLedger),
                        segments);
    }
    std::optional<absl::Status> finished = Finish(RunUntilKnown(writer, packet));
    if (finished.has_value() && finished->ok()) {
      metrics_.Add(kRestocks);
      if (to_limbo) {
        in_limbo = row.latch;
        in_limbo.mode = FleetMode::kDraining;
        in_limbo.limbo += units;
        NoteDeposit(id, in_limbo);
      }
    }
    return finished;
  });
  // Until then other processes may still say that the SKU is sold out.
  if (restocked.ok() && in_limbo.mode == FleetMode::kDraining) {
    sold_out_.AwaitMoved({.sku = id, .epoch = in_limbo.epoch},
                         clock_.Now() + 2 * FleetSoldOut::WaitOf(in_limbo) + options_.patience);
  }
  return restocked;
}

// `repeated`: the answer, if the id was used. False: the ledger cannot be used.
bool FleetCore::FindRestock(FleetLane& writer, const std::string& request_id, const FleetHash& request, uint64_t sku,
                            int64_t units, std::optional<absl::Status>& repeated) {
  const std::string fingerprint = ledger_.keys.imported.has_value()
                                      ? Concat("fingerprint=", RequestFingerprint(*ledger_.keys.imported)(request_id))
                                      : std::string("FALSE");
  std::vector<int64_t> forgotten;
  std::vector<OrderId> ids;
  const MySqlReply reply =
      writer.Read(Concat("SELECT 1 FROM ", ledger_.tables.forgotten, " WHERE ", fingerprint, ";SELECT order_id FROM ",
                         ledger_.tables.requests, " WHERE id=", FleetHashLiteral(request)),
                  MySqlInto(forgotten, ids));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  if (!forgotten.empty()) {
    repeated = checks_.Forgotten(request_id);
    return true;
  }
  if (ids.empty()) return true;
  FleetOrderRows orders;
  int64_t now = 0;
  if (!ReadOrders(writer, Concat("o.order_id=", ids.front()), orders, now)) return false;
  if (orders.empty()) {
    repeated = checks_.Forgotten(request_id);
    return true;
  }
  const FleetOrderRow& order = orders.begin()->second;
  if (absl::Status whole = CheckWhole(order); !whole.ok()) {
    repeated = std::move(whole);
  } else if (order.kind != OrderKind::kRestock) {
    repeated = checks_.Mismatch(request_id, RequestChecks::kCallKind);
  } else if (!order.lines.contains(sku)) {
    repeated = checks_.Mismatch(request_id, "sku");
  } else if (order.lines.at(sku) != units) {
    repeated = checks_.Mismatch(request_id, "quantity");
  } else {
    metrics_.Add(kRepeats);
    repeated = absl::OkStatus();
  }
  return true;
}

absl::Status FleetCore::Reshard(const SkuCall& call) {
  const auto& [sku, shards] = std::tie(call.sku, call.shards);
  if (absl::Status valid = checks_.CheckLength("sku", sku, kMaxSkuBytes); !valid.ok()) return valid;
  if (shards < 1 || shards > kMaxShards) {
    return absl::InvalidArgumentError(Concat("Inventory '", options_.name, "': Reshard '", Printable(sku, 100),
                                             "': ", shards, " shards, which is not within 1 to ", kMaxShards));
  }
  const uint64_t id = ledger_.keys.SkuId(sku);
  return RunStep([&](FleetLane& writer) -> std::optional<absl::Status> {
    FleetSkuRows rows;
    if (!ReadSkus(writer, Concat("s.sku_id=", id), rows)) return std::nullopt;
    if (rows.empty() || rows.begin()->second.removed) return checks_.NoSuchSku(call.name, sku);
    if (absl::Status whole = CheckWhole(rows.begin()->second); !whole.ok()) return whole;
    FleetPacket packet;
    packet.AddGuarded(
        Concat("UPDATE ", ledger_.tables.skus, " SET segments=", shards, " WHERE sku_id=", id, " AND removed=0"), 1);
    packet.Add(Concat("SELECT SUM(units),SUM(held),SUM(sold) INTO @units,@held,@sold FROM ", ledger_.tables.stock,
                      kByKey, " WHERE sku_id=", id, " FOR UPDATE"));
    packet.Add(Concat("SELECT mode<>0 INTO @latched FROM ", ledger_.tables.skus, " WHERE sku_id=", id));
    // A merge and a reshard lock segment 0 first, which is always there.
    packet.Add(Concat("DELETE FROM ", ledger_.tables.stock, " WHERE sku_id=", id, " AND segment>0", kOfLedger));
    packet.AddGuarded(Concat("UPDATE ", ledger_.tables.stock, " SET units=", Share("@units", Concat(shards), "0"),
                             ",held=@held,sold=@sold WHERE sku_id=", id, " AND segment=0"),
                      1);
    packet.Add(Concat("UPDATE ", ledger_.tables.stock, kByKey,
                      " SET units=0,held=0,sold=0,fence=fence+1 WHERE sku_id=", id, kOfNodes));
    std::string stock;
    for (int32_t i = 1; i < shards; ++i) {
      stock +=
          Concat(i == 1 ? "" : ",", "(", id, ",", i, ",", Share("@units", Concat(shards), Concat(i)), ",0,0,@latched)");
    }
    if (shards > 1) {
      packet.Add(
          Concat("INSERT INTO ", ledger_.tables.stock, " (sku_id,segment,units,held,sold,latched) VALUES ", stock));
    }
    return Finish(RunUntilKnown(writer, packet));
  });
}

absl::Status FleetCore::Read(ReadCall& call) {
  if (call.kind == ReadCall::Kind::kState) return ReadState(call);
  return call.kind == ReadCall::Kind::kSnapshots ? ReadAllSkus(call) : ReadSku(call);
}

absl::Status FleetCore::AskForSkus(std::string_view where, FleetSkuRows& rows) {
  return RunStep(
      [&](FleetLane& writer) -> std::optional<absl::Status> {
        if (!ReadSkus(writer, where, rows)) return std::nullopt;
        return absl::OkStatus();
      },
      /*reads=*/true);
}

absl::Status FleetCore::ReadSku(ReadCall& call) {
  FleetSkuRows rows;
  absl::Status read = AskForSkus(Concat("s.sku_id=", ledger_.keys.SkuId(call.sku)), rows);
  if (!read.ok()) return read;
  if (rows.empty() || (rows.begin()->second.removed && call.kind != ReadCall::Kind::kFigures)) {
    return checks_.NoSuchSku(call.name, call.sku);
  }
  call.of_sku = rows.begin()->second.Snapshot();
  return absl::OkStatus();
}

absl::Status FleetCore::ReadAllSkus(ReadCall& call) {
  for (uint64_t last = 0;;) {
    FleetSkuRows rows;
    absl::Status read =
        AskForSkus(Concat("s.sku_id IN (SELECT sku_id FROM (SELECT sku_id FROM ", ledger_.tables.skus,
                          " WHERE removed=0 AND sku_id>", last, " ORDER BY sku_id LIMIT ", kSkusAtOnce, ") page)"),
                   rows);
    if (!read.ok()) return read;
    for (const auto& [id, row] : rows) call.all.push_back(row.Snapshot());
    if (rows.size() < kSkusAtOnce) break;
    last = rows.rbegin()->first;
  }
  std::ranges::sort(call.all, {}, &SkuSnapshot::sku);
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
