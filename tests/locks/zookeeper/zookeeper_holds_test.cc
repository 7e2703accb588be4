#include "zookeeper_holds.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "stockade/base/manual_clock.h"
#include "support/await.h"

namespace stockade {
namespace {

using locks_internal::ZooKeeperHolds;
using locks_internal::ZooKeeperSession;

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

// Never opened: it answers each request with ZCLOSING.
std::shared_ptr<ZooKeeperSession> ClosedSession(Clock* clock) {
  return std::make_shared<ZooKeeperSession>(locks_internal::ZooKeeperSessionOptions{.clock = clock},
                                            [](ZooKeeperSession::Event) {});
}

// A hold uses the token of its node, so an owner that has lost the hold must not get that token.
TEST(ZooKeeperHoldsTest, Begin_OwnerHasLostWhatIsThere_DiscardsIt) {
  using Next = ZooKeeperHolds::Next;
  ManualClock clock;
  const auto session = ClosedSession(&clock);
  ZooKeeperHolds holds(&clock, "/locks", "client", absl::Hours(2),
                       std::make_shared<locks_internal::ZooKeeperJanitor>());
  uint64_t sequence = 0;
  const auto begin = [&](LockKind kind, bool first, bool outside_write) {
    LockTry step = {.hold = {.name = "a", .kind = kind},
                    .lease = absl::Hours(1),
                    .sequence = ++sequence,
                    .first = first,
                    .outside_write = outside_write,
                    .queue = true};
    const ZooKeeperHolds::Begun begun = holds.Begin(step, session, false);
    if (begun.next == Next::kMake) {
      EXPECT_TRUE(holds.Enter(begun.hold, step));
    }
    return begun.next;
  };
  EXPECT_EQ(begin(LockKind::kWrite, true, false), Next::kMake);
  EXPECT_EQ(begin(LockKind::kWrite, false, false), Next::kReenter);
  EXPECT_EQ(begin(LockKind::kWrite, true, false), Next::kDiscard);
  EXPECT_EQ(begin(LockKind::kRead, true, false), Next::kNest);
  // Its making was not answered.
  EXPECT_EQ(begin(LockKind::kRead, true, false), Next::kRecover);
  EXPECT_EQ(begin(LockKind::kRead, true, true), Next::kDiscard);
  holds.Stop();
}

TEST(ZooKeeperHoldsTest, ManyShortHoldsBesideALongOne_LeaveNoTimersBehind) {
  constexpr int kHolds = 50;
  CountingClock clock;
  const auto session = ClosedSession(&clock);
  ZooKeeperHolds holds(&clock, "/locks", "client", absl::Hours(2),
                       std::make_shared<locks_internal::ZooKeeperJanitor>());
  uint64_t sequence = 0;
  const auto enter = [&](const std::string& name, absl::Duration lease) {
    LockTry step = {.hold = {.name = name}, .lease = lease, .sequence = ++sequence, .queue = true};
    const ZooKeeperHolds::HoldPtr hold = holds.Begin(step, session, false).hold;
    EXPECT_TRUE(holds.Enter(hold, step));
    return hold;
  };
  const auto expire = [&](absl::Duration span, const std::string& name) {
    clock.clock().Advance(span);
    testing::Await("it to lapse", [&] { return holds.FindHeld({.name = name}) == nullptr; });
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
