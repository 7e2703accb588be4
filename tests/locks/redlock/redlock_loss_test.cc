// How a hold by RedLock is lost, and replies are.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "locks/redlock/five_servers.h"
#include "support/tcp_proxy.h"

namespace stockade {
namespace {

using testing::Await;
using testing::TcpProxy;

class RedlockLossTest : public testing::FiveServersTest {
 protected:
  static LockServiceOptions Watched() { return {.watchdog_lease = absl::Seconds(3)}; }
  static void AwaitLost(const LockLease& lease) {
    Await("the loss", [lost = lease.lost()] { return lost.stop_requested(); });
  }
};

TEST_F(RedlockLossTest, ThreeDieWhileHeld_IsLostWithinTheLease) {
  const auto locks = Connect(Watched());
  LockLease held = locks->Acquire("a").value();
  for (size_t i = 0; i < 3; ++i) server(i).Kill();
  const auto begin = std::chrono::steady_clock::now();
  AwaitLost(held);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));  // 3: the machine may be slow.
  EXPECT_FALSE(held.valid());
  EXPECT_EQ(held.Release().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RedlockLossTest, TwoDieWhileHeld_IsHeldThroughLeases) {
  const auto locks = Connect({.watchdog_lease = absl::Seconds(4)});
  const LockLease held = locks->Acquire("a").value();
  AwaitHeldOn(5, "a");
  server(0).Kill();
  server(1).Pause();
  // Until the others have renewed it for more than a lease.
  const auto begin = std::chrono::steady_clock::now();
  Await("more than a lease", [&] { return std::chrono::steady_clock::now() - begin > std::chrono::seconds(6); });
  EXPECT_TRUE(held.valid());
  server(1).Resume();
}

TEST_F(RedlockLossTest, ThreeAreEmptied_IsLostAtTheNextRenewal_AndTheNextHolderIsUndisturbed) {
  const auto locks = Connect(Watched()), others = Connect();
  LockLease held = locks->Acquire("a").value();
  AwaitHeldOn(5, "a");
  for (size_t i = 0; i < 3; ++i) ASSERT_EQ(server(i).Call({"FLUSHALL"}), "OK");
  const LockLease next = others->Acquire("a").value();
  AwaitLost(held);
  EXPECT_EQ(held.Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(others->Inspect("a").value().owner_holds, 1);
}

TEST_F(RedlockLossTest, TwoAreEmptied_NobodyElseGetsIn) {
  const auto locks = Connect(), others = Connect();
  LockLease held = locks->Acquire("a").value();
  AwaitHeldOn(5, "a");
  for (size_t i = 0; i < 2; ++i) ASSERT_EQ(server(i).Call({"FLUSHALL"}), "OK");
  EXPECT_EQ(others->Acquire("a", ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(held.Release().ok());
  AwaitHeldOn(0, "a");
}

// Servers 0 to 2, a majority, behind proxies.
class RedlockProxyTest : public RedlockLossTest {
 protected:
  void SetUp() override {
    RedlockLossTest::SetUp();
    if (IsSkipped()) return;
    for (size_t i = 0; i < 3; ++i) proxies_[i] = std::make_unique<TcpProxy>(server(i).port());
  }
  std::vector<std::string> ProxiedUrls() const {
    std::vector<std::string> urls = Urls();
    for (size_t i = 0; i < 3; ++i) urls[i] = testing::RedisUrl(proxies_[i]->port());
    return urls;
  }

  std::array<std::unique_ptr<TcpProxy>, 3> proxies_;
};

TEST_F(RedlockProxyTest, RepliesComeAfterTheLease_IsNotHeld) {
  const auto locks = Connect(ProxiedUrls(), LongLeases(), absl::Seconds(20));
  { EXPECT_TRUE(locks->Acquire("warm-up").ok()); }
  AwaitHeldOn(0, "warm-up");
  for (const auto& proxy : proxies_) proxy->Hold();
  auto late =
      std::async(std::launch::async, [&] { return locks->Acquire("a", {.lease = absl::Milliseconds(300)}).status(); });
  for (const auto& proxy : proxies_) {
    ASSERT_TRUE(proxy->Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
  }
  AwaitHeldOn(0, "a");  // It has lapsed.
  for (const auto& proxy : proxies_) proxy->Release();
  const absl::Status status = late.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(HeldOn("a"), 0);
}

TEST_F(RedlockProxyTest, RepliesOfAMajorityAreLost_NothingIsCountedTwice) {
  const auto locks = Connect(ProxiedUrls());
  { EXPECT_TRUE(locks->Acquire("warm-up").ok()); }
  AwaitHeldOn(0, "warm-up");
  for (const auto& proxy : proxies_) proxy->DropReply();
  const absl::StatusOr<LockLease> held = locks->Acquire("a");
  ASSERT_TRUE(held.ok()) << held.status();
  AwaitHeldOn(5, "a");
  for (const auto& server : servers_) EXPECT_EQ(server->Call({"HVALS", "a"}).items[0], "1");
  EXPECT_EQ(locks->Acquire("a", ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RedlockProxyTest, RepliesToTheReleaseAreLost_IsFree) {
  const auto locks = Connect(ProxiedUrls());
  LockLease held = locks->Acquire("a").value();
  AwaitHeldOn(5, "a");
  for (const auto& proxy : proxies_) proxy->DropReply();
  const absl::Status status = held.Release();
  EXPECT_TRUE(status.ok()) << status;
  AwaitHeldOn(0, "a");
}

}  // namespace
}  // namespace stockade
