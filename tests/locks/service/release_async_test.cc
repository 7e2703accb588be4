// LockLease::ReleaseAsync(), and leases whose destructor does not wait.
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coroutine/coroutines.h"
#include "locks/service/service_fixture.h"
#include "stockade/locks/coroutine.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::Fault;
using testing::ServiceTest;

class ReleaseAsyncTest : public ServiceTest {
 protected:
  static absl::Status Released(LockLease& lease) {
    std::promise<absl::Status> done;
    lease.ReleaseAsync([&](absl::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  bool IsFree(std::string_view name) {
    return service_->Acquire(name, {.wait = absl::ZeroDuration(), .owner = LockOwner::New()}).ok();
  }
  // The engine hangs in releases until then.
  void AnswerReleasesAfter(std::latch& answer) {
    const std::lock_guard lock(world_->mutex);
    world_->on_release = [&answer](const LockRelease&) {
      answer.wait();
      return Fault::kNone;
    };
  }
};

TEST_F(ReleaseAsyncTest, OnceItIsDone_OthersEnter) {
  LockLease lease = Must(service_->Acquire("a"));
  EXPECT_EQ(Released(lease), absl::OkStatus());
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.hold_count(), 0);
  EXPECT_TRUE(IsFree("a"));
}

TEST_F(ReleaseAsyncTest, EngineHangs_ReturnsAtOnceAndTheLeaseIsNotValid) {
  std::latch answer(1);
  LockLease lease = Must(service_->Acquire("a"));
  AnswerReleasesAfter(answer);
  std::atomic<bool> done = false;
  lease.ReleaseAsync([&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    done = true;
  });
  EXPECT_FALSE(lease.valid());
  EXPECT_FALSE(done);
  EXPECT_TRUE(service_->Inspect("a")->locked);
  answer.count_down();
  Await("the release", [&] { return done.load(); });
  EXPECT_FALSE(service_->Inspect("a")->locked);
}

TEST_F(ReleaseAsyncTest, Twice_SaysSoAndDisturbsNobody) {
  LockLease lease = Must(service_->Acquire("a"));
  EXPECT_EQ(Released(lease), absl::OkStatus());
  const LockLease other = Must(service_->Acquire("a"));
  const absl::Status again = Released(lease);
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_EQ(again, lease.Release());
  EXPECT_TRUE(other.valid());
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
}

TEST_F(ReleaseAsyncTest, OfNothing_SaysSo) {
  LockLease nothing;
  EXPECT_EQ(Released(nothing), nothing.Release());
  nothing.ReleaseAsync();
}

TEST_F(ReleaseAsyncTest, WithoutACallback_IsReleased) {
  LockLease lease = Must(service_->Acquire("a"));
  lease.ReleaseAsync();
  Await("the release", [&] { return !service_->Inspect("a")->locked; });
}

TEST_F(ReleaseAsyncTest, OfAnInnerLease_TheOuterOneKeepsTheLock) {
  LockLease outer = Must(service_->Acquire("a"));
  LockLease inner = Must(service_->Acquire("a"));
  EXPECT_EQ(Released(inner), absl::OkStatus());
  EXPECT_TRUE(outer.valid());
  EXPECT_EQ(outer.hold_count(), 1);
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
  EXPECT_EQ(Released(outer), absl::OkStatus());
  EXPECT_TRUE(IsFree("a"));
}

// The release of before reaches the engine behind what the owner has done since.
TEST_F(ReleaseAsyncTest, TheOwnerEntersAgainMeanwhile_StaysInside) {
  const LockOwner owner = LockOwner::New();
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    const std::string name(LockKindName(kind));
    std::latch answer(1);
    LockLease busy = Must(service_->Acquire("busy"));
    LockLease lease = Must(service_->Acquire(name, {.kind = kind, .owner = owner}));
    AnswerReleasesAfter(answer);
    busy.ReleaseAsync();  // Its step hangs, so the next one is not sent yet.
    std::promise<absl::Status> done;
    lease.ReleaseAsync([&](absl::Status status) { done.set_value(std::move(status)); });
    std::future<absl::StatusOr<LockLease>> again = AcquireInThread(name, {.kind = kind, .owner = owner});
    answer.count_down();
    const LockLease entered = Must(Finish(std::move(again)));
    EXPECT_EQ(done.get_future().get(), absl::OkStatus()) << name;
    EXPECT_TRUE(entered.valid()) << name;
    EXPECT_EQ(HoldsOf(name, owner), 1) << name;
  }
}

TEST_F(ReleaseAsyncTest, OfALostLease_SaysWhyAndContactsNoEngine) {
  LockLease lease = Must(service_->Acquire("a", {.lease = absl::Seconds(1)}));
  clock_.Advance(absl::Seconds(2));
  const int64_t releases = world_->releases;
  EXPECT_EQ(Released(lease).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(world_->releases, releases);
}

TEST_F(ReleaseAsyncTest, ForceReleased_SaysThatItIsGone) {
  LockLease lease = Must(service_->Acquire("a"));
  ASSERT_TRUE(service_->ForceRelease("a").ok());
  const absl::Status released = Released(lease);
  EXPECT_TRUE(absl::IsFailedPrecondition(released)) << released;
}

TEST_F(ReleaseAsyncTest, AnotherThreadRunsACallbackOfLost_DoneComesAfterItAndNobodyWaits) {
  LockLease lease = Must(service_->Acquire("a", {.lease = absl::Seconds(1)}));
  std::latch running(1), go_on(1);
  std::atomic<bool> ended = false, done = false;
  const std::stop_callback on_lost(lease.lost(), [&] {
    running.count_down();
    go_on.wait();
    ended = true;
  });
  std::thread loses([&] { clock_.Advance(absl::Seconds(2)); });
  running.wait();
  lease.ReleaseAsync([&](const absl::Status& status) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(ended);
    done = true;
  });
  EXPECT_FALSE(done);
  go_on.count_down();
  Await("done", [&] { return done.load(); });
  loses.join();
}

TEST_F(ReleaseAsyncTest, EngineIsSilent_ManyReleasesDoNotEachWaitForItAndAreTriedLater) {
  std::vector<LockLease> leases;
  for (int i = 0; i < 20; ++i) leases.push_back(Must(service_->Acquire(std::to_string(i))));
  std::atomic<bool> away = true;
  std::atomic<int> sent = 0;
  world_->on_release = [&](const LockRelease& release) {
    if (away && !release.gives_up) ++sent;
    return away ? Fault::kRequestLost : Fault::kNone;
  };
  std::atomic<int> unavailable = 0;
  for (LockLease& lease : leases) {
    lease.ReleaseAsync([&](const absl::Status& status) { unavailable += absl::IsUnavailable(status) ? 1 : 0; });
  }
  const Instant before = clock_.Now();
  while (unavailable < 20) {
    clock_.Advance(absl::Milliseconds(5));
    std::this_thread::yield();
  }
  EXPECT_GT(sent, 0);
  EXPECT_LT(clock_.Now() - before, absl::Seconds(30));  // Less than the lease.
  away = false;
  Finish(std::async(std::launch::async, [this] {
    for (int i = 0; i < 20; ++i) {
      Await("the release", [&] { return !service_->Inspect(std::to_string(i))->locked; });
    }
  }));
}

TEST_F(ReleaseAsyncTest, ServiceIsDestroyed_WhatIsLeftIsSentAndDoneIsTold) {
  const std::unique_ptr<LockService> other = NewService();
  std::latch answer(1);
  std::vector<LockLease> leases;
  for (int i = 0; i < 20; ++i) leases.push_back(Must(service_->Acquire(std::to_string(i))));
  AnswerReleasesAfter(answer);
  std::atomic<int> released = 0;
  for (LockLease& lease : leases) {
    lease.ReleaseAsync([&](const absl::Status& status) { released += status.ok() ? 1 : 0; });
  }
  std::thread destroys([&] { service_.reset(); });
  answer.count_down();
  destroys.join();
  EXPECT_EQ(released, 20);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(other->Inspect(std::to_string(i))->locked) << i;
  LockLease late = Must(other->Acquire("late"));
}

TEST_F(ReleaseAsyncTest, AfterTheService_SaysThatTheLeaseWasLost) {
  LockLease lease = Must(service_->Acquire("a"));
  service_.reset();
  EXPECT_TRUE(absl::IsFailedPrecondition(Released(lease)));
}

TEST_F(ReleaseAsyncTest, CallbackThrows_IsLogged) {
  LockLease lease = Must(service_->Acquire("a"));
  lease.ReleaseAsync([](const absl::Status&) { throw std::runtime_error("no"); });
  Await("the release", [&] { return !service_->Inspect("a")->locked; });
}

TEST_F(ReleaseAsyncTest, LeaseOfAnAwaitedAcquire_ItsDestructorDoesNotWait) {
  std::latch answer(1);
  testing::TaskQueue queue;
  std::optional<LockLease> held;
  const auto acquires = [&]() -> testing::Routine {
    held = (co_await AcquireAwait(*service_, "a", AwaitOn(queue))).value();
  };
  const testing::Routine routine = acquires();
  queue.RunOne();
  AnswerReleasesAfter(answer);
  held.reset();  // The engine hangs.
  EXPECT_TRUE(service_->Inspect("a")->locked);
  answer.count_down();
  Await("the release", [&] { return !service_->Inspect("a")->locked; });
}

}  // namespace
}  // namespace stockade
