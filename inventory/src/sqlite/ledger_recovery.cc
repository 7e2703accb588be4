#include "ledger_recovery.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "ledger_rows.h"
#include "returned_units.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

absl::Status CheckFile(SqliteDatabase& database) {
  const absl::StatusOr<std::string> verdict = database.QueryText("PRAGMA quick_check(1)");
  if (!verdict.ok()) return verdict.status();
  if (absl::Status damage = database.PageDamage(); !damage.ok()) return damage;
  return *verdict == "ok" ? absl::OkStatus() : absl::DataLossError(Concat("quick_check: ", *verdict));
}

// What the tables say, beside what is in RecoveredLedger.
struct Tables {
  RecoveredLedger& to;
  ReplayStart start = {};
};

absl::Status ReadLedger(SqliteDatabase& database, Tables& tables) {
  absl::StatusOr<SqliteStatement> rows =
      database.Prepare("SELECT journal_start, last_forgotten_id, fingerprint_key, session FROM ledger");
  if (!rows.ok()) return rows.status();
  const absl::StatusOr<bool> row = rows->Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError("the table ledger is empty");
  tables.start.position = static_cast<uint64_t>(rows->Int(0));
  tables.to.start.position = tables.start.position;
  tables.to.state.last_forgotten_id = static_cast<uint64_t>(rows->Int(1));
  std::vector<uint64_t> key;
  AddFromBlob(rows->Blob(2), key);
  tables.to.key = {key[0], key[1]};
  tables.to.state.fingerprint_key = tables.to.key;
  tables.to.session = rows->Int(3);
  return absl::OkStatus();
}

absl::Status ReadSkus(SqliteDatabase& database, Tables& tables) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare(
      "SELECT sku, granted, shards, per_buyer_limit, removed, sold_forgotten, start_granted, start_available, "
      "start_removed FROM skus");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    LedgerState::Sku sku{.sku = std::string(rows->Text(0)),
                         .granted = rows->Int(1),
                         .shards = static_cast<int32_t>(rows->Int(2)),
                         .per_buyer_limit = rows->Int(3),
                         .removed = rows->Int(4) != 0,
                         .sold_forgotten = rows->Int(5)};
    if (!rows->IsNull(6)) {
      const bool removed = rows->Int(8) != 0;
      tables.start.skus.push_back(
          {.sku = sku.sku, .granted = rows->Int(6), .available = rows->Int(7), .removed = removed});
      if (removed) tables.to.start.removed.insert(sku.sku);
    }
    tables.to.state.skus.push_back(std::move(sku));
  }
  return row.status();
}

absl::Status ReadOrders(SqliteDatabase& database, Tables& tables) {
  const absl::StatusOr<int64_t> version = database.QueryInt("PRAGMA user_version");
  if (!version.ok()) return version.status();
  absl::StatusOr<SqliteStatement> rows = database.Prepare(
      Concat("SELECT order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us, "
             "settled_at_us, position, ",
             *version < 5 ? "0, 0" : "extended_us, end_folded", " FROM orders ORDER BY order_id"));
  if (!rows.ok()) return rows.status();
  absl::StatusOr<LineReader> lines = LineReader::Create(
      database, "SELECT order_id, sku, quantity FROM order_lines ORDER BY order_id, line", "order_lines");
  if (!lines.ok()) return lines.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    LedgerState::Order order{.order_id = static_cast<uint64_t>(rows->Int(0)),
                             .kind = rows->Int(6) != 0 ? Kind::kReserve : Kind::kTake,
                             .request_id = std::string(rows->Text(1)),
                             .buyer = std::string(rows->Text(4))};
    if (rows->IsNull(2)) {
      absl::StatusOr<OrderLines> of_basket = lines->LinesOf(rows->Int(0));
      if (!of_basket.ok()) return of_basket.status();
      order.kind = Kind::kReserveBasket;
      order.lines = *std::move(of_basket);
    } else {
      order.lines.push_back({.sku = std::string(rows->Text(2)), .quantity = rows->Int(3)});
    }
    const std::optional<OrderState> state = StateCalled(rows->Text(5));
    if (!state.has_value()) {
      return absl::DataLossError(Concat("order ", order.order_id, " has the unknown state '", rows->Text(5), "'"));
    }
    order.state = *state;
    if (!rows->IsNull(7)) order.expires_at = absl::FromUnixMicros(rows->Int(7));
    if (!rows->IsNull(8)) order.ttl = absl::Microseconds(rows->Int(8));
    if (!rows->IsNull(9)) order.ended_at = absl::FromUnixMicros(rows->Int(9));
    tables.start.granted_at.push_back(static_cast<uint64_t>(rows->Int(10)));
    order.extended = absl::Microseconds(rows->Int(11));
    tables.start.end_folded.push_back(rows->Int(12) != 0);
    tables.to.state.orders.push_back(std::move(order));
  }
  return row.ok() ? lines->ExpectEnd() : row.status();
}

absl::Status ReadChanges(SqliteDatabase& database, Tables& tables) {
  const absl::StatusOr<int64_t> version = database.QueryInt("PRAGMA user_version");
  if (!version.ok() || *version < 5) return version.status();
  absl::StatusOr<SqliteStatement> rows = database.Prepare(
      "SELECT position, change_id, request_id, order_id, kind, of_all, at_us, sku, quantity, to_stock "
      "FROM changes LEFT JOIN change_lines USING (position) ORDER BY position, line");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    const auto position = static_cast<uint64_t>(rows->Int(0));
    if (tables.start.changed_at.empty() || tables.start.changed_at.back() != position) {
      tables.start.changed_at.push_back(position);
      tables.to.state.changes.push_back(
          {.change_id = static_cast<uint64_t>(rows->Int(1)),
           .kind = rows->Text(4) == KindName(Kind::kWriteOff) ? Kind::kWriteOff : Kind::kReturn,
           .order_id = static_cast<uint64_t>(rows->Int(3)),
           .request_id = std::string(rows->Text(2)),
           .of_all = rows->Int(5) != 0,
           .at = absl::FromUnixMicros(rows->Int(6))});
    }
    if (rows->IsNull(7)) continue;
    tables.to.state.changes.back().lines.push_back(
        {.sku = std::string(rows->Text(7)), .quantity = rows->Int(8), .to_stock = rows->Int(9) != 0});
  }
  if (!row.ok()) return row.status();
  const absl::StatusOr<int64_t> strays = database.QueryInt(
      "SELECT coalesce(min(position), 0) FROM change_lines WHERE position NOT IN (SELECT position FROM changes)");
  if (!strays.ok() || *strays == 0) return strays.status();
  return absl::DataLossError(Concat("change_lines: position ", *strays, " is not in the table of changes"));
}

absl::Status ReadRestocks(SqliteDatabase& database, Tables& tables) {
  absl::StatusOr<SqliteStatement> rows =
      database.Prepare("SELECT order_id, request_id, sku, quantity, at_us, position FROM restocks ORDER BY position");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    tables.to.state.restocks.push_back({.order_id = static_cast<uint64_t>(rows->Int(0)),
                                        .request_id = std::string(rows->Text(1)),
                                        .sku = std::string(rows->Text(2)),
                                        .quantity = rows->Int(3),
                                        .at = absl::FromUnixMicros(rows->Int(4))});
    tables.start.restocked_at.push_back(static_cast<uint64_t>(rows->Int(5)));
  }
  return row.status();
}

absl::Status ReadBought(SqliteDatabase& database, Tables& tables) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare("SELECT sku, buyer, units FROM bought");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    tables.to.state.bought.push_back(
        {.sku = std::string(rows->Text(0)), .buyer = std::string(rows->Text(1)), .units = rows->Int(2)});
  }
  return row.status();
}

absl::Status ReadForgotten(SqliteDatabase& database, Tables& tables) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare("SELECT fingerprints FROM forgotten ORDER BY journal_start");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) AddFromBlob(rows->Blob(0), tables.to.state.forgotten);
  return row.status();
}

// What forgotten orders have sold of a SKU with a limit, buyers have bought, and nothing of another; for one that was
// removed they are no longer kept. DataLoss: not so.
absl::Status CheckBought(const RecoveredLedger& ledger) {
  std::map<std::string_view, int64_t> left;  // Units of which no buyer has been found yet.
  for (const LedgerState::Sku& sku : ledger.state.skus) {
    const bool has_buyers = sku.per_buyer_limit > 0 && !ledger.start.removed.contains(sku.sku);
    left.emplace(sku.sku, has_buyers ? sku.sold_forgotten : 0);
  }
  for (const LedgerState::Bought& bought : ledger.state.bought) {
    int64_t& of_sku = left[bought.sku];
    if (bought.units > of_sku) {
      return absl::DataLossError(Concat("bought: buyer '", bought.buyer, "' has ", bought.units, " units of SKU '",
                                        bought.sku, "', of which forgotten orders have sold only ", of_sku, " more"));
    }
    of_sku -= bought.units;
  }
  for (const LedgerState::Sku& sku : ledger.state.skus) {
    if (sku.removed || left[sku.sku] == 0) continue;
    return absl::DataLossError(Concat("bought: of SKU '", sku.sku, "' ", left[sku.sku], " of sold_forgotten ",
                                      sku.sold_forgotten, " have no buyer"));
  }
  return absl::OkStatus();
}

// Of those in the tables of orders, changes and restocks. DataLoss: one is there twice.
absl::Status FingerprintRequests(RecoveredLedger& ledger) {
  const RequestFingerprint fingerprint(ledger.key);
  const auto for_each = [&](const auto& visit) {
    for (const LedgerState::Order& order : ledger.state.orders) visit("order ", order.order_id, order.request_id);
    for (const LedgerState::Restock& restock : ledger.state.restocks) {
      visit("restock ", restock.order_id, restock.request_id);
    }
    for (const LedgerState::Change& change : ledger.state.changes) {
      visit("return ", change.change_id, change.request_id);
    }
  };
  ledger.requests.reserve(ledger.state.orders.size() + ledger.state.restocks.size() + ledger.state.changes.size());
  std::vector<uint64_t> repeated;
  for_each([&](std::string_view, uint64_t, const std::string& request_id) {
    const uint64_t request = fingerprint(request_id);
    if (!ledger.requests.insert(request).second) repeated.push_back(request);
  });
  absl::Status unique;
  if (repeated.empty()) return unique;
  // Two ids may have the same fingerprint, once in a thousand years.
  std::set<std::string_view> ids;
  for_each([&](std::string_view what, uint64_t order_id, const std::string& request_id) {
    if (!unique.ok() || std::ranges::find(repeated, fingerprint(request_id)) == repeated.end()) return;
    if (ids.insert(request_id).second) return;
    unique = absl::DataLossError(Concat(what, order_id, ": another order has its request id '", request_id, "', too"));
  });
  return unique;
}

absl::Status ReplayJournal(SqliteDatabase& database, JournalReplay& replay) {
  // What lies before its start is wrong, too.
  absl::StatusOr<JournalReader> journal = JournalReader::Create(database, 0, INT64_MAX);
  if (!journal.ok()) return journal.status();
  absl::StatusOr<bool> row;
  while ((row = journal->Next()).ok() && *row) {
    if (absl::Status status = replay.Apply(journal->row()); !status.ok()) return status;
  }
  return row.ok() ? replay.Finish() : row.status();
}

}  // namespace

absl::Status JournalReplay::Begin() {
  const auto bad = [](const auto&... what) { return absl::DataLossError(Concat("start of the journal: ", what...)); };
  std::map<std::string_view, int64_t> sold;
  for (const LedgerState::Sku& sku : shown_.skus) sold.emplace(sku.sku, sku.sold_forgotten);
  for (const ReplayStart::Sku& sku : start_.skus) {
    const Balance start{.available = sku.granted - sold[sku.sku], .sold = sold[sku.sku]};
    if (start.available < 0) return bad("SKU '", sku.sku, "' has ", sku.granted, " granted, but more units are sold");
    balances_.Begin(sku.sku, start);
  }
  // All of them are right; those before the start have been applied there.
  const std::span<const LedgerState::Change> changes = shown_.changes;
  const absl::StatusOr<ReturnedUnits> all = ReturnedUnits::Of(shown_.orders, changes);
  if (!all.ok()) return all.status();
  const auto& positions = start_.changed_at;
  next_change_ = static_cast<size_t>(std::ranges::upper_bound(positions, start_.position) - positions.begin());
  const absl::StatusOr<ReturnedUnits> returned = ReturnedUnits::Of(shown_.orders, changes.first(next_change_));
  std::set<uint64_t> come_back_later;
  for (const LedgerState::Change& change : changes.subspan(next_change_)) come_back_later.insert(change.order_id);
  for (size_t i = 0; i < shown_.orders.size(); ++i) {
    if (start_.granted_at[i] > start_.position) {
      if (start_.end_folded[i]) return bad("order ", shown_.orders[i].order_id, " has ended before it was granted");
      continue;
    }
    // It has not ended there, or units of it came back later, or it were gone.
    const LedgerState::Order& order = shown_.orders[i];
    states_[i] = start_.end_folded[i] ? OrderState::kSold : OrderState::kHeld;
    if (start_.end_folded[i] && !come_back_later.contains(order.order_id)) {
      return bad("order ", order.order_id, " has ended, and is still there");
    }
    for (const OrderLine& line : order.lines) {
      const int64_t units = line.quantity - returned->OfLine(order.order_id, line.sku);
      if (units == 0) continue;
      absl::Status taken = balances_.Apply(Kind::kReserve, line.sku, units).status();
      if (taken.ok() && start_.end_folded[i]) taken = balances_.Apply(Kind::kCommit, line.sku, units).status();
      if (!taken.ok()) return bad("order ", order.order_id, ": ", taken.message());
    }
  }
  for (const ReplayStart::Sku& sku : start_.skus) {
    if (const int64_t left = balances_.Find(sku.sku)->available; left != sku.available) {
      return bad("SKU '", sku.sku, "': start_available is ", sku.available, ", but start_granted ", sku.granted,
                 " less sold_forgotten ", sold[sku.sku], " less the units of orders there is ", left);
    }
    if (!sku.removed) continue;
    // All that it had left is gone with it.
    const absl::Status removed = balances_.Apply(Kind::kRemoveSku, sku.sku, 0).status();
    if (!removed.ok()) return bad(removed.message());
  }
  balances_.Keep();
  return absl::OkStatus();
}

absl::Status JournalReplay::Apply(const JournalRow& row) {
  if (row.position != last_position_ + 1) {
    return absl::DataLossError(Concat("journal: position ", last_position_ + 1, " is missing"));
  }
  last_position_ = row.position;
  absl::Status status = IsReturn(row.kind)                 ? CheckReturn(row)
                        : StateAfter(row.kind).has_value() ? CheckOrder(row)
                                                           : CheckRestock(row);
  for (const OrderLine& line : row.lines) {
    if (status.ok()) status = balances_.Apply(row.kind, line.sku, line.quantity).status();
  }
  balances_.Keep();
  if (status.ok()) return status;
  return absl::DataLossError(
      Concat("journal: position ", row.position, " (", KindName(row.kind), "): ", status.message()));
}

const LedgerState::Order* JournalReplay::FindOrder(uint64_t order_id) const {
  const std::vector<LedgerState::Order>& orders = shown_.orders;
  if (orders.empty() || order_id < orders.front().order_id || order_id > orders.back().order_id) return nullptr;
  // Ids ascend, nearly without gaps: an order is left of where it would be without any, by no more than there are.
  const uint64_t gaps = orders.back().order_id - orders.front().order_id + 1 - orders.size();
  const uint64_t most = order_id - orders.front().order_id;
  const std::span<const LedgerState::Order> among(orders.data() + (most - std::min(most, gaps)),
                                                  orders.data() + std::min<uint64_t>(most + 1, orders.size()));
  const auto found = std::ranges::lower_bound(among, order_id, {}, &LedgerState::Order::order_id);
  return found != among.end() && found->order_id == order_id ? &*found : nullptr;
}

absl::Status JournalReplay::CheckRestock(const JournalRow& row) {
  if (row.kind != Kind::kRestock || row.order_id == 0) return absl::OkStatus();
  const auto differs = [&](std::string_view what) {
    return absl::DataLossError(Concat("restock ", row.order_id, " ", what));
  };
  if (next_restock_ == shown_.restocks.size()) return differs("is not in the table of restocks");
  const LedgerState::Restock& restock = shown_.restocks[next_restock_];
  if (restock.order_id != row.order_id || start_.restocked_at[next_restock_] != row.position) {
    return differs("is not the next one in the table of restocks");
  }
  if (restock.sku != row.lines[0].sku || restock.quantity != row.lines[0].quantity) {
    return differs("has other units in the table of restocks");
  }
  if (restock.at != absl::FromUnixMicros(row.at_us)) return differs("has another time in the table of restocks");
  ++next_restock_;
  return absl::OkStatus();
}

absl::Status JournalReplay::CheckReturn(const JournalRow& row) {
  const auto differs = [&](std::string_view what) {
    return absl::DataLossError(Concat("return of order ", row.order_id, " ", what));
  };
  if (next_change_ == shown_.changes.size()) return differs("is not in the table of changes");
  const LedgerState::Change& change = shown_.changes[next_change_];
  if (start_.changed_at[next_change_] != row.position || change.order_id != row.order_id || change.kind != row.kind) {
    return differs("is not the next one in the table of changes");
  }
  const auto is_same = [&](const ReturnedLine& a, const OrderLine& b) {
    const Balance* const balance = balances_.Find(b.sku);
    const bool on_sale = balance != nullptr && balance->on_sale;
    return a.sku == b.sku && a.quantity == b.quantity &&
           a.to_stock == (TransferOf(row.kind, on_sale).to == Account::kAvailable);
  };
  if (!std::ranges::equal(change.lines, row.lines, is_same)) return differs("has other units in the table of changes");
  if (change.at != absl::FromUnixMicros(row.at_us)) return differs("has another time in the table of changes");
  const LedgerState::Order* const order = FindOrder(row.order_id);  // There: ReturnedUnits has found it.
  if (states_[static_cast<size_t>(order - shown_.orders.data())] != OrderState::kSold) return differs("is not sold");
  ++next_change_;
  return absl::OkStatus();
}

absl::Status JournalReplay::CheckOrder(const JournalRow& row) {
  const auto differs = [&](std::string_view what) {
    return absl::DataLossError(Concat("order ", row.order_id, " ", what));
  };
  const LedgerState::Order* const found = FindOrder(row.order_id);
  if (found == nullptr) return differs("is not in the table of orders");
  const LedgerState::Order& order = *found;
  if (row.basket != (order.kind == Kind::kReserveBasket) || row.lines != order.lines) {
    return differs("has other units in the table of orders");
  }

  const auto index = static_cast<size_t>(found - shown_.orders.data());
  std::optional<OrderState>& state = states_[index];
  if (IsGrant(row.kind)) {
    if (state.has_value()) return differs("is granted twice");
    if (start_.granted_at[index] != row.position) return differs("has another position in the table of orders");
    if (order.kind != row.kind) return differs("has another kind in the table of orders");
  } else if (!state.has_value() || Judge(row.kind, *state) != Verdict::kApply) {
    return differs("is not held");
  } else if (row.kind == Kind::kExtend) {
    if (order.extended == absl::ZeroDuration()) return differs("is not extended in the table of orders");
    extended_[index] = true;
  }
  state = StateAfter(row.kind);
  if (state != OrderState::kHeld && order.ended_at != absl::FromUnixMicros(row.at_us)) {
    return differs("ended at another time in the table of orders");
  }
  return absl::OkStatus();
}

absl::Status JournalReplay::Finish() const {
  for (size_t i = 0; i < states_.size(); ++i) {
    const LedgerState::Order& order = shown_.orders[i];
    const bool was_before = start_.granted_at[i] <= start_.position;
    if (order.extended != absl::ZeroDuration() && !extended_[i] && !was_before) {
      return absl::DataLossError(Concat("order ", order.order_id, " is extended, but not in the journal"));
    }
    if (states_[i] == order.state) continue;
    const std::string_view by_journal = states_[i].has_value() ? StateName(*states_[i]) : "unknown";
    return absl::DataLossError(Concat("order ", order.order_id, " is ", StateName(order.state), ", but ", by_journal,
                                      " according to the journal"));
  }
  if (next_change_ != shown_.changes.size()) {
    return absl::DataLossError(Concat("return ", shown_.changes[next_change_].change_id, " is not in the journal"));
  }
  if (next_restock_ != shown_.restocks.size()) {
    return absl::DataLossError(Concat("restock ", shown_.restocks[next_restock_].order_id, " is not in the journal"));
  }
  for (const LedgerState::Sku& sku : shown_.skus) {
    const Balance* const balance = balances_.Find(sku.sku);
    if (balance == nullptr) return absl::DataLossError(Concat("SKU '", sku.sku, "' is not in the journal"));
    if (balance->on_sale == sku.removed) {
      return absl::DataLossError(Concat("SKU '", sku.sku, "' is ",
                                        sku.removed ? "removed, but not" : "not removed, but removed",
                                        " according to the journal"));
    }
    if (balance->granted() != sku.granted) {
      return absl::DataLossError(Concat("SKU '", sku.sku, "': ", sku.granted, " granted, but ", balance->granted(),
                                        " according to the journal"));
    }
  }
  if (balances_.size() != shown_.skus.size()) {
    return absl::DataLossError("journal: it names a SKU that is not in the table of SKUs");
  }
  return absl::OkStatus();
}

absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database) {
  RecoveredLedger recovered;
  Tables tables{.to = recovered};
  absl::Status status = CheckFile(database);
  for (const auto read : {ReadLedger, ReadSkus, ReadOrders, ReadChanges, ReadRestocks, ReadBought, ReadForgotten}) {
    if (status.ok()) status = read(database, tables);
  }
  if (status.ok()) status = FingerprintRequests(recovered);
  if (!status.ok()) return status;
  JournalReplay replay(recovered.state, tables.start);
  if (status = replay.Begin(); !status.ok()) return status;
  if (status = CheckBought(recovered); !status.ok()) return status;
  if (status = ReplayJournal(database, replay); !status.ok()) return status;
  recovered.balances = replay.TakeBalances();
  recovered.last_position = replay.last_position();
  return recovered;
}

}  // namespace stockade::inventory_internal
