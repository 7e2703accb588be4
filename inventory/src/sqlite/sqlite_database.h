#ifndef STOCKADE_INVENTORY_SQLITE_DATABASE_H_
#define STOCKADE_INVENTORY_SQLITE_DATABASE_H_

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "checksum_vfs.h"

namespace stockade::inventory_internal {

// A prepared statement: bind, step, read columns, reset; and again. What is bound must live until Reset(). An error of
// a bind shows at the next Step(). Not thread-safe. Must be gone before its database.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}

  // Binds the parameters from the first one on; nullopt is NULL.
  template <typename... Values>
  SqliteStatement& With(const Values&... values) {
    int parameter = 0;
    (Bind(++parameter, values), ...);
    return *this;
  }
  // Parameters count from 1.
  void BindBlob(int parameter, std::string_view bytes);

  // True: there is a row to read. False: done, and reset. An error resets too.
  absl::StatusOr<bool> Step();

  // Steps to the end, whatever the rows.
  absl::Status Run();

  // Columns count from 0; read them after a Step() that was true and before the next call. A view lives as long.
  int64_t Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string_view Text(int column) const;
  std::string_view Blob(int column) const;
  bool IsNull(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  void Bind(int parameter, std::integral auto value) {
    KeepError(sqlite3_bind_int64(statement_.get(), parameter, static_cast<int64_t>(value)));
  }
  void Bind(int parameter, std::string_view text);
  template <typename Value>
  void Bind(int parameter, const std::optional<Value>& value) {
    value.has_value() ? Bind(parameter, *value) : KeepError(sqlite3_bind_null(statement_.get(), parameter));
  }
  void KeepError(int code);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_error_ = SQLITE_OK;  // The first since the last Step().
};

// A connection for one thread at a time, to a file that it makes if there is none.
class SqliteDatabase {
 public:
  // `path` is absolute: it is never taken for a URI or for ":memory:". `busy_wait`: how long a call waits for locks.
  static absl::StatusOr<SqliteDatabase> Open(const std::string& path, absl::Duration busy_wait);

  absl::Status Execute(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(std::string_view sql);

  // The first column of the first row of `sql`, which must have one.
  absl::StatusOr<int64_t> QueryInt(std::string_view sql);
  absl::StatusOr<std::string> QueryText(std::string_view sql);

  // Undoes what a transaction did that ended in `failure`, and returns that; Unavailable where this fails too, and
  // closing the file does it.
  absl::Status RollBackAfter(absl::Status failure);

  bool read_only() const { return sqlite3_db_readonly(connection_.get(), "main") == 1; }

  // Gives pages checksums, and checks them: see checksum_vfs.h. `need`: what page 1 says on the disk. Before the first
  // statement. An empty file becomes one of pages of kPageBytes with room for them.
  absl::Status EnableChecksums(LogNeed need);
  // DataLoss: a page has been found damaged, and which.
  absl::Status PageDamage();
  // Whether the file is complete without its write-ahead log, durably. DataLoss: page 1 is damaged.
  absl::Status SetLogNeed(LogNeed need);

  // From now on the write-ahead log grows until Checkpoint() is called.
  void StopAutomaticCheckpoints();
  // The length of the write-ahead log after the last commit, in pages.
  int64_t log_pages() const { return *log_pages_; }
  // Moves the whole write-ahead log into the file, and syncs that; the next commit starts the log again. After an error
  // everything that was committed stays committed, in both files.
  absl::Status Checkpoint();

  // Writes the write-ahead log over itself, and syncs it. After a sync that failed, the kernel may show bytes that are
  // not on the disk, take them for clean, and leave them out of every later sync: a checkpoint that trusted them would
  // make the file newer than the log that a power cut leaves beside it. Nobody else may have the file open.
  absl::Status RewriteLog();

  // Whether closing moves the write-ahead log into the file, as it does by default, or leaves both files as they are.
  void set_checkpoint_on_close(bool on);

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close(connection); }
  };

  explicit SqliteDatabase(sqlite3* connection) : connection_(connection) {}

  std::unique_ptr<int64_t> log_pages_ = std::make_unique<int64_t>(0);  // Stays where it is: SQLite writes to it.
  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_DATABASE_H_
