#ifndef STOCKADE_TESTS_INVENTORY_CRASH_AUDIT_H_
#define STOCKADE_TESTS_INVENTORY_CRASH_AUDIT_H_

#include <sqlite3.h>

#include <functional>
#include <string>
#include <vector>

#include "inventory/crash/witness.h"
#include "inventory/sqlite_ledger_support.h"

namespace stockade::testing {

// Makes the connection leave the file and its write-ahead log as they are when it closes, so that the ledger's own
// opening is the first to meet what a crash has left.
void LeaveAsFound(PlainSql& sql);

// Runs a statement, or several, and hands over each row, to be read with sqlite3_column_...(). A failed test where
// SQLite finds fault with it.
void ForEachRow(PlainSql& sql, const std::string& statements, const std::function<void(sqlite3_stmt*)>& row);

struct Finding {
  std::string statement;  // Its name.
  std::string row;        // Its columns.
};

// What docs/ledger_audit.sql finds: all of it, by a connection that knows nothing of ledgers.
std::vector<Finding> AuditBySql(PlainSql& sql);

// Fails the test with what that finds, if anything.
void ExpectAuditHolds(PlainSql& sql);

// While nobody has the ledger open.
LedgerContents ContentsOf(PlainSql& sql);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_CRASH_AUDIT_H_
