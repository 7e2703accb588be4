#include "ledger_schema.h"

#include <string>
#include <utility>

#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// skus, orders and order_lines are the state. journal and journal_lines are its history: one row of journal per record,
// in the order of the commits. An order, and each of its rows in the journal, has one SKU, or it is a basket. The sku
// and quantity of a basket are NULL; its lines are in order_lines, and again, for each position, in journal_lines. The
// copies are compared when the file is opened.
//
// The journal begins after ledger.journal_start. The earlier records are folded. skus.start_granted, start_available
// and start_removed are the state of a SKU at that position (NULL: its add_sku is in the journal). The orders that had
// ended by then are gone. What remains of them is: the units sold, in skus.sold_forgotten; the units of buyers if there
// is a limit, in bought; and fingerprints of the request ids, little-endian, one row per step of pruning, in forgotten.
// start_available is also there to be compared: it is carried on record by record, and must be what start_granted,
// sold_forgotten and the orders that were held then leave. The durable state satisfies, for each SKU and at each
// position:
//   granted = start_granted + sum(quantity) of add_sku and restock, less remove_sku, less the cancel and expire after
//     remove_sku
//   available = granted - sold_forgotten - sum(quantity) of orders that are held or sold, never negative; after
//     remove_sku 0
// position is that of an order's grant. The table is ordered by it, because order ids come in no strict order, and a
// row inserted among others costs a page of the log. settled_at_us is the at_us of the take, commit, cancel or expire.
// NULL in expires_at_us and ttl_us means never.
//
// A restock that had a request id is in restocks, under its position. Its row of the journal has an order_id, which
// belongs to no order, so that neither row can go without the other. Its request id is forgotten like that of an order.
//
// ledger.session is a new number for each ledger that wrote to the file: see high_water_mark.h.
//
// No request_id occurs twice, but no index ensures it: each batch would change pages all over the index, which took
// five sixths of the time among 10^5 orders. The writer checks it, and so does opening the file. Constraints avoid IN:
// for more than two values SQLite builds a table in each statement, which took a third of the time.
constexpr char kTables[] = R"sql(
CREATE TABLE ledger(
  one INTEGER PRIMARY KEY CHECK (one = 1),
  journal_start INTEGER NOT NULL CHECK (journal_start >= 0),
  last_forgotten_id INTEGER NOT NULL CHECK (last_forgotten_id >= 0),
  fingerprint_key BLOB NOT NULL CHECK (length(fingerprint_key) = 16),
  session INTEGER NOT NULL
) STRICT;
CREATE TABLE skus(
  sku TEXT PRIMARY KEY NOT NULL,
  granted INTEGER NOT NULL CHECK (granted >= 0),
  shards INTEGER NOT NULL CHECK (shards >= 0),
  per_buyer_limit INTEGER NOT NULL CHECK (per_buyer_limit >= 0),
  removed INTEGER NOT NULL CHECK (removed IN (0, 1)),
  sold_forgotten INTEGER NOT NULL CHECK (sold_forgotten >= 0),
  start_granted INTEGER CHECK (start_granted >= sold_forgotten + start_available),
  start_available INTEGER CHECK (start_available >= 0),
  start_removed INTEGER CHECK (start_removed = 0 OR (start_removed = 1 AND start_available = 0)),
  CHECK ((start_granted IS NULL) = (start_removed IS NULL)),
  CHECK ((start_granted IS NULL) = (start_available IS NULL)),
  CHECK (start_granted IS NOT NULL OR sold_forgotten = 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE orders(
  order_id INTEGER NOT NULL UNIQUE CHECK (order_id > 0),
  request_id TEXT NOT NULL,
  sku TEXT REFERENCES skus(sku),
  quantity INTEGER CHECK (quantity > 0),
  buyer TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'held' OR state = 'sold' OR state = 'expired' OR state = 'cancelled'),
  reserved INTEGER NOT NULL CHECK (reserved IN (0, 1)),
  expires_at_us INTEGER,
  ttl_us INTEGER CHECK (ttl_us > 0),
  created_at_us INTEGER NOT NULL,
  settled_at_us INTEGER,
  position INTEGER PRIMARY KEY CHECK (position > 0),
  CHECK ((sku IS NULL) = (quantity IS NULL)),
  CHECK ((settled_at_us IS NULL) = (state = 'held')),
  CHECK (reserved = 1 OR (state = 'sold' AND sku IS NOT NULL AND expires_at_us IS NULL AND ttl_us IS NULL))
) STRICT;
CREATE TABLE order_lines(
  order_id INTEGER NOT NULL REFERENCES orders(order_id),
  line INTEGER NOT NULL CHECK (line > 0),
  sku TEXT NOT NULL REFERENCES skus(sku),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (order_id, sku)
) STRICT, WITHOUT ROWID;
CREATE TABLE journal(
  position INTEGER PRIMARY KEY CHECK (position > 0),
  at_us INTEGER NOT NULL,
  kind TEXT NOT NULL,
  order_id INTEGER CHECK (order_id > 0),
  sku TEXT,
  quantity INTEGER CHECK (quantity > 0 OR (quantity = 0 AND (kind = 'add_sku' OR kind = 'remove_sku'))),
  CHECK ((sku IS NULL) = (quantity IS NULL)),
  CONSTRAINT columns_of_kind CHECK (CASE kind
    WHEN 'reserve' THEN order_id IS NOT NULL AND sku IS NOT NULL
    WHEN 'take' THEN order_id IS NOT NULL AND sku IS NOT NULL
    WHEN 'commit' THEN order_id IS NOT NULL
    WHEN 'expire' THEN order_id IS NOT NULL
    WHEN 'cancel' THEN order_id IS NOT NULL
    WHEN 'reserve_basket' THEN order_id IS NOT NULL AND sku IS NULL
    WHEN 'restock' THEN sku IS NOT NULL
    WHEN 'add_sku' THEN order_id IS NULL AND sku IS NOT NULL
    WHEN 'remove_sku' THEN order_id IS NULL AND sku IS NOT NULL
    ELSE 0 END)
) STRICT;
CREATE TABLE journal_lines(
  position INTEGER NOT NULL REFERENCES journal(position),
  line INTEGER NOT NULL CHECK (line > 0),
  sku TEXT NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (position, line)
) STRICT, WITHOUT ROWID;
CREATE TABLE restocks(
  order_id INTEGER NOT NULL UNIQUE CHECK (order_id > 0),
  request_id TEXT NOT NULL,
  sku TEXT NOT NULL REFERENCES skus(sku),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  at_us INTEGER NOT NULL,
  position INTEGER PRIMARY KEY CHECK (position > 0)
) STRICT;
CREATE TABLE bought(
  sku TEXT NOT NULL REFERENCES skus(sku),
  buyer TEXT NOT NULL,
  units INTEGER NOT NULL CHECK (units > 0),
  PRIMARY KEY (sku, buyer)
) STRICT, WITHOUT ROWID;
CREATE TABLE forgotten(
  journal_start INTEGER PRIMARY KEY,
  fingerprints BLOB NOT NULL CHECK (length(fingerprints) > 0 AND length(fingerprints) % 8 = 0)
) STRICT;
)sql";

absl::Status MakeTables(SqliteDatabase& database) {
  const std::string script = Concat(
      "BEGIN IMMEDIATE;", kTables, "INSERT INTO ledger VALUES(1, 0, 0, randomblob(16), 0);",
      "PRAGMA application_id = ", kLedgerApplicationId, "; PRAGMA user_version = ", kLedgerSchemaVersion, "; COMMIT;");
  absl::Status made = database.Execute(script.c_str());
  return made.ok() ? made : database.RollBackAfter(std::move(made));
}

}  // namespace

absl::Status PrepareLedgerFile(SqliteDatabase& database, bool fresh) {
  // Before the first lock, for which the file must be writable: that would say "bad file descriptor".
  if (database.read_only()) return absl::PermissionDeniedError("the file cannot be written");
  // Exclusive before the first read: then the index of the write-ahead log lives in memory, nobody else gets in, and
  // the file stays locked until it is closed. None of these writes.
  absl::Status set = database.Execute(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = "
      "OFF; PRAGMA cache_size = -16384");
  if (!set.ok()) return set;
  const absl::StatusOr<int64_t> application_id = database.QueryInt("PRAGMA application_id");
  if (!application_id.ok()) return application_id.status();
  const absl::StatusOr<int64_t> version = database.QueryInt("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const absl::StatusOr<int64_t> objects = database.QueryInt("SELECT count(*) FROM sqlite_schema");
  if (!objects.ok()) return objects.status();

  // A crash before the tables were made leaves such a file too.
  const bool empty = *application_id == 0 && *version == 0 && *objects == 0;
  if (empty && !fresh) {
    return absl::FailedPreconditionError("a SQLite database without tables; remove it to begin a new ledger");
  }
  if (!empty && *application_id != kLedgerApplicationId) {
    return absl::FailedPreconditionError(
        Concat("a SQLite database of another application (application_id ", *application_id, "), not a ledger"));
  }
  if (*version > kLedgerSchemaVersion) {
    return absl::FailedPreconditionError(
        Concat("a ledger of schema version ", *version, "; this program reads version ", kLedgerSchemaVersion));
  }
  if (*version > 0 && *version < kLedgerSchemaVersion) {
    return absl::FailedPreconditionError(Concat("a ledger of schema version ", *version,
                                                ", which no release has written; this program reads version ",
                                                kLedgerSchemaVersion));
  }
  if (!empty && *version != kLedgerSchemaVersion) {
    return absl::DataLossError(Concat("a ledger of schema version ", *version, ", which never existed"));
  }
  const absl::StatusOr<std::string> mode = database.QueryText("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal") {
    return absl::UnavailableError(Concat("the file system allows no write-ahead log (journal_mode ", *mode, ")"));
  }
  return empty ? MakeTables(database) : absl::OkStatus();
}

}  // namespace stockade::inventory_internal
