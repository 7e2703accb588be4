#include <gtest/gtest.h>

#include <string>

#include "stockade/redis/redis_url.h"

namespace stockade {
namespace {

TEST(RedactedRedisUrlTest, UrlWithoutPasswords_ComesBackAsItWas) {
  for (const char* const text : {
           "redis://cache:6379",
           "redis://[2001:db8::7]:7000/3?client_name=web-1",
           "redis://[fe80::1%25eth0]:6379",
           "unix:///run/redis%401.sock",
           "unix:///run/a%20b?db=2&client_name=web",
           "redis+sentinel://s1:26379,[::1]:26380/ma%2Fin",
           "redis+sentinel://s1:26379/main/2?client_name=%25%26&sentinel_username=wa%40tch",
           "redis+cluster://n1:7000,n2:6379?client_name=web",
           "rediss://cache:6379",
           "rediss://cache:6379?tls_verify=full",
           "rediss+sentinel://s1:26379/main/2?sentinel_username=watch&tls_ca=/etc/a%20b.pem&tls_verify=none",
           "rediss+cluster://"
           "n1:7000?client_name=web&tls_cert=c&tls_key=k&tls_server_name=n.example.com&tls_verify=chain",
       }) {
    const absl::StatusOr<RedisUrl> url = ParseRedisUrl(text);
    ASSERT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(Redacted(*url), text);
  }
}

TEST(RedactedRedisUrlTest, DefaultsAndCase_AreSpeltOut) {
  EXPECT_EQ(Redacted(ParseRedisUrl("REDIS://h/0?").value()), "redis://h:6379");
  EXPECT_EQ(Redacted(ParseRedisUrl("redis+sentinel://h/%6d").value()), "redis+sentinel://h:26379/m");
}

TEST(RedactedRedisUrlTest, Passwords_AreMasked) {
  EXPECT_EQ(Redacted(ParseRedisUrl("redis://sh%40op:secret@h").value()), "redis://sh%40op:***@h:6379");
  EXPECT_EQ(Redacted(ParseRedisUrl("redis://:secret@h").value()), "redis://:***@h:6379");
  EXPECT_EQ(Redacted(ParseRedisUrl("unix://:secret@/run/r").value()), "unix://:***@/run/r");
  EXPECT_EQ(Redacted(ParseRedisUrl("redis+sentinel://s/m?sentinel_password=secret").value()),
            "redis+sentinel://s:26379/m?sentinel_password=***");
}

TEST(RedactedRedisUrlTest, UserNameWithoutAPassword_MayBeOneAndIsMasked) {
  EXPECT_EQ(Redacted(ParseRedisUrl("redis://secret@h").value()), "redis://***@h:6379");
}

TEST(RedactedRedisUrlTest, Masked_ParsesAgain) {
  const RedisUrl url = ParseRedisUrl("redis+sentinel://shop:secret@s/m/1?sentinel_password=men").value();
  RedisUrl masked = url;
  masked.password = "***";
  masked.sentinel_password = "***";
  EXPECT_EQ(ParseRedisUrl(Redacted(url)).value(), masked);
}

}  // namespace
}  // namespace stockade
