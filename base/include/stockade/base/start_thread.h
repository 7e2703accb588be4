#ifndef STOCKADE_BASE_START_THREAD_H_
#define STOCKADE_BASE_START_THREAD_H_

#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Starts `thread`, which must not be running, with `body`. ResourceExhausted, with the system's message: no further
// thread can be started now, and `body` was not called. The library starts all its threads through this function,
// because the constructor of std::thread throws.
STOCKADE_EXPORT absl::Status StartThread(std::thread& thread, absl::AnyInvocable<void()> body);

// Starts `count` threads at the same time and ends them again; the status is StartThread()'s. Called before libraries
// that abort or hang if they cannot start a thread. Another thread that starts in between can still use up the last
// one.
STOCKADE_EXPORT absl::Status TryThreads(int count);

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_START_THREAD_H_
