#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "journal_pruner.h"
#include "sqlite_database.h"
#include "stock_book.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

struct RecoveredLedger {
  LedgerState state;
  FingerprintKey key = {};
  JournalStart start;
  StockBook book;                          // Of state.skus.
  absl::flat_hash_set<uint64_t> requests;  // Fingerprints of the request ids of state.orders and .restocks.
  uint64_t last_position = 0;              // 0: there never was a record.
  int64_t session = 0;                     // Of the last that wrote to it.
};

// Checks the file and reads it. DataLoss: damaged; or the state does not add up, by itself or with the journal.
// O(journal * log(orders)).
absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
