#include "stockade/mysql/internal/mysql_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stockade::mysql_internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

MySqlTarget Parsed(std::string_view text, MySqlTarget target = {.tls = MySqlTls::kDefault}) {
  const absl::StatusOr<MySqlTarget> parsed = ParseMySqlUrl(text, std::move(target));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : MySqlTarget();
}

std::string Refused(std::string_view text, std::span<const UrlParameter> more = {}) {
  const absl::StatusOr<MySqlTarget> parsed = ParseMySqlUrl(text, {.tls = MySqlTls::kDefault}, more);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(parsed.status().message());
}

TEST(MySqlUrlTest, AllParts_AreDecoded) {
  const MySqlTarget url = Parsed("mysql://shop%40:p%2Fw%3A@db.example:3307/lo%63ks");
  EXPECT_EQ(url.username, "shop@");
  EXPECT_EQ(url.password, "p/w:");
  EXPECT_EQ(url.host, "db.example");
  EXPECT_EQ(url.port, 3307);
  EXPECT_EQ(url.database, "locks");
  EXPECT_EQ(url.Endpoint(), "db.example:3307");
}

TEST(MySqlUrlTest, LeastParts_HaveDefaults) {
  const MySqlTarget url = Parsed("MariaDB://h/d");
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
    const MySqlTarget url = Parsed(text);
    EXPECT_EQ(url.Endpoint(), "/run/my sql.sock");
    EXPECT_EQ(url.host, "");
  }
  EXPECT_THAT(Refused("mysql://db/d?socket=/s"), HasSubstr("localhost or empty"));
  EXPECT_THAT(Refused("mysql:///d?socket=/" + std::string(200, 's')), HasSubstr("107 bytes"));
}

TEST(MySqlUrlTest, Parameters_OverrideTheTarget) {
  const MySqlTarget url = Parsed("mysql://h/d?tls=verify&tls_ca=/other&tls_cert=/c&tls_key=/k", {.tls_ca_file = "/ca"});
  EXPECT_EQ(url.tls, MySqlTls::kVerify);
  EXPECT_EQ(url.tls_ca_file, "/other");
  EXPECT_EQ(url.tls_cert_file, "/c");
  EXPECT_EQ(url.tls_key_file, "/k");
  const MySqlTarget off = Parsed("mysql://h/d?tls=off", {.tls = MySqlTls::kVerify, .tls_ca_file = "/ca"});
  EXPECT_EQ(off.tls, MySqlTls::kOff);
  EXPECT_EQ(off.tls_ca_file, "/ca");
  EXPECT_EQ(Parsed("mysql://h/d?tls=required").tls, MySqlTls::kRequired);
}

TEST(MySqlUrlTest, TlsIsNotGiven_HostsOfOtherMachinesAreVerified) {
  for (const char* const text :
       {"mysql://localhost/d", "mysql://LOCALHOST/d", "mysql://127.0.0.1/d", "mysql://127.255.255.254:3307/d",
        "mysql://[::1]/d", "mysql:///d?socket=/s", "mysql://localhost/d?socket=/s", "mysql://h/d?tls=off"}) {
    EXPECT_EQ(Parsed(text).tls, MySqlTls::kOff) << text;
  }
  for (const char* const text : {"mysql://h/d", "mysql://126.255.255.255/d", "mysql://128.0.0.1/d", "mysql://[::2]/d",
                                 "mysql://127.0.0.1.example/d", "mysql://localhost.example/d",
                                 "mysql://[::ffff:10.0.0.1]/d", "mysql://h/d?tls_ca=/ca"}) {
    EXPECT_EQ(Parsed(text).tls, MySqlTls::kVerify) << text;
  }
  EXPECT_EQ(Parsed("mysql://h/d", {.tls = MySqlTls::kRequired}).tls, MySqlTls::kRequired);
  EXPECT_EQ(Parsed("mysql://localhost/d", {.tls = MySqlTls::kVerify}).tls, MySqlTls::kVerify);
}

TEST(MySqlUrlTest, ParametersOfTheCaller_AreSetAndListed) {
  std::string size;
  const UrlParameter more[] = {{"size", &size}};
  EXPECT_TRUE(ParseMySqlUrl("mysql://h/d?size=%33", {}, more).ok());
  EXPECT_EQ(size, "3");
  EXPECT_THAT(Refused("mysql://h/d?pool=3", more),
              HasSubstr("'pool' is not one of auth_plugin, size, socket, tls, tls_ca, tls_cert, tls_key"));
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
  EXPECT_THAT(Refused("mysql://h/" + std::string(65, 'd')), HasSubstr("more than 64 bytes"));
  EXPECT_TRUE(ParseMySqlUrl("mysql://h/" + std::string(64, 'd')).ok());
  EXPECT_THAT(Refused("mysql://h/%00"), HasSubstr("control bytes"));
  EXPECT_THAT(Refused("mysql://h/d?auth_plugin=a,b"), HasSubstr("auth_plugin='a,b' is not the name of a plug-in"));
  for (const char* const text : {"mysql://localhost/d?auth_plugin=dialog", "mysql://h/d?auth_plugin=dialog&tls=off",
                                 "mysql://h/d?auth_plugin=dialog&tls=required"}) {
    EXPECT_THAT(Refused(text), HasSubstr("auth_plugin=dialog needs tls=verify or a socket"));
  }
  EXPECT_EQ(Parsed("mysql://h/d?auth_plugin=dialog").auth_plugin, "dialog");
  EXPECT_EQ(Parsed("mysql:///d?auth_plugin=dialog&socket=/s").auth_plugin, "dialog");
}

TEST(MySqlUrlTest, Password_IsNeverShown) {
  for (const char* const text :
       {"mysql://u:secret@h", "mysql://u:secret%00@h/d", "mysql://u:secret", "mysql://u:sec#ret@h/d",
        "mysql://u:secret@h:x/d", "u:secret@h/d", "mysql://u:secret@h/d?tls=x"}) {
    EXPECT_THAT(Refused(text), AllOf(Not(HasSubstr("secret")), Not(HasSubstr("ret@"))));
  }
}

}  // namespace
}  // namespace stockade::mysql_internal
