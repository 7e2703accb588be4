#include "stockade/base/timer_queue.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "stockade/base/manual_clock.h"

namespace stockade::base_internal {
namespace {

// What has run, in order.
class Record {
 public:
  Executor::Task Note(int what) {
    return [this, what] {
      std::lock_guard lock(mutex_);
      seen_.push_back(what);
      changed_.notify_all();
    };
  }
  std::vector<int> Await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return seen_.size() >= count; });
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> seen_;
};

TEST(TimerQueueTest, Schedule_InAnyOrder_RunsInTheOrderOfTime) {
  ManualClock clock;
  Record record;
  TimerQueue timers(&clock);
  const Instant now = clock.Now();
  timers.Schedule(now + absl::Seconds(3), record.Note(3));
  timers.Schedule(now + absl::Seconds(1), record.Note(1));
  timers.Schedule(now + absl::Seconds(2), record.Note(2));
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(record.Await(3), (std::vector{1, 2, 3}));
}

// The thread waits for ever then: the new task has to wake it.
TEST(TimerQueueTest, Schedule_AfterTheQueueRanEmpty_StillRuns) {
  ManualClock clock;
  Record record;
  TimerQueue timers(&clock);
  for (int i = 0; i < 20; ++i) {
    timers.Schedule(clock.Now() + absl::Seconds(1), record.Note(i));
    clock.AwaitWaiters(1);
    clock.Advance(absl::Seconds(1));
    EXPECT_EQ(record.Await(static_cast<size_t>(i) + 1).back(), i);
  }
}

TEST(TimerQueueTest, Schedule_AnEarlierTask_RunsFirst) {
  ManualClock clock;
  Record record;
  TimerQueue timers(&clock);
  timers.Schedule(clock.Now() + absl::Hours(1), record.Note(2));
  clock.AwaitWaiters(1);
  timers.Schedule(Instant::InfinitePast(), record.Note(1));
  EXPECT_EQ(record.Await(1), std::vector{1});
  clock.AwaitWaiters(1);
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(record.Await(2), (std::vector{1, 2}));
}

TEST(TimerQueueTest, Cancel_BeforeItsTime_NeverRuns) {
  ManualClock clock;
  Record record;
  TimerQueue timers(&clock);
  const TimerQueue::Id cancelled = timers.Schedule(clock.Now() + absl::Seconds(1), record.Note(1));
  timers.Schedule(clock.Now() + absl::Seconds(2), record.Note(2));
  timers.Cancel(cancelled);
  timers.Cancel(cancelled);
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(record.Await(1), std::vector{2});
}

TEST(TimerQueueTest, Schedule_FromWithinATask_Runs) {
  ManualClock clock;
  Record record;
  TimerQueue timers(&clock);
  timers.Schedule(Instant::InfinitePast(), [&] { timers.Schedule(Instant::InfinitePast(), record.Note(1)); });
  EXPECT_EQ(record.Await(1), std::vector{1});
}

TEST(TimerQueueTest, Stop_TasksPendingAndLater_AreDestroyedAndNeverRun) {
  ManualClock clock;
  TimerQueue timers(&clock);
  int ran = 0;
  const auto counted = std::make_shared<int>();
  timers.Schedule(clock.Now() + absl::Hours(1), [&ran, counted] { ++ran; });
  timers.Stop();
  EXPECT_EQ(counted.use_count(), 1);
  timers.Schedule(clock.Now(), [&ran, counted] { ++ran; });
  EXPECT_EQ(counted.use_count(), 1);
  EXPECT_EQ(ran, 0);
}

TEST(TimerQueueTest, Destructor_TasksPending_DropsThem) {
  ManualClock clock;
  Record record;
  {
    TimerQueue timers(&clock);
    timers.Schedule(clock.Now() + absl::Seconds(1), record.Note(1));
  }
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(record.Await(0).empty());
}

}  // namespace
}  // namespace stockade::base_internal
