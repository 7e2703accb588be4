#ifndef STOCKADE_TESTS_LOCKS_ZOOKEEPER_ZOOKEEPER_ENGINE_FIXTURE_H_
#define STOCKADE_TESTS_LOCKS_ZOOKEEPER_ZOOKEEPER_ENGINE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "locks/holder.h"
#include "support/await.h"
#include "support/tcp_proxy.h"
#include "zookeeper/support/raw_zookeeper.h"
#include "zookeeper/support/zookeeper_server.h"
#include "zookeeper_lock_engine.h"

namespace stockade::testing {

inline constexpr std::string_view kLockRoot = "/stockade/locks";

// Null, and a failure that says why, where it cannot be had.
inline std::unique_ptr<locks_internal::ZooKeeperLockEngine> ZooKeeperEngineOn(
    const std::string& url, const ZooKeeperLockOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<locks_internal::ZooKeeperLockEngine>> engine =
      locks_internal::ZooKeeperLockEngine::Connect(url, options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// Counts hints. Outlives the watch.
class HintCount {
 public:
  std::function<void()> hint() {
    return [this] { ++count_; };
  }
  int count() const { return count_; }
  void AwaitMoreThan(int count) {
    Await("a hint", [&] { return count_ > count; });
  }

 private:
  std::atomic<int> count_ = 0;
};

// One server for all tests of a program, emptied before each, an engine on it, and a look behind the engine's back.
class ZooKeeperEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_ZOOKEEPER();
    static auto* const server = new ZooKeeperServer({.container_check = absl::Milliseconds(200)});
    server_ = server;
    server_->Wipe();
    raw_ = std::make_unique<RawZooKeeper>(server_->port());
    engine_ = ZooKeeperEngineOn(server_->url());
    ASSERT_NE(engine_, nullptr);
  }

  static std::string Path(std::string_view lock) { return std::string(kLockRoot) + "/" + std::string(lock); }
  // The lock's nodes; none at all where there is no such lock.
  std::vector<std::string> Nodes(std::string_view lock) {
    raw_->Sync("/");
    return raw_->Children(Path(lock)).value_or(std::vector<std::string>());
  }
  void AwaitNodes(std::string_view lock, size_t count) {
    Await("nodes", [&] { return Nodes(lock).size() == count; });
  }

  ZooKeeperServer* server_ = nullptr;
  std::unique_ptr<RawZooKeeper> raw_;
  std::unique_ptr<locks_internal::ZooKeeperLockEngine> engine_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_ZOOKEEPER_ZOOKEEPER_ENGINE_FIXTURE_H_
