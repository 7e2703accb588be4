#include "journal_reader.h"

#include <optional>
#include <string>

#include "ledger_names.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {

absl::StatusOr<JournalReader> JournalReader::Create(SqliteDatabase& database, uint64_t start, uint64_t end) {
  const std::string among = Concat(" WHERE position > ", start, " AND position <= ", end, " ORDER BY position");
  absl::StatusOr<SqliteStatement> rows =
      database.Prepare(Concat("SELECT position, at_us, kind, order_id, sku, quantity FROM journal", among));
  if (!rows.ok()) return rows.status();
  absl::StatusOr<LineReader> lines = LineReader::Create(
      database, Concat("SELECT position, sku, quantity FROM journal_lines", among, ", line"), "journal_lines");
  if (!lines.ok()) return lines.status();
  return JournalReader(*std::move(rows), *std::move(lines));
}

absl::StatusOr<bool> JournalReader::Next() {
  absl::StatusOr<bool> row = rows_.Step();
  if (!row.ok()) return row;
  if (!*row) {
    if (absl::Status end = lines_.ExpectEnd(); !end.ok()) return end;
    return false;
  }
  row_.position = static_cast<uint64_t>(rows_.Int(0));
  row_.at_us = rows_.Int(1);
  const std::optional<LedgerRecord::Kind> kind = KindCalled(rows_.Text(2));
  if (!kind.has_value()) {
    return absl::DataLossError(
        Concat("journal: position ", row_.position, " has the unknown kind '", rows_.Text(2), "'"));
  }
  row_.kind = *kind;
  row_.order_id = static_cast<uint64_t>(rows_.Int(3));
  row_.basket = rows_.IsNull(4);
  if (row_.basket) {
    absl::StatusOr<std::vector<OrderLine>> of_basket = lines_.LinesOf(rows_.Int(0));
    if (!of_basket.ok()) return of_basket.status();
    row_.lines = *std::move(of_basket);
  } else {
    // In place, for the sake of its memory.
    row_.lines.resize(1);
    row_.lines[0].sku = rows_.Text(4);
    row_.lines[0].quantity = rows_.Int(5);
  }
  return true;
}

}  // namespace stockade::inventory_internal
