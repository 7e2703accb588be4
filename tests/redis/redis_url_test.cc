#include "stockade/redis/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace stockade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RedisUrl Parsed(std::string_view text) {
  const absl::StatusOr<RedisUrl> url = ParseRedisUrl(text);
  EXPECT_TRUE(url.ok()) << text << ": " << url.status();
  return url.value_or(RedisUrl{});
}

// The message of the InvalidArgument that `text` is answered with.
std::string Refused(std::string_view text) {
  const absl::StatusOr<RedisUrl> url = ParseRedisUrl(text);
  EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(url.status().message());
}

RedisEndpoint At(std::string_view host, uint16_t port) { return {.host = std::string(host), .port = port}; }

TEST(ParseRedisUrlTest, HostAlone_HasTheDefaults) {
  EXPECT_EQ(Parsed("redis://cache"), (RedisUrl{.endpoints = {At("cache", 6379)}}));
  EXPECT_EQ(Parsed("redis://cache/"), Parsed("redis://cache"));
  EXPECT_EQ(Parsed("redis://cache?"), Parsed("redis://cache"));
  EXPECT_EQ(Parsed("REDIS://cache"), Parsed("redis://cache"));
}

TEST(ParseRedisUrlTest, EverythingOfAStandalone_IsRead) {
  EXPECT_EQ(Parsed("redis://shop:secret@10.0.0.7:7000/3?client_name=web-1"),
            (RedisUrl{.endpoints = {At("10.0.0.7", 7000)},
                      .username = "shop",
                      .password = "secret",
                      .database = 3,
                      .client_name = "web-1"}));
}

TEST(ParseRedisUrlTest, UserInfo_ColonDecidesWhatIsAPassword) {
  EXPECT_EQ(Parsed("redis://:secret@h").username, "");
  EXPECT_EQ(Parsed("redis://:secret@h").password, "secret");
  EXPECT_EQ(Parsed("redis://shop@h").username, "shop");
  EXPECT_EQ(Parsed("redis://shop@h").password, "");
  EXPECT_EQ(Parsed("redis://shop:@h"), Parsed("redis://shop@h"));
  EXPECT_EQ(Parsed("redis://:@h"), Parsed("redis://h"));
  EXPECT_EQ(Parsed("redis://@h"), Parsed("redis://h"));
  EXPECT_EQ(Parsed("redis://shop:a:b@h").password, "a:b");
}

TEST(ParseRedisUrlTest, EscapesInEveryPart_AreDecoded) {
  const RedisUrl url = Parsed(
      "redis+sentinel://sh%3Aop:p%40%2F%3f%23%00%25@%68ost/m%2Fain/%31"
      "?client%5Fname=%77eb%26&sentinel_username=a%20b&sentinel_password=+%2B");
  EXPECT_EQ(url.username, "sh:op");
  EXPECT_EQ(url.password, std::string_view("p@/?#\0%", 7));
  EXPECT_THAT(url.endpoints, ElementsAre(At("host", 26379)));
  EXPECT_EQ(url.master_name, "m/ain");
  EXPECT_EQ(url.database, 1);
  EXPECT_EQ(url.client_name, "web&");
  EXPECT_EQ(url.sentinel_username, "a b");
  EXPECT_EQ(url.sentinel_password, "++");
}

TEST(ParseRedisUrlTest, AtSignInThePasswordOfOneHost_LastOneCounts) {
  EXPECT_EQ(Parsed("redis://shop:p@ss@h").password, "p@ss");
  EXPECT_THAT(Parsed("redis://shop:p@ss@h").endpoints, ElementsAre(At("h", 6379)));
}

TEST(ParseRedisUrlTest, Ipv6_StandsInBrackets) {
  EXPECT_THAT(Parsed("redis://[::1]").endpoints, ElementsAre(At("::1", 6379)));
  EXPECT_THAT(Parsed("redis://[2001:db8::7]:7000/1").endpoints, ElementsAre(At("2001:db8::7", 7000)));
  EXPECT_THAT(Parsed("redis://[fe80::1%25eth0]").endpoints, ElementsAre(At("fe80::1%eth0", 6379)));
  EXPECT_THAT(Refused("redis://::1"), HasSubstr("a host is empty"));
  EXPECT_THAT(Refused("redis://fe80::1"), HasSubstr("write an IPv6 address in brackets"));
  EXPECT_THAT(Refused("redis://[::1"), HasSubstr("a ']' is missing after '[::1'"));
  EXPECT_THAT(Refused("redis://[]"), HasSubstr("host '' in brackets is not an IPv6 address"));
  EXPECT_THAT(Refused("redis://[cache]"), HasSubstr("host 'cache' in brackets is not an IPv6 address"));
  EXPECT_THAT(Refused("redis://[::1%00]"), HasSubstr("'::1\\000' in brackets"));
  EXPECT_THAT(Refused("redis://[::1%25]"), HasSubstr("'::1%' in brackets"));
  EXPECT_THAT(Refused("redis://[::1]7000"), HasSubstr("only a port may follow '::1'"));
}

TEST(ParseRedisUrlTest, UnixSocket_HasItsPathAndParameters) {
  EXPECT_EQ(Parsed("unix:///run/redis@1.sock"), (RedisUrl{.endpoints = {{.unix_socket = "/run/redis@1.sock"}}}));
  EXPECT_EQ(Parsed("unix://shop:secret@/run/a%20b?db=2&client_name=web"),
            (RedisUrl{.endpoints = {{.unix_socket = "/run/a b"}},
                      .username = "shop",
                      .password = "secret",
                      .database = 2,
                      .client_name = "web"}));
}

TEST(ParseRedisUrlTest, UnixWithoutAPath_IsRefused) {
  EXPECT_THAT(Refused("unix://"), HasSubstr("needs the path"));
  EXPECT_THAT(Refused("unix:///"), HasSubstr("needs the path"));
  EXPECT_THAT(Refused("unix://host/run/redis.sock"), HasSubstr("between unix:// and the path"));
  EXPECT_THAT(Refused("unix:///run/a%00b"), HasSubstr("socket '/run/a\\000b' has control bytes"));
}

TEST(ParseRedisUrlTest, UnixPath_IsAsLongAsASocketsMayBe) {
  const std::string longest = absl::StrCat("/", std::string(106, 'a'));
  EXPECT_EQ(Parsed("unix://" + longest).endpoints.at(0).unix_socket, longest);
  EXPECT_THAT(Refused("unix://" + longest + "a"), HasSubstr("at most 107 bytes"));
}

TEST(ParseRedisUrlTest, Sentinels_HaveAMasterNameAndTheirOwnPort) {
  EXPECT_EQ(Parsed("redis+sentinel://shop:secret@s1,s2:26380,[::1]/main/2"
                   "?sentinel_username=watch&sentinel_password=men&client_name=web"),
            (RedisUrl{.kind = RedisUrl::Kind::kSentinel,
                      .endpoints = {At("s1", 26379), At("s2", 26380), At("::1", 26379)},
                      .username = "shop",
                      .password = "secret",
                      .database = 2,
                      .client_name = "web",
                      .master_name = "main",
                      .sentinel_username = "watch",
                      .sentinel_password = "men"}));
  EXPECT_EQ(Parsed("redis+sentinel://s1/main/"), Parsed("redis+sentinel://s1/main"));
}

TEST(ParseRedisUrlTest, SentinelsWithoutAMasterName_AreRefused) {
  EXPECT_THAT(Refused("redis+sentinel://s1"), HasSubstr("needs a /master-name"));
  EXPECT_THAT(Refused("redis+sentinel://s1/"), HasSubstr("needs a /master-name"));
  EXPECT_THAT(Refused("redis+sentinel://s1//2"), HasSubstr("needs a /master-name"));
  EXPECT_THAT(Refused("redis+sentinel://s1/ma%0ain"), HasSubstr("master name 'ma\\nin' has control bytes"));
  EXPECT_THAT(Refused("redis+sentinel://s1/main/2/3"), HasSubstr("database '2/3'"));
}

TEST(ParseRedisUrlTest, Cluster_HasNodesAndDatabaseZero) {
  EXPECT_EQ(Parsed("redis+cluster://:secret@n1:7000,n2?client_name=web"),
            (RedisUrl{.kind = RedisUrl::Kind::kCluster,
                      .endpoints = {At("n1", 7000), At("n2", 6379)},
                      .password = "secret",
                      .client_name = "web"}));
  EXPECT_EQ(Parsed("redis+cluster://n1/0"), Parsed("redis+cluster://n1"));
  EXPECT_THAT(Refused("redis+cluster://n1/1"), HasSubstr("database 1: a Redis Cluster has only database 0"));
}

TEST(ParseRedisUrlTest, ListOfHosts_HasNoEmptyOneAndOneUserInfo) {
  EXPECT_THAT(Refused("redis+cluster://n1,,n2"), HasSubstr("a host is empty"));
  EXPECT_THAT(Refused("redis+cluster://n1,"), HasSubstr("a host is empty"));
  EXPECT_THAT(Refused("redis://a,b"), HasSubstr("2 hosts, but redis:// and rediss:// accept one"));
  EXPECT_THAT(Refused("redis+cluster://u:secret@n1,u:secret@n2"),
              AllOf(HasSubstr("more than one '@'"), Not(HasSubstr("secret"))));
}

TEST(ParseRedisUrlTest, ListOfHosts_IsBounded) {
  std::string hosts = "n";
  for (int i = 1; i < 64; ++i) hosts += ",n";
  EXPECT_EQ(Parsed("redis+cluster://" + hosts).endpoints.size(), 64);
  EXPECT_THAT(Refused("redis+cluster://" + hosts + ",n"), HasSubstr("65 hosts are more than 64"));
}

TEST(ParseRedisUrlTest, Length_IsBounded) {
  const std::string url = "redis://:" + std::string(4096 - 11, 'p') + "@h";
  EXPECT_EQ(Parsed(url).password.size(), 4085);
  EXPECT_THAT(Refused(url + "h"), HasSubstr("4097 bytes are more than 4096"));
}

TEST(ParseRedisUrlTest, Tls_IsThatOfTheScheme) {
  for (const auto& [with, without] :
       {std::pair("rediss://:secret@h/1", "redis://:secret@h/1"), std::pair("REDISS://h:7000", "redis://h:7000"),
        std::pair("rediss+sentinel://a,b/m/2?sentinel_password=men", "redis+sentinel://a,b/m/2?sentinel_password=men"),
        std::pair("rediss+cluster://a,b", "redis+cluster://a,b")}) {
    RedisUrl expected = Parsed(without);
    EXPECT_EQ(expected.tls, std::nullopt);
    expected.tls = RedisTlsOptions();
    EXPECT_EQ(Parsed(with), expected) << with;
  }
}

TEST(ParseRedisUrlTest, TlsParameters_AreRead) {
  EXPECT_EQ(Parsed("rediss://h?tls_ca=/etc/ca%20s.pem&tls_cert=c&tls_key=k&tls_server_name=cache.example.com&tls_"
                   "verify=chain"),
            (RedisUrl{.endpoints = {At("h", 6379)},
                      .tls = RedisTlsOptions{.ca_file = "/etc/ca s.pem",
                                             .cert_file = "c",
                                             .key_file = "k",
                                             .server_name = "cache.example.com",
                                             .verify = RedisTlsVerify::kChain}}));
  EXPECT_EQ(Parsed("rediss+cluster://h?tls_verify=none").tls->verify, RedisTlsVerify::kNone);
  EXPECT_EQ(Parsed("rediss+sentinel://h/m?tls_verify=full").tls->verify, RedisTlsVerify::kFull);
  EXPECT_EQ(Parsed("rediss://h?tls_verify=").tls->verify, std::nullopt);
}

TEST(ParseRedisUrlTest, BadTlsParameters_AreNamed) {
  EXPECT_THAT(Refused("rediss://h?tls_verify=yes"), HasSubstr("tls_verify 'yes' is not one of full, chain, none"));
  EXPECT_THAT(Refused("rediss://h?tls_server_name=a/b"), HasSubstr("tls_server_name 'a/b' is not a host name"));
  EXPECT_THAT(Refused("rediss://h?tls_server_name=a%00b"), HasSubstr("tls_server_name 'a\\000b' is not a host name"));
  EXPECT_THAT(Refused("rediss://h?tls_ca=a%00b"), HasSubstr("tls_ca 'a\\000b' has control bytes"));
  EXPECT_THAT(Refused("rediss://h?tls_cert=a%0ab"), HasSubstr("tls_cert 'a\\nb' has control bytes"));
  EXPECT_THAT(Refused("rediss://h?tls_key=a%7fb"), HasSubstr("tls_key 'a\\177b' has control bytes"));
  EXPECT_THAT(Refused("rediss://h?tls_ca=a&tls_ca=a"), HasSubstr("appears twice"));
  // A URL without TLS has none of them: they are not ignored.
  EXPECT_THAT(Refused("redis://h?tls_ca=a"), HasSubstr("query parameter 'tls_ca' is not one of client_name"));
  EXPECT_THAT(Refused("unix:///s?tls_verify=full"), HasSubstr("query parameter 'tls_verify' is not one of"));
}

TEST(ParseRedisUrlTest, OtherScheme_IsNamed) {
  EXPECT_THAT(Refused("http://h"), HasSubstr("the scheme 'http' is not one of redis, unix"));
  EXPECT_THAT(Refused("redis+unix://h"), HasSubstr("'redis+unix'"));
  EXPECT_THAT(Refused("://h"), HasSubstr("the scheme '' is not one of"));
  EXPECT_THAT(Refused(""), HasSubstr("no '://'"));
  EXPECT_THAT(Refused("shop:secret@h:6379"), AllOf(HasSubstr("no '://'"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Refused("shop:secret@redis://h"), AllOf(HasSubstr("the scheme is not one of"), Not(HasSubstr("secret"))));
}

TEST(ParseRedisUrlTest, EmptyHost_IsRefused) {
  for (const char* const url :
       {"redis://", "redis:///0", "redis://:6379", "redis://:secret@", "redis://?client_name=a"}) {
    EXPECT_THAT(Refused(url), HasSubstr("a host is empty")) << url;
  }
}

TEST(ParseRedisUrlTest, HostWithOtherBytes_IsNamedEscaped) {
  EXPECT_THAT(Refused("redis://a%00b"), HasSubstr("host 'a\\000b' has bytes other than"));
  EXPECT_THAT(Refused("redis://a%0d%0aINFO"), HasSubstr("host 'a\\r\\nINFO' has bytes other than"));
  EXPECT_THAT(Refused("redis://a%3A1"), HasSubstr("host 'a:1' has bytes other than"));
  EXPECT_THAT(Refused("redis://a%20b"), HasSubstr("host 'a b' has bytes other than"));
}

TEST(ParseRedisUrlTest, PortOutOfRange_NamesThePort) {
  EXPECT_THAT(Parsed("redis://h:1").endpoints, ElementsAre(At("h", 1)));
  EXPECT_THAT(Parsed("redis://h:65535").endpoints, ElementsAre(At("h", 65535)));
  EXPECT_THAT(Refused("redis://h:0"), HasSubstr("port 0 of host 'h' is not in 1..65535"));
  EXPECT_THAT(Refused("redis://h:65536"), HasSubstr("port 65536 of host 'h'"));
  EXPECT_THAT(Refused("redis://h:99999999999999999999"), HasSubstr("port 99999999999999999999 of host 'h'"));
}

TEST(ParseRedisUrlTest, PortThatIsNoNumber_NamesTheHost) {
  for (const char* const port : {"", "-1", "+1", "63x", "%36"}) {
    EXPECT_THAT(Refused(absl::StrCat("redis://h:", port)), HasSubstr("the port of host 'h' is not a number")) << port;
  }
}

TEST(ParseRedisUrlTest, DatabaseOutOfRange_NamesTheDatabase) {
  EXPECT_EQ(Parsed("redis://h/2147483647").database, INT_MAX);
  EXPECT_EQ(Parsed("redis://h/00").database, 0);
  for (const char* const database : {"2147483648", "-1", "+1", "a", "1/", "/"}) {
    EXPECT_THAT(Refused(absl::StrCat("redis://h/", database)),
                HasSubstr(absl::StrCat("database '", database, "' is not a number in 0..2147483647")));
  }
  EXPECT_THAT(Refused("unix:///run/r?db=x"), HasSubstr("database 'x'"));
  EXPECT_THAT(Refused("unix:///run/r?db="), HasSubstr("database ''"));
}

TEST(ParseRedisUrlTest, UnknownQueryParameter_NamesItAndThoseKnown) {
  EXPECT_THAT(Refused("redis://h?db=1"), HasSubstr("query parameter 'db' is not one of client_name"));
  EXPECT_THAT(Refused("unix:///r?sentinel_password=secret"),
              AllOf(HasSubstr("'sentinel_password' is not one of client_name, db"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Refused("redis+cluster://h?sentinel_username=a"), HasSubstr("'sentinel_username' is not one of"));
  EXPECT_THAT(Refused("redis+sentinel://h/m?db=1"),
              HasSubstr("is not one of client_name, sentinel_username, sentinel_password"));
  EXPECT_THAT(Refused("redis://h?client_name=a&"), HasSubstr("query parameter ''"));
  EXPECT_THAT(Refused("redis://h?Client_name=a"), HasSubstr("query parameter 'Client_name'"));
}

TEST(ParseRedisUrlTest, RepeatedQueryParameter_IsNamed) {
  EXPECT_THAT(Refused("redis://h?client_name=a&client_name=a"), HasSubstr("'client_name' appears twice"));
  EXPECT_THAT(Refused("redis+sentinel://h/m?sentinel_password=secret&sentinel_password=men"),
              AllOf(HasSubstr("'sentinel_password' appears twice"), Not(HasSubstr("secret")), Not(HasSubstr("men,"))));
  EXPECT_THAT(Refused("redis://h?client_name"), HasSubstr("'client_name' has no '='"));
}

TEST(ParseRedisUrlTest, ClientNameThatRedisRefuses_IsNamed) {
  EXPECT_EQ(Parsed("redis://h?client_name=a=b!~").client_name, "a=b!~");
  EXPECT_EQ(Parsed("redis://h?client_name=").client_name, "");
  for (const char* const name : {"a%20b", "a%0ab", "a%00", "a%c3%bc", "a%7f"}) {
    EXPECT_THAT(Refused(absl::StrCat("redis://h?client_name=", name)), HasSubstr("client name 'a")) << name;
  }
}

TEST(ParseRedisUrlTest, BlankOrControlByte_NamesItsPosition) {
  EXPECT_THAT(Refused("redis://:secret@h\n"), AllOf(HasSubstr("byte 0x0a at position 17"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Refused(" redis://h"), HasSubstr("byte 0x20 at position 0"));
  EXPECT_THAT(Refused(std::string_view("redis://h\0", 10)), HasSubstr("byte 0x00 at position 9"));
  EXPECT_THAT(Refused("redis://\x7f"), HasSubstr("byte 0x7f at position 8"));
}

TEST(ParseRedisUrlTest, BadEscape_NamesItsPosition) {
  EXPECT_THAT(Refused("redis://:sec%ret@h"), AllOf(HasSubstr("the '%' at position 12"), Not(HasSubstr("ret"))));
  EXPECT_THAT(Refused("redis://h/%3"), HasSubstr("the '%' at position 10"));
}

TEST(ParseRedisUrlTest, Fragment_IsRefused) {
  EXPECT_THAT(Refused("redis://h#main"), HasSubstr("a '#' must be written as %23"));
  EXPECT_THAT(Refused("redis://h?client_name=a#b"), HasSubstr("a '#' must be written as %23"));
}

// What people paste without escaping it.
TEST(ParseRedisUrlTest, PasswordThatBreaksTheUrl_IsInNoMessage) {
  for (const char* const url :
       {"redis://shop:sec/ret@h", "redis://shop:sec?ret@h", "redis://shop:sec#ret@h", "redis://:sec/ret@h:6379/0",
        "redis://shop:p@sec:ret/ret@h", "redis://shop:secret", "redis://:secret", "redis://shop:sec:ret",
        "redis+cluster://shop:sec/ret@h1,h2", "redis+sentinel://shop:sec/ret@h1/main",
        "unix://shop:secret/run/redis.sock", "unix://shop:p@secret/run/redis.sock",
        "unix://shop:sec/ret@/run/redis.sock", "redis://h?password=secret"}) {
    EXPECT_THAT(Refused(url), AllOf(Not(HasSubstr("sec")), Not(HasSubstr("ret")))) << url;
  }
}

}  // namespace
}  // namespace stockade
