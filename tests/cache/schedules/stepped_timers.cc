// Takes the place of base/src/timer_queue.cc: the tasks of all queues are run by the thread of the schedule that calls
// RunTimers(). One thread runs at a time, so nothing here is guarded.

#include "cache/schedules/stepped_timers.h"

#include <map>
#include <utility>

#include "stockade/base/timer_queue.h"

namespace stockade {
namespace {

using base_internal::TimerQueue;

std::map<std::pair<TimerQueue::Id, const TimerQueue*>, Executor::Task> tasks;
uint64_t scheduled = 0;

}  // namespace

namespace base_internal {

TimerQueue::~TimerQueue() { Stop(); }

void TimerQueue::Stop() {
  std::erase_if(tasks, [this](const auto& task) { return task.first.second == this; });
}

absl::Status TimerQueue::Start() { return absl::OkStatus(); }

TimerQueue::Id TimerQueue::Schedule(Instant at, Executor::Task task) {
  const Id id{at, ++scheduled};
  tasks.emplace(std::pair(id, this), std::move(task));
  if (testing::Scheduler* const scheduler = testing::Scheduler::Current()) scheduler->Woke(&tasks);
  return id;
}

// The task is destroyed when it has left the map: it is the user's.
void TimerQueue::Cancel(const Id& id) { const auto dropped = tasks.extract(std::pair(id, this)); }

}  // namespace base_internal

namespace testing {

void RunTimers(Scheduler& scheduler) {
  for (;;) {
    if (tasks.empty()) {
      if (!scheduler.WaitIdle(&tasks)) return;
    } else if (const int64_t at = tasks.begin()->first.first.first.nanoseconds(); scheduler.now() < at) {
      scheduler.Wait(&tasks, at);
    } else {
      Executor::Task due = std::move(tasks.begin()->second);
      tasks.erase(tasks.begin());
      due();
    }
  }
}

}  // namespace testing
}  // namespace stockade
