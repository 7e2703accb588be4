// The waiters of a service: how long they wait, and which of them are woken.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "locks/service/service_fixture.h"
#include "support/await.h"

namespace stockade {
namespace {

using testing::Await;
using testing::Fault;
using testing::ServiceTest;

class WaitingTest : public ServiceTest {};

TEST_F(WaitingTest, Released_TheWaiterGetsIn) {
  LockLease lease = Must(service_->Acquire("a"));
  auto other = AcquireInThread("a");
  AwaitTries(3);  // Ours, the waiter's, and its second one, once hints are heard.
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(other.get().ok());
  EXPECT_EQ(world_->watches, 0);
}

TEST_F(WaitingTest, WaitOver_IsDeadlineExceeded) {
  const LockLease lease = Must(service_->Acquire("a"));
  auto other = AcquireInThread("a", {.wait = absl::Seconds(2)});
  AwaitTries(3);
  clock_.AwaitWaiters(2);  // It and the watchdog.
  clock_.Advance(absl::Seconds(2) - absl::Nanoseconds(1));
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(other.get().status()));
  EXPECT_EQ(world_->watches, 0);
}

TEST_F(WaitingTest, HolderLapses_TheWaiterGetsInByTheClock) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = absl::Seconds(5)}));
  auto other = AcquireInThread("a");
  AwaitTries(3);
  clock_.AwaitWaiters(2);
  clock_.Advance(absl::Seconds(5));
  EXPECT_TRUE(other.get().ok());
  EXPECT_FALSE(lease.valid());
}

TEST_F(WaitingTest, StopRequested_IsCancelled) {
  const LockLease lease = Must(service_->Acquire("a"));
  std::stop_source stop;
  auto other = AcquireInThread("a", {.stop = stop.get_token()});
  AwaitTries(3);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(other.get().status()));
  EXPECT_TRUE(absl::IsCancelled(service_->Acquire("b", {.stop = stop.get_token()}).status()));
}

TEST_F(WaitingTest, StopRequested_EngineDoesNotAnswer_IsCancelledAtOnceAndTakenBack) {
  std::latch answer(1);
  AnswerTriesAfter(answer);
  std::stop_source stop;
  auto acquired = AcquireInThread("a", {.stop = stop.get_token()});
  AwaitTries(1);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(acquired.get().status()));
  answer.count_down();
  Await("what came late to be released", [this] { return world_->releases > 0; });
  Await("the lock to be free", [this] { return !service_->Inspect("a")->locked; });
}

TEST_F(WaitingTest, AnotherCallOfTheOwnerHangs_IsUnavailableWithinTheEngineTimeout) {
  std::latch answer(1);
  AnswerTriesAfter(answer);
  const LockOwner owner = LockOwner::New();
  auto hangs = AcquireInThread("a", {.owner = owner});
  AwaitTries(1);
  const absl::StatusOr<LockLease> refused =
      Finish(AcquireInThread("a", {.wait = absl::ZeroDuration(), .owner = owner}));
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  std::promise<absl::Status> told;
  service_->AcquireAsync("a", {.wait = absl::ZeroDuration(), .owner = owner},
                         [&told](const absl::StatusOr<LockLease>& lease) { told.set_value(lease.status()); });
  const absl::Status refused_too = Finish(told.get_future());
  EXPECT_TRUE(absl::IsUnavailable(refused_too)) << refused_too;
  EXPECT_EQ(world_->tries, 1);
  answer.count_down();
  (void)hangs.get();
}

// Otherwise no renewal could shorten a time to live that became too long.
TEST_F(WaitingTest, GivenUpWhileTheOwnerHolds_RenewalsKnowTheStep) {
  std::latch answer(1);  // Before the lease, whose release asks what follows.
  std::atomic<uint64_t> given_up = 0;
  std::atomic<uint64_t> renewed = 0;
  const LockOwner owner = LockOwner::New();
  const LockLease lease = Must(service_->Acquire("a", {.owner = owner}));
  world_->on_try = [&](const LockTry&) {
    answer.wait();
    return Fault::kNone;
  };
  world_->on_release = [&](const LockRelease& release) {
    given_up = release.sequence;
    return Fault::kNone;
  };
  world_->on_renewal = [&](const LockRenewal& renewal) {
    renewed = renewal.sequence;
    return Fault::kNone;
  };
  std::stop_source stop;
  auto acquired = AcquireInThread("a", {.owner = owner, .stop = stop.get_token()});
  AwaitTries(2);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(acquired.get().status()));
  answer.count_down();
  Await("what came late to be released", [&] { return given_up > 0 && HoldsOf("a", owner) == 1; });
  Await("a renewal that knows it", [&] {
    if (lease.remaining() > kWatchdogLease * 0.6) clock_.Advance(kWatchdogLease / 30);
    return renewed >= given_up;
  });
  EXPECT_TRUE(lease.valid());
}

// The thread acquires again while what it has left is still on its way: that is no second task inside.
TEST_F(WaitingTest, StopRequested_ThreadAcquiresAgain_HoldsWhatItAcquiredLast) {
  std::latch answer(1);
  AnswerTriesAfter(answer);
  std::stop_source stop;
  std::jthread stopper([&] {
    AwaitTries(1);
    stop.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(service_->Acquire("a", {.stop = stop.get_token()}).status()));
  std::jthread answerer([&] { answer.count_down(); });
  LockLease lease = Must(service_->Acquire("a"));
  Await("what came late to be released",
        [this] { return world_->releases > 0 && HoldsOf("a", LockOwner::ThisThread()) == 1; });
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_FALSE(service_->Inspect("a")->locked);
}

TEST_F(WaitingTest, ServiceDestroyed_EngineAnswersWhatACallerHasLeft_TheServiceWaitsForIt) {
  std::latch answer(1);
  AnswerTriesAfter(answer);
  std::stop_source stop;
  auto acquired = AcquireInThread("a", {.stop = stop.get_token()});
  AwaitTries(1);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(acquired.get().status()));
  auto ended = std::async(std::launch::async, [this] { service_.reset(); });
  answer.count_down();
  ended.get();
  EXPECT_EQ(world_->watches, 0);
}

TEST_F(WaitingTest, ServiceDestroyed_WaitersAreCancelled) {
  const LockLease lease = Must(service_->Acquire("a"));
  auto blocked = AcquireInThread("a");
  std::promise<absl::Status> told;
  service_->AcquireAsync("a", {}, [&told](absl::StatusOr<LockLease> got) { told.set_value(got.status()); });
  AwaitTries(4);
  service_.reset();
  EXPECT_TRUE(absl::IsCancelled(blocked.get().status()));
  EXPECT_TRUE(absl::IsCancelled(told.get_future().get()));
}

// A release wakes one waiter, and each that gets in is followed by one other.
TEST_F(WaitingTest, ManyWaiters_NoHerd) {
  constexpr int kWaiters = 16;
  LockLease lease = Must(service_->Acquire("a"));
  std::vector<std::future<bool>> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.push_back(std::async(std::launch::async, [this] {
      absl::StatusOr<LockLease> mine = service_->Acquire("a");
      return mine.ok() && mine->Release().ok();
    }));
  }
  AwaitTries(kWaiters + 2);  // Ours, one each, and a second one of the first in the queue.
  clock_.AwaitWaiters(kWaiters + 1);
  EXPECT_TRUE(lease.Release().ok());
  for (auto& waiter : waiters) EXPECT_TRUE(waiter.get());
  // A woken waiter may get a newcomer's hint as a second one, but not all waiters do so for each release.
  EXPECT_LE(world_->tries, kWaiters + 2 + 2 * kWaiters);
}

// The waiters do not time out one after another, each after a time-out of its own.
TEST_F(WaitingTest, EngineGoesAway_AllWaitersLearnItTogether) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = absl::Hours(1)}));
  std::vector<std::future<absl::StatusOr<LockLease>>> waiters;
  for (int i = 0; i < 8; ++i) waiters.push_back(AcquireInThread("a"));
  AwaitTries(10);
  {
    const std::lock_guard lock(world_->mutex);
    world_->on_try = [](const LockTry&) { return testing::Fault::kRefused; };
  }
  const Instant began = clock_.Now();
  for (auto& waiter : waiters) {
    while (waiter.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      clock_.Advance(absl::Milliseconds(10));
    }
    EXPECT_TRUE(absl::IsUnavailable(waiter.get().status()));
  }
  EXPECT_LT(clock_.Now() - began, kWatchdogLease);
}

// The clock does not move for waiters that have joined behind the first one.
TEST_F(WaitingTest, FirstWaitersTriesFailAndItLeaves_TheNextGetsIn) {
  LockLease lease = Must(service_->Acquire("a"));
  std::stop_source stop;
  const LockOwner failing = LockOwner::New();
  auto first = AcquireInThread("a", {.owner = failing, .stop = stop.get_token()});
  AwaitTries(3);
  std::atomic<int> failures = 0;
  {
    const std::lock_guard lock(world_->mutex);
    world_->on_try = [&failures, failing](const LockTry& one) {
      if (one.hold.owner != failing.id()) return testing::Fault::kNone;
      ++failures;
      return testing::Fault::kRefused;
    };
  }
  EXPECT_TRUE(lease.Release().ok());
  while (failures < 1) std::this_thread::yield();
  lease = Must(service_->Acquire("a"));
  auto second = AcquireInThread("a");
  AwaitTries(6);
  EXPECT_TRUE(lease.Release().ok());
  for (const int before = failures; failures == before;) {
    clock_.Advance(absl::Milliseconds(20));
    first.wait_for(std::chrono::milliseconds(1));
  }
  stop.request_stop();
  EXPECT_FALSE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST_F(WaitingTest, Readers_AreAllWokenByAWriter) {
  LockLease write = Must(service_->Acquire("a", {.kind = LockKind::kWrite}));
  std::vector<std::future<absl::StatusOr<LockLease>>> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(AcquireInThread("a", {.kind = LockKind::kRead}));
  AwaitTries(6);
  EXPECT_TRUE(write.Release().ok());
  std::vector<LockLease> held;  // All at the same time.
  for (auto& reader : readers) held.push_back(Must(reader.get()));
  EXPECT_TRUE(std::all_of(held.begin(), held.end(), [](const LockLease& lease) { return lease.valid(); }));
}

TEST_F(WaitingTest, FairWaiterGivesUp_ItsPlaceIsGone) {
  LockLease lease = Must(service_->Acquire("a", {.kind = LockKind::kFair}));
  std::stop_source stop;
  auto first = AcquireInThread("a", {.kind = LockKind::kFair, .stop = stop.get_token()});
  AwaitTries(3);
  auto second = AcquireInThread("a", {.kind = LockKind::kFair});
  AwaitTries(5);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(first.get().status()));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(second.get().ok());
}

// The engine has queued it by then.
TEST_F(WaitingTest, FairWaitIsOverWithTheFirstTry_ItsPlaceIsGone) {
  LockLease lease = Must(service_->Acquire("a", {.kind = LockKind::kFair}));
  world_->on_try = [this](const LockTry&) {
    clock_.Advance(absl::Seconds(2));
    return testing::Fault::kNone;
  };
  auto late = AcquireInThread("a", {.kind = LockKind::kFair, .wait = absl::Seconds(1)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.get().status()));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(AcquireInThread("a", {.kind = LockKind::kFair, .wait = absl::ZeroDuration()}).get().ok());
}

}  // namespace
}  // namespace stockade
