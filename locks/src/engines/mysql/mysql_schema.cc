#include "mysql_schema.h"

#include <algorithm>
#include <span>

#include "absl/strings/ascii.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_literal.h"

namespace stockade::locks_internal {
namespace {

// In the tables' comments. Another one: another version of Stockade made them.
constexpr std::string_view kVersion = "stockade locks 1";

struct Column {
  std::string_view name;
  std::string_view definition;  // The server's own definition begins with this, except for the widths of numbers.
};

// The first `key_columns` are the primary key.
struct Table {
  std::string_view name;
  size_t key_columns;
  std::string_view index;
  std::span<const Column> columns;
};

constexpr Column kLocks[] = {{"name", "varbinary(256)"}, {"token", "bigint"}, {"used_at", "bigint"}};
constexpr Column kHolds[] = {
    {"name", "varbinary(256)"}, {"kind", "tinyint"},        {"owner", "binary(24)"},         {"hold_count", "bigint"},
    {"expires_at", "bigint"},   {"newest_step", "tinyint"}, {"sequence", "bigint unsigned"},
};
constexpr Table kTables[] = {{"locks", 1, "used_at", kLocks}, {"lock_holds", 3, "expires_at", kHolds}};

std::string Definition(std::string_view prefix, const Table& table) {
  std::string sql = Concat("CREATE TABLE IF NOT EXISTS `", prefix, table.name, "` (\n");
  std::string key;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    sql += Concat("  ", column.name, " ", absl::AsciiStrToUpper(AbslView(column.definition)), " NOT NULL,\n");
    if (i < table.key_columns) key += Concat(i == 0 ? "" : ", ", column.name);
  }
  return Concat(sql, "  PRIMARY KEY (", key, "),\n  KEY ", table.index, " (", table.index,
                ")\n) ENGINE=InnoDB COMMENT='", kVersion, "'");
}

// "bigint(20) unsigned" of older servers is "bigint unsigned" of newer ones. Of bytes, the width counts.
std::string WithoutNumbersWidth(std::string type) {
  type = absl::AsciiStrToLower(type);
  const size_t open = type.find('(');
  const size_t close = type.find(')');
  if (type.find("int") < open && open != std::string::npos && close != std::string::npos) {
    type.erase(open, close - open + 1);
  }
  return type;
}

absl::Status Wrong(std::string_view prefix, const Table& table, std::string_view what) {
  return absl::FailedPreconditionError(
      Concat("the table `", prefix, table.name, "` ", what,
             "; create the tables with create_schema, or with the statements of MySqlLockService::Schema()"));
}

// `rows`: of any table.
absl::Status CheckTable(std::string_view prefix, const Table& table, std::span<const MySqlSchemaRow> rows) {
  const std::string name = Concat(prefix, table.name);
  std::vector<const MySqlSchemaRow*> found;
  for (const MySqlSchemaRow& row : rows) {
    if (std::get<0>(row) == name) found.push_back(&row);
  }
  if (found.empty()) return Wrong(prefix, table, "is not there, or the user may not see it");
  const std::string engine = std::get<1>(*found.front()).value_or("");
  const std::string comment = std::get<2>(*found.front()).value_or("");
  if (absl::AsciiStrToLower(engine) != "innodb") {
    return Wrong(prefix, table, Concat("has the engine ", engine, ", not InnoDB"));
  }
  if (comment != kVersion) {
    return Wrong(prefix, table, Concat("has the comment '", comment, "', not '", kVersion, "'"));
  }
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    const auto row =
        std::ranges::find_if(found, [&](const MySqlSchemaRow* each) { return std::get<3>(*each) == column.name; });
    if (row == found.end()) return Wrong(prefix, table, Concat("has no column ", column.name));
    const std::string type = WithoutNumbersWidth(std::get<4>(**row));
    if (type != column.definition) {
      return Wrong(prefix, table,
                   Concat("has the column ", column.name, " of type ", type, ", not ", column.definition));
    }
    const int64_t key_place = std::get<5>(**row).value_or(0);
    if (key_place != (i < table.key_columns ? static_cast<int64_t>(i) + 1 : 0)) {
      return Wrong(prefix, table,
                   Concat("has the column ", column.name, " at position ", key_place,
                          " of its primary key (0: not in the key), which is wrong"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string MySqlLocksTable(std::string_view prefix) { return Concat("`", prefix, "locks`"); }
std::string MySqlHoldsTable(std::string_view prefix) { return Concat("`", prefix, "lock_holds`"); }

std::string MySqlSchema(std::string_view prefix) {
  std::string sql;
  for (const Table& table : kTables) sql += Concat(Definition(prefix, table), ";\n");
  return sql;
}

std::string MySqlRightsQuery(std::string_view prefix) {
  std::string sql;
  for (const Table& table : kTables) {
    const std::string name = Concat("`", prefix, table.name, "`");
    const std::string_view column = table.columns.back().name;
    sql += Concat("INSERT INTO ", name, " SELECT * FROM ", name, " WHERE FALSE;UPDATE ", name, " SET ", column, "=",
                  column, " WHERE FALSE;DELETE FROM ", name, " WHERE FALSE;");
  }
  return sql;
}

std::string MySqlSchemaQuery(std::string_view prefix) {
  std::string names;
  for (const Table& table : kTables) {
    names += Concat(names.empty() ? "" : ", ", "CONVERT(", MySqlLiteral(Concat(prefix, table.name)), " USING utf8mb4)");
  }
  return Concat(
      "SELECT t.TABLE_NAME, t.ENGINE, t.TABLE_COMMENT, c.COLUMN_NAME, c.COLUMN_TYPE, s.SEQ_IN_INDEX "
      "FROM information_schema.TABLES AS t "
      "JOIN information_schema.COLUMNS AS c ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME "
      "LEFT JOIN information_schema.STATISTICS AS s ON s.TABLE_SCHEMA = t.TABLE_SCHEMA AND s.TABLE_NAME = t.TABLE_NAME "
      "AND s.INDEX_NAME = 'PRIMARY' AND s.COLUMN_NAME = c.COLUMN_NAME "
      "WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME IN (",
      names, ")");
}

absl::Status CheckMySqlSchema(std::string_view prefix, std::span<const MySqlSchemaRow> answer) {
  for (const Table& table : kTables) {
    if (absl::Status checked = CheckTable(prefix, table, answer); !checked.ok()) return checked;
  }
  return absl::OkStatus();
}

}  // namespace stockade::locks_internal
