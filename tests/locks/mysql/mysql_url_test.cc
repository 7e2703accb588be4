#include "mysql_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace stockade::locks_internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

MySqlUrl Parsed(std::string_view text, MySqlLockOptions& options) {
  const absl::StatusOr<MySqlUrl> url = ParseMySqlUrl(text, options);
  EXPECT_TRUE(url.ok()) << url.status();
  return url.ok() ? *url : MySqlUrl();
}

MySqlUrl Parsed(std::string_view text) {
  MySqlLockOptions options;
  return Parsed(text, options);
}

std::string Refused(std::string_view text) {
  MySqlLockOptions options;
  const absl::StatusOr<MySqlUrl> url = ParseMySqlUrl(text, options);
  EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(url.status().message());
}

TEST(MySqlUrlTest, AllParts_AreDecoded) {
  const MySqlUrl url = Parsed("mysql://shop%40:p%2Fw%3A@db.example:3307/lo%63ks");
  EXPECT_EQ(url.username, "shop@");
  EXPECT_EQ(url.password, "p/w:");
  EXPECT_EQ(url.host, "db.example");
  EXPECT_EQ(url.port, 3307);
  EXPECT_EQ(url.database, "locks");
  EXPECT_EQ(url.Endpoint(), "db.example:3307");
}

TEST(MySqlUrlTest, LeastParts_HaveDefaults) {
  const MySqlUrl url = Parsed("MariaDB://h/d");
  EXPECT_EQ(url.port, 3306);
  EXPECT_EQ(url.username, "");
  EXPECT_EQ(url.password, "");
}

TEST(MySqlUrlTest, Ipv6_StandsInBrackets) {
  EXPECT_EQ(Parsed("mysql://[::1]:33/d").Endpoint(), "[::1]:33");
  EXPECT_EQ(Parsed("mysql://[::1]/d").host, "::1");
}

TEST(MySqlUrlTest, Socket_IsInPlaceOfAHost) {
  for (const char* const text :
       {"mysql://root@localhost/d?socket=/run/my%20sql.sock", "mysql:///d?socket=/run/my%20sql.sock"}) {
    const MySqlUrl url = Parsed(text);
    EXPECT_EQ(url.Endpoint(), "/run/my sql.sock");
    EXPECT_EQ(url.host, "");
  }
  EXPECT_THAT(Refused("mysql://db/d?socket=/s"), HasSubstr("localhost or empty"));
  EXPECT_THAT(Refused("mysql:///d?socket=/" + std::string(200, 's')), HasSubstr("107 bytes"));
}

TEST(MySqlUrlTest, Parameters_GoBeforeTheOptions) {
  MySqlLockOptions options = {.table_prefix = "mine_", .tls_ca_file = "/ca"};
  Parsed("mysql://h/d?create_schema=1&tls=verify&tls_ca=/other&tls_cert=/c&tls_key=/k&table_prefix=yours_", options);
  EXPECT_TRUE(options.create_schema);
  EXPECT_EQ(options.tls, MySqlTls::kVerify);
  EXPECT_EQ(options.tls_ca_file, "/other");
  EXPECT_EQ(options.tls_cert_file, "/c");
  EXPECT_EQ(options.tls_key_file, "/k");
  EXPECT_EQ(options.table_prefix, "yours_");
  Parsed("mysql://h/d?tls=off&create_schema=0", options);
  EXPECT_FALSE(options.create_schema);
  EXPECT_EQ(options.tls, MySqlTls::kOff);
  EXPECT_EQ(options.table_prefix, "yours_");
  Parsed("mysql://h/d?tls=required", options);
  EXPECT_EQ(options.tls, MySqlTls::kRequired);
}

TEST(MySqlUrlTest, Wrong_IsNamed) {
  EXPECT_THAT(Refused("postgres://h/d"), HasSubstr("neither mysql:// nor mariadb://"));
  EXPECT_THAT(Refused("mysql:h/d"), HasSubstr("neither mysql:// nor mariadb://"));
  EXPECT_THAT(Refused("mysql://h"), HasSubstr("no /database"));
  EXPECT_THAT(Refused("mysql://h/"), HasSubstr("no /database"));
  EXPECT_THAT(Refused("mysql:///d"), HasSubstr("a host is empty"));
  EXPECT_THAT(Refused("mysql://a,b/d"), HasSubstr("more than one host"));
  EXPECT_THAT(Refused("mysql://h:70000/d"), HasSubstr("port 70000 of host 'h'"));
  EXPECT_THAT(Refused("mysql://h/d?tls=maybe"), HasSubstr("tls='maybe' is not one of off, required, verify"));
  EXPECT_THAT(Refused("mysql://h/d?create_schema=yes"), HasSubstr("create_schema='yes' is not 0 or 1"));
  EXPECT_THAT(Refused("mysql://h/d?pool=3"), HasSubstr("'pool' is not one of create_schema, "));
  EXPECT_THAT(Refused("mysql://h/" + std::string(65, 'd')), HasSubstr("more than 64 bytes"));
  EXPECT_THAT(Refused("mysql://h/%00"), HasSubstr("control bytes"));
}

TEST(MySqlUrlTest, Password_IsNeverShown) {
  for (const char* const text :
       {"mysql://u:secret@h", "mysql://u:secret%00@h/d", "mysql://u:secret", "mysql://u:sec#ret@h/d",
        "mysql://u:secret@h:x/d", "u:secret@h/d", "mysql://u:secret@h/d?tls=x"}) {
    EXPECT_THAT(Refused(text), AllOf(Not(HasSubstr("secret")), Not(HasSubstr("ret@"))));
  }
}

}  // namespace
}  // namespace stockade::locks_internal
