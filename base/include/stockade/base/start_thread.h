#ifndef STOCKADE_BASE_START_THREAD_H_
#define STOCKADE_BASE_START_THREAD_H_

#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "stockade/base/export.h"

namespace stockade::internal {

// Starts `thread`, which does not run, with `body`. ResourceExhausted, with the system's reason: the process can have
// no further thread now, and `body` was not called. All threads of the library start here, because std::thread throws.
STOCKADE_EXPORT absl::Status StartThread(std::thread& thread, absl::AnyInvocable<void()> body);

// Starts `count` threads at the same time and ends them again; the status is StartThread()'s. For libraries that abort
// or hang if a thread of theirs does not start: they are called after this. Another thread that starts between the two
// can still take the last one.
STOCKADE_EXPORT absl::Status TryThreads(int count);

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_START_THREAD_H_
