#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "mysql_lock_engine.h"

namespace stockade::locks_internal {
namespace {

using ::testing::HasSubstr;

std::string WhyRefused(std::string_view url) {
  MySqlLockOptions options;
  const absl::StatusOr<MySqlTarget> target = ParseMySqlLockUrl(url, options);
  EXPECT_EQ(target.status().code(), absl::StatusCode::kInvalidArgument) << url;
  return std::string(target.status().message());
}

TEST(MySqlLockUrlTest, Parameters_OverrideTheOptions) {
  MySqlLockOptions options = {.table_prefix = "mine_", .tls_ca_file = "/ca", .connect_timeout = absl::Seconds(9)};
  const MySqlTarget target =
      ParseMySqlLockUrl("mysql://h/d?create_schema=1&tls=verify&tls_cert=/c&tls_key=/k&table_prefix=yours_", options)
          .value();
  EXPECT_TRUE(options.create_schema);
  EXPECT_EQ(options.table_prefix, "yours_");
  EXPECT_EQ(options.tls, MySqlTls::kVerify);
  EXPECT_EQ(options.tls_ca_file, "/ca");
  EXPECT_EQ(options.tls_cert_file, "/c");
  EXPECT_EQ(options.tls_key_file, "/k");
  EXPECT_EQ(target.tls, MySqlTls::kVerify);
  EXPECT_EQ(target.tls_ca_file, "/ca");
  EXPECT_EQ(target.connect_timeout, absl::Seconds(9));
  EXPECT_TRUE(ParseMySqlLockUrl("mysql://h/d?tls=off&create_schema=0", options).ok());
  EXPECT_FALSE(options.create_schema);
  EXPECT_EQ(options.tls, MySqlTls::kOff);
  EXPECT_EQ(options.table_prefix, "yours_");
}

TEST(MySqlLockUrlTest, TlsIsNotGiven_HostsOfOtherMachinesAreVerified) {
  MySqlLockOptions options;
  EXPECT_EQ(ParseMySqlLockUrl("mysql://h/d", options).value().tls, MySqlTls::kVerify);
  EXPECT_EQ(options.tls, MySqlTls::kVerify);
  MySqlLockOptions local;
  EXPECT_EQ(ParseMySqlLockUrl("mysql://127.0.0.1/d", local).value().tls, MySqlTls::kOff);
  MySqlLockOptions off = {.tls = MySqlTls::kOff};
  EXPECT_EQ(ParseMySqlLockUrl("mysql://h/d", off).value().tls, MySqlTls::kOff);
}

TEST(MySqlLockUrlTest, WrongParameters_AreNamed) {
  EXPECT_EQ(WhyRefused("mysql://h/d?create_schema=yes"), "MySQL URL: create_schema='yes' is not 0 or 1");
  EXPECT_THAT(WhyRefused("mysql://h/d?pool=3"),
              HasSubstr("'pool' is not one of auth_plugin, create_schema, socket, table_prefix, "
                        "tls, tls_ca, tls_cert, "
                        "tls_key"));
}

}  // namespace
}  // namespace stockade::locks_internal
