// The snippets of docs/DISTRIBUTED_LOCKS.md, where they compile and run. snippets_test.cc compares them.

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <string>

#include "redis/support/redis_server.h"
#include "stockade/locks/connect_lock_service.h"
#include "stockade/locks/redis_lock_service.h"

namespace {

struct Job {
  void Stop() { stopped = true; }
  bool stopped = false;
};

struct Store {
  absl::Status Sell(int64_t token) {
    if (token < newest) return absl::AbortedError("an older holder");
    newest = token;
    return absl::OkStatus();
  }
  int64_t newest = 0;
};

absl::Status SellUnderLock(const std::string& url, Job& job, Store& store) {
  // One service for all threads of a process.
  absl::StatusOr<std::unique_ptr<stockade::LockService>> locks = stockade::RedisLockService::Connect(url);
  if (!locks.ok()) return locks.status();

  // DeadlineExceeded: others hold it. Unavailable: Redis cannot be reached.
  absl::StatusOr<stockade::LockLease> held = (*locks)->Acquire("ticket", {.wait = absl::Seconds(3)});
  if (!held.ok()) return held.status();
  std::stop_callback lost(held->lost(), [&] { job.Stop(); });  // the lock is no longer ours

  absl::StatusOr<int64_t> token = held->fencing_token();
  if (!token.ok()) return token.status();
  absl::Status sold = store.Sell(*token);  // refuses an older token than it has seen
  if (!sold.ok()) return sold;             // the lease's destructor releases the lock
  return held->Release();
}

TEST(DocumentsTest, LocksSnippet_SellsUnderALock) {
  STOCKADE_NEEDS_REDIS();
  const stockade::testing::RedisServer server;
  Job job;
  Store store;
  const absl::Status sold = SellUnderLock(server.url(), job, store);
  EXPECT_TRUE(sold.ok()) << sold;
  EXPECT_FALSE(job.stopped);
  EXPECT_GT(store.newest, 0);
}

TEST(DocumentsTest, LocksByUrlSnippet_GivesThatEngine) {
  const std::string url = "local:";

  // "local:", "redis://127.0.0.1:6379", "zookeeper://zk1,zk2,zk3", "mysql://shop:secret@db/shop".
  // Unimplemented: this build has no such engine; the text says how to build it.
  absl::StatusOr<std::unique_ptr<stockade::LockService>> locks = stockade::ConnectLockService(url, {.name = "shop"});

  ASSERT_TRUE(locks.ok()) << locks.status();
  EXPECT_TRUE((*locks)->id().starts_with("local")) << (*locks)->id();
}

TEST(DocumentsTest, LocksOwnerSnippet_HoldsWithoutAThread) {
  STOCKADE_NEEDS_REDIS();
  const stockade::testing::RedisServer server;
  std::promise<stockade::LockLease> steps;
  auto locks = stockade::RedisLockService::Connect(server.url());
  ASSERT_TRUE(locks.ok()) << locks.status();

  stockade::AcquireOptions options = {.wait = absl::Seconds(3), .owner = stockade::LockOwner::New()};
  (*locks)->AcquireAsync("report", options, [&](absl::StatusOr<stockade::LockLease> report) {
    if (report.ok()) steps.set_value(*std::move(report));  // held by the task; any thread may release it
  });

  stockade::LockLease report = steps.get_future().get();
  EXPECT_TRUE(report.owner() == *options.owner);
  const absl::Status released = report.Release();
  EXPECT_TRUE(released.ok()) << released;
}

// The ```sql block of the document.
std::string FenceSql() {
  std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/docs/DISTRIBUTED_LOCKS.md");
  std::string sql;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (inside && line == "```") break;
    if (inside) sql += line + "\n";
    inside = inside || line == "```sql";
  }
  return sql;
}

std::string WithToken(std::string sql, int64_t token) {
  for (size_t at = 0; (at = sql.find(":token")) != std::string::npos;) sql.replace(at, 6, std::to_string(token));
  return sql;
}

int64_t Left(sqlite3* db) {
  int64_t left = -1;
  const auto take = [](void* into, int, char** values, char**) {
    *static_cast<int64_t*>(into) = std::stoll(values[0]);
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(db, "SELECT left FROM tickets", take, &left, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  return left;
}

TEST(DocumentsTest, LocksSqlSnippet_OlderToken_ChangesNoRow) {
  const std::string sql = FenceSql();
  const size_t begin = sql.find("BEGIN");
  const size_t update = sql.find("UPDATE tickets");
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(update, std::string::npos);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
  const auto run = [&](const std::string& statements) {
    EXPECT_EQ(sqlite3_exec(db, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  };
  run("CREATE TABLE tickets (left INTEGER); INSERT INTO tickets VALUES (20);" + sql.substr(0, begin));

  const auto sell = [&](int64_t token) {
    run(WithToken(sql.substr(begin, update - begin), token));
    const bool fenced_in = sqlite3_changes(db) == 1;
    run(fenced_in ? sql.substr(update) : "ROLLBACK");
    return fenced_in;
  };
  EXPECT_TRUE(sell(33));
  EXPECT_TRUE(sell(34));
  EXPECT_FALSE(sell(33));
  EXPECT_TRUE(sell(34));
  EXPECT_EQ(Left(db), 17);
  sqlite3_close(db);
}

}  // namespace
