// What becomes of locks when ZooKeeper is not heard: replies that are lost, connections, sessions.
#include <mutex>

#include "locks/zookeeper/zookeeper_engine_fixture.h"
#include "stockade/base/log.h"
#include "stockade/base/process_name.h"

namespace stockade {
namespace {

using testing::Await;
using ::testing::HasSubstr;
using testing::HintCount;
using testing::Holder;
using ::testing::Not;
using ::testing::SizeIs;
using testing::TcpProxy;
using testing::ZooKeeperEngineOn;
using testing::ZooKeeperEngineTest;
using testing::ZooKeeperUrl;

class ZooKeeperSessionTest : public ZooKeeperEngineTest {
 protected:
  void SetUp() override {
    ZooKeeperEngineTest::SetUp();
    if (server_ == nullptr) return;
    proxy_ = std::make_unique<TcpProxy>(server_->port());
    const uint16_t port = proxy_->port();
    url_ = ZooKeeperUrl({&port, 1}, server_->tick());
  }

  // By way of the proxy.
  std::unique_ptr<locks_internal::ZooKeeperLockEngine> Connect(absl::Duration session_timeout) {
    return ZooKeeperEngineOn(url_, {.session_timeout = session_timeout});
  }
  // A lock's first node costs more than one request: it is taken and given back once.
  void Warm(Holder& holder) {
    ASSERT_TRUE(holder.Try().acquired);
    ASSERT_TRUE(holder.Release().held);
  }

  std::unique_ptr<TcpProxy> proxy_;
  std::string url_;
};

TEST_F(ZooKeeperSessionTest, Connect_ConnectionIsLostWhileTheRootIsChecked_GoesOnOnTheNext) {
  proxy_->CutReplyAfter(60);  // Behind the 41 bytes that answer the session's first request.
  EXPECT_NE(Connect(absl::Seconds(20)), nullptr);
  EXPECT_EQ(proxy_->counts().cut, 1);
}

TEST_F(ZooKeeperSessionTest, Connect_LogsTheSessionThatTheServerLists) {
  std::mutex mutex;
  std::string logged;
  SetLogSink([&](LogSeverity, std::string_view message) {
    const std::lock_guard lock(mutex);
    if (message.starts_with("ZooKeeper: " + base_internal::ProcessName())) logged = message;
  });
  const auto engine = Connect(absl::Seconds(20));
  SetLogSink({});
  const size_t at = logged.find(" is session 0x");
  ASSERT_NE(at, std::string::npos) << logged;
  const std::string session = logged.substr(at + 12, logged.find(" at ") - at - 12);
  EXPECT_THAT(testing::FourLetterWord(server_->port(), "cons"), HasSubstr("sid=" + session + ","));
}

TEST_F(ZooKeeperSessionTest, ServerDoesNotAnswer_IsNudged) {
  const auto engine = Connect(absl::Seconds(120));  // So that nothing is asked meanwhile to keep it.
  Holder holder(*engine, "a");
  ASSERT_TRUE(holder.Try().acquired);
  const uint64_t before = proxy_->counts().to_server;
  ASSERT_TRUE(holder.Renew(absl::Seconds(60)).held);
  const uint64_t quiet = proxy_->counts().to_server;
  proxy_->Hold();
  LockRenewal renewal = {.hold = holder.hold(), .lease = absl::Seconds(60)};
  engine->RenewMany({&renewal, 1}, absl::Seconds(2));
  EXPECT_TRUE(absl::IsUnavailable(renewal.status)) << renewal.status;
  EXPECT_GT(proxy_->counts().to_server - quiet, quiet - before) << "more than the renewal itself";
  proxy_->Release();
  EXPECT_TRUE(holder.Renew(absl::Seconds(60)).held);
}

TEST_F(ZooKeeperSessionTest, TryNotAnswered_IsFoundAgainAndNotDoubled) {
  const auto engine = Connect(absl::Seconds(20));
  Holder holder(*engine, "a");
  Warm(holder);
  proxy_->DropReply();
  LockTry step = holder.Queue();
  while (!step.status.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(step.status)) << step.status;
    step = holder.TryAgain(absl::Seconds(30), true);
  }
  EXPECT_EQ(proxy_->counts().cut, 1);
  EXPECT_TRUE(step.acquired);
  EXPECT_EQ(step.hold_count, 1);
  EXPECT_GT(step.fencing_token.value_or(0), 0);
  EXPECT_THAT(Nodes("a"), SizeIs(1));
  EXPECT_TRUE(holder.Release().held);
  EXPECT_THAT(Nodes("a"), SizeIs(0));
}

TEST_F(ZooKeeperSessionTest, TryNotAnsweredAndGivenUp_LeavesNothingBehind) {
  const auto engine = Connect(absl::Seconds(20));
  Holder holder(*engine, "a");
  Warm(holder);
  proxy_->DropReply();
  const LockTry step = holder.Queue();
  EXPECT_TRUE(step.outcome_unknown || step.acquired);
  const LockRelease given_up = holder.GiveUp();
  EXPECT_TRUE(given_up.status.ok()) << given_up.status;
  EXPECT_THAT(Nodes("a"), SizeIs(0));
}

TEST_F(ZooKeeperSessionTest, ReleaseNotAnswered_IsDoneOnceConnectedAgain) {
  const auto engine = Connect(absl::Seconds(20));
  Holder holder(*engine, "a");
  ASSERT_TRUE(holder.Try().acquired);
  proxy_->DropReply();
  const LockRelease released = holder.Release();
  EXPECT_TRUE(released.status.ok()) << released.status;
  EXPECT_TRUE(released.held);
  EXPECT_THAT(Nodes("a"), SizeIs(0));
}

TEST_F(ZooKeeperSessionTest, ReleaseOutOfTime_IsDoneLaterAndSaysSo) {
  const auto engine = Connect(absl::Seconds(20));
  Holder holder(*engine, "a");
  ASSERT_TRUE(holder.Try().acquired);
  proxy_->Hold();
  LockRelease release = {.hold = holder.hold(), .sequence = 100, .timeout = absl::Milliseconds(1)};
  engine->Release(release);
  EXPECT_TRUE(absl::IsUnavailable(release.status)) << release.status;
  EXPECT_TRUE(release.outcome_unknown);
  proxy_->Release();
  release.resent = true;
  release.timeout = absl::Seconds(20);
  engine->Release(release);
  EXPECT_TRUE(release.status.ok()) << release.status;
  EXPECT_TRUE(release.held);
  EXPECT_THAT(Nodes("a"), SizeIs(0));
}

TEST_F(ZooKeeperSessionTest, ConnectionLost_KeepsTheHoldAndHearsAgain) {
  const auto engine = Connect(absl::Seconds(20));
  Holder other(*engine_, "a");
  Holder holder(*engine, "b");
  Holder waiter(*engine, "a");
  other.Try();
  const LockTry held = holder.Try();
  waiter.Queue();
  HintCount hints;
  const auto watch = waiter.Hear(hints.hint());
  proxy_->CloseAll();
  hints.AwaitMoreThan(0);
  EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held);
  EXPECT_EQ(holder.Queue().session, held.session);
  EXPECT_FALSE(waiter.Queue().acquired);
  const int before = hints.count();
  other.Release();
  hints.AwaitMoreThan(before);
  EXPECT_TRUE(waiter.Queue().acquired);
}

TEST_F(ZooKeeperSessionTest, NotHeard_IsOverHereBeforeItIsThere) {
  const auto engine = Connect(absl::Seconds(2));
  Holder holder(*engine, "a");
  const LockTry held = holder.Try();
  ASSERT_TRUE(held.acquired);
  // It is kept while it is heard.
  const Instant before = held.session->ValidUntil();
  Await("the session to be extended", [&] { return held.session->ValidUntil() > before; });
  proxy_->Freeze();
  Await("the session to expire", [&] { return Nodes("a").empty(); });
  EXPECT_LT(held.session->ValidUntil(), Clock::System()->Now());
  LockTry away = {.hold = holder.hold(), .lease = absl::Seconds(30), .sequence = 50, .timeout = absl::Milliseconds(50)};
  engine->TryMany({&away, 1});
  EXPECT_TRUE(absl::IsUnavailable(away.status)) << away.status;
  proxy_->Thaw();
  holder.set_sequence(100);
  LockTry anew = holder.Queue();
  while (!anew.status.ok()) anew = holder.Queue();
  EXPECT_TRUE(anew.acquired);
  EXPECT_EQ(anew.hold_count, 1);
  EXPECT_NE(anew.session, held.session);
  EXPECT_GT(*anew.fencing_token, *held.fencing_token);
}

TEST_F(ZooKeeperSessionTest, Over_WaitersHearAndTakeNewPlaces) {
  const auto engine = Connect(absl::Seconds(1));
  Holder other(*engine_, "a");
  Holder waiter(*engine, "a");
  other.Try();
  waiter.Queue();
  HintCount hints;
  const auto watch = waiter.Hear(hints.hint());
  proxy_->Freeze();
  AwaitNodes("a", 1);
  proxy_->Thaw();
  hints.AwaitMoreThan(0);
  LockTry again = waiter.Queue();
  while (!again.status.ok()) again = waiter.Queue();
  EXPECT_FALSE(again.acquired);
  EXPECT_THAT(Nodes("a"), SizeIs(2));
}

TEST_F(ZooKeeperSessionTest, RenewalAfterTheSession_IsNoMore) {
  const auto engine = Connect(absl::Seconds(1));
  Holder holder(*engine, "a");
  const LockTry held = holder.Try();
  proxy_->Freeze();
  Await("the session to end", [&] { return held.session->ValidUntil() == Instant::InfinitePast(); });
  Await("the engine to forget it", [&] {
    LockRenewal renewal = {.hold = holder.hold(), .lease = absl::Seconds(30)};
    engine->RenewMany({&renewal, 1}, absl::Milliseconds(10));
    return renewal.status.ok() && !renewal.held;
  });
  const LockRelease released = holder.Release();
  EXPECT_TRUE(released.status.ok()) << released.status;
  EXPECT_FALSE(released.held);
  proxy_->Thaw();
}

TEST_F(ZooKeeperSessionTest, ReleasedByAnotherAcquireOfItsOwner_WaiterHears) {
  Holder other(*engine_, "a");
  Holder owner(*engine_, "a");
  ASSERT_TRUE(other.Try().acquired);
  ASSERT_FALSE(owner.Queue().acquired);
  HintCount hints;  // Of a second acquire, which waits with the same place.
  const auto watch = owner.Hear(hints.hint());
  other.Release();
  hints.AwaitMoreThan(0);
  ASSERT_TRUE(owner.Queue().acquired);
  const int before = hints.count();
  EXPECT_TRUE(owner.Release().held);
  hints.AwaitMoreThan(before);
}

TEST_F(ZooKeeperSessionTest, ServerRestarted_KeepsSessionsAndHolds) {
  Holder holder(*engine_, "a");
  const LockTry held = holder.Try();
  server_->Kill();
  server_->Restart();
  raw_ = std::make_unique<testing::RawZooKeeper>(server_->port());
  LockTry again = holder.Queue();
  while (!again.status.ok()) again = holder.Queue();
  EXPECT_EQ(again.hold_count, 2);
  EXPECT_EQ(again.session, held.session);
  EXPECT_THAT(Nodes("a"), SizeIs(1));
}

TEST_F(ZooKeeperSessionTest, TimeoutShortenedByTheServers_EndsTheSession) {
  testing::ZooKeeperServer server;
  const auto engine = ZooKeeperEngineOn(server.url(), {.session_timeout = absl::Seconds(30)});
  Holder holder(*engine, "a");
  const LockTry held = holder.Try();
  ASSERT_TRUE(held.acquired);
  server.Reconfigure({"maxSessionTimeout=20000"});
  server.Restart();
  // The server would let it expire 20 s after it was last heard; the lease says 30.
  Await("the session to be given up", [&] { return held.session->ValidUntil() == Instant::InfinitePast(); });
  LockTry anew = holder.Queue();
  while (!anew.acquired) anew = holder.Queue();
  EXPECT_EQ(anew.hold_count, 1);
  EXPECT_LT(anew.session->ValidUntil(), Clock::System()->Now() + absl::Seconds(20));
}

TEST_F(ZooKeeperSessionTest, DestroyedWhileAReleaseIsNotAnswered_FreesAll) {
  auto engine = Connect(absl::Seconds(20));
  Holder holder(*engine, "a");
  const LockTry held = holder.Try();
  ASSERT_TRUE(held.acquired);
  proxy_->Freeze();
  LockRelease release = {.hold = holder.hold(), .sequence = 100, .timeout = absl::Milliseconds(1)};
  engine->Release(release);
  EXPECT_TRUE(release.outcome_unknown);
  release.resent = true;
  engine->Release(release);
  proxy_->CloseAll();
  // What is asked after the release fails after it.
  LockTry away = {.hold = holder.hold(), .lease = absl::Seconds(30), .sequence = 101, .timeout = absl::Seconds(20)};
  engine->TryMany({&away, 1});
  EXPECT_FALSE(away.status.ok());
  engine = nullptr;
  EXPECT_EQ(held.session.use_count(), 1);
  proxy_->Thaw();
}

TEST_F(ZooKeeperSessionTest, TimeoutTooShort_IsRefusedWithBothValues) {
  const auto engine = locks_internal::ZooKeeperLockEngine::Connect(
      "zookeeper://127.0.0.1:" + std::to_string(server_->port()), {.session_timeout = absl::Seconds(5)});
  EXPECT_TRUE(absl::IsFailedPrecondition(engine.status())) << engine.status();
  EXPECT_THAT(std::string(engine.status().message()), HasSubstr("5s"));
  EXPECT_THAT(std::string(engine.status().message()), HasSubstr("2s"));
}

TEST_F(ZooKeeperSessionTest, Credentials_KeepOthersOut) {
  const std::string at = "127.0.0.1:" + std::to_string(server_->port());
  const std::string tail = at + "/secured/locks?tick_ms=" + std::to_string(absl::ToInt64Milliseconds(server_->tick()));
  const auto engine = ZooKeeperEngineOn("zookeeper://shop:secret@" + tail);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->id(), "zookeeper " + at + "/secured/locks");
  Holder holder(*engine, "a");
  EXPECT_TRUE(holder.Queue().acquired);
  EXPECT_TRUE(holder.Renew(absl::Seconds(30)).held);
  for (const std::string user : {"", "shop:wrong@", "other:secret@"}) {
    const auto other = locks_internal::ZooKeeperLockEngine::Connect("zookeeper://" + user + tail, {});
    EXPECT_TRUE(absl::IsPermissionDenied(other.status())) << user << other.status();
    EXPECT_THAT(std::string(other.status().message()), HasSubstr("/secured/locks"));
    EXPECT_THAT(std::string(other.status().message()), Not(HasSubstr("wrong")));
  }
  const auto same = ZooKeeperEngineOn("zookeeper://shop:secret@" + tail);
  Holder second(*same, "a");
  EXPECT_FALSE(second.Queue().acquired);
  EXPECT_TRUE(holder.Release().held);
  EXPECT_TRUE(second.Queue().acquired);
}

}  // namespace
}  // namespace stockade
