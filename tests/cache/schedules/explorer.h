#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_EXPLORER_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_EXPLORER_H_

#include <cstdint>
#include <string>

#include "cache/schedules/scheduler.h"

namespace stockade::testing {

// Runs the schedule of a seed and judges it. Aborts, with the seed and the trace, where its threads hang; where
// the process crashes, it tells the seed.
class Explorer {
 public:
  Explorer();

  // Empty: all was right; else what was not, with the seed, the options and the trace.
  std::string Explore(uint64_t seed);
  // The same for two processes with one tier.
  std::string ExploreFleet(uint64_t seed);

  // Of the last schedule.
  std::string Trace() const { return scheduler_.Trace(); }
  size_t steps() const { return scheduler_.events().size(); }

 private:
  Scheduler scheduler_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_EXPLORER_H_
