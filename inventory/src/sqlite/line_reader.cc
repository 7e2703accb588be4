#include "line_reader.h"

#include "stockade/base/strings.h"

namespace stockade::inventory_internal {

absl::StatusOr<LineReader> LineReader::Create(SqliteDatabase& database, std::string_view sql, std::string name) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare(sql);
  if (!rows.ok()) return rows.status();
  LineReader reader(*std::move(rows), std::move(name));
  if (absl::Status status = reader.Advance(); !status.ok()) return status;
  return reader;
}

absl::Status LineReader::Advance() {
  const absl::StatusOr<bool> row = rows_.Step();
  at_row_ = row.ok() && *row;
  return row.status();
}

absl::Status LineReader::Astray() const {
  return absl::DataLossError(Concat(name_, ": there are lines of ", rows_.Int(0), ", which is not a basket"));
}

absl::StatusOr<std::vector<OrderLine>> LineReader::LinesOf(int64_t owner) {
  std::vector<OrderLine> lines;
  while (at_row_ && rows_.Int(0) == owner) {
    lines.push_back({.sku = std::string(rows_.Text(1)), .quantity = rows_.Int(2)});
    if (absl::Status status = Advance(); !status.ok()) return status;
  }
  if (lines.empty() && at_row_ && rows_.Int(0) < owner) return Astray();
  if (lines.empty()) return absl::DataLossError(Concat(name_, ": the basket ", owner, " has no lines"));
  return lines;
}

absl::Status LineReader::ExpectEnd() { return at_row_ ? Astray() : absl::OkStatus(); }

}  // namespace stockade::inventory_internal
