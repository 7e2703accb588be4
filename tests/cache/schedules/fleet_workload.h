#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_FLEET_WORKLOAD_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_FLEET_WORKLOAD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/schedules/fleet.h"
#include "cache/schedules/plan.h"
#include "cache/schedules/random.h"
#include "cache/schedules/schedule_clock.h"
#include "cache/schedules/schedule_executor.h"
#include "cache/schedules/scheduler.h"
#include "cache/schedules/stepped_cache.h"
#include "stockade/cache/memory_cache_tier.h"

namespace stockade::testing {

// The plan of a seed, changed for a fleet.
struct FleetPlan : Plan {
  explicit FleetPlan(uint64_t seed);

  std::string Text() const;

  bool faults = false;        // Leases lapse, records are lost, processes are cut off, and so on.
  int64_t max_staleness = 0;  // Nanoseconds.
  int64_t load_soft_timeout = Scheduler::kNever;
};

// Two processes with a cache each, over one tier in memory, and the calls on them. Draws as it goes, like Workload.
class FleetWorkload {
 public:
  FleetWorkload(const FleetPlan& plan, uint64_t seed, Scheduler* scheduler);

  // One for each thread of the schedule.
  std::vector<std::function<void()>> Bodies();
  // The second part of the schedule: the faults are over, and the fleet must share its loads.
  std::vector<std::function<void()>> SettlingBodies();
  // After the schedule: what holds when nothing runs. Completes the history.
  void CheckEnd();

  const FleetHistory& history() const { return history_; }
  // The first thing wrong that took no history to see; empty: none.
  const std::string& wrong() const { return wrong_; }

 private:
  static constexpr int kProcesses = 2;

  struct Operation;
  static const Operation kOperations[];

  struct Process {
    Process(Scheduler* scheduler, Recorder* recorder, Random* random)
        : load_executor(scheduler, recorder, random, false), refresh_executor(scheduler, recorder, random, true) {}

    ScheduleExecutor load_executor;
    ScheduleExecutor refresh_executor;
    MetricsRegistry registry;
    std::unique_ptr<SteppedCache> cache;
    std::map<int, int> reasons;       // For loads of a key: leases, and answers that the tier is away.
    std::optional<size_t> heartbeat;  // In progress.
    bool hears = false;               // A message brings an entry.
  };

  void OnEvent(const MemoryCacheTier::Event& event);
  LoadingCacheOptions Options(Process& process);
  std::unique_ptr<SteppedCache> NewCache(int process);
  void AddThreads(std::vector<std::function<void()>>& bodies);
  void Caller();
  void Operate(int process, bool in_loader);
  void Settle();
  void ExpectShared(int loader, int key);

  // Keys of the recorder are those of a process.
  static int Slot(int process, int key) { return process * 16 + key; }
  SteppedCache::Answer Load(int process, int key, LoadContext& context);
  absl::Status LoadAll(int process, const std::vector<int>& keys, const SteppedCache::Add& add);
  // What a loader does until it has read the database; returns the step of that.
  int64_t Read(int process, const std::vector<int>& keys);
  size_t BeginLoad(int process, const std::vector<int>& keys);
  Recorder::Result DrawResult();
  // Notes what the load with this place in the recorder's history comes to.
  void Make(size_t load, int key, const Recorder::Result& result, int64_t as_of);

  size_t BeginLookup(int process, int key, bool timed, bool in_loader, Stamp begin);
  void Allow(int key, int64_t loads);
  void AllowAll(int64_t loads);
  size_t BeginInvalidation(int process, FleetHistory::Scope scope, int key, unsigned tags);
  void EndInvalidation(size_t invalidation);
  int64_t Timeout() { return random_.OneIn(3) ? random_.Below(6) * kUnit : Scheduler::kNever; }
  int AnyProcess() { return random_.Below(kProcesses); }
  int AnyKey() { return random_.Below(plan_.keys); }
  std::optional<int64_t> OwnTtl();
  unsigned AnyTags();
  int64_t Counted(const Process& process, std::string_view metric) const;
  void Expect(bool right, std::string_view what, int64_t found);

  // The operations of a process; their table is in fleet_workload.cc.
  void Get(int process, bool in_loader);
  void GetIfPresent(int process, bool in_loader);
  void GetAll(int process, bool in_loader);
  void GetAsync(int process, bool in_loader);
  void Refresh(int process, bool in_loader);
  void Put(int process, bool in_loader);
  void Invalidate(int process, bool in_loader);
  void InvalidateTag(int process, bool in_loader);
  void InvalidateAll(int process, bool in_loader);
  void PassTime(int process, bool in_loader);
  void Beat(int process, bool in_loader);
  void LapseLeases(int process, bool in_loader);
  void DropRecords(int process, bool in_loader);
  void TurnAway(int process, bool in_loader);
  void LoseReply(int process, bool in_loader);
  void BeginReign(int process, bool in_loader);
  void TrimJournal(int process, bool in_loader);
  void TellLeaseEnded(int process, bool in_loader);
  void HearEntry(int process, bool in_loader);

  SteppedCache::Answer DoGet(int process, int key, int64_t timeout, bool in_loader);
  void DoInvalidate(int process, int key);
  void DoBeat(int process);

  const FleetPlan& plan_;
  Scheduler& scheduler_;
  Random random_;
  std::vector<int> shares_;  // Of the operations in this schedule.
  ScheduleClock clock_;
  Recorder recorder_;
  std::shared_ptr<MemoryCacheTier> tier_;
  FleetHistory history_;
  std::map<int64_t, size_t> loads_;                    // Of what was made: the load's place in the recorder's history.
  std::map<std::pair<int, uint64_t>, size_t> queued_;  // The tier's numbers of invalidations.
  std::set<std::string, std::less<>> leases_;
  struct Current {
    std::optional<size_t> invalidation;
    int64_t put = 0;
  };
  std::array<Current, Scheduler::kMaxThreads> current_;  // What each thread is doing.
  bool settling_ = false;
  int64_t settled_loads_ = 0;
  int64_t last_id_ = 0;
  std::string wrong_;
  std::vector<std::unique_ptr<Process>> processes_;  // Last: their caches use the rest.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_FLEET_WORKLOAD_H_
