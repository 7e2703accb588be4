#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULE_CLOCK_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULE_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "cache/schedules/scheduler.h"
#include "stockade/base/clock.h"

namespace stockade::testing {

// The scheduler's virtual time, and its waits.
class ScheduleClock final : public Clock {
 public:
  explicit ScheduleClock(Scheduler* scheduler) : scheduler_(*scheduler) {}

  Instant Now() const override { return Instant::FromNanoseconds(scheduler_.now()); }
  Instant CoarseNow() const override { return Now(); }
  absl::Time WallNow() const override { return absl::FromUnixNanos(scheduler_.now()); }

  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    // Nobody else runs between the two, so no notification falls between them.
    lock.unlock();
    scheduler_.Wait(&cv, deadline.nanoseconds());
    lock.lock();
    return Now() < deadline;
  }

 private:
  Scheduler& scheduler_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULE_CLOCK_H_
