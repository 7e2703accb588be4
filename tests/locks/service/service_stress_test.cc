// Threads that acquire, re-enter, lose and release, over a network that loses steps, while time passes: no two owners
// ever hold valid leases that exclude each other, and nothing is left.
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "locks/service/service_fixture.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Fault;
using testing::RunThreads;
using testing::Scaled;
using testing::Seed;

constexpr int kThreads = 4;
constexpr int kNames = 3;

// Every lease that is held, and whether it is valid at the same moment as another that it excludes.
class Witness {
 public:
  // Both valid: the other one was when it was looked at, and `lease`, which is only looked at then, was acquired before
  // and is valid yet.
  void Acquired(const LockLease& lease) {
    const std::lock_guard lock(mutex_);
    for (const LockLease* const other : leases_[std::string(lease.name())]) {
      const bool shared = lease.kind() == LockKind::kRead && other->kind() == LockKind::kRead;
      if (!shared && other->owner() != lease.owner() && other->valid()) {
        EXPECT_FALSE(lease.valid()) << lease.name() << " is held twice";
      }
    }
    leases_[std::string(lease.name())].push_back(&lease);
  }
  void BeforeRelease(const LockLease& lease) {
    const std::lock_guard lock(mutex_);
    std::erase(leases_[std::string(lease.name())], &lease);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<const LockLease*>> leases_;
};

class ServiceStressTest : public testing::ServiceTest {};

TEST_F(ServiceStressTest, LossyNetworkAndPassingTime_NoTwoHoldersAndNothingLeft) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("STOCKADE_TEST_SEED=" + std::to_string(seed));
  const int64_t rounds = Scaled(20'000, 500'000);
  std::unique_ptr<LockService> services[] = {std::move(service_), NewService()};

  // Under FlakyWorld::mutex.
  std::mt19937_64 dice(seed);
  const auto fault = [&dice](const auto&) {
    const uint64_t roll = dice() % 40;
    return roll < 4 ? static_cast<Fault>(roll) : Fault::kNone;
  };
  world_->on_try = fault;
  world_->on_release = fault;
  world_->on_renewal = fault;

  Witness witness;
  std::atomic<int> running = kThreads;
  std::atomic<int64_t> acquired = 0;
  std::atomic<int64_t> lost = 0;
  RunThreads(kThreads + 1, [&](int thread) {
    if (thread == kThreads) {
      std::mt19937_64 spans(seed + kThreads);
      while (running > 0) {
        clock_.Advance(absl::Microseconds(spans() % 4000));
        std::this_thread::yield();
      }
      return;
    }
    std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
    for (int64_t round = 0; round < rounds; ++round) {
      const int name = static_cast<int>(random() % kNames);
      AcquireOptions options = {.wait = absl::Milliseconds(random() % 50)};
      if (name == 1) options.kind = LockKind::kFair;
      if (name == 2) options.kind = random() % 2 == 0 ? LockKind::kRead : LockKind::kWrite;
      if (random() % 3 == 0) options.lease = absl::Milliseconds(10 + random() % 100);
      LockService& service = *services[thread % 2];
      absl::StatusOr<LockLease> lease = service.Acquire("lock " + std::to_string(name), options);
      if (!lease.ok()) continue;
      ++acquired;
      witness.Acquired(*lease);
      if (random() % 4 == 0) {
        absl::StatusOr<LockLease> inner = service.Acquire(lease->name(), options);
        if (inner.ok()) {
          witness.Acquired(*inner);
          witness.BeforeRelease(*inner);
          (void)inner->Release();
        }
      }
      witness.BeforeRelease(*lease);
      lost += absl::IsFailedPrecondition(lease->Release());
    }
    --running;
  });

  EXPECT_GT(acquired, rounds / 10) << "the test does something";
  for (auto& service : services) service.reset();
  // What could not be released or taken back lapses.
  clock_.Advance(2 * kWatchdogLease);
  for (int name = 0; name < kNames; ++name) {
    EXPECT_FALSE(world_->engine.Inspect("lock " + std::to_string(name), kNoOwner, absl::InfiniteDuration())->locked);
  }
  EXPECT_EQ(world_->watches, 0);
  RecordProperty("acquired", std::to_string(acquired));
  RecordProperty("lost", std::to_string(lost));
}

}  // namespace
}  // namespace stockade
