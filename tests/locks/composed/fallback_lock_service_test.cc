#include "stockade/locks/fallback_lock_service.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engines/local/circuit.h"
#include "locks/composed/switched_engine.h"
#include "stockade/base/manual_clock.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/await.h"
#include "support/exported.h"

namespace stockade {
namespace {

using testing::Await;

constexpr absl::Duration kTimeout = absl::Milliseconds(50);  // Of the primary.
const AcquireOptions kWithoutWaiting = {.wait = absl::ZeroDuration()};

class FallbackLockServiceTest : public ::testing::Test {
 protected:
  // `pause`: until the primary is asked again.
  std::unique_ptr<LockService> Fallback(absl::Duration pause) {
    auto primary = testing::SwitchedService(primary_, "the primary", {.engine_timeout = kTimeout, .metrics = nullptr});
    return FallbackLockService::Create(std::move(primary),
                                       {.name = "test", .engine_timeout = pause, .metrics = &metrics_})
        .value();
  }
  double Degraded() const {
    return testing::Exported(metrics_, "stockade_lock_service_degraded_acquisitions_total{service=\"test\"}");
  }
  static AcquireOptions ByAnother(absl::Duration wait = absl::ZeroDuration()) {
    return {.wait = wait, .owner = LockOwner::New()};
  }

  testing::EngineSwitch primary_;
  MetricsRegistry metrics_;
};

TEST_F(FallbackLockServiceTest, PrimaryThere_LeaseIsItsOwn) {
  const auto locks = Fallback(absl::Hours(1));
  const LockLease held = locks->Acquire("a").value();
  EXPECT_FALSE(held.degraded());
  EXPECT_TRUE(held.fencing_token().ok());
  EXPECT_EQ(locks->Acquire("a", ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Degraded(), 0);
  EXPECT_EQ(locks->id(), "the primary");
}

using FallbackLockServiceDeathTest = FallbackLockServiceTest;

TEST_F(FallbackLockServiceDeathTest, AcquireAsync_WithoutACallback_Aborts) {
  const auto locks = Fallback(absl::Hours(1));
  EXPECT_DEATH(locks->AcquireAsync("a", {}, nullptr), "FallbackLockService: AcquireAsync\\(\\) was called without");
}

TEST_F(FallbackLockServiceTest, PrimaryAway_LeaseIsLocal_DegradedAndCounted) {
  const auto locks = Fallback(absl::Hours(1));
  primary_.away = true;
  LockLease held = locks->Acquire("a", kWithoutWaiting).value();
  EXPECT_TRUE(held.valid());
  EXPECT_TRUE(held.degraded());
  EXPECT_EQ(held.fencing_token().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Degraded(), 1);
  EXPECT_TRUE(held.Release().ok());
}

TEST_F(FallbackLockServiceTest, PrimaryAway_DegradedLeasesExcludeEachOther) {
  const auto locks = Fallback(absl::Hours(1));
  primary_.away = true;
  LockLease held = locks->Acquire("a").value();
  const LockLease again = locks->Acquire("a").value();
  EXPECT_EQ(again.hold_count(), 2);
  EXPECT_EQ(locks->Acquire("a", ByAnother()).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Degraded(), 2);
}

TEST_F(FallbackLockServiceTest, PrimaryAway_LocalLockIsWaitedFor) {
  const auto locks = Fallback(absl::Hours(1));
  primary_.away = true;
  LockLease held = locks->Acquire("a").value();
  auto waiting = std::async(
      std::launch::async, [&] { return locks->Acquire("a", ByAnother(absl::InfiniteDuration())).value().degraded(); });
  EXPECT_TRUE(held.Release().ok());
  EXPECT_TRUE(waiting.get());
}

TEST_F(FallbackLockServiceTest, PrimaryHasFailed_IsLeftAloneForAPause) {
  const auto locks = Fallback(absl::Hours(1));
  primary_.away = true;
  ASSERT_TRUE(locks->Acquire("a").ok());
  const int tries = primary_.tries;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(locks->Acquire("a").value().degraded());
  EXPECT_EQ(primary_.tries, tries);
}

TEST_F(FallbackLockServiceTest, PrimaryIsBack_IsUsedAgain_AndDegradedLeasesStand) {
  const auto locks = Fallback(absl::Milliseconds(100));
  primary_.away = true;
  LockLease degraded = locks->Acquire("a").value();
  primary_.away = false;
  std::optional<LockLease> held;
  Await("the primary", [&] {
    held = locks->Acquire("a", ByAnother()).value_or(LockLease());
    return held->valid();
  });
  EXPECT_FALSE(held->degraded());
  EXPECT_TRUE(degraded.valid());
  EXPECT_TRUE(degraded.Release().ok());
}

TEST_F(FallbackLockServiceTest, AcquireAsync_PrimaryAway_IsDegraded) {
  const auto locks = Fallback(absl::Hours(1));
  primary_.away = true;
  for (int i = 0; i < 2; ++i) {  // The second does not ask the primary.
    std::promise<bool> degraded;
    locks->AcquireAsync("a", {}, [&](absl::StatusOr<LockLease> held) { degraded.set_value(held.value().degraded()); });
    EXPECT_TRUE(degraded.get_future().get());
  }
  EXPECT_EQ(Degraded(), 2);
}

TEST_F(FallbackLockServiceTest, AcquireAsync_DestroyedInTheWait_IsCancelled) {
  for (const bool away : {false, true}) {  // It waits for the primary's lock, for the local one.
    primary_.away = away;
    auto locks = Fallback(absl::Hours(1));
    const LockLease held = locks->Acquire("a").value();
    std::promise<absl::Status> outcome;
    locks->AcquireAsync("a", {}, [&](absl::StatusOr<LockLease> lease) { outcome.set_value(lease.status()); });
    locks.reset();
    const absl::Status status = outcome.get_future().get();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  }
}

TEST_F(FallbackLockServiceTest, InspectAndForceRelease_AreForBoth) {
  const auto locks = Fallback(absl::Milliseconds(100));
  const LockLease held = locks->Acquire("a").value();
  primary_.away = true;
  const LockLease degraded = locks->Acquire("a").value();
  EXPECT_EQ(locks->Inspect("a").value().owner_holds, 1);
  EXPECT_EQ(locks->ForceRelease("b").status().code(), absl::StatusCode::kUnavailable);
  primary_.away = false;
  EXPECT_EQ(locks->Inspect("a").value().owner_holds, 2);
  EXPECT_TRUE(locks->ForceRelease("a").value());
  EXPECT_FALSE(locks->Inspect("a").value().locked);
  EXPECT_FALSE(locks->ForceRelease("a").value());
}

TEST_F(FallbackLockServiceTest, BadInput_IsRefused) {
  EXPECT_EQ(FallbackLockService::Create(nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FallbackLockService::Create(testing::SwitchedService(primary_, "p"), {.clock_drift = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  primary_.away = true;
  EXPECT_EQ(Fallback(absl::Hours(1))->Acquire("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Degraded(), 0);
}

TEST(CircuitTest, Failed_OneCallerAsksInEachPause) {
  ManualClock clock;
  locks_internal::Circuit circuit(&clock, absl::Seconds(3));
  EXPECT_TRUE(circuit.MayAsk());
  EXPECT_TRUE(circuit.Failed());
  EXPECT_FALSE(circuit.MayAsk());
  clock.Advance(absl::Seconds(3) - absl::Nanoseconds(1));
  EXPECT_FALSE(circuit.MayAsk());
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(circuit.MayAsk());
  EXPECT_FALSE(circuit.MayAsk());
  clock.Advance(absl::Seconds(2));
  EXPECT_FALSE(circuit.Failed());  // No news.
  clock.Advance(absl::Seconds(2));
  EXPECT_FALSE(circuit.MayAsk());  // The pause runs from when it failed.
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(circuit.MayAsk());
}

TEST(CircuitTest, Answered_AllAskAgain) {
  ManualClock clock;
  locks_internal::Circuit circuit(&clock, absl::Seconds(3));
  EXPECT_FALSE(circuit.Answered());
  circuit.Failed();
  EXPECT_TRUE(circuit.Answered());
  EXPECT_TRUE(circuit.MayAsk());
  EXPECT_TRUE(circuit.MayAsk());
}

}  // namespace
}  // namespace stockade
