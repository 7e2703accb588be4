#include "sqlite_database.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include "checksum_vfs.h"
#include "stockade/base/strings.h"
#include "write_ahead_log.h"

namespace stockade::inventory_internal {
namespace {

absl::StatusCode CodeFor(int code, int system_errno) {
  switch (code & 0xff) {
    case SQLITE_CORRUPT: return absl::StatusCode::kDataLoss;
    case SQLITE_NOTADB:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG: return absl::StatusCode::kFailedPrecondition;
    case SQLITE_FULL: return absl::StatusCode::kResourceExhausted;
    case SQLITE_IOERR:
      if (code == SQLITE_IOERR_DATA) return absl::StatusCode::kDataLoss;
      // SQLite opens for reading what it may not write, and finds out when it writes.
      if (system_errno == EBADF || system_errno == EROFS) return absl::StatusCode::kPermissionDenied;
      // SQLite knows of one way only in which there is no room.
      if (code != SQLITE_IOERR_WRITE || (system_errno != EDQUOT && system_errno != EFBIG)) {
        return absl::StatusCode::kUnavailable;
      }
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_PERM:
    case SQLITE_READONLY: return absl::StatusCode::kPermissionDenied;
    case SQLITE_CANTOPEN:
      // Never NotFound: the directory was there a moment ago.
      if (system_errno == ENOSPC || system_errno == EDQUOT) return absl::StatusCode::kResourceExhausted;
      if (system_errno == EACCES || system_errno == EPERM || system_errno == EROFS)
        return absl::StatusCode::kPermissionDenied;
      return absl::StatusCode::kUnavailable;
    // A statement that does not fit the tables it finds.
    case SQLITE_ERROR: return absl::StatusCode::kDataLoss;
    default: return absl::StatusCode::kUnavailable;
  }
}

absl::Status PageError(uint32_t page) {
  return absl::DataLossError(
      Concat("page ", page, " is damaged, or was written by another program: its checksum does not match"));
}

// Called right after what failed.
absl::Status ErrorOf(sqlite3* connection, int code) {
  if (code == SQLITE_IOERR_DATA) return PageError(ChecksumVfs::DamagedPage(connection));
  // Of a COMMIT whose write or sync fails SQLite 3.40 keeps no errno, or that of an earlier error; but it makes no
  // system call that fails afterwards.
  const int last_errno = errno;
  const bool at_commit = code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC;
  const int system_errno = at_commit ? last_errno : sqlite3_system_errno(connection);
  absl::Status error(CodeFor(code, system_errno), Concat(sqlite3_errmsg(connection), " (SQLite error ", code, ")"));
  const int primary = code & 0xff;
  if (system_errno != 0 && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN || primary == SQLITE_FULL)) {
    return absl::Status(error.code(), absl::ErrnoToStatus(system_errno, error.message()).message());
  }
  return error;
}

}  // namespace

void SqliteStatement::KeepError(int code) {
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
}

void SqliteStatement::Bind(int parameter, std::string_view text) {
  // A null pointer would bind NULL.
  const char* const data = text.empty() ? "" : text.data();
  KeepError(sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void SqliteStatement::BindBlob(int parameter, std::string_view bytes) {
  const char* const data = bytes.empty() ? "" : bytes.data();
  KeepError(sqlite3_bind_blob64(statement_.get(), parameter, data, bytes.size(), SQLITE_STATIC));
}

absl::StatusOr<bool> SqliteStatement::Step() {
  int code = std::exchange(bind_error_, SQLITE_OK);
  if (code == SQLITE_OK) code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  absl::Status error;
  if (code != SQLITE_DONE) error = ErrorOf(sqlite3_db_handle(statement_.get()), code);
  sqlite3_reset(statement_.get());
  if (!error.ok()) return error;
  return false;
}

absl::Status SqliteStatement::Run() {
  while (true) {
    absl::StatusOr<bool> row = Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
  }
}

std::string_view SqliteStatement::Text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::string_view SqliteStatement::Blob(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::Open(const std::string& path, absl::Duration busy_wait) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                                   ChecksumVfs::Name());
  if (raw == nullptr) return absl::ResourceExhaustedError("out of memory");
  SqliteDatabase database(raw);
  sqlite3_extended_result_codes(raw, 1);
  if (code != SQLITE_OK) return ErrorOf(raw, sqlite3_extended_errcode(raw));
  const int64_t wait_ms = std::min<int64_t>(absl::ToInt64Milliseconds(busy_wait), std::numeric_limits<int>::max());
  sqlite3_busy_timeout(raw, static_cast<int>(wait_ms));
  return database;
}

absl::Status SqliteDatabase::Execute(const char* sql) {
  const int code = sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : ErrorOf(connection_.get(), code);
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(connection_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return ErrorOf(connection_.get(), code);
  return SqliteStatement(statement);
}

absl::StatusOr<int64_t> SqliteDatabase::QueryInt(std::string_view sql) {
  absl::StatusOr<SqliteStatement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  const int64_t value = statement->Int(0);
  // A pragma that writes commits where it ends.
  if (absl::Status end = statement->Run(); !end.ok()) return end;
  return value;
}

absl::StatusOr<std::string> SqliteDatabase::QueryText(std::string_view sql) {
  absl::StatusOr<SqliteStatement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  std::string value(statement->Text(0));
  // A pragma that writes commits where it ends.
  if (absl::Status end = statement->Run(); !end.ok()) return end;
  return value;
}

absl::Status SqliteDatabase::RollBackAfter(absl::Status failure) {
  // SQLite has rolled back by itself after some errors.
  if (sqlite3_get_autocommit(connection_.get()) != 0) return failure;
  const absl::Status rolled_back = Execute("ROLLBACK");
  if (rolled_back.ok()) return failure;
  return absl::UnavailableError(Concat(failure.message(), "; and at the roll-back: ", rolled_back.message()));
}

absl::Status SqliteDatabase::EnableChecksums(LogNeed need) {
  ChecksumVfs::Enable(connection_.get(), need);
  int reserved = kPageChecksumBytes;
  const int code = sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  if (code != SQLITE_OK) return ErrorOf(connection_.get(), code);
  return Execute(Concat("PRAGMA page_size = ", kPageBytes).c_str());
}

absl::Status SqliteDatabase::PageDamage() {
  const uint32_t page = ChecksumVfs::DamagedPage(connection_.get());
  return page == 0 ? absl::OkStatus() : PageError(page);
}

absl::Status SqliteDatabase::SetLogNeed(LogNeed need) {
  const int code = ChecksumVfs::SetLogNeed(connection_.get(), need);
  if (code == SQLITE_OK) return absl::OkStatus();
  const int system_errno = errno;
  if (code == SQLITE_IOERR_DATA) return ErrorOf(connection_.get(), code);
  return absl::Status(
      CodeFor(code, system_errno),
      absl::ErrnoToStatus(system_errno, Concat(sqlite3_errstr(code), " (SQLite error ", code, ")")).message());
}

void SqliteDatabase::StopAutomaticCheckpoints() {
  const auto keep_length = [](void* to, sqlite3*, const char*, int pages) {
    *static_cast<int64_t*>(to) = pages;
    return SQLITE_OK;
  };
  sqlite3_wal_hook(connection_.get(), keep_length, log_pages_.get());
}

absl::Status SqliteDatabase::Checkpoint() {
  int frames = 0;
  int moved = 0;
  const int code = sqlite3_wal_checkpoint_v2(connection_.get(), "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &moved);
  if (code != SQLITE_OK) return ErrorOf(connection_.get(), code);
  if (moved != frames) return absl::FailedPreconditionError("another connection is reading it");
  *log_pages_ = 0;
  return absl::OkStatus();
}

absl::Status SqliteDatabase::RewriteLog() {
  sqlite3_file* log = nullptr;
  int code = sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (code != SQLITE_OK || log == nullptr || log->pMethods == nullptr) {
    return absl::InternalError("the write-ahead log is not open");
  }
  sqlite3_int64 size = 0;
  code = log->pMethods->xFileSize(log, &size);
  // Whole frames, which the layer of checksums hands on as they are. What is behind the last one is none.
  std::vector<char> block(size_t{16} * kFrameBytes);
  sqlite3_int64 offset = 0;
  while (code == SQLITE_OK && offset + kLogHeaderBytes <= size) {
    const sqlite3_int64 whole = (size - offset) / kFrameBytes * kFrameBytes;
    const int count = offset == 0
                          ? kLogHeaderBytes
                          : static_cast<int>(std::min<sqlite3_int64>(whole, static_cast<int64_t>(block.size())));
    if (count == 0) break;
    code = log->pMethods->xRead(log, block.data(), count, offset);
    if (code == SQLITE_OK) code = log->pMethods->xWrite(log, block.data(), count, offset);
    offset += count;
  }
  if (code == SQLITE_OK && size > 0) code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  if (code == SQLITE_OK) return absl::OkStatus();
  const int system_errno = errno;
  return absl::Status(
      CodeFor(code, system_errno),
      absl::ErrnoToStatus(system_errno, Concat("the write-ahead log (SQLite error ", code, ")")).message());
}

void SqliteDatabase::set_checkpoint_on_close(bool on) {
  sqlite3_db_config(connection_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on ? 0 : 1, nullptr);
}

}  // namespace stockade::inventory_internal
