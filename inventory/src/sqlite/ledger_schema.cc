#include "ledger_schema.h"

#include <string>

#include "stockade/base/strings.h"

namespace stockade::internal {
namespace {

// skus and orders are the state; journal is how it came about, one row a record, in the order of the commits. Whatever
// is durable keeps, for each SKU and at each position:
//   granted = sum(quantity) of add_sku and restock
//   available = granted - sum(quantity) of reserve and take + sum(quantity) of cancel and expire, never negative
//   available = granted - sum(quantity) of orders that are held or sold
// NULL in expires_at_us and ttl_us is never.
constexpr char kTables[] = R"sql(
CREATE TABLE skus(
  sku TEXT PRIMARY KEY NOT NULL,
  granted INTEGER NOT NULL CHECK (granted >= 0),
  shards INTEGER NOT NULL CHECK (shards >= 0),
  per_buyer_limit INTEGER NOT NULL CHECK (per_buyer_limit >= 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE orders(
  order_id INTEGER PRIMARY KEY CHECK (order_id > 0),
  request_id TEXT NOT NULL UNIQUE,
  sku TEXT NOT NULL REFERENCES skus(sku),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  buyer TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('held', 'sold', 'cancelled', 'expired')),
  reserved INTEGER NOT NULL CHECK (reserved IN (0, 1)),
  expires_at_us INTEGER,
  ttl_us INTEGER CHECK (ttl_us > 0),
  created_at_us INTEGER NOT NULL,
  CHECK (reserved = 1 OR (state = 'sold' AND expires_at_us IS NULL AND ttl_us IS NULL))
) STRICT;
CREATE TABLE journal(
  position INTEGER PRIMARY KEY CHECK (position > 0),
  at_us INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('add_sku', 'restock', 'reserve', 'take', 'commit', 'cancel', 'expire')),
  order_id INTEGER,
  sku TEXT NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity > 0 OR (kind = 'add_sku' AND quantity = 0)),
  CHECK ((order_id IS NULL) = (kind IN ('add_sku', 'restock')))
) STRICT;
)sql";

absl::Status MakeTables(SqliteDatabase& database) {
  const std::string script = Concat("BEGIN IMMEDIATE;", kTables, "PRAGMA application_id = ", kLedgerApplicationId,
                                    "; PRAGMA user_version = ", kLedgerSchemaVersion, "; COMMIT;");
  return database.Execute(script.c_str());
}

}  // namespace

absl::Status PrepareLedgerFile(SqliteDatabase& database) {
  // Exclusive before the first read: then the index of the write-ahead log lives in memory, nobody else gets in, and
  // the file stays locked until it is closed. None of these writes.
  absl::Status set = database.Execute(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = "
      "OFF");
  if (!set.ok()) return set;
  const absl::StatusOr<int64_t> application_id = database.QueryInt("PRAGMA application_id");
  if (!application_id.ok()) return application_id.status();
  const absl::StatusOr<int64_t> version = database.QueryInt("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const absl::StatusOr<int64_t> objects = database.QueryInt("SELECT count(*) FROM sqlite_schema");
  if (!objects.ok()) return objects.status();

  // A crash before the tables were made leaves such a file too.
  const bool empty = *application_id == 0 && *version == 0 && *objects == 0;
  if (!empty && *application_id != kLedgerApplicationId) {
    return absl::FailedPreconditionError(
        Concat("a SQLite database of another application (application_id ", *application_id, "), not a ledger"));
  }
  if (*version > kLedgerSchemaVersion) {
    return absl::FailedPreconditionError(
        Concat("a ledger of schema version ", *version, "; this program knows versions up to ", kLedgerSchemaVersion));
  }
  if (!empty && *version != kLedgerSchemaVersion) {
    return absl::DataLossError(Concat("a ledger of schema version ", *version, ", which there never was"));
  }
  if (database.read_only()) return absl::PermissionDeniedError("the file cannot be written");
  const absl::StatusOr<std::string> mode = database.QueryText("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal") {
    return absl::UnavailableError(Concat("the file system allows no write-ahead log (journal_mode ", *mode, ")"));
  }
  return empty ? MakeTables(database) : absl::OkStatus();
}

}  // namespace stockade::internal
