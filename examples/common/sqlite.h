#ifndef STOCKADE_EXAMPLES_COMMON_SQLITE_H_
#define STOCKADE_EXAMPLES_COMMON_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace examples {

// A prepared statement. One thread at a time.
class Statement {
 public:
  Statement(sqlite3* database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}

  // Parameters count from 1 and keep their values from run to run.
  void Bind(int parameter, int64_t value) { sqlite3_bind_int64(statement_.get(), parameter, value); }
  void Bind(int parameter, std::string_view text) {
    sqlite3_bind_text(statement_.get(), parameter, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }

  // Whether there is a row; after false, or an error, the statement can be run again.
  absl::StatusOr<bool> Step();
  int64_t Int(int column) { return sqlite3_column_int64(statement_.get(), column); }
  std::string Text(int column);
  void Reset() { sqlite3_reset(statement_.get()); }

  // Steps to the end.
  absl::Status Run();
  // The first column of the first row. NotFound where there is no row.
  absl::StatusOr<int64_t> QueryInt();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// A connection. One thread at a time. Statements go before it does.
class Database {
 public:
  enum class Mode { kCreate, kExisting, kReadOnly };
  static absl::StatusOr<Database> Open(const std::string& path, Mode mode);

  absl::Status Execute(const char* script);
  absl::StatusOr<Statement> Prepare(std::string_view sql);
  absl::StatusOr<int64_t> QueryInt(std::string_view sql);
  // Rows that the last INSERT, UPDATE or DELETE touched.
  int64_t changes() const { return sqlite3_changes64(handle_.get()); }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  explicit Database(sqlite3* handle) : handle_(handle) {}
  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_SQLITE_H_
