// Acquisitions that no thread waits for.
#include <atomic>
#include <functional>
#include <latch>
#include <stop_token>
#include <thread>
#include <vector>

#include "locks/service/service_fixture.h"
#include "support/await.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::Await;
using testing::Fault;
using testing::ServiceTest;

class AsyncAcquireTest : public ServiceTest {
 protected:
  std::future<absl::StatusOr<LockLease>> Async(std::string_view name, AcquireOptions options = {}) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<LockLease>>>();
    service_->AcquireAsync(name, std::move(options),
                           [promise](absl::StatusOr<LockLease> lease) { promise->set_value(std::move(lease)); });
    return promise->get_future();
  }
};

TEST_F(AsyncAcquireTest, Free_IsGiven) {
  LockLease lease = Must(Async("a").get());
  EXPECT_TRUE(lease.valid());
  EXPECT_NE(lease.owner(), LockOwner::ThisThread());
  EXPECT_TRUE(lease.Release().ok());
}

using AsyncAcquireDeathTest = AsyncAcquireTest;

TEST_F(AsyncAcquireDeathTest, WithoutACallback_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // A service cannot be used in a forked child.
  EXPECT_DEATH(service_->AcquireAsync("a", {}, nullptr), "AcquireAsync\\(\\) was called without a callback");
}

TEST_F(AsyncAcquireTest, Held_IsGivenAfterTheRelease) {
  LockLease lease = Must(service_->Acquire("a"));
  auto other = Async("a");
  AwaitTries(3);
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(other.get().ok());
}

TEST_F(AsyncAcquireTest, Held_TimeOutAndExpiry) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = absl::Seconds(5)}));
  auto once = Async("a", {.wait = absl::ZeroDuration()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(once.get().status()));
  auto brief = Async("a", {.wait = absl::Seconds(1)});
  auto patient = Async("a", {.wait = absl::Hours(1)});
  AwaitTries(5);  // The lease's, the first one's, two of the next, which is first in the queue, and one of the last.
  clock_.AwaitWaiters(2);  // The asynchronous thread, and the one that ends leases.
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(brief.get().status()));
  clock_.Advance(absl::Seconds(4));
  EXPECT_TRUE(Finish(std::move(patient)).ok());
}

TEST_F(AsyncAcquireTest, StopRequested_IsCancelled) {
  const LockLease lease = Must(service_->Acquire("a"));
  std::stop_source stop;
  auto other = Async("a", {.stop = stop.get_token()});
  AwaitTries(3);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(other.get().status()));
}

TEST_F(AsyncAcquireTest, StopRequested_EngineDoesNotAnswer_IsCancelledAtOnceAndTakenBack) {
  std::latch answer(1);
  AnswerTriesAfter(answer);
  std::stop_source stop;
  auto acquired = Async("a", {.stop = stop.get_token()});
  AwaitTries(1);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(acquired.get().status()));
  answer.count_down();
  Await("what came late to be released", [this] { return world_->releases > 0; });
  Await("the lock to be free", [this] { return !service_->Inspect("a")->locked; });
}

// One thread asks the engine for all.
TEST_F(AsyncAcquireTest, StopRequested_EngineDoesNotAnswerAnotherAcquire_IsCancelledAtOnce) {
  const LockLease lease = Must(service_->Acquire("a"));
  std::stop_source stop;
  auto waits = Async("a", {.stop = stop.get_token()});
  AwaitTries(3);
  std::latch answer(1);
  AnswerTriesAfter(answer);
  auto hangs = Async("b");
  AwaitTries(4);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(waits.get().status()));
  answer.count_down();
  EXPECT_TRUE(hangs.get().ok());
}

TEST_F(AsyncAcquireTest, BadOptions_AreToldTheCallback) {
  EXPECT_TRUE(absl::IsInvalidArgument(Async("").get().status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Async("a", {.lease = -absl::Seconds(1)}).get().status()));
}

TEST_F(AsyncAcquireTest, CallbackThrows_IsLogged) {
  std::promise<void> called;
  service_->AcquireAsync("a", {}, [&called](absl::StatusOr<LockLease>) {
    called.set_value();
    throw std::runtime_error("no");
  });
  called.get_future().get();
  EXPECT_TRUE(Async("b").get().ok());
}

// One after another, through one lock, by more callers than there are threads.
TEST_F(AsyncAcquireTest, ManyOnOneLock_AllGetIn) {
  constexpr int kCallers = 200;
  std::atomic<int> inside = 0;
  std::atomic<int> done = 0;
  for (int i = 0; i < kCallers; ++i) {
    service_->AcquireAsync("a", {}, [&](absl::StatusOr<LockLease> lease) {
      ASSERT_TRUE(lease.ok()) << lease.status();
      EXPECT_EQ(++inside, 1);
      --inside;
      EXPECT_TRUE(lease->Release().ok());
      ++done;
      done.notify_all();
    });
  }
  for (int seen = done; seen < kCallers; seen = done) done.wait(seen);
}

// Steps of one owner on one lock follow one another, also from different threads.
TEST_F(AsyncAcquireTest, SameOwnerTwice_BothCount) {
  const LockOwner owner = LockOwner::New();
  auto first = Async("a", {.owner = owner});
  auto second = Async("a", {.owner = owner});
  while (second.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    clock_.Advance(absl::Milliseconds(1));
  }
  const LockLease one = Must(first.get());
  const LockLease two = Must(second.get());
  EXPECT_EQ(HoldsOf("a", owner), 2);
}

// One tries again in the moment in which the other's wait is over: who leaves a fair queue must not wait for a step
// that the same thread has yet to send.
TEST_F(AsyncAcquireTest, SameOwnerTwiceInAFairQueue_OneGivesUpAndOneGetsIn) {
  const LockLease held = Must(service_->Acquire("a", {.kind = LockKind::kFair, .lease = absl::Seconds(2)}));
  const LockOwner owner = LockOwner::New();
  auto patient = Async("a", {.kind = LockKind::kFair, .owner = owner});
  AwaitTries(3);
  clock_.AwaitWaiters(2);  // The asynchronous thread, and the one that ends leases.
  clock_.Advance(absl::Milliseconds(1));
  auto brief = Async("a", {.kind = LockKind::kFair, .wait = absl::Seconds(2), .owner = owner});
  AwaitTries(4);
  clock_.AwaitWaiters(2);
  clock_.Advance(absl::Seconds(3));
  ASSERT_EQ(brief.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_TRUE(absl::IsDeadlineExceeded(brief.get().status()));
  while (patient.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    clock_.Advance(absl::Milliseconds(10));
  }
  EXPECT_TRUE(patient.get().ok());
}

// While the engine does not say that a place in a queue is given up, others are not kept from learning that they have
// lost theirs.
TEST_F(AsyncAcquireTest, FairWaitsAreOverAndTheEngineIsSlow_AllAreToldAtOnce) {
  constexpr int kWaiters = 20;
  const LockLease held = Must(service_->Acquire("a", {.kind = LockKind::kFair, .lease = absl::Hours(1)}));
  std::vector<std::future<absl::StatusOr<LockLease>>> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.push_back(Async("a", {.kind = LockKind::kFair, .wait = absl::Seconds(1)}));
  }
  AwaitTries(1 + 2 * kWaiters);
  clock_.AwaitWaiters(2);
  std::promise<void> answers;
  world_->on_release = [answered = answers.get_future().share()](const LockRelease&) {
    answered.wait();
    return Fault::kNone;
  };
  clock_.Advance(absl::Seconds(1));
  for (auto& waiter : waiters) {
    EXPECT_EQ(waiter.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  }
  answers.set_value();
  for (auto& waiter : waiters) EXPECT_TRUE(absl::IsDeadlineExceeded(waiter.get().status()));
}

// The stop token's callback comes while the acquire is being set up.
TEST_F(AsyncAcquireTest, StoppedBeforeOrMeanwhile_IsCancelled) {
  const LockLease held = Must(service_->Acquire("a"));
  for (int64_t i = 0; i < testing::Scaled(500, 5000); ++i) {
    std::stop_source stop;
    std::thread stopper;
    if (i % 2 == 0) {
      stop.request_stop();
    } else {
      stopper = std::thread([&stop] { stop.request_stop(); });
    }
    EXPECT_TRUE(absl::IsCancelled(Async("a", {.stop = stop.get_token()}).get().status()));
    if (stopper.joinable()) stopper.join();
  }
}

// Somebody who does not give up asks again from the callback, until the service is gone.
TEST(AsyncAcquireTeardownTest, CallbacksAskAgainWhileTheServiceEnds_AllAreTold) {
  constexpr int kAgain = 20'000;
  ManualClock clock;
  auto world = std::make_shared<testing::FlakyWorld>(&clock);
  auto service =
      EngineLockService::Create(std::make_unique<testing::FlakyEngine>(world), {.clock = &clock, .metrics = nullptr});
  ASSERT_TRUE(service.ok()) << service.status();
  LockService* const locks = service->get();
  const absl::StatusOr<LockLease> held = locks->Acquire("a");
  ASSERT_TRUE(held.ok());
  std::atomic<int> told = 0;
  std::function<void(absl::StatusOr<LockLease>)> again = [&](const absl::StatusOr<LockLease>& got) {
    EXPECT_TRUE(absl::IsCancelled(got.status())) << got.status();
    if (++told < kAgain) locks->AcquireAsync("a", {}, again);
  };
  locks->AcquireAsync("a", {}, again);
  while (world->tries < 3) std::this_thread::yield();
  service->reset();
  EXPECT_EQ(told, kAgain);
}

}  // namespace
}  // namespace stockade
