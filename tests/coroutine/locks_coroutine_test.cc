// AcquireAwait() and ReleaseAwait(), and with them what all awaiters have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coroutine/coroutines.h"
#include "stockade/base/clock.h"
#include "stockade/locks/coroutine.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/forked_child.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;
using LeaseAnswer = std::optional<absl::StatusOr<LockLease>>;

Routine Acquires(LockService& locks, AwaitOn on, LeaseAnswer& answer) {
  answer = co_await AcquireAwait(locks, "a", on);
}

Instant Soon() { return Clock::System()->Now() + absl::Milliseconds(20); }

class LocksCoroutineTest : public ::testing::Test {
 protected:
  LocksCoroutineTest() {
    absl::StatusOr<std::unique_ptr<LockService>> created =
        LocalLockService::Create({.watchdog_lease = absl::Seconds(30), .metrics = &registry_});
    locks_ = std::move(created).value();
  }

  LockLease Hold() { return locks_->Acquire("a", {.owner = LockOwner::New()}).value(); }
  // In time: releases that nobody waits for are under way.
  void ExpectFree() {
    const auto lease = locks_->Acquire("a", {.wait = absl::Seconds(20), .owner = LockOwner::New()});
    EXPECT_TRUE(lease.ok()) << lease.status();
  }

  double Waiters() const {
    for (const prometheus::MetricFamily& family : registry_.Collect()) {
      if (family.name == "stockade_lock_service_waiters") return family.metric.at(0).gauge.value;
    }
    return -1;
  }

  MetricsRegistry registry_;
  std::unique_ptr<LockService> locks_;
  TaskQueue queue_;
  const AwaitOn on_ = AwaitOn(queue_);
};

TEST_F(LocksCoroutineTest, AwaitOn_By_HasTheEarlierDeadline) {
  const Instant now = Clock::System()->Now();
  EXPECT_EQ(on_.deadline, Instant::InfiniteFuture());
  EXPECT_EQ(on_.By(now).deadline, now);
  EXPECT_EQ(on_.By(now).By(now + absl::Seconds(1)).deadline, now);
  EXPECT_EQ(&on_.By(now).executor, &queue_);
}

TEST_F(LocksCoroutineTest, Acquired_ItGoesOnByTheExecutorAndHoldsTheLock) {
  LeaseAnswer answer;
  const Routine routine = Acquires(*locks_, on_, answer);
  queue_.AwaitTask();
  EXPECT_FALSE(answer.has_value());
  queue_.RunOne();
  ASSERT_TRUE(answer.has_value() && answer->ok());
  EXPECT_TRUE((*answer)->valid());
  EXPECT_FALSE(locks_->Acquire("a", {.wait = absl::ZeroDuration()}).ok());
}

TEST_F(LocksCoroutineTest, TwoCoroutinesOfOneThread_ExcludeEachOther) {
  LeaseAnswer first, second;
  const Routine one = Acquires(*locks_, on_, first);
  queue_.RunOne();
  const Routine other = Acquires(*locks_, on_, second);
  EXPECT_EQ(queue_.size(), 0);
  first.reset();
  queue_.RunOne();
  EXPECT_TRUE(second->ok());
}

Routine ReentersAndReleases(LockService& locks, AwaitOn on, std::vector<absl::Status>& statuses) {
  const AcquireOptions first = {.wait = absl::Seconds(20)};
  absl::StatusOr<LockLease> outer = co_await AcquireAwait(locks, std::string("a"), first, on);
  statuses.push_back(outer.status());
  AcquireOptions again = {.wait = absl::ZeroDuration()};
  again.owner = outer->owner();
  absl::StatusOr<LockLease> inner = co_await AcquireAwait(locks, "a", again, on);
  statuses.push_back(inner.status());
  const absl::StatusOr<LockLease> stranger = co_await AcquireAwait(locks, "a", absl::ZeroDuration(), on);
  statuses.push_back(stranger.status());
  statuses.push_back(co_await ReleaseAwait(*std::move(inner), on));
  statuses.push_back(co_await ReleaseAwait(*std::move(outer), on));
}

TEST_F(LocksCoroutineTest, Reenters_AsOneOwnerOnly_AndReleases) {
  std::vector<absl::Status> statuses;
  const Routine routine = ReentersAndReleases(*locks_, on_, statuses);
  for (int i = 0; i < 5; ++i) queue_.RunOne();
  ASSERT_EQ(statuses.size(), 5);
  for (const int i : {0, 1, 3, 4}) EXPECT_EQ(statuses[i], absl::OkStatus()) << i;
  EXPECT_TRUE(absl::IsDeadlineExceeded(statuses[2])) << statuses[2];
  EXPECT_TRUE(locks_->Acquire("a", {.wait = absl::ZeroDuration()}).ok());
}

TEST_F(LocksCoroutineTest, StopIsRequested_IsCancelledAtOnceAndWaitsNoMore) {
  std::optional<LockLease> held = Hold();
  std::stop_source stop;
  LeaseAnswer answer;
  const Routine routine = Acquires(*locks_, AwaitOn(queue_, stop.get_token()), answer);
  Await("a place in the queue", [&] { return Waiters() == 1; });
  stop.request_stop();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(answer->status())) << answer->status();
  Await("an empty queue", [&] { return Waiters() == 0; });
  held.reset();
  ExpectFree();
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(LocksCoroutineTest, DeadlinePasses_IsDeadlineExceededAtOnceAndWaitsNoMore) {
  std::optional<LockLease> held = Hold();
  LeaseAnswer answer;
  const Routine routine = Acquires(*locks_, on_.By(Soon()), answer);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer->status())) << answer->status();
  EXPECT_THAT(std::string(answer->status().message()), HasSubstr("AcquireAwait()"));
  Await("an empty queue", [&] { return Waiters() == 0; });
  held.reset();
  ExpectFree();
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(LocksCoroutineTest, TooLateBefore_DoesNotBegin) {
  std::stop_source stop;
  stop.request_stop();
  LeaseAnswer stopped, late;
  const Routine one = Acquires(*locks_, AwaitOn(queue_, stop.get_token()), stopped);
  const Routine other = Acquires(*locks_, on_.By(Clock::System()->Now()), late);
  queue_.RunOne();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(stopped->status())) << stopped->status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->status())) << late->status();
  EXPECT_TRUE(locks_->Acquire("a", {.wait = absl::ZeroDuration()}).ok());
}

// A result that is in the executor's queue is delivered.
TEST_F(LocksCoroutineTest, StoppedAndLateAfterTheGrant_TheLeaseIsDelivered) {
  std::stop_source stop;
  LeaseAnswer answer;
  const Instant deadline = Clock::System()->Now() + absl::Milliseconds(200);
  const Routine routine = Acquires(*locks_, AwaitOn(queue_, stop.get_token(), deadline), answer);
  queue_.AwaitTask();
  stop.request_stop();
  while (Clock::System()->Now() < deadline) std::this_thread::yield();
  queue_.RunOne();
  // The machine may have taken so long that the deadline was first.
  if (!absl::IsDeadlineExceeded(answer->status())) {
    EXPECT_TRUE(answer->ok()) << answer->status();
  }
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(LocksCoroutineTest, StopInOptions_IsRefused) {
  std::stop_source stop;
  const auto acquires = [this](AcquireOptions options, LeaseAnswer& answer) -> Routine {
    answer = co_await AcquireAwait(*locks_, "a", options, on_);
  };
  LeaseAnswer answer;
  AcquireOptions options;
  options.stop = stop.get_token();
  const Routine routine = acquires(options, answer);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsInvalidArgument(answer->status())) << answer->status();
}

TEST_F(LocksCoroutineTest, DestroyedWhileItWaits_LeavesTheQueue) {
  LockLease held = Hold();
  LeaseAnswer answer;
  Routine routine = Acquires(*locks_, on_, answer);
  Await("a place in the queue", [&] { return Waiters() == 1; });
  routine.Destroy();
  Await("an empty queue", [&] { return Waiters() == 0; });
  EXPECT_TRUE(held.Release().ok());
  ExpectFree();
  EXPECT_EQ(queue_.size(), 0);
  EXPECT_FALSE(answer.has_value());
}

// review/parked.cc of the design: a lease in an executor's queue was renewed for ever.
TEST_F(LocksCoroutineTest, DestroyedAfterTheGrant_TheLeaseIsFreeWhileItsTaskIsStillQueued) {
  LeaseAnswer answer;
  Routine routine = Acquires(*locks_, on_, answer);
  queue_.AwaitTask();
  routine.Destroy();
  ExpectFree();
  queue_.RunOne();
  EXPECT_FALSE(answer.has_value());
}

TEST_F(LocksCoroutineTest, ExecutorDropsTheTask_TheLeaseIsFreeAndTheFrameWaits) {
  LeaseAnswer answer;
  Routine routine = Acquires(*locks_, on_, answer);
  queue_.DropOne();
  ExpectFree();
  routine.Destroy();
  FaultyExecutor drops(/*throws=*/false);
  routine = Acquires(*locks_, AwaitOn(drops), answer);
  ExpectFree();
  EXPECT_FALSE(answer.has_value());
}

// Its executor may end with it.
TEST_F(LocksCoroutineTest, DestroyedWhileTheExecutorIsCalled_TheCallHasEndedAfterwards) {
  class SlowExecutor final : public Executor {
   public:
    void Schedule(Task) override {
      entered.count_down();
      go_on.wait();
      returns = true;
    }
    std::latch entered{1}, go_on{1};
    std::atomic<bool> returns = false;
  };
  auto slow = std::make_unique<SlowExecutor>();
  LeaseAnswer answer;
  Routine routine = Acquires(*locks_, AwaitOn(*slow), answer);
  slow->entered.wait();
  std::thread destroys([&] {
    routine.Destroy();
    EXPECT_TRUE(slow->returns);
  });
  Spin(100'000);
  slow->go_on.count_down();
  destroys.join();
  slow.reset();
  ExpectFree();
}

TEST_F(LocksCoroutineTest, ExecutorThrows_ItGoesOnWhereTheAnswerIs) {
  FaultyExecutor throws(/*throws=*/true);
  std::atomic<bool> done = false;
  const auto acquires = [&]() -> Detached {
    const absl::StatusOr<LockLease> lease = co_await AcquireAwait(*locks_, "a", AwaitOn(throws));
    EXPECT_TRUE(lease.ok()) << lease.status();
    done = true;
  };
  acquires();
  Await("the coroutine", [&] { return done.load(); });
}

TEST_F(LocksCoroutineTest, InlineExecutor_GoesOnOnTheServicesThread) {
  InlineExecutor here;
  std::atomic<bool> done = false;
  const auto acquires = [&]() -> Detached {
    for (int i = 0; i < 100; ++i) {
      const absl::StatusOr<LockLease> lease = co_await AcquireAwait(*locks_, "a", AwaitOn(here));
      EXPECT_TRUE(lease.ok()) << lease.status();
    }
    done = true;
  };
  acquires();
  Await("the coroutine", [&] { return done.load(); });
}

// The service's own executor passes the answer on.
TEST_F(LocksCoroutineTest, TheServicesExecutorDropsTheAnswer_ItGoesOnAndNoLeaseIsLeft) {
  FaultyExecutor drops(/*throws=*/false);
  const std::unique_ptr<LockService> locks = LocalLockService::Create({.executor = &drops, .metrics = nullptr}).value();
  LeaseAnswer acquired;
  const Routine acquires = Acquires(*locks, on_, acquired);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsResourceExhausted(acquired->status())) << acquired->status();
  const absl::StatusOr<LockLease> again = locks->Acquire("a", {.wait = absl::Seconds(20), .owner = LockOwner::New()});
  EXPECT_TRUE(again.ok()) << again.status();
  absl::Status released;
  const auto releases = [&]() -> Routine { released = co_await ReleaseAwait(locks->Acquire("b").value(), on_); };
  const Routine routine = releases();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsResourceExhausted(released)) << released;
}

TEST_F(LocksCoroutineTest, DestroyedInAForkedChild_TouchesNothing) {
  LeaseAnswer first, answer;
  const Routine before = Acquires(*locks_, on_, first);  // The service has its threads from here on.
  queue_.RunOne();
  first.reset();
  LockLease held = locks_->Acquire("a", {.wait = absl::Seconds(20), .owner = LockOwner::New()}).value();
  Routine routine = Acquires(*locks_, on_.By(Clock::System()->Now() + absl::Hours(1)), answer);
  EXPECT_EQ(InForkedChild([&] { routine.Destroy(); }), 0);
  EXPECT_TRUE(held.Release().ok());
  queue_.RunOne();
  EXPECT_TRUE(answer->ok()) << answer->status();
}

TEST_F(LocksCoroutineTest, ServiceIsDestroyedWhileItWaits_IsCancelled) {
  LeaseAnswer answer;
  LockLease held = Hold();
  const Routine routine = Acquires(*locks_, on_, answer);
  locks_.reset();
  EXPECT_EQ(queue_.size(), 1);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(answer->status())) << answer->status();
}

TEST_F(LocksCoroutineTest, NeverAwaited_AcquiresNothingAndReleasesALease) {
  LockLease held = Hold();
  {
    [[maybe_unused]] const auto acquires = AcquireAwait(*locks_, "b", on_);
    [[maybe_unused]] const auto releases = ReleaseAwait(std::move(held), on_);
  }
  ExpectFree();
  EXPECT_TRUE(locks_->Acquire("b", {.wait = absl::ZeroDuration()}).ok());
}

TEST_F(LocksCoroutineTest, Release_IgnoresStopAndDeadline_AndTakesPlaceWithoutItsFrame) {
  std::stop_source stop;
  stop.request_stop();
  absl::Status released = absl::UnknownError("");
  const auto releases = [&](LockLease lease) -> Routine {
    released = co_await ReleaseAwait(std::move(lease), AwaitOn(queue_, stop.get_token(), Instant::InfinitePast()));
  };
  const Routine routine = releases(Hold());
  queue_.RunOne();
  EXPECT_EQ(released, absl::OkStatus());
  (void)releases(Hold());  // The frame is destroyed at once.
  ExpectFree();
}

TEST_F(LocksCoroutineTest, EmptyLease_ReleaseSaysSo) {
  absl::Status released;
  const auto releases = [&]() -> Routine { released = co_await ReleaseAwait(LockLease(), on_); };
  const Routine routine = releases();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsFailedPrecondition(released)) << released;
}

TEST_F(LocksCoroutineTest, AwaitTransformMovesIt_Works) {
  std::atomic<bool> done = false;
  ThreadPool pool(2);
  const auto acquires = [&]() -> Detached {
    absl::StatusOr<LockLease> lease = co_await AcquireAwait(*locks_, "a", AwaitOn(pool));
    EXPECT_TRUE(lease.ok()) << lease.status();
    const absl::Status released = co_await ReleaseAwait(*std::move(lease), AwaitOn(pool));
    EXPECT_TRUE(released.ok()) << released;
    done = true;
  };
  acquires();
  Await("the coroutine", [&] { return done.load(); });
}

// At about the moment of the grant, before it or after it. A pool of one thread destroys frames, as it resumes them.
TEST_F(LocksCoroutineTest, FramesAreDestroyedAtAnyTime_NoLeaseIsLeft) {
  std::mt19937 random(Seed());
  const int64_t rounds = Scaled(300, 20'000);
  for (int64_t i = 0; i < rounds; ++i) {
    ThreadPool pool(1);
    std::stop_source stop;
    LeaseAnswer answer;
    std::optional<LockLease> held = Hold();
    const AwaitOn on(pool, stop.get_token(), random() % 4 == 0 ? Soon() : Instant::InfiniteFuture());
    Routine routine = Acquires(*locks_, on, answer);
    std::thread others([&, stops = random() % 3 == 0] {
      held.reset();
      if (stops) stop.request_stop();
    });
    Spin(random() % 300);
    std::latch destroyed(1);
    pool.Schedule([&] {
      routine.Destroy();
      answer.reset();
      destroyed.count_down();
    });
    destroyed.wait();
    others.join();
    ExpectFree();
  }
}

TEST_F(LocksCoroutineTest, ManyCoroutinesOnTwoThreads_OneIsInside) {
  ThreadPool pool(2);
  const auto count = static_cast<int>(Scaled(1'000, 20'000));
  std::atomic<int> inside = 0, most = 0;
  std::latch done(count);
  const auto enters = [&](AwaitOn on) -> Detached {
    absl::StatusOr<LockLease> lease = co_await AcquireAwait(*locks_, "a", on);
    EXPECT_TRUE(lease.ok()) << lease.status();
    most = std::max(most.load(), ++inside);
    --inside;
    const absl::Status released = co_await ReleaseAwait(*std::move(lease), on);
    EXPECT_TRUE(released.ok()) << released;
    done.count_down();
  };
  const AwaitOn on(pool);
  for (int i = 0; i < count; ++i) enters(on);
  done.wait();
  EXPECT_EQ(most, 1);
}

// Its answer is taken only once the test has destroyed the frame.
struct Slow {
  struct promise_type {
    std::coroutine_handle<promise_type>* frame = nullptr;
    Slow get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }

    template <typename Awaitable>
    struct Late : Awaitable {
      explicit Late(Awaitable&& awaitable) : Awaitable(std::move(awaitable)) {}
      Late&& operator co_await() && { return std::move(*this); }
      typename Awaitable::Result await_resume() {
        std::latch never(1);
        Arrived().count_down();
        never.wait();
        return Awaitable::await_resume();
      }
    };
    template <typename Awaitable>
    Late<Awaitable> await_transform(Awaitable&& awaitable) {
      return Late<Awaitable>(std::move(awaitable));
    }
  };
  static std::latch& Arrived() {
    static std::latch& arrived = *new std::latch(1);
    return arrived;
  }
  std::coroutine_handle<promise_type> frame;
};

using LocksCoroutineDeathTest = LocksCoroutineTest;

TEST_F(LocksCoroutineDeathTest, AnotherThreadDestroysAFrameWhileItIsResumed_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto destroy = [this] {
    ThreadPool pool(1);
    const auto acquires = [&]() -> Slow { (void)co_await AcquireAwait(*locks_, "a", AwaitOn(pool)); };
    const Slow slow = acquires();
    Slow::Arrived().wait();
    slow.frame.destroy();
  };
  EXPECT_DEATH(destroy(), "AcquireAwait\\(\\): a coroutine was destroyed while another thread resumes it");
}

TEST_F(LocksCoroutineDeathTest, AwaitedTwice_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto await_twice = [this] {
    const auto acquires = [this]() -> Routine {
      auto once = AcquireAwait(*locks_, "a", on_);
      (void)co_await std::move(once);
      (void)co_await std::move(once);
    };
    const Routine routine = acquires();
    queue_.RunOne();
  };
  EXPECT_DEATH(await_twice(), "awaited twice");
}

}  // namespace
}  // namespace stockade::testing
