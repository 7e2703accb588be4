#ifndef STOCKADE_BASE_CRASH_POINT_H_
#define STOCKADE_BASE_CRASH_POINT_H_

#include <atomic>
#include <string_view>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Marks a step of a protocol after which the process may crash, so that tests can produce crashes that are rare in
// practice. A point has an effect only if the library is built with the CMake option STOCKADE_CRASH_POINTS and the
// environment variable STOCKADE_CRASH_AT is "<name>" or "<name>#<n>": then the n-th pass through the point of that name
// (by default the first) ends the process by SIGKILL. If the value ends in "+<ms>", the thread first waits for that
// many milliseconds and keeps its locks meanwhile, so that other threads act on what it has done before the process
// ends. Without the variable, a point costs one relaxed load. In other builds it compiles to nothing.
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

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_CRASH_POINT_H_
