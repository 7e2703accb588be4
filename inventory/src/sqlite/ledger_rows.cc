#include "ledger_rows.h"

#include <algorithm>
#include <optional>
#include <span>
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
//   granted = start_granted + sum(quantity) of add_sku and restock, less remove_sku and write_off, less the cancel,
//     expire and return after remove_sku
//   available = granted - sold_forgotten - sum(quantity) of orders that are held or sold, never negative; after
//     remove_sku 0
// position is that of an order's grant. The table is ordered by it, because order ids come in no strict order, and a
// row inserted among others costs a page of the log. settled_at_us is the at_us of the take, commit, cancel or expire.
// NULL in expires_at_us and ttl_us means never. A held order expires extended_us later than expires_at_us says.
//
// A return is in changes, under its position, as long as its order, which goes with its last return: with the row of
// the journal that comes last. The row of the journal has the id of the order that it changes. orders.end_folded: the
// order was sold before the start of the journal, and units of it came back later. The units of an order above are less
// those that came back. change_lines.to_stock: they were not withdrawn.
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
  extended_us INTEGER NOT NULL DEFAULT 0 CHECK (extended_us >= 0),
  end_folded INTEGER NOT NULL DEFAULT 0 CHECK (end_folded = 0 OR (end_folded = 1 AND state = 'sold')),
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
    WHEN 'extend' THEN order_id IS NOT NULL
    WHEN 'return' THEN order_id IS NOT NULL
    WHEN 'write_off' THEN order_id IS NOT NULL
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

// Those that version 5 added.
constexpr char kChangeTables[] = R"sql(
CREATE TABLE changes(
  position INTEGER PRIMARY KEY CHECK (position > 0),
  change_id INTEGER NOT NULL UNIQUE CHECK (change_id > 0),
  request_id TEXT NOT NULL,
  order_id INTEGER NOT NULL REFERENCES orders(order_id),
  kind TEXT NOT NULL CHECK (kind = 'return' OR kind = 'write_off'),
  of_all INTEGER NOT NULL CHECK (of_all IN (0, 1)),
  at_us INTEGER NOT NULL
) STRICT;
CREATE INDEX changes_of_order ON changes(order_id);
CREATE TABLE change_lines(
  position INTEGER NOT NULL REFERENCES changes(position),
  line INTEGER NOT NULL CHECK (line > 0),
  sku TEXT NOT NULL REFERENCES skus(sku),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  to_stock INTEGER NOT NULL CHECK (to_stock IN (0, 1)),
  PRIMARY KEY (position, line)
) STRICT, WITHOUT ROWID;
)sql";

absl::Status MakeTables(SqliteDatabase& database) {
  const std::string script = Concat(
      "BEGIN IMMEDIATE;", kTables, kChangeTables, "INSERT INTO ledger VALUES(1, 0, 0, randomblob(16), 0);",
      "PRAGMA application_id = ", kLedgerApplicationId, "; PRAGMA user_version = ", kLedgerSchemaVersion, "; COMMIT;");
  absl::Status made = database.Execute(script.c_str());
  return made.ok() ? made : database.RollBackAfter(std::move(made));
}

using Kind = LedgerRecord::Kind;

template <typename Value>
struct Named {
  Value value;
  std::string_view name;
};
constexpr Named<Kind> kKinds[] = {
    {Kind::kAddSku, "add_sku"},  {Kind::kRestock, "restock"}, {Kind::kRemoveSku, "remove_sku"},
    {Kind::kReserve, "reserve"}, {Kind::kTake, "take"},       {Kind::kReserveBasket, "reserve_basket"},
    {Kind::kCommit, "commit"},   {Kind::kCancel, "cancel"},   {Kind::kExpire, "expire"},
    {Kind::kExtend, "extend"},   {Kind::kReturn, "return"},   {Kind::kWriteOff, "write_off"},
};
constexpr Named<OrderState> kStates[] = {
    {OrderState::kHeld, "held"},
    {OrderState::kSold, "sold"},
    {OrderState::kCancelled, "cancelled"},
    {OrderState::kExpired, "expired"},
};

template <typename Value>
std::string_view NameIn(std::span<const Named<Value>> all, Value value) {
  const auto found = std::ranges::find(all, value, &Named<Value>::value);
  return found == all.end() ? "unknown" : found->name;
}

template <typename Value>
std::optional<Value> CalledIn(std::span<const Named<Value>> all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Named<Value>::name);
  return found == all.end() ? std::nullopt : std::optional(found->value);
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
  if (*version > 0 && *version < kOldestLedgerSchemaVersion) {
    return absl::FailedPreconditionError(Concat("a ledger of schema version ", *version,
                                                ", which no release has written; this program reads version ",
                                                kLedgerSchemaVersion));
  }
  if (!empty && *version < kOldestLedgerSchemaVersion) {
    return absl::DataLossError(Concat("a ledger of schema version ", *version, ", which never existed"));
  }
  const absl::StatusOr<std::string> mode = database.QueryText("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal") {
    return absl::UnavailableError(Concat("the file system allows no write-ahead log (journal_mode ", *mode, ")"));
  }
  return empty ? MakeTables(database) : absl::OkStatus();
}

absl::Status MigrateLedgerFile(SqliteDatabase& database) {
  const absl::StatusOr<int64_t> version = database.QueryInt("PRAGMA user_version");
  if (!version.ok() || *version == kLedgerSchemaVersion) return version.status();
  const absl::StatusOr<int64_t> schema = database.QueryInt("PRAGMA schema_version");
  if (!schema.ok()) return schema.status();
  // The constraint of the journal is widened in place, as SQLite documents for such changes (lang_altertable.html):
  // a copy of the journal would take twice its room.
  const std::string script =
      Concat("BEGIN IMMEDIATE;",
             "ALTER TABLE orders ADD COLUMN extended_us INTEGER NOT NULL DEFAULT 0 CHECK (extended_us >= 0);",
             "ALTER TABLE orders ADD COLUMN end_folded INTEGER NOT NULL DEFAULT 0 CHECK (end_folded = 0 OR (end_folded "
             "= 1 AND state = 'sold'));",
             kChangeTables, "PRAGMA writable_schema = ON;",
             "UPDATE sqlite_schema SET sql = replace(sql, 'WHEN ''expire''', 'WHEN ''extend'' THEN order_id IS NOT "
             "NULL\n    WHEN ''return'' THEN order_id IS NOT NULL\n    WHEN ''write_off'' THEN order_id IS NOT NULL\n"
             "    WHEN ''expire''') WHERE name = 'journal';",
             "PRAGMA schema_version = ", *schema + 2, "; PRAGMA writable_schema = RESET;",
             "PRAGMA user_version = ", kLedgerSchemaVersion, "; COMMIT;");
  absl::Status migrated = database.Execute(script.c_str());
  if (migrated.ok()) return migrated;
  migrated = database.RollBackAfter(std::move(migrated));
  (void)database.Execute("PRAGMA writable_schema = RESET;");
  return migrated;
}

std::string_view KindName(Kind kind) { return NameIn<Kind>(kKinds, kind); }
std::optional<Kind> KindCalled(std::string_view name) { return CalledIn<Kind>(kKinds, name); }
std::string_view StateName(OrderState state) { return NameIn<OrderState>(kStates, state); }
std::optional<OrderState> StateCalled(std::string_view name) { return CalledIn<OrderState>(kStates, name); }

absl::StatusOr<LineReader> LineReader::Create(SqliteDatabase& database, std::string_view sql, std::string name) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare(sql);
  if (!rows.ok()) return rows.status();
  LineReader reader(*std::move(rows), std::move(name));
  if (absl::Status status = reader.Advance(); !status.ok()) return status;
  return reader;
}

absl::Status LineReader::Advance() {
  const absl::StatusOr<bool> row = rows_.Step();
  at_row_ = row.ok() && *row;
  return row.status();
}

absl::Status LineReader::Astray() const {
  return absl::DataLossError(Concat(name_, ": there are lines of ", rows_.Int(0), ", which is not a basket"));
}

absl::StatusOr<OrderLines> LineReader::LinesOf(int64_t owner) {
  OrderLines lines;
  while (at_row_ && rows_.Int(0) == owner) {
    lines.push_back({.sku = std::string(rows_.Text(1)), .quantity = rows_.Int(2)});
    if (absl::Status status = Advance(); !status.ok()) return status;
  }
  if (lines.empty() && at_row_ && rows_.Int(0) < owner) return Astray();
  if (lines.empty()) return absl::DataLossError(Concat(name_, ": the basket ", owner, " has no lines"));
  return lines;
}

absl::Status LineReader::ExpectEnd() { return at_row_ ? Astray() : absl::OkStatus(); }

absl::StatusOr<JournalReader> JournalReader::Create(SqliteDatabase& database, uint64_t start, uint64_t end) {
  const std::string among = Concat(" WHERE position > ", start, " AND position <= ", end, " ORDER BY position");
  absl::StatusOr<SqliteStatement> rows =
      database.Prepare(Concat("SELECT position, at_us, kind, order_id, sku, quantity FROM journal", among));
  if (!rows.ok()) return rows.status();
  absl::StatusOr<LineReader> lines = LineReader::Create(
      database, Concat("SELECT position, sku, quantity FROM journal_lines", among, ", line"), "journal_lines");
  if (!lines.ok()) return lines.status();
  return JournalReader(*std::move(rows), *std::move(lines));
}

absl::StatusOr<bool> JournalReader::Next() {
  absl::StatusOr<bool> row = rows_.Step();
  if (!row.ok()) return row;
  if (!*row) {
    if (absl::Status end = lines_.ExpectEnd(); !end.ok()) return end;
    return false;
  }
  row_.position = static_cast<uint64_t>(rows_.Int(0));
  row_.at_us = rows_.Int(1);
  const std::optional<LedgerRecord::Kind> kind = KindCalled(rows_.Text(2));
  if (!kind.has_value()) {
    return absl::DataLossError(
        Concat("journal: position ", row_.position, " has the unknown kind '", rows_.Text(2), "'"));
  }
  row_.kind = *kind;
  row_.order_id = static_cast<uint64_t>(rows_.Int(3));
  row_.basket = rows_.IsNull(4);
  if (row_.basket) {
    absl::StatusOr<OrderLines> of_basket = lines_.LinesOf(rows_.Int(0));
    if (!of_basket.ok()) return of_basket.status();
    row_.lines = *std::move(of_basket);
  } else {
    // In place, for the sake of its memory.
    row_.lines.resize(1);
    row_.lines[0].sku = rows_.Text(4);
    row_.lines[0].quantity = rows_.Int(5);
  }
  return true;
}

}  // namespace stockade::inventory_internal
