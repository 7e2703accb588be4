#include "inventory/crash/audit.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace stockade::testing {
namespace {

std::string ReadAudit() {
  std::ifstream in(STOCKADE_LEDGER_AUDIT_SQL);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << STOCKADE_LEDGER_AUDIT_SQL;
  return text.str();
}

// "-- name: what it finds" stands before a statement. Empty: it is there for the others.
std::string NameOf(const std::string& statement) {
  std::istringstream lines(statement);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with("-- ") || colon == std::string::npos) continue;
    std::string name = line.substr(3, colon - 3);
    if (name.find(' ') == std::string::npos) return name;
  }
  return "";
}

std::string RowOf(sqlite3_stmt* statement) {
  std::string row;
  for (int i = 0; i < sqlite3_column_count(statement); ++i) {
    const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
    absl::StrAppend(&row, i == 0 ? "" : ", ", sqlite3_column_name(statement, i), "=", text == nullptr ? "NULL" : text);
  }
  return row;
}

}  // namespace

void LeaveAsFound(PlainSql& sql) {
  int is_on = 0;
  sqlite3_db_config(sql.connection(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, &is_on);
  EXPECT_EQ(is_on, 1);
}

void ForEachRow(PlainSql& sql, const std::string& statements, const std::function<void(sqlite3_stmt*)>& row) {
  const char* rest = statements.c_str();
  while (*rest != '\0') {
    sqlite3_stmt* statement = nullptr;
    ASSERT_EQ(sqlite3_prepare_v2(sql.connection(), rest, -1, &statement, &rest), SQLITE_OK)
        << sqlite3_errmsg(sql.connection()) << ": " << rest;
    if (statement == nullptr) return;  // Nothing but space was left.
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) row(statement);
    EXPECT_EQ(code, SQLITE_DONE) << sqlite3_errmsg(sql.connection()) << ": " << sqlite3_sql(statement);
    sqlite3_finalize(statement);
  }
}

std::vector<Finding> AuditBySql(PlainSql& sql) {
  std::vector<Finding> findings;
  ForEachRow(sql, ReadAudit(), [&](sqlite3_stmt* statement) {
    findings.push_back({.statement = NameOf(sqlite3_sql(statement)), .row = RowOf(statement)});
  });
  return findings;
}

void ExpectAuditHolds(PlainSql& sql) {
  const std::vector<Finding> findings = AuditBySql(sql);
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < findings.size() && i < kShown; ++i) {
    ADD_FAILURE() << "audit by SQL: " << findings[i].statement << ": " << findings[i].row;
  }
  EXPECT_EQ(findings.size(), 0u);
}

}  // namespace stockade::testing
