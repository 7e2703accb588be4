#ifndef STOCKADE_BASE_SYNC_POINT_H_
#define STOCKADE_BASE_SYNC_POINT_H_

#include "stockade/base/export.h"
#include "stockade/base/floors.h"
#include "stockade/base/mutex.h"

namespace stockade::base_internal {

// Marks places at which a thread is about to access shared data. A test that is built with STOCKADE_TEST_SCHEDULES
// defines the two functions and decides at each place which thread continues, so that it covers interleavings that are
// rare in practice. In other builds both functions do nothing.
//
// Rules: there are no points inside critical sections, so that the chosen thread never blocks on a mutex. Every wait
// goes through Clock::WaitUntil(), which the test implements, and every notification goes through WakeOnly().
#ifdef STOCKADE_TEST_SCHEDULES
void SyncPoint();
void Woke(std::condition_variable& sleeper);
#else
inline void SyncPoint() {}
inline void Woke(std::condition_variable&) {}
#endif

// At most one thread waits on `sleeper`.
inline void WakeOnly(CondVar& sleeper) {
  sleeper.NotifyOne();
  Woke(sleeper.native());
}

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_SYNC_POINT_H_
