#ifndef STOCKADE_BENCH_LEDGER_NAIVE_SHOP_H_
#define STOCKADE_BENCH_LEDGER_NAIVE_SHOP_H_

#include <sqlite3.h>

#include <mutex>
#include <string>

#include "ledger/peer_shop.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {

// SQLite with a transaction an order, in WAL with synchronous=FULL, on one connection that a mutex guards, since SQLite
// has one writer at a time anyway.
class NaiveShop final : public PeerShop {
 public:
  explicit NaiveShop(const std::string& path) {
    Check(sqlite3_open(path.c_str(), &database_), "open");
    Run("PRAGMA journal_mode=WAL");
    Run("PRAGMA synchronous=FULL");
    Run("CREATE TABLE stock (sku TEXT PRIMARY KEY, units INTEGER NOT NULL CHECK (units >= 0)) WITHOUT ROWID");
    Run("CREATE TABLE orders (request_id TEXT PRIMARY KEY, sku TEXT NOT NULL, units INTEGER NOT NULL, state TEXT NOT "
        "NULL) WITHOUT ROWID");
    Run("INSERT INTO stock VALUES ('sku', 1000000000000)");
    Prepare("BEGIN IMMEDIATE", &begin_);
    Prepare("UPDATE stock SET units = units - 1 WHERE sku = 'sku' AND units >= 1", &take_);
    Prepare("INSERT INTO orders VALUES (?, 'sku', 1, ?)", &insert_);
    Prepare("UPDATE orders SET state = 'sold' WHERE request_id = ? AND state = 'held'", &sell_);
    Prepare("COMMIT", &commit_);
  }

  ~NaiveShop() override {
    for (sqlite3_stmt* const statement : {begin_, take_, insert_, sell_, commit_}) sqlite3_finalize(statement);
    sqlite3_close(database_);
  }

  NaiveShop(const NaiveShop&) = delete;
  NaiveShop& operator=(const NaiveShop&) = delete;

  void Take(size_t, const std::string& request_id) override { Place(request_id, "sold"); }
  void Reserve(size_t, const std::string& request_id) override { Place(request_id, "held"); }

  void Commit(size_t, const std::string& request_id) override {
    const std::lock_guard lock(mutex_);
    Step(begin_);
    Bind(sell_, 1, request_id);
    Step(sell_);
    Step(commit_);
  }

 private:
  void Place(const std::string& request_id, const std::string& state) {
    const std::lock_guard lock(mutex_);
    Step(begin_);
    Step(take_);
    Bind(insert_, 1, request_id);
    Bind(insert_, 2, state);
    Step(insert_);
    Step(commit_);
  }

  void Check(int result, const char* what) {
    if (result != SQLITE_OK) {
      base_internal::Fatal(base_internal::Concat("bench: naive SQLite: ", what, ": ", sqlite3_errmsg(database_)));
    }
  }
  void Run(const char* sql) { Check(sqlite3_exec(database_, sql, nullptr, nullptr, nullptr), sql); }
  void Prepare(const char* sql, sqlite3_stmt** out) {
    Check(sqlite3_prepare_v2(database_, sql, -1, out, nullptr), sql);
  }
  void Bind(sqlite3_stmt* statement, int parameter, const std::string& text) {
    Check(sqlite3_bind_text(statement, parameter, text.data(), static_cast<int>(text.size()), SQLITE_STATIC), "bind");
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
  sqlite3_stmt* sell_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_NAIVE_SHOP_H_
