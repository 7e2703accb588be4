#include "ledger_recovery.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "fingerprint_blob.h"
#include "journal_reader.h"
#include "journal_replay.h"
#include "ledger_names.h"
#include "line_reader.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

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
  absl::StatusOr<SqliteStatement> rows = database.Prepare(
      "SELECT order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us, settled_at_us, "
      "position FROM orders ORDER BY order_id");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<LineReader> lines = LineReader::Create(
      database, "SELECT order_id, sku, quantity FROM order_lines ORDER BY order_id, line", "order_lines");
  if (!lines.ok()) return lines.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    LedgerState::Order order{.order_id = static_cast<uint64_t>(rows->Int(0)),
                             .request_id = std::string(rows->Text(1)),
                             .sku = std::string(rows->Text(2)),
                             .quantity = rows->Int(3),
                             .buyer = std::string(rows->Text(4)),
                             .reserved = rows->Int(6) != 0};
    if (rows->IsNull(2)) {
      absl::StatusOr<std::vector<OrderLine>> of_basket = lines->LinesOf(rows->Int(0));
      if (!of_basket.ok()) return of_basket.status();
      order.lines = *std::move(of_basket);
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
    tables.to.state.orders.push_back(std::move(order));
  }
  return row.ok() ? lines->ExpectEnd() : row.status();
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

// Of those in the tables of orders and of restocks. DataLoss: one is there twice.
absl::Status FingerprintRequests(RecoveredLedger& ledger) {
  const RequestFingerprint fingerprint(ledger.key);
  const auto for_each = [&](const auto& visit) {
    for (const LedgerState::Order& order : ledger.state.orders) visit("order ", order.order_id, order.request_id);
    for (const LedgerState::Restock& restock : ledger.state.restocks) {
      visit("restock ", restock.order_id, restock.request_id);
    }
  };
  ledger.requests.reserve(ledger.state.orders.size() + ledger.state.restocks.size());
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

absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database) {
  RecoveredLedger recovered;
  Tables tables{.to = recovered};
  absl::Status status = CheckFile(database);
  for (const auto read : {ReadLedger, ReadSkus, ReadOrders, ReadRestocks, ReadBought, ReadForgotten}) {
    if (status.ok()) status = read(database, tables);
  }
  if (status.ok()) status = FingerprintRequests(recovered);
  if (!status.ok()) return status;
  JournalReplay replay(recovered.state, tables.start);
  if (status = replay.Begin(); !status.ok()) return status;
  if (status = CheckBought(recovered); !status.ok()) return status;
  if (status = ReplayJournal(database, replay); !status.ok()) return status;
  recovered.book = replay.book();
  recovered.last_position = replay.last_position();
  return recovered;
}

}  // namespace stockade::inventory_internal
