#include "zookeeper_holds.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "stockade/base/manual_clock.h"
#include "support/await.h"

namespace stockade {
namespace {

using internal::ZooKeeperHolds;
using internal::ZooKeeperSession;

// Counts how often somebody looks at it.
class CountingClock final : public Clock {
 public:
  Instant Now() const override {
    ++looks_;
    return clock_.Now();
  }
  Instant CoarseNow() const override { return clock_.CoarseNow(); }
  absl::Time WallNow() const override { return clock_.WallNow(); }
  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    return clock_.WaitUntil(cv, lock, deadline);
  }

  ManualClock& clock() { return clock_; }
  int looks() const { return looks_; }

 private:
  ManualClock clock_;
  mutable std::atomic<int> looks_ = 0;
};

TEST(ZooKeeperHoldsTest, ManyShortHoldsBesideALongOne_LeaveNoTimersBehind) {
  constexpr int kHolds = 50;
  CountingClock clock;
  // Never opened: it answers each request with ZCLOSING.
  const auto session = std::make_shared<ZooKeeperSession>(internal::ZooKeeperSessionOptions{.clock = &clock},
                                                          [](ZooKeeperSession::Event) {});
  ZooKeeperHolds holds(&clock, "/locks", "client", absl::Hours(2), std::make_shared<internal::ZooKeeperJanitor>());
  uint64_t sequence = 0;
  const auto enter = [&](const std::string& name, absl::Duration lease) {
    LockTry step = {.hold = {.name = name}, .lease = lease, .sequence = ++sequence, .queue = true};
    const ZooKeeperHolds::HoldPtr hold = holds.Begin(step, session, false).hold;
    EXPECT_TRUE(holds.Enter(hold, step));
    return hold;
  };
  const auto expire = [&](absl::Duration span, const std::string& name) {
    clock.clock().Advance(span);
    testing::Await("it to lapse", [&] { return holds.Count({.name = name}) == 0; });
  };
  const ZooKeeperHolds::HoldPtr long_hold = enter("long", absl::Hours(1));
  for (int i = 0; i < kHolds; ++i) {
    enter("short", absl::Seconds(1));
    expire(absl::Seconds(2), "short");
  }
  EXPECT_TRUE(holds.Renew(long_hold, absl::Hours(3)));
  enter("short", absl::Minutes(1));
  const int before = clock.looks();
  expire(absl::Hours(1), "short");
  clock.clock().AwaitWaiters(1);
  EXPECT_LT(clock.looks() - before, kHolds / 2);
  holds.Stop();
}

}  // namespace
}  // namespace stockade
