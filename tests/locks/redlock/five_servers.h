#ifndef STOCKADE_TESTS_LOCKS_REDLOCK_FIVE_SERVERS_H_
#define STOCKADE_TESTS_LOCKS_REDLOCK_FIVE_SERVERS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "redis/support/redis_server.h"
#include "stockade/locks/redlock_service.h"
#include "support/await.h"

namespace stockade::testing {

// Five servers without data on disk. Leases are long where a test does not say otherwise, so that nothing is free by
// itself.
class FiveServersTest : public ::testing::Test {
 protected:
  static constexpr size_t kServers = 5;
  // How long servers are waited for: kHasty where some are away and all are asked.
  static constexpr absl::Duration kPatient = absl::Seconds(5);
  static constexpr absl::Duration kHasty = absl::Milliseconds(500);

  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    for (size_t i = 0; i < kServers; ++i) servers_.push_back(std::make_unique<RedisServer>());
  }

  RedisServer& server(size_t index) { return *servers_[index]; }

  std::vector<std::string> Urls() const {
    std::vector<std::string> urls;
    for (const auto& server : servers_) urls.push_back(server->url());
    return urls;
  }
  std::unique_ptr<LockService> Connect(LockServiceOptions options = LongLeases(),
                                       absl::Duration node_timeout = kPatient) {
    return Connect(Urls(), std::move(options), node_timeout);
  }
  static std::unique_ptr<LockService> Connect(const std::vector<std::string>& urls,
                                              LockServiceOptions options = LongLeases(),
                                              absl::Duration node_timeout = kPatient) {
    options.metrics = nullptr;
    auto locks = RedlockService::Connect(
        urls, {.service = options, .redis = {.metrics = nullptr}, .node_timeout = node_timeout});
    EXPECT_TRUE(locks.ok()) << locks.status();
    return locks.ok() ? *std::move(locks) : nullptr;
  }
  static LockServiceOptions LongLeases() {
    return {.watchdog_lease = absl::Hours(1), .engine_timeout = absl::Seconds(20)};
  }

  // Those that answer and have the lock.
  size_t HeldOn(const std::string& name) const {
    size_t held = 0;
    for (const auto& server : servers_) held += server->Call({"EXISTS", name}) == "1";
    return held;
  }
  // What is sent to a server that is not waited for comes there later.
  void AwaitHeldOn(size_t count, const std::string& name) const {
    Await(std::to_string(count) + " servers with the lock", [&] { return HeldOn(name) == count; });
  }
  static AcquireOptions ByAnother(absl::Duration wait = absl::ZeroDuration()) {
    return {.wait = wait, .owner = LockOwner::New()};
  }

  std::vector<std::unique_ptr<RedisServer>> servers_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_REDLOCK_FIVE_SERVERS_H_
