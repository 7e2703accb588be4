#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_WORKLOAD_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_WORKLOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/schedules/history.h"
#include "cache/schedules/plan.h"
#include "cache/schedules/random.h"
#include "cache/schedules/schedule_clock.h"
#include "cache/schedules/schedule_executor.h"
#include "cache/schedules/scheduler.h"
#include "cache/schedules/stepped_cache.h"

namespace stockade::testing {

// A cache under a plan, the calls on it and its loader. Draws as it goes: one thread runs at a time, in an order that
// the seed gives, so the draws are the seed's as well.
class Workload {
 public:
  Workload(const Plan& plan, uint64_t seed, Scheduler* scheduler);

  // One for each thread of the schedule.
  std::vector<std::function<void()>> Bodies();
  // At each point of the schedule: what holds at all times.
  void CheckStep();
  // After the schedule: what holds when nothing runs.
  void CheckEnd();

  History& history() { return recorder_.history(); }
  // The first thing wrong that took no model to see; empty: none.
  const std::string& wrong() const { return wrong_; }

 private:
  struct Operation;
  static const Operation kOperations[];

  LoadingCacheOptions Options();
  void Caller();
  void Operate();
  absl::StatusOr<int64_t> Load(int key, LoadContext& context);
  absl::Status LoadAll(const std::vector<int>& keys, const SteppedCache::Add& add);
  // What a loader does before it knows its result.
  void Dally(const std::vector<int>& keys);
  Recorder::Result DrawResult();
  int AnyKey() { return random_.Below(plan_.keys); }
  std::vector<int> AnyKeys();
  static std::vector<int> Distinct(std::vector<int> keys);
  std::optional<int64_t> OwnTtl();
  unsigned AnyTags();
  int64_t Counted(std::string_view metric) const;
  void Expect(bool right, std::string_view what, int64_t found);

  // The operations; their table is in workload.cc.
  void Get();
  void GetInTime();
  void GetIfPresent();
  void Put();
  void Invalidate();
  void InvalidateAll();
  void PassTime();
  void GetAll();
  void Peek();
  void PutAll();
  void InvalidateKeys();
  void Refresh();
  void InvalidateTag();
  void DoGet(int key, int64_t timeout);
  void DoGetIfPresent(int key);

  const Plan& plan_;
  Scheduler& scheduler_;
  Random random_;
  std::vector<int> shares_;  // Of the operations in this schedule.
  ScheduleClock clock_;
  Recorder recorder_;
  ScheduleExecutor load_executor_;
  ScheduleExecutor refresh_executor_;
  MetricsRegistry registry_;
  int64_t last_id_ = 0;
  std::string wrong_;
  std::unique_ptr<SteppedCache> cache_;  // Last: its executors outlive it.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_WORKLOAD_H_
