#include "interop_test.h"

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "stockade/base/strings.h"
#include "stockade/locks/redis_lock_service.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

struct World {
  std::unique_ptr<RedisDeployment> servers;
  std::unique_ptr<JavaLocks> java;
  std::unique_ptr<LockService> ours;
};

// Starting one takes longer than most tests. Ended with the program's tests, and not after main().
class Worlds : public ::testing::Environment {
 public:
  void TearDown() override { by_setup_.clear(); }
  World& operator[](RedisSetup setup) { return by_setup_[setup]; }

 private:
  std::map<RedisSetup, World> by_setup_;
};

// One that is added while tests run would not be torn down.
Worlds& worlds = *static_cast<Worlds*>(::testing::AddGlobalTestEnvironment(new Worlds));

// Names of keys have the lock's name in braces, unless it has some itself.
std::string Prefixed(const std::string& prefix, const std::string& name) {
  return name.find('{') == std::string::npos ? prefix + ":{" + name + "}" : prefix + ":" + name;
}

absl::StatusOr<std::unique_ptr<LockService>> ConnectOurs(const RedisDeployment& servers,
                                                         absl::Duration watchdog_lease) {
  // Tokens are shared with RFencedLock, which counts on from whatever it finds: from 1, had the key expired.
  return RedisLockService::Connect(servers.url(), {.service = {.watchdog_lease = watchdog_lease, .metrics = nullptr},
                                                   .token_retention = absl::InfiniteDuration()});
}

void AwaitFor(absl::Duration limit, const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(limit);
  while (!holds() && std::chrono::steady_clock::now() < deadline) absl::SleepFor(absl::Milliseconds(2));
}

}  // namespace

std::vector<RedisSetup> InteropSetups() {
  std::vector<RedisSetup> setups = RedisSetups();
  std::erase(setups, RedisSetup::kSentinel);
  return setups;
}

void InteropTest::SetUp() {
  STOCKADE_NEEDS_REDIS();
  const absl::StatusOr<std::string> driver = JavaLocks::FindDriver();
  if (!driver.ok()) {
    // A registry that does not answer is no failure of the test.
    const bool could_be_built = InPath("java") && InPath("javac") && InPath("mvn") &&
                                !absl::StrContains(driver.status().message(), "could not be fetched");
    if (getenv("CI") != nullptr && could_be_built) FAIL() << "no driver, in CI: " << driver.status();
    GTEST_SKIP() << "Redisson cannot be run: " << driver.status().message();
  }
  World& world = worlds[setup()];
  if (world.servers == nullptr) world.servers = std::make_unique<RedisDeployment>(setup());
  if (world.java == nullptr) {
    absl::StatusOr<std::unique_ptr<JavaLocks>> java = JavaLocks::Start(*driver, world.servers->url());
    ASSERT_TRUE(java.ok()) << java.status();
    world.java = *std::move(java);
  }
  if (world.ours == nullptr) {
    absl::StatusOr<std::unique_ptr<LockService>> ours =
        ConnectOurs(*world.servers, LockServiceOptions().watchdog_lease);
    ASSERT_TRUE(ours.ok()) << ours.status();
    world.ours = *std::move(ours);
  }
  servers_ = world.servers.get();
  java_ = world.java.get();
  ours_ = world.ours.get();
}

std::string InteropTest::NewName() {
  static std::atomic<int> names = 0;
  return base_internal::Concat(::testing::UnitTest::GetInstance()->current_test_info()->name(), "#", ++names);
}

std::unique_ptr<LockService> InteropTest::Connect(absl::Duration watchdog_lease) const {
  absl::StatusOr<std::unique_ptr<LockService>> service = ConnectOurs(*servers_, watchdog_lease);
  EXPECT_TRUE(service.ok()) << service.status();
  return service.ok() ? *std::move(service) : nullptr;
}

InteropTest::Pending InteropTest::Begin(const std::string& name, LockKind kind) const {
  return std::async(std::launch::async, [ours = ours_, name, kind] {
    return ours->Acquire(name, {.kind = kind, .wait = absl::Minutes(1), .owner = LockOwner::New()});
  });
}

bool InteropTest::Ended(const Pending& pending) {
  return pending.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

LockLease InteropTest::Entered(Pending& pending) {
  AwaitFor(kByMessage, [&] { return Ended(pending); });
  EXPECT_TRUE(Ended(pending)) << "ours was not woken";
  absl::StatusOr<LockLease> lease = pending.get();
  EXPECT_TRUE(lease.ok()) << lease.status();
  return lease.ok() ? *std::move(lease) : LockLease();
}

std::string InteropTest::AwaitEnd(const std::string& java_owner) const {
  AwaitFor(kByMessage, [&] { return java_->Ended(java_owner); });
  EXPECT_TRUE(java_->Ended(java_owner)) << "Java's was not woken";
  return java_->End(java_owner);
}

void InteropTest::AwaitWaiters(const std::string& name, LockKind kind, int64_t count) const {
  const bool sharded = servers_->cluster() != nullptr;
  Await("those who wait for " + name, [&] {
    if (kind == LockKind::kFair) {
      return servers_->Call(name, {"LLEN", Prefixed("redisson_lock_queue", name)}) == std::to_string(count);
    }
    const std::string channel = ChannelOf(name, kind);
    const RawReply subscribers = servers_->Call(name, {"PUBSUB", sharded ? "SHARDNUMSUB" : "NUMSUB", channel});
    return subscribers.ValueOf(channel) == std::to_string(count);
  });
}

void InteropTest::AwaitJavaWaits(const std::string& owner) const {
  Await("Java's " + owner + " to wait", [&] { return java_->Waits(owner); });
}

std::string InteropTest::ChannelOf(const std::string& name, LockKind kind) {
  const bool read_write = kind == LockKind::kRead || kind == LockKind::kWrite;
  return Prefixed(read_write ? "redisson_rwlock" : "redisson_lock__channel", name);
}

std::vector<int64_t> InteropTest::Counts(const std::string& name) const {
  const RawReply hash = servers_->Call(name, {"HGETALL", name});
  std::vector<int64_t> counts;
  for (size_t i = 0; i + 1 < hash.items.size(); i += 2) {
    if (hash.items[i] == "mode") continue;
    int64_t count = -1;
    EXPECT_TRUE(absl::SimpleAtoi(hash.items[i + 1].text, &count)) << hash;
    counts.push_back(count);
  }
  std::sort(counts.rbegin(), counts.rend());
  return counts;
}

}  // namespace stockade::testing
