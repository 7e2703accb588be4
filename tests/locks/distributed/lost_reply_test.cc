// Case 18: the server has done it, and its client does not hear of it.
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <random>
#include <string>
#include <vector>

#include "locks/distributed/support/proxied_server.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::IsFree;
using testing::kKeptLease;
using testing::kShortLease;
using testing::kSlack;
using testing::MustAcquire;
using testing::MustAcquirePatiently;
using testing::MustInspect;
using testing::Stopwatch;
using testing::TcpProxy;

class LostReplyTest : public testing::ProxiedServerTest {
 protected:
  // Of what DropReply() was to do.
  void ExpectCut(uint64_t count) { EXPECT_EQ(proxy_->counts().cut, count); }
};

INSTANTIATE_TEST_SUITE_P(Locks, LostReplyTest, ::testing::ValuesIn(testing::OneServerSetups()), testing::LockSetupName);

TEST_P(LostReplyTest, Acquire_ReplyIsLost_CountsOnce) {
  uint64_t cut = 0;
  for (const LockKind kind : server_->kinds()) {
    const std::string name(LockKindName(kind));
    proxy_->DropReply();
    LockLease lease = MustAcquire(*locks_, name, {.kind = kind});
    ExpectCut(++cut);
    EXPECT_EQ(lease.hold_count(), 1) << name;
    EXPECT_EQ(MustInspect(*locks_, name).owner_holds, 1) << name;
    EXPECT_TRUE(lease.Release().ok()) << name;
    EXPECT_FALSE(MustInspect(*others_, name).locked) << name;
  }
}

TEST_P(LostReplyTest, Reenter_ReplyIsLost_CountsOnce) {
  uint64_t cut = 0;
  for (const LockKind kind : server_->kinds()) {
    const std::string name(LockKindName(kind));
    LockLease outer = MustAcquire(*locks_, name, {.kind = kind});
    if (server_->counts_reentry()) {
      proxy_->DropReply();
      ++cut;
    }
    LockLease inner = MustAcquire(*locks_, name, {.kind = kind});
    ExpectCut(cut);
    EXPECT_EQ(inner.hold_count(), 2) << name;
    EXPECT_TRUE(outer.valid()) << name;
    EXPECT_EQ(MustInspect(*locks_, name).owner_holds, 2) << name;
    EXPECT_TRUE(inner.Release().ok()) << name;
    EXPECT_TRUE(outer.Release().ok()) << name;
    EXPECT_FALSE(MustInspect(*others_, name).locked) << name;
  }
}

TEST_P(LostReplyTest, Release_ReplyIsLost_ReleasesOnce) {
  uint64_t cut = 0;
  for (const LockKind kind : server_->kinds()) {
    const std::string name(LockKindName(kind));
    LockLease outer = MustAcquire(*locks_, name, {.kind = kind});
    LockLease inner = MustAcquire(*locks_, name, {.kind = kind});
    if (server_->counts_reentry()) {
      proxy_->DropReply();
      ++cut;
    }
    EXPECT_TRUE(inner.Release().ok()) << name;
    ExpectCut(cut);
    EXPECT_EQ(MustInspect(*locks_, name).owner_holds, 1) << name;
    proxy_->DropReply();
    const absl::Status released = outer.Release();
    EXPECT_TRUE(released.ok()) << name << ": " << released;
    ExpectCut(++cut);
    EXPECT_FALSE(MustInspect(*others_, name).locked) << name;
  }
}

// In the middle of a number, between two answers, behind the last of them.
TEST_P(LostReplyTest, AcquireAndRelease_RepliesAreCutAnywhere_CountOnceAndLeaveNothing) {
  constexpr uint64_t kLongestReply = 400;  // In bytes, and more.
  std::mt19937_64 random(testing::Seed());
  const std::vector<LockKind> kinds = server_->kinds();
  const Stopwatch watch;  // Some clients take their time to connect again.
  for (int64_t i = 0; i < testing::Scaled(100, 1'000) && watch.elapsed() < absl::Seconds(5); ++i) {
    const LockKind kind = kinds[random() % kinds.size()];
    proxy_->CutReplyAfter(random() % kLongestReply);
    LockLease lease = MustAcquire(*locks_, "seat", {.kind = kind});
    EXPECT_EQ(lease.hold_count(), 1) << LockKindName(kind);
    EXPECT_TRUE(lease.valid()) << LockKindName(kind);
    proxy_->CutReplyAfter(random() % kLongestReply);
    const absl::Status released = lease.Release();
    EXPECT_TRUE(released.ok()) << LockKindName(kind) << ": " << released;
    EXPECT_FALSE(MustInspect(*others_, "seat").locked) << LockKindName(kind);
  }
  EXPECT_GT(proxy_->counts().cut, 0u);
}

// The release has been run, somebody else has entered, and it comes a second time.
TEST_P(LostReplyTest, Release_ReplyIsLostAndAnotherEnters_DoesNotDisturbIt) {
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name(LockKindName(kind));
    LockLease lease = MustAcquire(*locks_, name, {.kind = kind});
    proxy_->Hold();
    std::future<absl::Status> released = std::async(std::launch::async, [&] { return lease.Release(); });
    ASSERT_TRUE(proxy_->Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
    const LockLease next = MustAcquire(*others_, name, {.kind = kind});
    proxy_->CloseAll();
    proxy_->Release();
    const absl::Status status = released.get();
    EXPECT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_TRUE(next.valid()) << name;
    EXPECT_EQ(MustInspect(*others_, name).owner_holds, 1) << name;
  }
}

// It was not the release that took it away.
TEST_P(LostReplyTest, Acquire_ReplyIsLostAndServerIsEmptied_ReleaseTellsTheLoss) {
  for (const LockKind kind : server_->kinds()) {
    const std::string name(LockKindName(kind));
    proxy_->DropReply();
    LockLease lease = MustAcquire(*locks_, name, {.kind = kind});
    server_->Empty();
    EXPECT_EQ(lease.Release().code(), absl::StatusCode::kFailedPrecondition) << name;
  }
}

TEST_P(LostReplyTest, Renew_RepliesAreLost_IsTriedAgainWithinTheLease) {
  const std::vector<LockKind> kinds = server_->kinds();
  // All kinds at the same time, which allows a long lease.
  testing::RunThreads(static_cast<int>(kinds.size()), [&](int thread) {
    const LockKind kind = kinds[static_cast<size_t>(thread)];
    const std::string name(LockKindName(kind));
    TcpProxy proxy(server_->port());
    const auto watched = NewProxied(proxy, {.watchdog_lease = 3 * kKeptLease});
    LockLease lease = MustAcquirePatiently(*watched, name, {.kind = kind});
    for (int i = 0; i < 3; ++i) {
      const uint64_t cut = proxy.counts().cut;
      proxy.DropReply();
      ASSERT_TRUE(proxy.Await([cut](const TcpProxy::Counts& counts) { return counts.cut > cut; }));
    }
    EXPECT_TRUE(lease.valid()) << name;
    EXPECT_EQ(MustInspect(*watched, name).owner_holds, 1) << name;
    EXPECT_TRUE(lease.Release().ok()) << name;
  });
}

// Acquired, unheard of, and never asked for again: it must not be renewed.
TEST_P(LostReplyTest, Acquire_ReplyIsLostAndServerIsGone_IsUnavailableAndLapses) {
  for (const LockKind kind : ExclusiveKinds()) {
    const auto watched =
        NewProxied(*proxy_, {.watchdog_lease = kShortLease, .engine_timeout = absl::Milliseconds(500)});
    const std::string name(LockKindName(kind));
    proxy_->Hold();
    std::future<absl::Status> refused =
        std::async(std::launch::async, [&] { return watched->Acquire(name, {.kind = kind}).status(); });
    ASSERT_TRUE(proxy_->Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
    proxy_->Refuse();
    proxy_->CloseAll();
    proxy_->Release();
    EXPECT_EQ(refused.get().code(), absl::StatusCode::kUnavailable) << name;
    proxy_->Accept();
    const Stopwatch watch;
    EXPECT_TRUE(MustAcquire(*others_, name, {.kind = kind}).valid()) << name;
    EXPECT_LT(watch.elapsed(), kShortLease + kSlack) << name;
    EXPECT_TRUE(IsFree(*others_, name, kind)) << name;
  }
}

}  // namespace
}  // namespace stockade
