#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "mysql/support/mariadb_server.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

TEST(MariaDbServerFixtureTest, Server_AllThatCanHappenToIt_IsSo) {
  STOCKADE_NEEDS_MARIADB();
  MariaDbServer server;
  server.Query("CREATE TABLE test.t (k INT PRIMARY KEY, v VARCHAR(10)) ENGINE=InnoDB");
  server.Query("INSERT INTO test.t VALUES (1, 'one'), (2, NULL)");
  server.Kill();
  EXPECT_FALSE(server.TryQuery("SELECT 1").has_value());
  server.Restart();
  EXPECT_EQ(server.Query("SELECT * FROM test.t ORDER BY k"), (SqlRows{{"1", "one"}, {"2", "NULL"}}))
      << "outlived a kill";
  server.Restart();
  EXPECT_EQ(server.Value("SELECT COUNT(*) FROM test.t"), "2");
  server.Wipe();
  EXPECT_TRUE(server.Query("SHOW TABLES FROM test").empty());
  EXPECT_FALSE(server.TryQuery("no SQL").has_value());
}

TEST(MariaDbServerFixtureTest, Query_LosesADeadlock_TriesAgain) {
  STOCKADE_NEEDS_MARIADB();
  MariaDbServer server;
  server.Query("CREATE TABLE test.t (k INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB");
  server.Query("INSERT INTO test.t VALUES (1, 0), (2, 0)");
  // It locks 2, and 1 once somebody waits for it. It has done most, so the server ends the other one. The server's
  // list of waits is renewed only if nobody has read it for 0.1 s.
  std::thread client([&] {
    server.Query(
        "BEGIN NOT ATOMIC START TRANSACTION;"
        " INSERT INTO test.t SELECT seq, 0 FROM test.seq_3_to_200;"
        " UPDATE test.t SET v = 10 WHERE k = 2; DO GET_LOCK('has_2', 0);"
        " WHILE (SELECT COUNT(*) FROM information_schema.innodb_lock_waits) = 0 DO DO SLEEP(0.2); END WHILE;"
        " UPDATE test.t SET v = 10 WHERE k = 1; COMMIT; END");
  });
  Await("the lock of 2", [&] { return server.Value("SELECT IS_USED_LOCK('has_2') IS NOT NULL") == "1"; });
  server.Query("UPDATE test.t SET v = v + 1 WHERE k <= 2");
  client.join();
  EXPECT_EQ(server.Query("SELECT variable_value FROM information_schema.global_status"
                         " WHERE variable_name = 'INNODB_DEADLOCKS'"),
            (SqlRows{{"1"}}));
  EXPECT_EQ(server.Query("SELECT v FROM test.t WHERE k <= 2 ORDER BY k"), (SqlRows{{"11"}, {"11"}}));
}

TEST(MariaDbServerFixtureTest, Tls_AskedFor_ItHasACertificate) {
  STOCKADE_NEEDS_MARIADB();
  const MariaDbServer server({.tls = true});
  EXPECT_EQ(server.Value("SELECT @@have_ssl"), "YES");
}

}  // namespace
}  // namespace stockade::testing
