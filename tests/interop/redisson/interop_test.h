#ifndef STOCKADE_TESTS_INTEROP_REDISSON_INTEROP_TEST_H_
#define STOCKADE_TESTS_INTEROP_REDISSON_INTEROP_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "java_locks.h"
#include "redis/support/redis_deployment.h"
#include "stockade/locks/lock_service.h"

namespace stockade::testing {

// One server, or a cluster: for ValuesIn().
std::vector<RedisSetup> InteropSetups();

// A waiter is woken by a message long before this time has passed. Without a message it would wait for the lease of the
// owner before it, which is 30 s long on both sides, and so for longer than this.
inline constexpr absl::Duration kByMessage = absl::Seconds(15);
// For holds with a short lease that expire by themselves.
inline constexpr absl::Duration kShortLease = absl::Milliseconds(500);

// Servers with a JVM and a service of ours before them, which all tests of a set-up share: names are each test's own.
class InteropTest : public ::testing::Test {
 protected:
  using Pending = std::future<absl::StatusOr<LockLease>>;

  virtual RedisSetup setup() const = 0;

  // Skips, or fails in CI, where there is no server or no driver.
  void SetUp() override;

  // A lock's name that no other test has. In a cluster they are on all masters.
  static std::string NewName();

  // A service of ours beside the shared one: another client.
  std::unique_ptr<LockService> Connect(absl::Duration watchdog_lease) const;

  // An acquire of ours by a new owner, which may have to wait; it gives up after a minute.
  Pending Begin(const std::string& name, LockKind kind) const;
  static bool Ended(const Pending& pending);
  // Its end, which is awaited for kByMessage; a failure where it does not come, or is no lease.
  static LockLease Entered(Pending& pending);
  // The same of what an owner in Java has begun: its answer.
  std::string AwaitEnd(const std::string& java_owner) const;

  // Blocks until so many clients wait for the lock, ours and the JVM one each. kFair: so many owners.
  void AwaitWaiters(const std::string& name, LockKind kind, int64_t count) const;

  // The same of an owner in Java.
  void AwaitJavaWaits(const std::string& owner) const;

  // The channel on which a release is published. For a fair lock it is a prefix, followed by a holder.
  static std::string ChannelOf(const std::string& name, LockKind kind);
  // The holders' counts in the lock's hash, the largest first. A reader's and a writer's mode is no count.
  std::vector<int64_t> Counts(const std::string& name) const;

  RedisDeployment* servers_ = nullptr;
  JavaLocks* java_ = nullptr;
  LockService* ours_ = nullptr;
};

// Tests that differ in nothing but the set-up.
class SetupInteropTest : public InteropTest, public ::testing::WithParamInterface<RedisSetup> {
 protected:
  RedisSetup setup() const override { return GetParam(); }
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INTEROP_REDISSON_INTEROP_TEST_H_
