#include <gtest/gtest.h>

#include <string>

#include "mysql/support/mariadb_server.h"

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

TEST(MariaDbServerFixtureTest, Tls_AskedFor_ItHasACertificate) {
  STOCKADE_NEEDS_MARIADB();
  const MariaDbServer server({.tls = true});
  EXPECT_EQ(server.Value("SELECT @@have_ssl"), "YES");
}

}  // namespace
}  // namespace stockade::testing
