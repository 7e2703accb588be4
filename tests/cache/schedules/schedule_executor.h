#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULE_EXECUTOR_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULE_EXECUTOR_H_

#include <utility>
#include <vector>

#include "cache/schedules/history.h"
#include "cache/schedules/random.h"
#include "cache/schedules/scheduler.h"
#include "stockade/base/executor.h"

namespace stockade::testing {

// Tasks are run by threads of the schedule that call Work(), in an order of the seed's: an executor promises none.
class ScheduleExecutor final : public Executor {
 public:
  ScheduleExecutor(Scheduler* scheduler, Recorder* recorder, Random* random, bool refreshes)
      : scheduler_(*scheduler), recorder_(*recorder), random_(*random), refreshes_(refreshes) {}

  void Schedule(Task task) override {
    tasks_.push_back(std::move(task));
    scheduler_.Woke(this);
  }

  // Until nobody has anything to do.
  void Work() {
    for (;;) {
      while (tasks_.empty()) {
        if (!scheduler_.WaitIdle(this)) return;
      }
      std::swap(tasks_[static_cast<size_t>(random_.Below(static_cast<int>(tasks_.size())))], tasks_.back());
      Task task = std::move(tasks_.back());
      tasks_.pop_back();
      recorder_.BeginTask(refreshes_);
      task();
      recorder_.EndTask();
    }
  }

 private:
  Scheduler& scheduler_;
  Recorder& recorder_;
  Random& random_;
  const bool refreshes_;
  std::vector<Task> tasks_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULE_EXECUTOR_H_
