#ifndef STOCKADE_BASE_CRASH_POINT_H_
#define STOCKADE_BASE_CRASH_POINT_H_

#include <atomic>
#include <string_view>

#include "stockade/base/export.h"

namespace stockade::internal {

// Marks a step of a protocol after which the process may die. Where the library is built with STOCKADE_CRASH_POINTS
// (the CMake option of that name) and the environment variable STOCKADE_CRASH_AT is "<name>" or "<name>#<n>", the n-th
// pass through the point of that name (the first, without an n) ends the process by SIGKILL: so a test tries each crash
// that luck seldom does. With "+<ms>" at the end the thread that came there waits so long before it does, with all the
// locks that it holds: then the others act on what it did, and it dies before it has done the rest. Without the
// variable a point is a relaxed load; it is nothing in every other build.
#ifdef STOCKADE_CRASH_POINTS
STOCKADE_EXPORT extern std::atomic<bool> crash_points_armed;  // Set once, before main().
STOCKADE_EXPORT void PassCrashPoint(std::string_view name);

inline void CrashPoint(std::string_view name) {
  if (crash_points_armed.load(std::memory_order_relaxed)) [[unlikely]]
    PassCrashPoint(name);
}
#else
inline void CrashPoint(std::string_view) {}
#endif

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_CRASH_POINT_H_
