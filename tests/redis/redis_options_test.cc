#include "stockade/redis/redis_options.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "stockade/base/strings.h"

namespace stockade {
namespace {

using base_internal::Concat;

std::string Fault(const std::function<void(RedisOptions&)>& change) {
  RedisOptions options;
  change(options);
  return std::string(options.Validate().message());
}

TEST(RedisOptionsTest, Validate_Defaults_AreGood) { EXPECT_TRUE(RedisOptions().Validate().ok()); }

TEST(RedisOptionsTest, Validate_BadField_IsNamedWithItsValue) {
  EXPECT_EQ(Fault([](RedisOptions& o) { o.name = ""; }), "RedisOptions.name is empty");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.name = "caf\xe9"; }), "RedisOptions.name 'caf\\xe9' is not printable UTF-8");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.connect_timeout = absl::ZeroDuration(); }),
            "RedisOptions.connect_timeout must be more than 0, is 0");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.command_timeout = -absl::Seconds(1); }),
            "RedisOptions.command_timeout must be more than 0, is -1s");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.min_backoff = absl::ZeroDuration(); }),
            "RedisOptions.min_backoff must be more than 0, is 0");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.max_backoff = absl::Milliseconds(1); }),
            "RedisOptions.max_backoff (1ms) must not be less than min_backoff (20ms)");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.max_pending_commands = 0; }),
            "RedisOptions.max_pending_commands must be more than 0");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.max_unsent_bytes = 0; }),
            "RedisOptions.max_unsent_bytes must be more than 0");
  for (const size_t nodes : {size_t{0}, kMaxRedisNodes + 1}) {
    EXPECT_EQ(Fault([&](RedisOptions& o) { o.max_nodes = nodes; }),
              Concat("RedisOptions.max_nodes must be from 1 to 2048, is ", nodes));
  }
  for (const size_t nodes : {size_t{1}, kMaxRedisNodes}) {
    EXPECT_EQ(Fault([&](RedisOptions& o) { o.max_nodes = nodes; }), "");
  }
  for (const std::string host : {"", ".", "*.example.com", "[::1]", "a b", "me@host", "x:80", "10.0.0.1:6379", "..",
                                 ".x.", "x..y", "..x", "x%y", "::1%", ".::1", "a,b", "x/"}) {
    EXPECT_EQ(Fault([&](RedisOptions& o) {
                o.allowed_hosts = {"::1", "host", ".example.com", host};
              }),
              "RedisOptions.allowed_hosts: '" + host +
                  "' must be a host name, an address without brackets and port, or a dot and the end of host names");
  }
  // No server's name could be equal to them; a NUL and other bytes are escaped.
  for (const auto& [host, shown] :
       {std::pair{std::string("x\0y", 3), "x\\x00y"}, std::pair{std::string("\xff"), "\\xff"}}) {
    const std::string fault = Fault([&, &h = host](RedisOptions& o) { o.allowed_hosts = {h}; });
    EXPECT_EQ(fault.find(Concat("RedisOptions.allowed_hosts: '", shown, "' must be")), 0u) << fault;
  }
  EXPECT_EQ(Fault([](RedisOptions& o) { o.tls.ca_file = std::string("a\0-", 3); }),
            "RedisTlsOptions.ca_file: 'a\\x00-' has control bytes");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.tls.cert_file = "a"; }),
            "RedisTlsOptions: cert_file ('a') and key_file ('') must be set both or neither");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.tls.key_file = "a"; }),
            "RedisTlsOptions: cert_file ('') and key_file ('a') must be set both or neither");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.tls.server_name = "a b"; }),
            "RedisTlsOptions.server_name: 'a b' is not a host name or an address");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.tls.verify = static_cast<RedisTlsVerify>(3); }),
            "RedisTlsOptions.verify: 3 is not a RedisTlsVerify");
  EXPECT_EQ(Fault([](RedisOptions& o) { o.max_reply_bytes = 0; }), "RedisOptions.max_reply_bytes must be more than 0");
}

TEST(RedisOptionsTest, Validate_HostsThatServersMayName_AreGood) {
  RedisOptions options;
  options.allowed_hosts = {"10.0.0.7", "::1", "fe80::1%eth0", "::ffff:10.0.0.7", "Cache_1.Example.com",
                           "x.",       ".x",  ".a.b-c",       "localhost"};
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

}  // namespace
}  // namespace stockade
