#include "inventory/crash/audit.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <unordered_map>

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

std::string Text(sqlite3_stmt* row, int column) {
  const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text == nullptr ? "" : text;
}

int64_t OrElse(sqlite3_stmt* row, int column, int64_t null) {
  return sqlite3_column_type(row, column) == SQLITE_NULL ? null : sqlite3_column_int64(row, column);
}

std::optional<OrderState> StateCalled(std::string_view name) {
  if (name == "held") return OrderState::kHeld;
  if (name == "sold") return OrderState::kSold;
  if (name == "cancelled") return OrderState::kCancelled;
  if (name == "expired") return OrderState::kExpired;
  return std::nullopt;
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

LedgerContents ContentsOf(PlainSql& sql) {
  LedgerContents contents;
  std::unordered_map<uint64_t, std::vector<OrderLine>> baskets;
  ForEachRow(sql, "SELECT order_id, sku, quantity FROM order_lines ORDER BY order_id, line", [&](sqlite3_stmt* row) {
    baskets[static_cast<uint64_t>(sqlite3_column_int64(row, 0))].push_back(
        {.sku = Text(row, 1), .quantity = sqlite3_column_int64(row, 2)});
  });
  ForEachRow(sql,
             "SELECT order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us FROM orders",
             [&](sqlite3_stmt* row) {
               const std::optional<Key> key = KeyCalled(Text(row, 1));
               const std::optional<OrderState> state = StateCalled(Text(row, 5));
               ASSERT_TRUE(key.has_value() && state.has_value()) << "an order of nobody: " << Text(row, 1);
               const auto order_id = static_cast<uint64_t>(sqlite3_column_int64(row, 0));
               std::vector<OrderLine> lines = {{.sku = Text(row, 2), .quantity = sqlite3_column_int64(row, 3)}};
               contents.orders.push_back({.key = *key,
                                          .order_id = order_id,
                                          .lines = lines[0].sku.empty() ? baskets[order_id] : lines,
                                          .buyer = Text(row, 4),
                                          .state = *state,
                                          .reserved = sqlite3_column_int64(row, 6) != 0,
                                          .expires_us = OrElse(row, 7, -1),
                                          .ttl_us = OrElse(row, 8, -1)});
             });
  ForEachRow(sql,
             "SELECT sku, granted, removed, sold_forgotten, (SELECT coalesce(sum(quantity), 0) FROM change_lines l "
             "WHERE l.sku = s.sku) FROM skus s",
             [&](sqlite3_stmt* row) {
               contents.skus.push_back({.sku = Text(row, 0),
                                        .granted = sqlite3_column_int64(row, 1),
                                        .removed = sqlite3_column_int64(row, 2) != 0,
                                        .sold_forgotten = sqlite3_column_int64(row, 3),
                                        .returned = sqlite3_column_int64(row, 4)});
             });
  return contents;
}

}  // namespace stockade::testing
