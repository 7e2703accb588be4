#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::internal {

struct RecoveredLedger {
  LedgerState state;
  std::unordered_map<std::string, int64_t> available;  // Units for sale, by SKU: a key for each of state.skus.
  uint64_t last_position = 0;                          // 0: an empty journal.
};

// Checks the file and reads it. DataLoss: damaged; or the state does not add up, by itself or with the journal.
// O(journal + orders).
absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database);

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
