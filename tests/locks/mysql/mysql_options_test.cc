#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stockade/locks/mysql_lock_service.h"

namespace stockade {
namespace {

using ::testing::HasSubstr;

std::string Wrong(const MySqlLockOptions& options) {
  const absl::Status valid = options.Validate();
  EXPECT_EQ(valid.code(), absl::StatusCode::kInvalidArgument) << valid;
  return std::string(valid.message());
}

TEST(MySqlLockOptionsTest, Defaults_AreValid) { EXPECT_TRUE(MySqlLockOptions().Validate().ok()); }

TEST(MySqlLockOptionsTest, EachWrongField_IsNamedWithItsValue) {
  EXPECT_THAT(Wrong({.service = {.clock_drift = 2}}), HasSubstr("clock_drift"));
  EXPECT_THAT(Wrong({.table_prefix = "a`b"}), HasSubstr("table_prefix = 'a`b' has"));
  EXPECT_THAT(Wrong({.table_prefix = std::string(33, 'a')}), HasSubstr("more than 32 bytes"));
  EXPECT_THAT(Wrong({.tls_cert_file = "/c"}), HasSubstr("tls_cert_file = /c is set without the other"));
  EXPECT_THAT(Wrong({.tls_key_file = "/k"}), HasSubstr("tls_key_file = /k is set without the other"));
  EXPECT_THAT(Wrong({.tls = MySqlTls::kOff, .tls_ca_file = "/ca"}),
              HasSubstr("tls_ca_file = /ca is set, but tls is off"));
  EXPECT_THAT(Wrong({.tls = MySqlTls::kOff, .tls_cert_file = "/c", .tls_key_file = "/k"}),
              HasSubstr("tls_cert_file = /c is set, but"));
  EXPECT_TRUE(MySqlLockOptions({.tls = MySqlTls::kVerify, .tls_ca_file = "/ca"}).Validate().ok());
  EXPECT_THAT(Wrong({.connect_timeout = absl::ZeroDuration()}), HasSubstr("connect_timeout = 0 is not in 100ms..10m"));
  EXPECT_THAT(Wrong({.max_connections = 1}), HasSubstr("max_connections = 1 is not in 2..100"));
  EXPECT_THAT(Wrong({.poll_interval_min = absl::ZeroDuration()}), HasSubstr("poll_interval_min = 0"));
  EXPECT_THAT(Wrong({.poll_interval_max = absl::Milliseconds(4)}), HasSubstr("poll_interval_max = 4ms is not in 5ms"));
  EXPECT_THAT(Wrong({.token_retention = absl::ZeroDuration()}), HasSubstr("token_retention = 0"));
  EXPECT_THAT(Wrong({.purge_interval = absl::ZeroDuration()}), HasSubstr("purge_interval = 0"));
}

TEST(MySqlLockOptionsTest, Connect_WrongOptionsOrUrl_AreToldBeforeAnythingIsSent) {
  EXPECT_EQ(MySqlLockService::Connect("mysql://h/d", {.max_connections = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MySqlLockService::Connect("mysql://h/d?table_prefix=%60").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MySqlLockService::Connect("redis://h").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stockade
