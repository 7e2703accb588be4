// Case 23: several locks held together.
#include "stockade/locks/acquire_all.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "locks/composed/switched_engine.h"
#include "stockade/base/manual_clock.h"
#include "stockade/locks/local_lock_service.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Await;
using testing::EngineSwitch;
using testing::SwitchedService;

using Names = std::vector<std::string>;

const AcquireOptions kAtOnce = {.wait = absl::ZeroDuration()};

std::unique_ptr<LockService> Local(absl::Duration watchdog_lease = absl::Seconds(30)) {
  return LocalLockService::Create({.watchdog_lease = watchdog_lease, .metrics = nullptr}).value();
}

bool Locked(LockService& service, const std::string& name) { return service.Inspect(name).value().locked; }

LockLease HeldByAnother(LockService& service, const std::string& name, absl::Duration lease = absl::ZeroDuration()) {
  return service.Acquire(name, {.lease = lease, .owner = LockOwner::New()}).value();
}

TEST(AcquireAllTest, Release_SeveralServices_IsOneCallForEach_TheLastLockFirst) {
  EngineSwitch one;
  EngineSwitch two;
  const auto first = SwitchedService(one, "engine 1");
  const auto second = SwitchedService(two, "engine 2");
  const LockTarget targets[] = {{first.get(), "a"}, {second.get(), "d"}, {first.get(), "b"}, {second.get(), "c"}};
  LockLeases held = AcquireAll(targets).value();
  EXPECT_TRUE(held.Release().ok());
  EXPECT_EQ(one.releases, (std::vector<Names>{{"b", "a"}}));
  EXPECT_EQ(two.releases, (std::vector<Names>{{"d", "c"}}));
}

TEST(AcquireAllTest, Release_OneLockTwice_IsOneCallForEach) {
  EngineSwitch engine;
  const auto service = SwitchedService(engine, "engine");
  std::vector<LockLease> leases;
  for (const char* name : {"a", "b", "a"}) leases.push_back(service->Acquire(name).value());
  leases.push_back(LockLease());
  LockLeases held(std::move(leases));
  EXPECT_EQ(held.Release().code(), absl::StatusCode::kFailedPrecondition) << "one is empty";
  // A step of a lock is sent when the one before it is answered.
  EXPECT_EQ(engine.releases, (std::vector<Names>{{"a", "b"}, {"a"}}));
  EXPECT_FALSE(Locked(*service, "a"));
}

TEST(AcquireAllTest, SeveralNames_AreHeldInTheirOrder_UntilReleased) {
  const auto locks = Local();
  LockLeases held = AcquireAll(*locks, Names{"c", "a", "b"}).value();
  EXPECT_TRUE(held.valid());
  ASSERT_EQ(held.leases().size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(held.leases()[i].name(), std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(held.leases()[i].owner(), LockOwner::ThisThread());
  }
  EXPECT_TRUE(held.Release().ok());
  EXPECT_FALSE(held.valid());
  for (const char* name : {"a", "b", "c"}) EXPECT_FALSE(Locked(*locks, name)) << name;
  EXPECT_EQ(held.Release().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(AcquireAllTest, DuplicateTargets_AreAcquiredOnce) {
  EngineSwitch control;
  const auto locks = SwitchedService(control, "one");
  const auto same_locks = SwitchedService(control, "one");
  const std::array<LockTarget, 3> targets = {{{locks.get(), "b"}, {locks.get(), "a"}, {same_locks.get(), "b"}}};
  const LockLeases held = AcquireAll(targets).value();
  ASSERT_EQ(held.leases().size(), 2);
  for (const LockLease& lease : held.leases()) EXPECT_EQ(lease.hold_count(), 1) << lease.name();
}

TEST(AcquireAllTest, DestroyedLeases_AreReleased) {
  const auto locks = Local();
  { const LockLeases held = AcquireAll(*locks, Names{"a", "b"}).value(); }
  EXPECT_FALSE(Locked(*locks, "a"));
  EXPECT_FALSE(Locked(*locks, "b"));
}

TEST(AcquireAllTest, OneIsHeldByAnother_NothingIsHeld_AndItIsNamed) {
  const auto locks = Local();
  const LockLease other = HeldByAnother(*locks, "b\n");
  const absl::Status status = AcquireAll(*locks, Names{"a", "b\n", "c"}, kAtOnce).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("\"b\\n\""), std::string::npos) << status;
  EXPECT_FALSE(Locked(*locks, "a"));
  EXPECT_FALSE(Locked(*locks, "c"));
  EXPECT_TRUE(other.valid());
}

TEST(AcquireAllTest, OneServiceAway_IsUnavailable_AndNothingIsHeld) {
  EngineSwitch up, down;
  const auto first = SwitchedService(up, "a");
  const auto second = SwitchedService(down, "b", {.engine_timeout = absl::Milliseconds(50)});
  down.away = true;
  const std::array<LockTarget, 2> targets = {{{second.get(), "x"}, {first.get(), "x"}}};
  const absl::Status status = AcquireAll(targets).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("\"x\" of b"), std::string::npos) << status;
  EXPECT_EQ(up.tries, 1);
  EXPECT_FALSE(Locked(*first, "x"));
}

TEST(AcquireAllTest, NoTargetsOrNoService_IsInvalid) {
  const auto locks = Local();
  EXPECT_EQ(AcquireAll(*locks, Names{}).status().code(), absl::StatusCode::kInvalidArgument);
  const std::array<LockTarget, 2> targets = {{{locks.get(), "a"}, {nullptr, "b"}}};
  const absl::Status status = AcquireAll(targets).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("\"b\""), std::string::npos) << status;
  EXPECT_FALSE(Locked(*locks, "a"));
}

TEST(AcquireAllTest, OfNothing_IsNotValid) {
  LockLeases none;
  EXPECT_FALSE(none.valid());
  EXPECT_FALSE(none.lost().stop_possible());
  EXPECT_TRUE(none.leases().empty());
  EXPECT_EQ(none.Release().code(), absl::StatusCode::kFailedPrecondition);
}

// A thread that wanted them in its own order would wait for one that has them in another: the test would not end.
TEST(AcquireAllTest, CallersInAllOrders_NeverWaitInACircle) {
  EngineSwitch control;
  const std::unique_ptr<LockService> services[] = {SwitchedService(control, "one"), SwitchedService(control, "two")};
  const int64_t rounds = testing::Scaled(300, 10'000);
  int64_t counter = 0;  // Guarded by any of the locks.
  testing::RunThreads(4, [&](int thread) {
    std::mt19937_64 random(testing::Seed() + static_cast<uint64_t>(thread));
    std::vector<LockTarget> targets;
    for (const auto& service : services) {
      for (const char* name : {"a", "b"}) targets.push_back({service.get(), name});
    }
    for (int64_t i = 0; i < rounds; ++i) {
      std::shuffle(targets.begin(), targets.end(), random);
      absl::StatusOr<LockLeases> held = AcquireAll(targets);
      ASSERT_TRUE(held.ok()) << held.status();
      ++counter;
      EXPECT_TRUE(held->Release().ok());
    }
  });
  EXPECT_EQ(counter, 4 * rounds);
}

TEST(AcquireAllTest, StopRequestedInTheWait_IsCancelled_AndNothingIsHeld) {
  const auto locks = Local();
  const LockLease other = HeldByAnother(*locks, "b");
  std::stop_source stop;
  auto status = std::async(std::launch::async, [&] {
    return AcquireAll(*locks, Names{"a", "b"}, {.stop = stop.get_token()}).status();
  });
  Await("the first lock", [&] { return Locked(*locks, "a"); });
  stop.request_stop();
  EXPECT_EQ(status.get().code(), absl::StatusCode::kCancelled);
  Await("the first lock to be free", [&] { return !Locked(*locks, "a"); });
}

// Passes calls on, and notes how long they may wait.
class NotingService final : public LockService {
 public:
  explicit NotingService(LockService& to) : to_(to) {}
  absl::StatusOr<LockLease> Acquire(std::string_view name, AcquireOptions options) override {
    waits.push_back(options.wait);
    return to_.Acquire(name, std::move(options));
  }
  void AcquireAsync(std::string_view name, AcquireOptions options, Callback done) override {
    to_.AcquireAsync(name, std::move(options), std::move(done));
  }
  absl::StatusOr<LockState> Inspect(std::string_view name, LockOwner owner) override {
    return to_.Inspect(name, owner);
  }
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name) override {
    return to_.ForceRelease(name);
  }
  absl::Status ReleaseAll(Duration timeout) override { return to_.ReleaseAll(timeout); }
  std::string_view id() const override { return to_.id(); }

  std::vector<absl::Duration> waits;

 private:
  LockService& to_;
};

TEST(AcquireAllTest, Wait_IsForAllTogether) {
  const auto locks = Local();
  NotingService noting(*locks);
  const LockLeases held = AcquireAll(noting, Names{"a", "b", "c"}, {.wait = absl::Seconds(60)}).value();
  ASSERT_EQ(noting.waits.size(), 3);
  EXPECT_EQ(noting.waits[0], absl::Seconds(60));
  EXPECT_LT(noting.waits[1], noting.waits[0]);
  EXPECT_LT(noting.waits[2], noting.waits[1]);
}

TEST(AcquireAllTest, LeaseIsOverBeforeTheLastIsHeld_IsRefused_AndNothingIsHeld) {
  const auto locks = Local();
  const LockLease other = HeldByAnother(*locks, "b", absl::Milliseconds(1500));
  const absl::Status status = AcquireAll(*locks, Names{"a", "b"}, {.lease = absl::Milliseconds(500)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("\"a\""), std::string::npos) << status;
  EXPECT_FALSE(Locked(*locks, "a"));
  EXPECT_FALSE(Locked(*locks, "b"));
}

class AcquireAllLostTest : public ::testing::Test {
 protected:
  // The holder is notified at the next renewal, which is due then.
  void Lose(const char* name) {
    ASSERT_TRUE(locks_->ForceRelease(name).value());
    clock_.Advance(kLease / 2);
  }
  static void AwaitLost(const std::stop_token& lost) {
    Await("the loss", [&] { return lost.stop_requested(); });
  }

  static constexpr absl::Duration kLease = absl::Seconds(30);
  ManualClock clock_;
  std::unique_ptr<LockService> locks_ =
      LocalLockService::Create({.watchdog_lease = kLease, .clock = &clock_, .metrics = nullptr}).value();
};

TEST_F(AcquireAllLostTest, OneIsLost_AllAreNotValid_AndTheOthersAreReleased) {
  LockLeases held = AcquireAll(*locks_, Names{"a", "b", "c"}).value();
  EXPECT_FALSE(held.lost().stop_requested());
  Lose("b");
  AwaitLost(held.lost());
  EXPECT_FALSE(held.valid());
  EXPECT_TRUE(held.leases()[0].valid());
  EXPECT_EQ(held.Release().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Locked(*locks_, "a"));
  EXPECT_FALSE(Locked(*locks_, "c"));
}

TEST_F(AcquireAllLostTest, Moved_StillTells) {
  LockLeases held = AcquireAll(*locks_, Names{"a", "b"}).value();
  const std::stop_token lost = held.lost();
  LockLeases moved = AcquireAll(*locks_, Names{"c"}).value();
  moved = std::move(held);
  EXPECT_FALSE(Locked(*locks_, "c"));
  Lose("a");
  AwaitLost(lost);
  EXPECT_FALSE(moved.valid());
}

TEST_F(AcquireAllLostTest, BothLost_IsTold) {
  const LockLeases held = AcquireAll(*locks_, Names{"a", "b"}).value();
  std::atomic<int> told = 0;
  const std::stop_callback callback(held.lost(), [&] { ++told; });
  Lose("a");
  Lose("b");
  Await("both losses", [&] { return !held.leases()[0].valid() && !held.leases()[1].valid(); });
  AwaitLost(held.lost());
  Await("the callback", [&] { return told == 1; });
}

TEST_F(AcquireAllLostTest, DestroyedByItsCallback_IsGone) {
  auto held = std::make_optional(AcquireAll(*locks_, Names{"a", "b"}).value());
  const std::stop_token lost = held->lost();
  std::promise<void> destroyed;
  const std::stop_callback callback(lost, [&] {
    held.reset();
    destroyed.set_value();
  });
  Lose("a");
  destroyed.get_future().wait();
  EXPECT_FALSE(Locked(*locks_, "b"));
}

// A callback that ran after Release() would use what the test has destroyed by then.
TEST_F(AcquireAllLostTest, ReleasedWhileItIsLost_NoCallbackRunsAfterwards) {
  for (int64_t i = 0; i < testing::Scaled(20, 200); ++i) {
    LockLeases held = AcquireAll(*locks_, Names{"a", "b"}).value();
    auto alive = std::make_unique<std::atomic<int>>(0);
    const std::stop_callback callback(held.lost(), [told = alive.get()] { ++*told; });
    Lose("a");
    if (i % 2 == 0) Await("the loss", [&] { return !held.leases()[0].valid(); });
    (void)held.Release();
    alive.reset();
  }
}

}  // namespace
}  // namespace stockade
