#ifndef STOCKADE_BASE_SYNC_POINT_H_
#define STOCKADE_BASE_SYNC_POINT_H_

#include <condition_variable>

#include "stockade/base/export.h"

namespace stockade::internal {

// Marks the places where a thread is about to touch what other threads touch too. A test that is built with
// STOCKADE_TEST_SCHEDULES defines the two functions, and decides at each place which thread goes on: so it tries the
// orders that luck does not. They are nothing in every other build.
//
// Rules: no point within a critical section, so that the thread that goes on never meets a mutex that is held; every
// wait goes through Clock::WaitUntil(), which the test brings along, and everything that ends one through WakeOnly().
#ifdef STOCKADE_TEST_SCHEDULES
void SyncPoint();
void Woke(std::condition_variable& sleeper);
#else
inline void SyncPoint() {}
inline void Woke(std::condition_variable&) {}
#endif

// Of `sleeper` at most one thread waits.
inline void WakeOnly(std::condition_variable& sleeper) {
  sleeper.notify_one();
  Woke(sleeper);
}

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_SYNC_POINT_H_
