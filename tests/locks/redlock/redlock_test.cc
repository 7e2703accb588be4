// What RedLock does with servers that answer, or are away all the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "locks/redlock/five_servers.h"
#include "stockade/locks/redlock_service.h"
#include "support/run_threads.h"

namespace stockade {
namespace {

using testing::Await;

class RedlockTest : public testing::FiveServersTest {};

TEST_F(RedlockTest, Acquire_IsHeldOnAllServers_UntilReleased) {
  const auto locks = Connect();
  LockLease held = locks->Acquire("a").value();
  EXPECT_TRUE(held.valid());
  EXPECT_EQ(held.fencing_token().status().code(), absl::StatusCode::kFailedPrecondition);
  AwaitHeldOn(5, "a");
  EXPECT_EQ(locks->Acquire("a", ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(held.Release().ok());
  AwaitHeldOn(0, "a");
  EXPECT_TRUE(locks->Acquire("a", ByAnother()).ok());
}

TEST_F(RedlockTest, Reentry_CountsOnEachServer) {
  const auto locks = Connect();
  LockLease outer = locks->Acquire("a").value();
  LockLease inner = locks->Acquire("a").value();
  EXPECT_EQ(outer.hold_count(), 2);
  const auto all_say = [&](const std::string& count) {
    Await("counts of " + count, [&] {
      for (const auto& server : servers_) {
        const testing::RawReply counts = server->Call({"HVALS", "a"});
        if (counts.items.size() != 1 || counts.items[0].text != count) return false;
      }
      return true;
    });
  };
  all_say("2");
  EXPECT_TRUE(inner.Release().ok());
  all_say("1");
  EXPECT_TRUE(outer.valid());
  EXPECT_TRUE(outer.Release().ok());
  AwaitHeldOn(0, "a");
}

TEST_F(RedlockTest, OtherKinds_AreUnimplemented) {
  const auto locks = Connect();
  for (const LockKind kind : {LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    EXPECT_EQ(locks->Acquire("a", {.kind = kind}).status().code(), absl::StatusCode::kUnimplemented);
  }
}

// Any two of the five.
TEST_F(RedlockTest, TwoPaused_Works) {
  const auto locks = Connect(LongLeases(), kHasty), others = Connect(LongLeases(), kHasty);
  for (size_t i = 0; i < kServers; ++i) {
    for (size_t j = i + 1; j < kServers; ++j) {
      const std::string name = "lock " + std::to_string(i) + std::to_string(j);
      server(i).Pause();
      server(j).Pause();
      {
        const absl::StatusOr<LockLease> held = locks->Acquire(name);
        ASSERT_TRUE(held.ok()) << held.status();
        EXPECT_EQ(others->Acquire(name, ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
      }
      const absl::StatusOr<LockLease> next = others->Acquire(name);
      EXPECT_TRUE(next.ok()) << next.status();
      server(i).Resume();
      server(j).Resume();
    }
  }
}

TEST_F(RedlockTest, TwoKilled_Works) {
  const auto locks = Connect(LongLeases(), kHasty), others = Connect(LongLeases(), kHasty);
  for (size_t i = 0; i < kServers; ++i) {
    const size_t j = (i + 2) % kServers;
    const std::string name = "lock " + std::to_string(i);
    server(i).Kill();
    server(j).Kill();
    {
      const absl::StatusOr<LockLease> held = locks->Acquire(name);
      ASSERT_TRUE(held.ok()) << held.status();
      EXPECT_EQ(others->Acquire(name, ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_EQ(locks->Acquire(name).value().hold_count(), 2);
    }
    const absl::StatusOr<LockLease> next = others->Acquire(name);
    EXPECT_TRUE(next.ok()) << next.status();
    server(i).Restart();
    server(j).Restart();
  }
}

class RedlockThreeAwayTest : public RedlockTest {
 protected:
  void ExpectRefusedInTime(LockService& locks) {
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = locks.Acquire("a").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("2 of 5 servers answered"), std::string::npos) << status;
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(15));  // Much less: the machine may be slow.
    AwaitHeldOn(0, "a");
  }
  static LockServiceOptions ShortTimeout() {
    return {.watchdog_lease = absl::Hours(1), .engine_timeout = absl::Seconds(1)};
  }
};

TEST_F(RedlockThreeAwayTest, Killed_IsUnavailable_AndNothingIsHeld) {
  const auto locks = Connect(ShortTimeout());
  for (size_t i = 0; i < 3; ++i) server(i).Kill();
  ExpectRefusedInTime(*locks);
  for (size_t i = 0; i < 3; ++i) server(i).Restart();
  EXPECT_TRUE(Connect()->Acquire("a").ok());
}

TEST_F(RedlockThreeAwayTest, Paused_IsUnavailable_AndNothingIsHeldWhenTheyGoOn) {
  const auto locks = Connect(ShortTimeout(), kHasty);
  for (size_t i = 0; i < 3; ++i) server(i).Pause();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(locks->Acquire("a").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  for (size_t i = 3; i < kServers; ++i) {
    Await("what was taken back", [&] { return server(i).Call({"EXISTS", "a"}) == "0"; });
  }
  for (size_t i = 0; i < 3; ++i) server(i).Resume();
  AwaitHeldOn(0, "a");
  EXPECT_TRUE(Connect()->Acquire("a").ok());
}

TEST_F(RedlockThreeAwayTest, Release_IsUnavailable_AndWhatAnswersIsFree) {
  const auto locks = Connect(ShortTimeout());
  LockLease held = locks->Acquire("a").value();
  AwaitHeldOn(5, "a");
  for (size_t i = 0; i < 3; ++i) server(i).Kill();
  EXPECT_EQ(held.Release().code(), absl::StatusCode::kUnavailable);
  AwaitHeldOn(0, "a");
}

TEST_F(RedlockTest, Busy_WhatWasGrantedIsTakenBack) {
  const auto locks = Connect();
  for (size_t i = 0; i < 3; ++i) ASSERT_EQ(server(i).Call({"HSET", "a", "somebody:1", "1"}), "1");
  EXPECT_EQ(locks->Acquire("a", ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
  AwaitHeldOn(3, "a");
  for (size_t i = 3; i < kServers; ++i) EXPECT_EQ(server(i).Call({"EXISTS", "a"}), "0");
}

TEST_F(RedlockTest, MinorityHeldByAnother_IsAcquired) {
  const auto locks = Connect();
  for (size_t i = 0; i < 2; ++i) ASSERT_EQ(server(i).Call({"HSET", "a", "somebody:1", "1"}), "1");
  { EXPECT_TRUE(locks->Acquire("a", ByAnother()).ok()); }
  AwaitHeldOn(2, "a");
}

// Two of four servers each, of tries that they have given up: the next try of either takes all of it back.
TEST_F(RedlockTest, LeftoversOfTwoWaiters_KeepNobodyOut) {
  const std::unique_ptr<LockService> services[] = {Connect(LongLeases(), kHasty), Connect(LongLeases(), kHasty)};
  const LockOwner owners[] = {LockOwner::New(), LockOwner::New()};
  for (size_t who = 0; who < 2; ++who) {
    LockLease held = services[who]->Acquire("a", {.owner = owners[who]}).value();
    AwaitHeldOn(5, "a");
    const std::string holder = server(0).Call({"HKEYS", "a"}).items.at(0).text;
    EXPECT_TRUE(held.Release().ok());
    AwaitHeldOn(0, "a");
    for (size_t i = 2 * who; i < 2 * who + 2; ++i) ASSERT_EQ(server(i).Call({"HSET", "b", holder, "1"}), "1");
  }
  server(4).Kill();
  testing::RunThreads(2, [&](int who) {
    EXPECT_TRUE(services[who]->Acquire("b", {.wait = absl::Minutes(1), .owner = owners[who]}).ok());
  });
  AwaitHeldOn(0, "b");
}

// The try is run late, and the server has not seen the script that takes it back.
TEST_F(RedlockTest, TakenBackLate_ByAScriptThatIsNotKnownYet) {
  const auto others = Connect();
  const LockLease held = others->Acquire("a", ByAnother()).value();
  AwaitHeldOn(5, "a");
  const auto locks = Connect();
  for (size_t i = 3; i < kServers; ++i) {
    ASSERT_EQ(server(i).Call({"DEL", "a"}), "1");
    server(i).Pause();
  }
  EXPECT_EQ(locks->Acquire("a", ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(locks->Inspect("a").value().locked);  // Waits as long for the servers that are paused.
  for (size_t i = 3; i < kServers; ++i) server(i).Resume();
  EXPECT_TRUE(locks->Inspect("b").ok());  // Behind the try.
  AwaitHeldOn(3, "a");
}

TEST_F(RedlockTest, InspectAndForceRelease_AreForAllServers) {
  const auto locks = Connect({.watchdog_lease = absl::Hours(1), .engine_timeout = absl::Seconds(1)}, kHasty);
  EXPECT_FALSE(locks->Inspect("a").value().locked);
  EXPECT_FALSE(locks->ForceRelease("a").value());
  const LockLease held = locks->Acquire("a").value();
  AwaitHeldOn(5, "a");
  server(0).Kill();
  server(1).Kill();
  const LockState state = locks->Inspect("a").value();
  EXPECT_TRUE(state.locked);
  EXPECT_EQ(state.owner_holds, 1);
  EXPECT_GT(state.remaining, absl::Minutes(50));
  EXPECT_TRUE(locks->ForceRelease("a").value());
  EXPECT_EQ(HeldOn("a"), 0);
  server(2).Kill();
  EXPECT_EQ(locks->Inspect("a").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(locks->ForceRelease("a").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RedlockTest, Connect_TwoAway_TheyAreUsedOnceTheyAreBack) {
  server(1).Kill();
  server(4).Kill();
  const auto locks = Connect(LongLeases(), kHasty);
  { EXPECT_TRUE(locks->Acquire("a").ok()); }
  server(1).Restart();
  server(4).Restart();
  Await("all servers", [&] {
    const LockLease held = locks->Acquire("b").value();
    return HeldOn("b") == kServers;
  });
}

TEST_F(RedlockTest, Connect_ThreeAway_IsUnavailable) {
  for (size_t i = 0; i < 3; ++i) server(i).Kill();
  const absl::Status status = RedlockService::Connect(Urls()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("2 of 5 servers answered"), std::string::npos) << status;
}

TEST_F(RedlockTest, Id_IsTheSameInAnyOrder) {
  std::vector<std::string> backwards = Urls();
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_EQ(Connect()->id(), Connect(backwards)->id());
  EXPECT_TRUE(Connect()->id().starts_with("redlock 127.0.0.1:")) << Connect()->id();
}

TEST(RedlockServiceTest, ServersThatAreNotIndependent_AreRefused) {
  using Urls = std::vector<std::string>;
  const std::string a = "redis://:secret@a", b = "redis://b", c = "redis://c";
  for (const Urls& urls : {Urls{}, Urls{a}, Urls{a, b}, Urls{a, b, c, "redis://d"}, Urls{a, b, "redis://a:6379/1"},
                           Urls{a, b, "redis+cluster://:secret@c"}, Urls{a, b, "nonsense"}}) {
    const absl::Status status = RedlockService::Connect(urls).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(status.message().find("secret"), std::string::npos) << status;
  }
  EXPECT_EQ(RedlockService::Connect(Urls{a, b, c}, {.node_timeout = absl::ZeroDuration()}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stockade
