// Tables, users and TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "locks/mysql/mysql_engine_fixture.h"
#include "mysql_schema.h"
#include "stockade/base/clock.h"
#include "stockade/base/process_name.h"
#include "stockade/mysql/internal/mysql_connection.h"

namespace stockade {
namespace {

using testing::EngineOn;
using ::testing::HasSubstr;
using testing::MariaDbServer;
using ::testing::Not;
using testing::SqlRows;

constexpr absl::StatusCode kMissing = absl::StatusCode::kFailedPrecondition;

class MySqlConnectTest : public testing::MySqlEngineTest {
 protected:
  void TearDown() override {
    if (engine_ != nullptr) server().Wipe();
  }
  static absl::Status Connect(const std::string& parameters = "") {
    return MySqlLockService::Connect(server().url() + parameters).status();
  }
  static void ExpectMissing(const std::string& what) {
    const absl::Status status = Connect();
    EXPECT_EQ(status.code(), kMissing) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
  static std::string UrlAs(const std::string& user) {
    std::string url = server().url();
    return url.replace(url.find("stockade:secret"), 15, user);
  }
  // The cipher of a connection made so; empty where it has none.
  static absl::StatusOr<std::string> Cipher(const std::string& url) {
    const auto connection = mysql_internal::MySqlConnection::Open(mysql_internal::ParseMySqlUrl(url).value(), -1);
    if (!connection.ok()) return connection.status();
    std::tuple<std::string, std::string> row;
    const mysql_internal::MySqlReply reply =
        (*connection)
            ->Run("SHOW SESSION STATUS LIKE 'Ssl_cipher'", mysql_internal::MySqlInto(row),
                  Clock::System()->Now() + absl::Seconds(20));
    if (!reply.status.ok()) return reply.status;
    return std::get<1>(row);
  }
};

TEST_F(MySqlConnectTest, Attributes_NameTheProcess) {
  const MariaDbServer watched({.flags = {"--performance-schema=ON"}});
  const auto connection =
      mysql_internal::MySqlConnection::Open(mysql_internal::ParseMySqlUrl(watched.url()).value(), -1);
  ASSERT_TRUE(connection.ok()) << connection.status();
  const SqlRows rows = watched.Query(
      "SELECT attr_value FROM performance_schema.session_connect_attrs a JOIN information_schema.processlist p"
      " ON p.id=processlist_id AND user='stockade' WHERE attr_name IN ('program_name','_pid') ORDER BY attr_name");
  EXPECT_EQ(rows, (SqlRows{{std::to_string(getpid())}, {base_internal::ProgramName()}}));
}

// No lease would end.
TEST_F(MySqlConnectTest, SessionClockStandsStill_IsRefused) {
  server().Query("SET GLOBAL init_connect='SET timestamp=1700000000'");
  const absl::Status status = Connect("?create_schema=1");
  server().Query("SET GLOBAL init_connect=''");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("init_connect is 'SET timestamp=1700000000'"));
}

TEST_F(MySqlConnectTest, NoTables_NamesWhatIsMissingAndWhatToDo) {
  server().Wipe();
  ExpectMissing("the table `stockade_locks` is not there");
  ExpectMissing("create_schema");
  EXPECT_TRUE(Connect("?create_schema=1").ok());
  EXPECT_TRUE(Connect("?create_schema=1").ok()) << "again";
  EXPECT_TRUE(Connect().ok());
  server().Query("DROP TABLE test.stockade_lock_holds");
  ExpectMissing("the table `stockade_lock_holds` is not there");
}

TEST_F(MySqlConnectTest, SchemaByAnAdministrator_IsTaken) {
  server().Wipe();
  const mysql_internal::MySqlTarget root = {.socket = server().unix_socket(), .username = "root", .database = "test"};
  const auto connection = mysql_internal::MySqlConnection::Open(root, -1).value();
  const Instant deadline = Clock::System()->Now() + absl::Seconds(20);
  EXPECT_TRUE(connection->Run(MySqlLockService::Schema("mine_"), deadline).status.ok());
  EXPECT_TRUE(Connect("?table_prefix=mine_").ok());
  ExpectMissing("`stockade_locks`");
}

TEST_F(MySqlConnectTest, OtherTables_NameWhatDiffers) {
  const auto expect = [](const std::string& change, const std::string& told) {
    server().Wipe();
    EXPECT_TRUE(Connect("?create_schema=1").ok());
    server().Query("ALTER TABLE test." + change);
    ExpectMissing(told);
  };
  expect("stockade_locks DROP COLUMN token", "has no column token");
  expect("stockade_locks MODIFY token INT NOT NULL", "has the column token of type int, not bigint");
  expect("stockade_lock_holds MODIFY sequence BIGINT NOT NULL", "sequence of type bigint, not bigint unsigned");
  expect("stockade_lock_holds MODIFY name VARBINARY(100) NOT NULL", "name of type varbinary(100), not varbinary(256)");
  expect("stockade_lock_holds DROP PRIMARY KEY, ADD PRIMARY KEY (name, owner)", "has the column kind at position 0");
  expect("stockade_locks ENGINE=MyISAM", "has the engine MyISAM, not InnoDB");
  expect("stockade_locks COMMENT='stockade locks 0'", "has the comment 'stockade locks 0'");
}

TEST_F(MySqlConnectTest, TablesGoneLater_AreNamed) {
  testing::Holder holder(*engine_, "stock");
  server().Wipe();
  const LockTry step = holder.Try();
  EXPECT_EQ(step.status.code(), kMissing) << step.status;
  EXPECT_FALSE(step.outcome_unknown);
  EXPECT_THAT(std::string(step.status.message()), HasSubstr("stockade_locks"));
}

TEST_F(MySqlConnectTest, WrongPassword_IsDeniedAndNotShown) {
  const absl::Status status = MySqlLockService::Connect(UrlAs("stockade:wrong")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("wrong")));
}

TEST_F(MySqlConnectTest, UserWithoutRights_IsDenied) {
  server().Query("CREATE OR REPLACE USER reader@'127.0.0.1' IDENTIFIED BY 'x'");
  server().Query("GRANT SELECT ON test.* TO reader@'127.0.0.1'");
  const std::string url = UrlAs("reader:x");
  EXPECT_EQ(MySqlLockService::Connect(url + "?create_schema=1&table_prefix=other_").status().code(),
            absl::StatusCode::kPermissionDenied);
  // The locks' tables are there.
  for (const std::string table : {"stockade_locks", "stockade_lock_holds"}) {
    for (const std::string right : {"INSERT", "UPDATE", "DELETE"}) {
      server().Query("CREATE OR REPLACE USER reader@'127.0.0.1' IDENTIFIED BY 'x'");
      for (const std::string each : {"stockade_locks", "stockade_lock_holds"}) {
        for (const std::string granted : {"SELECT", "INSERT", "UPDATE", "DELETE"}) {
          if (each == table && granted == right) continue;
          server().Query("GRANT " + granted + " ON test." + each + " TO reader@'127.0.0.1'");
        }
      }
      const absl::Status status = MySqlLockService::Connect(url).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << table << " " << right << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(right + " command denied"));
      EXPECT_THAT(std::string(status.message()), HasSubstr(table));
      server().Query("GRANT " + right + " ON test." + table + " TO reader@'127.0.0.1'");
      EXPECT_TRUE(MySqlLockService::Connect(url).ok()) << "it needs no other right";
    }
  }
  server().Query("DROP USER reader@'127.0.0.1'");
}

TEST_F(MySqlConnectTest, NoDatabase_IsNamed) {
  const absl::Status status =
      MySqlLockService::Connect("mysql://root@localhost/nowhere?socket=" + server().unix_socket()).status();
  EXPECT_EQ(status.code(), kMissing) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("nowhere"));
}

TEST_F(MySqlConnectTest, Id_HasTheServerTheDatabaseAndNoPassword) {
  EXPECT_EQ(engine_->id(), "mysql 127.0.0.1:" + std::to_string(server().port()) + "/test/stockade_");
}

TEST_F(MySqlConnectTest, Tls_OffRequiredVerified) {
  const std::string url = server().url();
  EXPECT_EQ(Cipher(url + "?tls=off").value(), "");
  EXPECT_NE(Cipher(url + "?tls=required").value(), "");
  EXPECT_NE(Cipher(url + "?tls=verify&tls_ca=" + server().ca_file()).value(), "");
  const testing::CertificateAuthority other;
  const absl::Status refused = Cipher(url + "?tls=verify&tls_ca=" + other.ca_file()).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("secret")));
}

// A server may ask for any file of the client's, as an answer to whatever it was sent, unless the client has ruled it
// out.
TEST_F(MySqlConnectTest, FilesOfThisMachine_AreNotSent) {
  const auto connection =
      mysql_internal::MySqlConnection::Open(mysql_internal::ParseMySqlUrl(server().url()).value(), -1).value();
  const mysql_internal::MySqlReply reply =
      connection->Run("LOAD DATA LOCAL INFILE '" + server().ca_file() + "' INTO TABLE stockade_locks (name)",
                      Clock::System()->Now() + absl::Seconds(20));
  EXPECT_FALSE(reply.status.ok());
  EXPECT_FALSE(reply.unanswered) << "the server knows that it must not ask: " << reply.status;
}

TEST_F(MySqlConnectTest, TlsRequired_TheServerHasNone_IsRefused) {
  const testing::MariaDbServer plain;
  const absl::Status status = Cipher(plain.url() + "?tls=required").status();
  EXPECT_EQ(status.code(), kMissing) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the server does not support TLS"));
}

}  // namespace
}  // namespace stockade
