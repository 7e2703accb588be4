#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_ROWS_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_ROWS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// 64-bit words as the column forgotten.fingerprints keeps them: 8 bytes each, little-endian.
inline std::string ToBlob(std::span<const uint64_t> words) {
  std::string blob;
  blob.reserve(words.size() * 8);
  for (const uint64_t word : words) {
    for (int shift = 0; shift < 64; shift += 8) blob.push_back(static_cast<char>(word >> shift));
  }
  return blob;
}

// Adds those in `blob`, whose size is a multiple of 8, to `words`.
inline void AddFromBlob(std::string_view blob, std::vector<uint64_t>& words) {
  for (; blob.size() >= 8; blob.remove_prefix(8)) {
    uint64_t word = 0;
    for (size_t i = 8; i-- > 0;) word = word << 8 | static_cast<unsigned char>(blob[i]);
    words.push_back(word);
  }
}

// PRAGMA application_id of a ledger: "Stkd". PRAGMA user_version: of its tables.
inline constexpr int64_t kLedgerApplicationId = 0x53746b64;
inline constexpr int64_t kLedgerSchemaVersion = 5;
// Files of this one are read as they are, and become those of the present one: by MigrateLedgerFile().
inline constexpr int64_t kOldestLedgerSchemaVersion = 4;

// Selects each SKU of the order ?1, if it is sold, and how many units of it have not come back.
inline constexpr std::string_view kLinesLeft =
    "SELECT of_order.sku, of_order.quantity - coalesce((SELECT sum(l.quantity) FROM changes JOIN change_lines l USING "
    "(position) WHERE changes.order_id = ?1 AND l.sku = of_order.sku), 0) FROM (SELECT sku, quantity FROM orders WHERE "
    "order_id = ?1 AND state = 'sold' AND sku IS NOT NULL UNION ALL SELECT l.sku, l.quantity FROM orders JOIN "
    "order_lines l USING (order_id) WHERE order_id = ?1 AND state = 'sold') of_order";

// Makes the tables in an empty file, if `fresh`. FailedPrecondition: a file that is no ledger, or one of another
// version, or an empty database; left as it is.
absl::Status PrepareLedgerFile(SqliteDatabase& database, bool fresh);

// Brings the tables of a file that was checked up to this version, in one transaction.
absl::Status MigrateLedgerFile(SqliteDatabase& database);

// What the columns journal.kind and orders.state say. Nothing for a value that there is not; the tables' constraints
// refuse both that and "unknown".
std::string_view KindName(LedgerRecord::Kind kind);
std::optional<LedgerRecord::Kind> KindCalled(std::string_view name);
std::string_view StateName(OrderState state);
std::optional<OrderState> StateCalled(std::string_view name);

// Reads a table of lines beside the table of those whom they belong to. Must be gone before its database.
class LineReader {
 public:
  // `sql` gives the owner's id, which ascends, a SKU and a quantity. `name`: the table, for errors.
  static absl::StatusOr<LineReader> Create(SqliteDatabase& database, std::string_view sql, std::string name);

  // The lines of `owner`, which must ascend from call to call. DataLoss: it has none; or there are lines of an owner in
  // between, which was not asked for.
  absl::StatusOr<OrderLines> LinesOf(int64_t owner);

  // DataLoss: there are more lines than were asked for.
  absl::Status ExpectEnd();

 private:
  LineReader(SqliteStatement rows, std::string name) : rows_(std::move(rows)), name_(std::move(name)) {}

  absl::Status Advance();
  absl::Status Astray() const;

  SqliteStatement rows_;
  std::string name_;
  bool at_row_ = false;  // rows_ is at a row that nobody has been given.
};

// One row of the journal, with its lines.
struct JournalRow {
  uint64_t position = 0;
  int64_t at_us = 0;
  LedgerRecord::Kind kind = LedgerRecord::Kind::kAddSku;
  uint64_t order_id = 0;  // 0: of a SKU.
  bool basket = false;
  OrderLines lines = {};  // One, unless a basket.
};

// Reads the journal in its order. Must be gone before its database, and before a row that it reads is deleted.
class JournalReader {
 public:
  // The rows at the positions after `start`, and up to `end`.
  static absl::StatusOr<JournalReader> Create(SqliteDatabase& database, uint64_t start, uint64_t end);

  // False: there are no more. DataLoss: the next one is of a kind that there is not, or not with the lines that it has.
  absl::StatusOr<bool> Next();

  // After a Next() that was true, until the next one.
  const JournalRow& row() const { return row_; }

 private:
  JournalReader(SqliteStatement rows, LineReader lines) : rows_(std::move(rows)), lines_(std::move(lines)) {}

  SqliteStatement rows_;
  LineReader lines_;
  JournalRow row_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_ROWS_H_
