// The queue of those who wait, without the acquisitions that do.
#include "service/wait_room.h"

#include <gtest/gtest.h>

#include "engines/local/local_lock_engine.h"
#include "stockade/base/manual_clock.h"

namespace stockade::locks_internal {
namespace {

class CountedWaiter final : public Waiter {
 public:
  int wakes = 0;

 private:
  void Wake() override { ++wakes; }
};

// A lease that expires gives no hint. A waiter that has to wait for its turn must be woken when the turn comes,
// whatever the time was when the waiter before it last checked.
TEST(WaitRoomTest, FirstLeavesAfterTheNextOneLooked_TheNextIsWoken) {
  ManualClock clock;
  LocalLockEngine engine(&clock);
  WaitRoom room(engine);
  const HoldKey hold = {.name = "a"};
  CountedWaiter first;
  CountedWaiter next;
  const Instant retry_at = clock.Now() + absl::Seconds(1);
  room.Join(first, hold, retry_at);
  room.Join(next, hold, retry_at);
  room.ForgetHint(first);

  clock.Advance(absl::Seconds(1));
  Instant look_at;
  ASSERT_FALSE(room.WorthATry(next, clock.Now(), look_at));
  ASSERT_EQ(look_at, Instant::InfiniteFuture());
  ASSERT_EQ(next.wakes, 0);
  room.Leave(first, /*entered=*/false);
  EXPECT_EQ(next.wakes, 1);
  EXPECT_TRUE(room.WorthATry(next, clock.Now(), look_at));
  room.Leave(next, /*entered=*/false);
}

}  // namespace
}  // namespace stockade::locks_internal
