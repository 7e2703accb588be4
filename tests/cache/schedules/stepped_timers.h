#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_STEPPED_TIMERS_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_STEPPED_TIMERS_H_

#include "cache/schedules/scheduler.h"

namespace stockade::testing {

// Runs the timers of all caches, on the calling thread of the schedule, until no thread has anything to do.
void RunTimers(Scheduler& scheduler);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_STEPPED_TIMERS_H_
