#include "common/sqlite.h"

#include "absl/strings/str_cat.h"

namespace examples {
namespace {

absl::Status SqliteError(sqlite3* database) {
  const std::string text = absl::StrCat("SQLite: ", sqlite3_errmsg(database));
  const int code = sqlite3_errcode(database);
  return code == SQLITE_BUSY || code == SQLITE_LOCKED ? absl::AbortedError(text) : absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  const absl::Status failed = code == SQLITE_DONE ? absl::OkStatus() : SqliteError(database_);
  Reset();
  if (!failed.ok()) return failed;
  return false;
}

std::string Statement::Text(int column) {
  const unsigned char* const text = sqlite3_column_text(statement_.get(), column);
  return text == nullptr ? std::string() : reinterpret_cast<const char*>(text);
}

absl::Status Statement::Run() {
  while (true) {
    const absl::StatusOr<bool> row = Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
  }
}

absl::StatusOr<int64_t> Statement::QueryInt() {
  const absl::StatusOr<bool> row = Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::NotFoundError("no row");
  const int64_t value = Int(0);
  Reset();
  return value;
}

absl::StatusOr<Database> Database::Open(const std::string& path, Mode mode) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  if (mode == Mode::kReadOnly) flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Database database(handle);
  if (code != SQLITE_OK) {
    return absl::UnavailableError(absl::StrCat(path, ": ", handle ? sqlite3_errmsg(handle) : "out of memory"));
  }
  sqlite3_busy_timeout(handle, 10'000);
  return database;
}

absl::Status Database::Execute(const char* script) {
  if (sqlite3_exec(handle_.get(), script, nullptr, nullptr, nullptr) != SQLITE_OK) return SqliteError(handle_.get());
  return absl::OkStatus();
}

absl::StatusOr<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return SqliteError(handle_.get());
  return Statement(handle_.get(), statement);
}

absl::StatusOr<int64_t> Database::QueryInt(std::string_view sql) {
  absl::StatusOr<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  return statement->QueryInt();
}

}  // namespace examples
