#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_SUITE_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_SUITE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "locks/distributed/support/agent_process.h"
#include "locks/distributed/support/lock_deployment.h"
#include "mysql/support/mariadb_server.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/locks/lock_service.h"
#include "support/scale.h"
#include "zookeeper/support/zookeeper_server.h"

namespace stockade::testing {

// For a lease that the test lets expire.
inline constexpr absl::Duration kShortLease = kSanitized ? absl::Seconds(2) : absl::Milliseconds(600);
// For a lease that must not expire, though the machine may be busy for two thirds of it.
inline constexpr absl::Duration kKeptLease = absl::Seconds(3);
// Longer than anything here takes.
inline constexpr absl::Duration kLongLease = absl::Seconds(60);
// How long a call that must succeed may take.
inline constexpr absl::Duration kPatience = absl::Seconds(30);
// By how much a busy machine may be late. Shorter than kPatience and kLongLease, so that a test that adds it to a
// time-out still tells a call that ended from one that waited. How soon calls end is measured in bench/.
inline constexpr absl::Duration kSlack = absl::Seconds(20);

class Stopwatch {
 public:
  absl::Duration elapsed() const { return Clock::System()->Now() - began_; }

 private:
  Instant began_ = Clock::System()->Now();
};

// Nobody but the calling code holds by it.
inline AcquireOptions NewOwner(AcquireOptions options) {
  options.owner = LockOwner::New();
  return options;
}

// The lease, or one of nothing and a failure that says why.
inline LockLease MustAcquire(LockService& locks, const std::string& name, AcquireOptions options = {}) {
  if (options.wait == absl::InfiniteDuration()) options.wait = kPatience;
  absl::StatusOr<LockLease> lease = locks.Acquire(name, options);
  // A busy machine may delay the answer for longer than a short lease. No other error is forgiven.
  const auto was_late = [&] {
    return std::string(lease.status().message()).find("took longer to answer than the lease") != std::string::npos;
  };
  for (int attempt = 0; attempt < 20 && was_late(); ++attempt) lease = locks.Acquire(name, options);
  EXPECT_TRUE(lease.ok()) << name << ": " << lease.status();
  return lease.ok() ? *std::move(lease) : LockLease();
}

// The same with a service that gives up sooner than a busy machine may answer.
inline LockLease MustAcquirePatiently(LockService& locks, const std::string& name, AcquireOptions options = {}) {
  if (options.wait == absl::InfiniteDuration()) options.wait = kPatience;
  const Stopwatch watch;
  absl::StatusOr<LockLease> lease;
  do {
    lease = locks.Acquire(name, options);
  } while (absl::IsUnavailable(lease.status()) && watch.elapsed() < kPatience);
  EXPECT_TRUE(lease.ok()) << name << ": " << lease.status();
  return lease.ok() ? *std::move(lease) : LockLease();
}

inline LockState MustInspect(LockService& locks, const std::string& name, LockOwner owner = LockOwner::ThisThread()) {
  // A server that has just come back, or a busy machine, may leave one call unanswered.
  const Stopwatch watch;
  absl::StatusOr<LockState> state;
  do {
    state = locks.Inspect(name, owner);
  } while (absl::IsUnavailable(state.status()) && watch.elapsed() < kPatience);
  EXPECT_TRUE(state.ok()) << name << ": " << state.status();
  return state.value_or(LockState{});
}

// Whether somebody new could have it now. Leaves it free if so.
inline bool IsFree(LockService& locks, const std::string& name, LockKind kind) {
  absl::StatusOr<LockLease> lease = locks.Acquire(name, NewOwner({.kind = kind, .wait = absl::ZeroDuration()}));
  EXPECT_TRUE(lease.ok() || absl::IsDeadlineExceeded(lease.status())) << lease.status();
  return lease.ok();
}

// Skips or fails the test where the set-up's servers are not installed.
inline void NeedServersOf(LockSetup setup) {
  switch (setup) {
    case LockSetup::kLocal: return;
    case LockSetup::kZooKeeper: {
      STOCKADE_NEEDS_ZOOKEEPER();
      return;
    }
    case LockSetup::kMySql: {
      STOCKADE_NEEDS_MARIADB();
      return;
    }
    default: STOCKADE_NEEDS_REDIS();
  }
}

// What holds on each set-up that it is given. Each test has a name of its own to lock.
class LockSuiteTest : public ::testing::TestWithParam<LockSetup> {
 protected:
  void SetUp() override {
    NeedServersOf(GetParam());
    if (!IsSkipped() && !HasFatalFailure()) deployment_ = &DeploymentOf(GetParam());
  }

  std::unique_ptr<LockService> NewClient(absl::Duration watchdog_lease = kLongLease) {
    return deployment_->NewClient({.watchdog_lease = watchdog_lease, .engine_timeout = kPatience});
  }

  // What the set-up has.
  std::vector<LockKind> Kinds() const { return deployment_->kinds(); }
  std::vector<LockKind> ExclusiveKinds() const {
    std::vector<LockKind> kinds = Kinds();
    std::erase(kinds, LockKind::kRead);
    return kinds;
  }
  bool HasTokens() const { return deployment_->has_tokens(); }

  // Another one for each call and each repetition.
  static std::string NewName() {
    static int names = 0;
    const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    return base_internal::Concat(test->name(), "#", ++names);
  }

  LockDeployment* deployment_ = nullptr;
};

// The same with servers, which may fail, and other processes.
class ServerLockSuiteTest : public LockSuiteTest {
 protected:
  void SetUp() override {
    LockSuiteTest::SetUp();
    if (deployment_ != nullptr) servers_ = &ServersOf(GetParam());
  }

  std::unique_ptr<AgentProcess> NewAgent(absl::Duration watchdog_lease = kLongLease,
                                         absl::Duration clock_skew = absl::ZeroDuration()) {
    return std::make_unique<AgentProcess>(servers_->url(), watchdog_lease, clock_skew);
  }

  ServerDeployment* servers_ = nullptr;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_SUITE_H_
