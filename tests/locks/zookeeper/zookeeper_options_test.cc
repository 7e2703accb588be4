#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>

#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/locks/zookeeper_lock_service.h"

namespace stockade {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ZooKeeperLockOptionsTest, Defaults_AreValid) { EXPECT_TRUE(ZooKeeperLockOptions().Validate().ok()); }

TEST(ZooKeeperLockOptionsTest, OutOfRange_NamesFieldAndValue) {
  const auto says = [](const ZooKeeperLockOptions& options, const char* field, const char* value) {
    const absl::Status status = options.Validate();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(field), HasSubstr(value)));
  };
  says({.session_timeout = absl::Milliseconds(99)}, "session_timeout", "99ms");
  says({.session_timeout = absl::InfiniteDuration()}, "session_timeout", "inf");
  says({.server_tick = absl::ZeroDuration()}, "server_tick", "0");
  says({.connect_timeout = -absl::Seconds(1)}, "connect_timeout", "-1s");
  says({.service = {.watchdog_lease = absl::Milliseconds(1)}}, "watchdog_lease", "1ms");
}

TEST(ZooKeeperLockOptionsTest, UrlOutOfRange_IsRefusedAsTheOptionIs) {
  for (const auto& [query, field] : {std::pair("session_timeout_ms=99", "session_timeout = 99ms"),
                                     std::pair("tick_ms=3600001", "server_tick = 1h")}) {
    const auto service = ZooKeeperLockService::Connect(std::string("zookeeper://127.0.0.1:1?") + query);
    EXPECT_TRUE(absl::IsInvalidArgument(service.status())) << service.status();
    EXPECT_THAT(std::string(service.status().message()), HasSubstr(field));
  }
}

TEST(ZooKeeperLockOptionsTest, CreatorsAclWithoutAUser_IsRefused) {
  const auto service = ZooKeeperLockService::Connect("zookeeper://127.0.0.1:1", {.acl = ZooKeeperAcl::kCreatorAll});
  EXPECT_TRUE(absl::IsInvalidArgument(service.status())) << service.status();
}

TEST(ZooKeeperLockOptionsTest, NobodyThere_IsUnavailableInTime) {
  const auto service =
      ZooKeeperLockService::Connect("zookeeper://127.0.0.1:1", {.connect_timeout = absl::Milliseconds(300)});
  EXPECT_EQ(service.status(),
            absl::UnavailableError("ZooKeeper: cannot connect within 300ms: no server of 127.0.0.1:1 has answered"));
}

TEST(ZooKeeperLockOptionsTest, NobodyThere_TheClientsWarningsAreFew) {
  const Instant begin = Clock::System()->Now();
  std::atomic<int> lines = 0;
  SetLogSink([&](LogSeverity, std::string_view message) { lines += message.starts_with("ZooKeeper client: "); });
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(
        ZooKeeperLockService::Connect("zookeeper://127.0.0.1:1", {.connect_timeout = absl::Milliseconds(300)}).ok());
  }
  SetLogSink({});
  EXPECT_LE(lines, 1 + (Clock::System()->Now() - begin) / absl::Seconds(10));
}

}  // namespace
}  // namespace stockade
