#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_SCHEMA_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_SCHEMA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "sqlite_database.h"

namespace stockade::inventory_internal {

// PRAGMA application_id of a ledger: "Stkd". PRAGMA user_version: of its tables.
inline constexpr int64_t kLedgerApplicationId = 0x53746b64;
inline constexpr int64_t kLedgerSchemaVersion = 4;

// Makes the tables in an empty file, if `fresh`. FailedPrecondition: a file that is no ledger, or one of another
// version, or an empty database; left as it is.
absl::Status PrepareLedgerFile(SqliteDatabase& database, bool fresh);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_SCHEMA_H_
