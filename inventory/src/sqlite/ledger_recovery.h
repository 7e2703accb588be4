#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "sqlite_database.h"
#include "stock_book.h"
#include "stockade/inventory/ledger.h"

namespace stockade::internal {

struct RecoveredLedger {
  LedgerState state;
  StockBook book;              // Of state.skus.
  uint64_t last_position = 0;  // 0: an empty journal.
};

// Checks the file and reads it. DataLoss: damaged; or the state does not add up, by itself or with the journal.
// O(journal * log(orders)).
absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database);

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
