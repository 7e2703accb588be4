#ifndef STOCKADE_BENCH_LEDGER_NAIVE_SHOP_H_
#define STOCKADE_BENCH_LEDGER_NAIVE_SHOP_H_

#include <sqlite3.h>

#include <mutex>
#include <string>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {

// One transaction an order, as most services have it: the stock's row is counted down and the order inserted, in WAL
// with synchronous=FULL, on one connection that a mutex guards, since SQLite has one writer at a time anyway.
class NaiveShop {
 public:
  explicit NaiveShop(const std::string& path) {
    Check(sqlite3_open(path.c_str(), &database_), "open");
    Run("PRAGMA journal_mode=WAL");
    Run("PRAGMA synchronous=FULL");
    Run("CREATE TABLE stock (sku TEXT PRIMARY KEY, units INTEGER NOT NULL CHECK (units >= 0)) WITHOUT ROWID");
    Run("CREATE TABLE orders (request_id TEXT PRIMARY KEY, sku TEXT NOT NULL, units INTEGER NOT NULL) WITHOUT ROWID");
    Run("INSERT INTO stock VALUES ('sku', 1000000000000)");
    Prepare("BEGIN IMMEDIATE", &begin_);
    Prepare("UPDATE stock SET units = units - 1 WHERE sku = 'sku'", &take_);
    Prepare("INSERT INTO orders VALUES (?, 'sku', 1)", &insert_);
    Prepare("COMMIT", &commit_);
  }

  ~NaiveShop() {
    for (sqlite3_stmt* const statement : {begin_, take_, insert_, commit_}) sqlite3_finalize(statement);
    sqlite3_close(database_);
  }

  NaiveShop(const NaiveShop&) = delete;
  NaiveShop& operator=(const NaiveShop&) = delete;

  // Durable when it returns.
  void Take(const std::string& request_id) {
    const std::lock_guard lock(mutex_);
    Step(begin_);
    Step(take_);
    Check(sqlite3_bind_text(insert_, 1, request_id.data(), static_cast<int>(request_id.size()), SQLITE_STATIC), "bind");
    Step(insert_);
    Step(commit_);
  }

 private:
  void Check(int result, const char* what) {
    if (result != SQLITE_OK) {
      internal::Fatal(internal::Concat("bench: naive SQLite: ", what, ": ", sqlite3_errmsg(database_)));
    }
  }
  void Run(const char* sql) { Check(sqlite3_exec(database_, sql, nullptr, nullptr, nullptr), sql); }
  void Prepare(const char* sql, sqlite3_stmt** out) {
    Check(sqlite3_prepare_v2(database_, sql, -1, out, nullptr), sql);
  }
  void Step(sqlite3_stmt* statement) {
    const int result = sqlite3_step(statement);
    Check(result == SQLITE_DONE ? SQLITE_OK : result, sqlite3_sql(statement));
    sqlite3_reset(statement);
  }

  std::mutex mutex_;
  sqlite3* database_ = nullptr;  // Guarded by mutex_, as are the statements.
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* take_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_NAIVE_SHOP_H_
