#include "fleet_schema.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "request_fingerprint.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_literal.h"

namespace stockade::inventory_internal {
namespace {

// Each fails only if another process has added a node meanwhile.
constexpr int kNodeAttempts = 64;

// Longer than the connection's default, because a lane waits for the group commits of others, but shorter than it waits
// for a reply.
std::string Settings(absl::Duration reply_timeout) {
  const int64_t seconds = std::clamp<int64_t>(absl::ToInt64Seconds(reply_timeout / 2), 1, 5);
  return Concat("SET SESSION innodb_lock_wait_timeout=", seconds, ", lock_wait_timeout=", seconds,
                ", sql_select_limit=18446744073709551615/*M!100300 , check_constraint_checks=1*/");
}

// Tables and their constraints.
constexpr std::pair<std::string_view, std::string_view> kConstraints[] = {
    {"stock", "paid"},    {"stock", "latched"}, {"skus", "limbo"},
    {"buyers", "within"}, {"lanes", "fenced"},  {"lanes", "code_is_too_old"}};

// What version 2 of the tables added, in CREATE TABLE and in ALTER TABLE.
constexpr const char* kSkuColumns[] = {"mode TINYINT NOT NULL DEFAULT 0", "epoch BIGINT NOT NULL DEFAULT 0",
                                       "lease_us BIGINT NOT NULL DEFAULT 0", "limbo BIGINT NOT NULL DEFAULT 0",
                                       "redis_segments TINYINT NOT NULL DEFAULT 0"};
constexpr std::string_view kSkuKey = "KEY mode (mode)";
constexpr std::string_view kLimboRule = "limbo >= 0 AND (limbo = 0 OR mode = 2)";
constexpr const char* kStockColumns[] = {"latched TINYINT NOT NULL DEFAULT 0", "fence BIGINT NOT NULL DEFAULT 0",
                                         "fills BIGINT NOT NULL DEFAULT 0"};
constexpr std::string_view kLatchedRule = "latched = 0 OR units = 0";
constexpr std::string_view kOrdersKey = "KEY by_sku (sku_id, order_id, request)";
constexpr std::string_view kLinesKey = "KEY by_sku (sku_id, order_id)";

// What version 3 added. A process of version 2 keeps orders for a day, and its start is its only sign of life.
constexpr const char* kLaneColumns[] = {"retention_us BIGINT NOT NULL DEFAULT 86400000000",
                                        "seen_at BIGINT NOT NULL DEFAULT 0"};

// What version 4 added. A process whose code is older cannot register a lane: the server's error names the constraint,
// which says why.
constexpr std::string_view kVersionColumn = "version BIGINT NOT NULL DEFAULT 0";
constexpr std::string_view kCodeColumn = "code INT NOT NULL DEFAULT 0";
constexpr std::string_view kCode = "code_is_too_old";
constexpr std::string_view kCodeRule = "code >= 4";
static_assert(kFleetSchemaVersion == 4);

// MySQL's names of constraints are unique in a schema.
std::string Constraint(std::string_view prefix, std::string_view name, std::string_view rule) {
  return Concat("CONSTRAINT `", prefix, "_", name, "` CHECK (", rule, ")");
}

absl::Status Failed(std::string_view what) {
  return absl::FailedPreconditionError(Concat("the ledger's server ", what));
}

// Little-endian, whatever the machine.
FingerprintKey KeyAt(std::string_view bytes, size_t index) {
  FingerprintKey key = {};
  for (size_t i = 0; i < sizeof key; ++i) {
    key[i / 8] |= uint64_t{static_cast<uint8_t>(bytes[index * sizeof key + i])} << 8 * (i % 8);
  }
  return key;
}

FleetHash HashOf(const std::array<FingerprintKey, 2>& keys, std::string_view text) {
  FleetHash hash;
  for (size_t i = 0; i < keys.size(); ++i) {
    uint64_t half = RequestFingerprint(keys[i])(text);
    for (size_t k = 0; k < sizeof half; ++k, half >>= 8) hash[i * sizeof half + k] = static_cast<uint8_t>(half);
  }
  return hash;
}

bool IsOn(std::string_view value) { return value == "ON" || value == "1"; }

std::string RandomBytes(size_t count) {
  std::random_device random;
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// "10.11.6-MariaDB-0+deb12u1": {10, 11}.
std::pair<int, int> MajorAndMinor(std::string_view version) {
  int major = 0;
  int minor = 0;
  const size_t dot = version.find('.');
  (void)absl::SimpleAtoi(AbslView(version.substr(0, dot)), &major);
  if (dot != std::string_view::npos) {
    const std::string_view rest = version.substr(dot + 1);
    (void)absl::SimpleAtoi(AbslView(rest.substr(0, rest.find_first_not_of("0123456789"))), &minor);
  }
  return {major, minor};
}

absl::Status CheckServer(const std::map<std::string, std::string>& settings) {
  const auto value = [&](const char* name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string() : found->second;
  };
  const std::string version = value("version");
  const bool mariadb = version.find("MariaDB") != std::string::npos;
  const auto least = mariadb ? std::pair(10, 6) : std::pair(8, 0);
  if (MajorAndMinor(version) < least) {
    return Failed(Concat("has version ", version, "; MariaDB 10.6 or MySQL 8.0.16 are the oldest that it can have"));
  }
  if (IsOn(value("wsrep_on"))) {
    return Failed("is a node of a Galera cluster, which accepts writes at several nodes: wsrep_on is ON");
  }
  // Otherwise a reader sees what a crash of the server may still undo, and an answer would rest on it.
  for (const auto& [name, wanted] :
       {std::pair("log_bin", "ON"), std::pair("sync_binlog", "1"), std::pair("innodb_flush_log_at_trx_commit", "1")}) {
    if (value(name) != wanted) {
      return Failed(Concat("may lose what it has acknowledged: ", name, " is '", value(name), "', not ", wanted));
    }
  }
  // The transactions are READ COMMITTED, which InnoDB cannot log as statements.
  if (value("binlog_format") == "STATEMENT") {
    return Failed("cannot log the fleet's transactions: binlog_format is 'STATEMENT', not MIXED or ROW");
  }
  if (value("sql_mode").find("STRICT_ALL_TABLES") == std::string::npos) {
    return Failed(Concat("does not take sql_mode STRICT_ALL_TABLES: it is '", value("sql_mode"), "'"));
  }
  if (mariadb && !IsOn(value("check_constraint_checks"))) {
    return Failed("does not check constraints: check_constraint_checks is OFF");
  }
  uint64_t packet = 0;
  if (!absl::SimpleAtoi(value("max_allowed_packet"), &packet) || packet < kLeastPacketBytes) {
    return Failed(Concat("has max_allowed_packet ", value("max_allowed_packet"), "; at least 4 MiB are needed"));
  }
  if (IsOn(value("read_only"))) return absl::UnavailableError("the ledger's server is read-only");
  return absl::OkStatus();
}

}  // namespace

uint64_t FleetKeys::SkuId(std::string_view name) const { return RequestFingerprint(sku)(name) >> 1; }

FleetHash FleetKeys::RequestHash(std::string_view request_id) const { return HashOf(request, request_id); }

uint64_t FleetKeys::RequestPrint(std::string_view request_id) const {
  return RequestFingerprint(request[0])(request_id);
}

uint64_t FleetKeys::PrintOf(const FleetHash& request_hash) {
  uint64_t print = 0;
  for (size_t i = 0; i < sizeof print; ++i) print |= uint64_t{request_hash[i]} << 8 * i;
  return print;
}

FleetHash FleetKeys::BuyerHash(std::string_view name) const { return name.empty() ? FleetHash{} : HashOf(buyer, name); }

FleetHash RandomFleetHash() {
  FleetHash hash;
  std::ranges::copy(RandomBytes(hash.size()), hash.begin());
  return hash;
}

std::string FleetKeyBytes(const FingerprintKey& key) {
  std::string bytes;
  for (const uint64_t word : key) {
    for (size_t i = 0; i < sizeof word; ++i) bytes += static_cast<char>(word >> 8 * i);
  }
  return bytes;
}

namespace {

std::string CreateTable(std::string_view table, std::string_view columns) {
  return Concat("CREATE TABLE IF NOT EXISTS ", table, " (\n", columns, "\n) ENGINE=InnoDB;\n");
}

// Of the fleet, its lanes and its SKUs.
std::string SkusSchema(const FleetTables& tables) {
  const auto constraint = [&](std::string_view name, std::string_view rule) {
    return Concat("  ", Constraint(tables.prefix, name, rule));
  };
  return Concat(
      CreateTable(tables.fleet,
                  "  one TINYINT NOT NULL PRIMARY KEY,\n"
                  "  version INT NOT NULL,\n"
                  "  oldest_code INT NOT NULL,\n"
                  "  hash_keys BINARY(80) NOT NULL,\n"
                  "  imported_key BINARY(16) NULL,\n"
                  "  janitor BIGINT UNSIGNED NOT NULL,\n"
                  "  janitor_until BIGINT NOT NULL"),
      CreateTable(tables.lanes, Concat("  lane_id INT UNSIGNED NOT NULL PRIMARY KEY,\n"
                                       "  nonce BIGINT UNSIGNED NOT NULL,\n"
                                       "  fence BIGINT NOT NULL,\n"
                                       "  batch BIGINT NOT NULL,\n"
                                       "  created_at BIGINT NOT NULL,\n  ",
                                       absl::StrJoin(kLaneColumns, ",\n  "), ",\n  ", kCodeColumn, ",\n",
                                       constraint("fenced", "fence > 0"), ",\n", constraint(kCode, kCodeRule))),
      CreateTable(tables.skus, Concat("  sku_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,\n"
                                      "  sku VARBINARY(255) NOT NULL,\n"
                                      "  granted BIGINT NOT NULL,\n"
                                      "  per_buyer_limit BIGINT NOT NULL,\n"
                                      "  segments INT NOT NULL,\n"
                                      "  removed TINYINT NOT NULL,\n"
                                      "  sold_forgotten BIGINT NOT NULL,\n  ",
                                      absl::StrJoin(kSkuColumns, ",\n  "), ",\n  ", kSkuKey, ",\n",
                                      constraint("limbo", kLimboRule))),
      CreateTable(tables.stock, Concat("  sku_id BIGINT UNSIGNED NOT NULL,\n"
                                       "  segment INT NOT NULL,\n"
                                       "  units BIGINT NOT NULL,\n"
                                       "  held BIGINT NOT NULL,\n"
                                       "  sold BIGINT NOT NULL,\n  ",
                                       absl::StrJoin(kStockColumns, ",\n  "), ",\n  PRIMARY KEY (sku_id, segment),\n",
                                       constraint("paid", "units >= 0"), ",\n", constraint("latched", kLatchedRule))));
}

std::string OrdersSchema(const FleetTables& tables) {
  return Concat(CreateTable(tables.requests,
                            "  id BINARY(16) NOT NULL PRIMARY KEY,\n"
                            "  order_id BIGINT UNSIGNED NOT NULL"),
                CreateTable(tables.orders, Concat("  order_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,\n"
                                                  "  fence BIGINT NOT NULL,\n"
                                                  "  request BINARY(16) NOT NULL,\n"
                                                  "  sku_id BIGINT UNSIGNED NOT NULL,\n"
                                                  "  quantity BIGINT NOT NULL,\n"
                                                  "  buyer BINARY(16) NOT NULL,\n"
                                                  "  kind TINYINT NOT NULL,\n"
                                                  "  state TINYINT NOT NULL,\n"
                                                  "  created_at BIGINT NOT NULL,\n"
                                                  "  ttl_us BIGINT NOT NULL,\n"
                                                  "  at BIGINT NOT NULL,\n  ",
                                                  kVersionColumn,
                                                  ",\n"
                                                  "  KEY upkeep (state, at),\n  ",
                                                  kOrdersKey)),
                CreateTable(tables.order_lines, Concat("  order_id BIGINT UNSIGNED NOT NULL,\n"
                                                       "  sku_id BIGINT UNSIGNED NOT NULL,\n"
                                                       "  quantity BIGINT NOT NULL,\n"
                                                       "  PRIMARY KEY (order_id, sku_id),\n  ",
                                                       kLinesKey)),
                CreateTable(tables.changes,
                            "  order_id BIGINT UNSIGNED NOT NULL,\n"
                            "  version BIGINT NOT NULL,\n"
                            "  sku_id BIGINT UNSIGNED NOT NULL,\n"
                            "  quantity BIGINT NOT NULL,\n"
                            "  kind TINYINT NOT NULL,\n"
                            "  of_all TINYINT NOT NULL,\n"
                            "  to_stock TINYINT NOT NULL,\n"
                            "  request BINARY(16) NOT NULL,\n"
                            "  at BIGINT NOT NULL,\n"
                            "  PRIMARY KEY (order_id, version, sku_id)"),
                CreateTable(tables.buyers, Concat("  sku_id BIGINT UNSIGNED NOT NULL,\n"
                                                  "  buyer BINARY(16) NOT NULL,\n"
                                                  "  units BIGINT NOT NULL,\n"
                                                  "  most BIGINT NOT NULL,\n"
                                                  "  PRIMARY KEY (sku_id, buyer),\n",
                                                  "  ", Constraint(tables.prefix, "within", "units <= most"))),
                CreateTable(tables.forgotten, "  fingerprint BIGINT UNSIGNED NOT NULL PRIMARY KEY"),
                CreateTable(tables.nodes,
                            "  node_id INT NOT NULL PRIMARY KEY,\n"
                            "  name VARBINARY(1024) NOT NULL,\n"
                            "  UNIQUE KEY name (name)"));
}

}  // namespace

std::string FleetSchema(std::string_view prefix) {
  const FleetTables tables(prefix);
  return SkusSchema(tables) + OrdersSchema(tables);
}

absl::Status MigrateFleet(MySqlConnection& connection, std::string_view prefix, Instant deadline) {
  const FleetTables tables(prefix);
  const auto added = [](std::string_view piece) { return Concat("ADD ", piece); };
  // By the column, the key or the constraint that shows whether a table has it. Each ALTER TABLE is done or not.
  const struct {
    std::string_view table;
    std::string name;
    std::string alter;
  } additions[] = {
      {"skus", "mode",
       Concat("ADD COLUMN ", absl::StrJoin(kSkuColumns, ",ADD COLUMN "), ",", added(kSkuKey), ",",
              added(Constraint(prefix, "limbo", kLimboRule)))},
      {"stock", "latched",
       Concat("ADD COLUMN ", absl::StrJoin(kStockColumns, ",ADD COLUMN "), ",",
              added(Constraint(prefix, "latched", kLatchedRule)))},
      {"orders", "by_sku", added(kOrdersKey)},
      {"order_lines", "by_sku", added(kLinesKey)},
      // Processes that run now have started earlier than it seems.
      {"lanes", "seen_at",
       Concat("ADD COLUMN ", absl::StrJoin(kLaneColumns, ",ADD COLUMN "), ";UPDATE ", tables.lanes,
              " SET seen_at=", kFleetNow)},
      {"orders", "version", Concat("ADD COLUMN ", kVersionColumn)},
      // The lanes that there are get a number that the constraint allows.
      {"lanes", "code", "ADD COLUMN code INT NOT NULL DEFAULT 4"},
      {"lanes", Concat(prefix, "_", kCode),
       Concat("ALTER COLUMN code SET DEFAULT 0,", added(Constraint(prefix, kCode, kCodeRule)))},
  };
  // Without it, two could add the same column at once, and one would fail. It ends with the connection, too.
  const std::string lock = Concat("CONCAT('stockade.',SHA1(CONCAT(DATABASE(),'.", prefix, "')))");
  std::optional<int64_t> locked;
  const int64_t seconds = std::max<int64_t>(absl::ToInt64Seconds(deadline - Clock::System()->Now()), 0);
  MySqlReply reply = connection.Run(Concat("SELECT GET_LOCK(", lock, ",", seconds, ")"), MySqlInto(locked), deadline);
  if (!reply.status.ok()) return reply.status;
  if (locked != 1) {
    return absl::UnavailableError(Concat("the fleet '", prefix, "' is being migrated by another process"));
  }
  reply = connection.Run(FleetSchema(prefix), deadline);
  for (const auto& [table, name, alter] : additions) {
    if (!reply.status.ok()) return reply.status;
    const auto found = [&](std::string_view where, std::string_view column) {
      return Concat("SELECT 1 FROM information_schema.", where, " WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='",
                    prefix, "_", table, "' AND ", column, "='", name, "'");
    };
    std::vector<int64_t> is_there;
    reply = connection.Run(Concat(found("COLUMNS", "COLUMN_NAME"), " UNION ALL ", found("STATISTICS", "INDEX_NAME"),
                                  " UNION ALL ", found("TABLE_CONSTRAINTS", "CONSTRAINT_NAME")),
                           MySqlInto(is_there), deadline);
    if (!reply.status.ok() || !is_there.empty()) continue;
    reply = connection.Run(Concat("ALTER TABLE ", tables.Named(table), " ", alter), deadline);
  }
  if (!reply.status.ok()) return reply.status;
  // Processes of older code end here: with another fence their packets do nothing, with another nonce they do not find
  // their lanes, and they cannot register others.
  const std::string older = Concat(" WHERE one=1 AND version<", kFleetSchemaVersion);
  int64_t rows = 0;
  reply = connection.Run(
      Concat("INSERT IGNORE INTO ", tables.fleet, " SELECT 1,", kFleetSchemaVersion, ",", kFleetSchemaVersion, ",",
             MySqlLiteral(RandomBytes(FleetKeys::kBytes)), ",NULL,0,0 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM ",
             tables.lanes, ") AND NOT EXISTS (SELECT 1 FROM ", tables.skus, ");START TRANSACTION;UPDATE ", tables.lanes,
             " SET fence=fence+1,nonce=nonce^1 WHERE EXISTS (SELECT 1 FROM ", tables.fleet, older, ");UPDATE ",
             tables.fleet, " SET version=", kFleetSchemaVersion, ",oldest_code=", kFleetSchemaVersion, older,
             ";COMMIT;DO RELEASE_LOCK(", lock, ");SELECT COUNT(*) FROM ", tables.fleet, " WHERE one=1"),
      MySqlInto(rows), deadline);
  if (!reply.status.ok() || rows == 1) return reply.status;
  // With other keys every SKU would be new, and every request id, too.
  return absl::FailedPreconditionError(Concat(
      "the row of ", tables.fleet, " is missing, which has the keys of the rows in the other tables: restore it"));
}

absl::StatusOr<FleetRow> ReadFleetRow(MySqlConnection& connection, std::string_view table, Instant deadline) {
  std::vector<std::tuple<int64_t, int64_t, std::string, std::optional<std::string>>> rows;
  const MySqlReply reply =
      connection.Run(Concat("SELECT version,oldest_code,hash_keys,imported_key FROM ", table, " WHERE one=1"),
                     MySqlInto(rows), deadline);
  constexpr unsigned kNoSuchTable = 1146;
  if (reply.error == kNoSuchTable || (reply.status.ok() && rows.empty())) {
    return absl::FailedPreconditionError(Concat("there is no fleet in this database: ", table,
                                                " is missing or empty; FleetInventory::Migrate() makes that of a new "
                                                "fleet"));
  }
  if (!reply.status.ok()) return reply.status;
  const auto& [version, oldest_code, keys, imported] = rows.front();
  if (keys.size() != FleetKeys::kBytes || (imported.has_value() && imported->size() != sizeof(FingerprintKey))) {
    return absl::FailedPreconditionError(Concat("the keys in ", table, " are damaged"));
  }
  return FleetRow{.version = version,
                  .oldest_code = oldest_code,
                  .keys = {.sku = KeyAt(keys, 0),
                           .request = {KeyAt(keys, 1), KeyAt(keys, 2)},
                           .buyer = {KeyAt(keys, 3), KeyAt(keys, 4)},
                           .imported = imported.has_value() ? std::optional(KeyAt(*imported, 0)) : std::nullopt}};
}

namespace {

// Tries each statement that the work needs, on no rows. The server's error names the right and the table. The table of
// nodes is used when one connects, which reports it in the same way.
absl::Status CheckFleetRights(MySqlConnection& connection, const FleetTables& tables, Instant deadline) {
  const auto inserts = [](std::string_view table) {
    return Concat("INSERT INTO ", table, " SELECT * FROM ", table, " WHERE FALSE;");
  };
  const auto updates = [](std::string_view table, std::string_view column) {
    return Concat("UPDATE ", table, " SET ", column, "=", column, " WHERE FALSE;");
  };
  const auto deletes = [](std::string_view table) { return Concat("DELETE FROM ", table, " WHERE FALSE;"); };
  return connection
      .Run(Concat(updates(tables.fleet, "janitor"), inserts(tables.lanes), updates(tables.lanes, "batch"),
                  inserts(tables.skus), updates(tables.skus, "granted"), inserts(tables.stock),
                  updates(tables.stock, "units"), deletes(tables.stock), inserts(tables.requests),
                  inserts(tables.orders), updates(tables.orders, "state"), deletes(tables.orders),
                  inserts(tables.order_lines), deletes(tables.order_lines), inserts(tables.changes),
                  deletes(tables.changes), inserts(tables.buyers), updates(tables.buyers, "units"),
                  deletes(tables.buyers), "DO (SELECT COUNT(*) FROM ", tables.forgotten, " WHERE FALSE)"),
           deadline)
      .status;
}

}  // namespace

absl::StatusOr<FleetKeys> CheckFleetSchema(MySqlConnection& connection, std::string_view prefix, Instant deadline) {
  const auto wrong = [&](std::string_view what) {
    return absl::FailedPreconditionError(Concat("the fleet '", prefix, "' ", what));
  };
  const FleetTables tables(prefix);
  const absl::StatusOr<FleetRow> row = ReadFleetRow(connection, tables.fleet, deadline);
  if (!row.ok()) return row.status();
  if (row->version < kFleetSchemaVersion || row->oldest_code > kFleetSchemaVersion) {
    return wrong(
        Concat("has tables of version ", row->version, " for code from version ", row->oldest_code,
               " on; this code has version ", kFleetSchemaVersion,
               row->version < kFleetSchemaVersion ? "; FleetInventory::Migrate() brings them up to date" : ""));
  }

  if (absl::Status rights = CheckFleetRights(connection, tables, deadline); !rights.ok()) return rights;
  // The tables of information_schema do not show them to a user with rights on single tables only. MySQL says in the
  // same line whether one is not enforced; MariaDB always enforces those that it knows.
  for (const auto& [table, name] : kConstraints) {
    std::tuple<std::string, std::string> definition;
    const MySqlReply reply =
        connection.Run(Concat("SHOW CREATE TABLE ", tables.Named(table)), MySqlInto(definition), deadline);
    if (!reply.status.ok()) return reply.status;
    const std::string whole = Concat(prefix, "_", name);
    const std::string& text = std::get<1>(definition);
    const size_t begin = text.find(Concat("CONSTRAINT `", whole, "` CHECK"));
    if (begin == std::string::npos ||
        text.substr(begin, text.find('\n', begin) - begin).find("NOT ENFORCED") != std::string::npos) {
      return wrong(Concat("has no enforced constraint ", whole));
    }
  }
  return row->keys;
}

absl::StatusOr<int32_t> FindFleetNode(MySqlConnection& connection, const FleetTables& tables, std::string_view name,
                                      Instant deadline) {
  const std::string literal = MySqlLiteral(name);
  for (int attempt = 0; attempt < kNodeAttempts; ++attempt) {
    std::vector<int64_t> ids;
    const MySqlReply found =
        connection.Run(Concat("SELECT node_id FROM ", tables.nodes, " WHERE name=", literal), MySqlInto(ids), deadline);
    if (!found.status.ok()) return found.status;
    if (!ids.empty()) {
      const int64_t id = ids.front();
      if (id >= 0 && id <= kMaxNodeId) return static_cast<int32_t>(id);
      return absl::FailedPreconditionError(Concat("the node_id ", id, " in ", tables.nodes, " is damaged"));
    }
    // Does nothing if another process has added this node or another one meanwhile.
    const MySqlReply added =
        connection.Run(Concat("INSERT IGNORE INTO ", tables.nodes, " (node_id,name) SELECT COALESCE(MAX(node_id)+1,0),",
                              literal, " FROM ", tables.nodes),
                       deadline);
    if (!added.status.ok() && added.remedy != MySqlRemedy::kRunAgain && added.remedy != MySqlRemedy::kRollBack) {
      return added.status;
    }
  }
  return absl::UnavailableError(Concat("the node '", name, "' could not be added to ", tables.nodes));
}

absl::Status PrepareFleetConnection(MySqlConnection& connection, const FleetTables& tables, const FleetKeys* keys,
                                    absl::Duration reply_timeout) {
  const Instant deadline = Clock::System()->Now() + reply_timeout;
  std::vector<std::tuple<std::string, std::optional<std::string>>> variables;
  uint64_t id = 0;
  const MySqlReply reply = connection.Run(
      Concat(Settings(reply_timeout),
             ";SHOW VARIABLES WHERE Variable_name IN ('version','wsrep_on','log_bin','sync_binlog','binlog_format',"
             "'innodb_flush_log_at_trx_commit','sql_mode','check_constraint_checks','max_allowed_packet','read_only')"
             ";SELECT CONNECTION_ID()"),
      MySqlInto(variables, id), deadline);
  if (!reply.status.ok()) return reply.status;
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : variables) settings[name] = value.value_or("");
  if (absl::Status server = CheckServer(settings); !server.ok()) return server;
  if (id != connection.id()) {
    return Failed("is behind a proxy that reads SQL, which may send reads to a replica; connect to the primary");
  }
  if (keys == nullptr) return absl::OkStatus();
  const absl::StatusOr<FleetRow> row = ReadFleetRow(connection, tables.fleet, deadline);
  if (!row.ok()) return row.status();
  if (row->keys != *keys) return Failed("has another fleet than the one that this inventory was connected to");
  return absl::OkStatus();
}

}  // namespace stockade::inventory_internal
