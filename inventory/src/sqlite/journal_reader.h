#ifndef STOCKADE_INVENTORY_SQLITE_JOURNAL_READER_H_
#define STOCKADE_INVENTORY_SQLITE_JOURNAL_READER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "line_reader.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// One row of the journal, with its lines.
struct JournalRow {
  uint64_t position = 0;
  int64_t at_us = 0;
  LedgerRecord::Kind kind = LedgerRecord::Kind::kAddSku;
  uint64_t order_id = 0;  // 0: of a SKU.
  bool basket = false;
  std::vector<OrderLine> lines = {};  // One, unless a basket.
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

#endif  // STOCKADE_INVENTORY_SQLITE_JOURNAL_READER_H_
