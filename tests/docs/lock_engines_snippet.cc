// The snippets of docs/DISTRIBUTED_LOCKS.md on ZooKeeper and MySQL, where they compile and run. snippets_test.cc
// compares them.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "mysql/support/mariadb_server.h"
#include "stockade/locks/mysql_lock_service.h"
#include "stockade/locks/zookeeper_lock_service.h"
#include "zookeeper/support/zookeeper_server.h"

namespace {

TEST(DocumentsTest, LocksZooKeeperSnippet_GivesALock) {
  STOCKADE_NEEDS_ZOOKEEPER();
  const stockade::testing::ZooKeeperServer server({.tick = absl::Seconds(2)});
  const std::string url = "zookeeper://127.0.0.1:" + std::to_string(server.port()) + "/shop";

  // "zookeeper://zk1:2181,zk2:2181,zk3:2181/shop"
  absl::StatusOr<std::unique_ptr<stockade::LockService>> locks = stockade::ZooKeeperLockService::Connect(
      url, {.session_timeout = absl::Seconds(10), .server_tick = absl::Seconds(2)});

  ASSERT_TRUE(locks.ok()) << locks.status();
  absl::StatusOr<stockade::LockLease> held = (*locks)->Acquire("ticket");
  EXPECT_TRUE(held.ok()) << held.status();
}

TEST(DocumentsTest, LocksMySqlSnippet_GivesALock) {
  STOCKADE_NEEDS_MARIADB();
  const stockade::testing::MariaDbServer server;
  const std::string url = server.url();

  // "mysql://shop:secret@db/shop"
  absl::StatusOr<std::unique_ptr<stockade::LockService>> locks =
      stockade::MySqlLockService::Connect(url, {.create_schema = true});

  ASSERT_TRUE(locks.ok()) << locks.status();
  absl::StatusOr<stockade::LockLease> held = (*locks)->Acquire("ticket");
  EXPECT_TRUE(held.ok()) << held.status();
}

}  // namespace
