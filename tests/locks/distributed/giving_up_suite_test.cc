// Case 19: who gives up leaves nothing behind.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

#include "locks/distributed/support/lock_suite.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::IsFree;
using testing::kSlack;
using testing::MustAcquire;
using testing::MustInspect;
using testing::NewOwner;
using testing::Stopwatch;

class GivingUpSuiteTest : public testing::LockSuiteTest {
 protected:
  // Of the lock that `holder` holds and `waiter` has waited for.
  void ExpectNothingLeft(LockService& locks, LockLease& holder, LockOwner waiter) {
    const std::string name(holder.name());
    const LockKind kind = holder.kind();
    EXPECT_EQ(MustInspect(locks, name, waiter).owner_holds, 0) << LockKindName(kind);
    EXPECT_TRUE(holder.Release().ok()) << LockKindName(kind);
    EXPECT_FALSE(MustInspect(locks, name, waiter).locked) << LockKindName(kind);
    EXPECT_TRUE(IsFree(locks, name, kind)) << LockKindName(kind);  // No place in a queue is left either.
  }

  // A stopped acquire may return before its last request has been undone.
  void ExpectNothingLeftSoon(LockService& locks, LockLease& holder, LockOwner waiter) {
    const std::string name(holder.name());
    const LockKind kind = holder.kind();
    if (kind == LockKind::kFair) {
      // Before any other try, because a try removes places that have expired.
      EXPECT_TRUE(HoldsSoon([&] { return deployment_->Queued(name) == 0; }));
      return ExpectNothingLeft(locks, holder, waiter);
    }
    EXPECT_EQ(MustInspect(locks, name, waiter).owner_holds, 0) << LockKindName(kind);
    EXPECT_TRUE(holder.Release().ok()) << LockKindName(kind);
    EXPECT_TRUE(HoldsSoon([&] { return !MustInspect(locks, name, waiter).locked; })) << LockKindName(kind);
    EXPECT_TRUE(HoldsSoon([&] { return IsFree(locks, name, kind); })) << LockKindName(kind);
  }

  // Waits for less than kLongLease, after which even an abandoned hold expires.
  template <typename Predicate>
  static bool HoldsSoon(Predicate holds) {
    const Stopwatch watch;
    while (!holds()) {
      if (watch.elapsed() > kSlack) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
};

INSTANTIATE_TEST_SUITE_P(Locks, GivingUpSuiteTest, ::testing::ValuesIn(testing::LockSetups()), testing::LockSetupName);

TEST_P(GivingUpSuiteTest, Wait_IsOver_LeavesNothing) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    LockLease holder = MustAcquire(*mine, NewName(), {.kind = kind});
    const LockOwner waiter = LockOwner::New();
    EXPECT_EQ(others->Acquire(holder.name(), {.kind = kind, .wait = absl::Milliseconds(200), .owner = waiter})
                  .status()
                  .code(),
              absl::StatusCode::kDeadlineExceeded);
    ExpectNothingLeft(*others, holder, waiter);
  }
}

TEST_P(GivingUpSuiteTest, Stop_RequestedWhileWaiting_IsCancelledSoonAndLeavesNothing) {
  const auto mine = NewClient();
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    LockLease holder = MustAcquire(*mine, NewName(), {.kind = kind});
    const LockOwner waiter = LockOwner::New();
    std::stop_source stop;
    std::future<absl::Status> waiting = std::async(std::launch::async, [&] {
      return others->Acquire(holder.name(), {.kind = kind, .owner = waiter, .stop = stop.get_token()}).status();
    });
    // So that it waits, where that can be seen.
    if (kind == LockKind::kFair) {
      testing::Await("a place in the queue", [&] { return deployment_->Queued(std::string(holder.name())) == 1; });
    }
    const Stopwatch watch;
    stop.request_stop();
    EXPECT_EQ(waiting.get().code(), absl::StatusCode::kCancelled) << LockKindName(kind);
    EXPECT_LT(watch.elapsed(), kSlack) << LockKindName(kind);
    ExpectNothingLeftSoon(*others, holder, waiter);
  }
}

TEST_P(GivingUpSuiteTest, Stop_RequestedBefore_IsCancelled) {
  const auto locks = NewClient();
  const std::string name = NewName();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(locks->Acquire(name, {.stop = stop.get_token()}).status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(MustInspect(*locks, name).locked);
}

TEST_P(GivingUpSuiteTest, Service_DestroyedWhileSomebodyWaits_CancelsAndLeavesNothing) {
  const auto mine = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    LockLease holder = MustAcquire(*mine, NewName(), {.kind = kind});
    auto others = NewClient();
    std::promise<absl::Status> ended;
    others->AcquireAsync(holder.name(), {.kind = kind},
                         [&](absl::StatusOr<LockLease> lease) { ended.set_value(lease.status()); });
    if (kind == LockKind::kFair) {
      testing::Await("a place in the queue", [&] { return deployment_->Queued(std::string(holder.name())) == 1; });
    }
    others.reset();
    EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kCancelled) << LockKindName(kind);
    ExpectNothingLeft(*mine, holder, LockOwner::New());
  }
}

// At every moment of an acquire: before it is sent, on its way, while it waits, once it is held.
TEST_P(GivingUpSuiteTest, Stop_AtRandomMoments_LeavesNothingThatIsRenewed) {
  const auto locks = NewClient(testing::kKeptLease);
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    const int64_t rounds = testing::Scaled(50, 1'000);
    std::atomic<int64_t> entered = 0;
    testing::RunThreads(4, [&](int thread) {
      std::mt19937_64 random(testing::Seed() + static_cast<uint64_t>(thread));
      for (int64_t i = 0; i < rounds; ++i) {
        std::stop_source stop;
        const std::jthread stopper([&stop, yields = random() % 100] {
          for (uint64_t yielded = 0; yielded < yields; ++yielded) std::this_thread::yield();
          stop.request_stop();
        });
        const absl::StatusOr<LockLease> lease =
            locks->Acquire(name, NewOwner({.kind = kind, .stop = stop.get_token()}));
        if (lease.ok()) ++entered;
        EXPECT_TRUE(lease.ok() || absl::IsCancelled(lease.status())) << lease.status();
      }
    });
    const Stopwatch watch;
    LockLease last = MustAcquire(*locks, name, {.kind = kind});
    EXPECT_LT(watch.elapsed(), testing::kKeptLease + kSlack) << LockKindName(kind);
    EXPECT_EQ(last.hold_count(), 1) << LockKindName(kind) << ", after " << entered << " had entered";
    EXPECT_TRUE(last.Release().ok());
    EXPECT_TRUE(HoldsSoon([&] { return !MustInspect(*locks, name).locked; })) << LockKindName(kind);
  }
}

}  // namespace
}  // namespace stockade
