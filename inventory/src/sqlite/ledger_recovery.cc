#include "ledger_recovery.h"

#include <optional>
#include <utility>

#include "journal_replay.h"
#include "ledger_names.h"
#include "line_reader.h"
#include "stockade/base/strings.h"

namespace stockade::internal {
namespace {

absl::Status CheckFile(SqliteDatabase& database) {
  const absl::StatusOr<std::string> verdict = database.QueryText("PRAGMA quick_check(1)");
  if (!verdict.ok()) return verdict.status();
  return *verdict == "ok" ? absl::OkStatus() : absl::DataLossError(Concat("quick_check: ", *verdict));
}

absl::Status ReadSkus(SqliteDatabase& database, LedgerState& to) {
  absl::StatusOr<SqliteStatement> rows =
      database.Prepare("SELECT sku, granted, shards, per_buyer_limit, removed FROM skus");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    to.skus.push_back({.sku = std::string(rows->Text(0)),
                       .granted = rows->Int(1),
                       .shards = static_cast<int32_t>(rows->Int(2)),
                       .per_buyer_limit = rows->Int(3),
                       .removed = rows->Int(4) != 0});
  }
  return row.status();
}

absl::Status ReadOrders(SqliteDatabase& database, LedgerState& to) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare(
      "SELECT order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us, settled_at_us "
      "FROM orders ORDER BY order_id");
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
    if (!state.has_value()) return absl::DataLossError(Concat("order ", order.order_id, " is '", rows->Text(5), "'"));
    order.state = *state;
    if (!rows->IsNull(7)) order.expires_at = absl::FromUnixMicros(rows->Int(7));
    if (!rows->IsNull(8)) order.ttl = absl::Microseconds(rows->Int(8));
    if (!rows->IsNull(9)) order.ended_at = absl::FromUnixMicros(rows->Int(9));
    to.orders.push_back(std::move(order));
  }
  return row.ok() ? lines->ExpectEnd() : row.status();
}

absl::Status ReplayJournal(SqliteDatabase& database, JournalReplay& replay) {
  absl::StatusOr<SqliteStatement> rows =
      database.Prepare("SELECT position, at_us, kind, order_id, sku, quantity FROM journal ORDER BY position");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<LineReader> lines = LineReader::Create(
      database, "SELECT position, sku, quantity FROM journal_lines ORDER BY position, line", "journal_lines");
  if (!lines.ok()) return lines.status();
  JournalRow entry;
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    entry.position = static_cast<uint64_t>(rows->Int(0));
    entry.at_us = rows->Int(1);
    const std::optional<LedgerRecord::Kind> kind = KindCalled(rows->Text(2));
    if (!kind.has_value()) {
      return absl::DataLossError(Concat("journal: position ", entry.position, " is a '", rows->Text(2), "'"));
    }
    entry.kind = *kind;
    entry.order_id = static_cast<uint64_t>(rows->Int(3));
    entry.basket = rows->IsNull(4);
    if (entry.basket) {
      absl::StatusOr<std::vector<OrderLine>> of_basket = lines->LinesOf(rows->Int(0));
      if (!of_basket.ok()) return of_basket.status();
      entry.lines = *std::move(of_basket);
    } else {
      // In place, for the sake of its memory.
      entry.lines.resize(1);
      entry.lines[0].sku = rows->Text(4);
      entry.lines[0].quantity = rows->Int(5);
    }
    if (absl::Status status = replay.Apply(entry); !status.ok()) return status;
  }
  if (!row.ok()) return row.status();
  if (absl::Status status = lines->ExpectEnd(); !status.ok()) return status;
  return replay.Finish();
}

}  // namespace

absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database) {
  RecoveredLedger recovered;
  absl::Status status = CheckFile(database);
  if (status.ok()) status = ReadSkus(database, recovered.state);
  if (status.ok()) status = ReadOrders(database, recovered.state);
  if (!status.ok()) return status;
  JournalReplay replay(recovered.state);
  if (status = ReplayJournal(database, replay); !status.ok()) return status;
  recovered.book = replay.book();
  recovered.last_position = replay.last_position();
  return recovered;
}

}  // namespace stockade::internal
