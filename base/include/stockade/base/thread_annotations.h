#ifndef STOCKADE_BASE_THREAD_ANNOTATIONS_H_
#define STOCKADE_BASE_THREAD_ANNOTATIONS_H_

#include "stockade/base/export.h"

// Clang's thread safety analysis (-Wthread-safety). Empty for other compilers.
//
// Clang does not analyse constructors and destructors. Those that need a lock call a function or a lambda.
//
// The analysis does not support re-entry. A function that acquires a lock it may already hold is marked
// STOCKADE_NO_THREAD_SAFETY_ANALYSIS, or acquires the lock through std::unique_lock, which libstdc++ does not annotate.

#if defined(__clang__)
#define STOCKADE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define STOCKADE_THREAD_ATTRIBUTE(x)
#endif

// Types.
#define STOCKADE_CAPABILITY(name) STOCKADE_THREAD_ATTRIBUTE(capability(name))
#define STOCKADE_SCOPED_CAPABILITY STOCKADE_THREAD_ATTRIBUTE(scoped_lockable)

// Data.
#define STOCKADE_GUARDED_BY(lock) STOCKADE_THREAD_ATTRIBUTE(guarded_by(lock))
#define STOCKADE_PT_GUARDED_BY(lock) STOCKADE_THREAD_ATTRIBUTE(pt_guarded_by(lock))

// Locks that a caller must hold, or must not hold.
#define STOCKADE_REQUIRES(...) STOCKADE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define STOCKADE_REQUIRES_SHARED(...) STOCKADE_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define STOCKADE_EXCLUDES(...) STOCKADE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

// Locks that a function acquires and releases.
#define STOCKADE_ACQUIRE(...) STOCKADE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define STOCKADE_ACQUIRE_SHARED(...) STOCKADE_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define STOCKADE_RELEASE(...) STOCKADE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define STOCKADE_RELEASE_SHARED(...) STOCKADE_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define STOCKADE_RELEASE_GENERIC(...) STOCKADE_THREAD_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define STOCKADE_TRY_ACQUIRE(...) STOCKADE_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define STOCKADE_TRY_ACQUIRE_SHARED(...) STOCKADE_THREAD_ATTRIBUTE(try_acquire_shared_capability(__VA_ARGS__))
#define STOCKADE_ASSERT_CAPABILITY(...) STOCKADE_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))
#define STOCKADE_RETURN_CAPABILITY(lock) STOCKADE_THREAD_ATTRIBUTE(lock_returned(lock))

#define STOCKADE_NO_THREAD_SAFETY_ANALYSIS STOCKADE_THREAD_ATTRIBUTE(no_thread_safety_analysis)

#endif  // STOCKADE_BASE_THREAD_ANNOTATIONS_H_
