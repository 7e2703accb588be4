#include "warehouse.h"

#include "absl/strings/str_cat.h"

namespace shop {
namespace {

constexpr char kTables[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS shop(one INTEGER PRIMARY KEY, pairs INTEGER, boxes_booked INTEGER, open INTEGER);"
    "INSERT OR IGNORE INTO shop VALUES(1, 0, 0, 0);"
    "CREATE TABLE IF NOT EXISTS allotments(process INTEGER PRIMARY KEY, pairs INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS fences(lock TEXT PRIMARY KEY, token INTEGER NOT NULL);"
    "COMMIT;";

}  // namespace

absl::StatusOr<std::unique_ptr<Warehouse>> Warehouse::Open(const std::string& path) {
  absl::StatusOr<examples::Database> sqlite = examples::Database::Open(path, examples::Database::Mode::kCreate);
  if (!sqlite.ok()) return sqlite.status();
  if (absl::Status made = sqlite->Execute(kTables); !made.ok()) return made;
  return std::unique_ptr<Warehouse>(new Warehouse(*std::move(sqlite)));
}

absl::StatusOr<int64_t> Warehouse::BoxesBooked(int64_t token) {
  int64_t booked = 0;
  const absl::Status read = InTransaction([&]() -> absl::Status {
    if (absl::Status newest = Fence(token); !newest.ok()) return newest;
    absl::StatusOr<int64_t> boxes = Number("SELECT boxes_booked FROM shop");
    if (boxes.ok()) booked = *boxes;
    return boxes.status();
  });
  if (!read.ok()) return read;
  return booked;
}

absl::Status Warehouse::BookBox(int64_t token) {
  return InTransaction([&]() -> absl::Status {
    if (absl::Status newest = Fence(token); !newest.ok()) return newest;
    return Run("UPDATE shop SET boxes_booked = boxes_booked + 1, pairs = pairs + ?1", {kPairsInABox});
  });
}

absl::Status Warehouse::Fence(int64_t token) {
  absl::Status seen =
      Run("INSERT INTO fences VALUES ('delivery', ?1)"
          "  ON CONFLICT (lock) DO UPDATE SET token = excluded.token WHERE excluded.token >= token",
          {token});
  if (!seen.ok()) return seen;
  if (sqlite_.changes() == 0) return absl::AbortedError(absl::StrCat("token ", token, " is older than one seen"));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Warehouse::Allot(int64_t process, int64_t pairs) {
  const absl::Status moved = InTransaction([&]() -> absl::Status {
    absl::Status given =
        Run("INSERT INTO allotments SELECT ?1, min(pairs, ?2) FROM shop WHERE true"
            "  ON CONFLICT (process) DO UPDATE SET pairs = pairs + excluded.pairs",
            {process, pairs});
    if (!given.ok()) return given;
    return Run("UPDATE shop SET pairs = pairs - min(pairs, ?1)", {pairs});
  });
  if (!moved.ok()) return moved;
  return Allotted(process);
}

absl::StatusOr<int64_t> Warehouse::Allotted(int64_t process) {
  const std::lock_guard lock(mutex_);
  return Number("SELECT coalesce(sum(pairs), 0) FROM allotments WHERE process = ?1", {process});
}

absl::StatusOr<int64_t> Warehouse::BoxesBooked() {
  const std::lock_guard lock(mutex_);
  return Number("SELECT boxes_booked FROM shop");
}

absl::Status Warehouse::OpenSale() {
  const std::lock_guard lock(mutex_);
  return Run("UPDATE shop SET open = 1");
}

absl::StatusOr<bool> Warehouse::SaleIsOpen() {
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<int64_t> open = Number("SELECT open FROM shop");
  if (!open.ok()) return open.status();
  return *open != 0;
}

absl::Status Warehouse::InTransaction(const std::function<absl::Status()>& statements) {
  const std::lock_guard lock(mutex_);
  if (absl::Status begun = Run("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  absl::Status done = statements();
  if (done.ok()) done = Run("COMMIT");
  if (!done.ok()) (void)Run("ROLLBACK");
  return done;
}

absl::Status Warehouse::Run(const char* sql, std::initializer_list<int64_t> values) {
  absl::StatusOr<examples::Statement> statement = sqlite_.Prepare(sql);
  if (!statement.ok()) return statement.status();
  int parameter = 0;
  for (const int64_t value : values) statement->Bind(++parameter, value);
  return statement->Run();
}

absl::StatusOr<int64_t> Warehouse::Number(const char* sql, std::initializer_list<int64_t> values) {
  absl::StatusOr<examples::Statement> statement = sqlite_.Prepare(sql);
  if (!statement.ok()) return statement.status();
  int parameter = 0;
  for (const int64_t value : values) statement->Bind(++parameter, value);
  return statement->QueryInt();
}

}  // namespace shop
