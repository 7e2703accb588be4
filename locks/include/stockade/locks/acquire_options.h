#ifndef STOCKADE_LOCKS_ACQUIRE_OPTIONS_H_
#define STOCKADE_LOCKS_ACQUIRE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/base/owner_id.h"

namespace stockade {

// The kind of a lock. A name is always used with the same kind, or with kRead and kWrite.
enum class LockKind : uint8_t {
  kReentrant,  // One owner at a time, which may acquire it several times.
  kFair,       // Like kReentrant; waiters enter in order of arrival, across all processes.
  kRead,       // Any number of owners, while no other owner writes.
  kWrite,      // One owner at a time, which may acquire it for reading, too.
};

// "reentrant", "fair", "read", "write".
STOCKADE_EXPORT std::string_view LockKindName(LockKind kind);

// The owner of a lock: a thread, or a task or coroutine. A thread that runs several tasks in turn (an event loop,
// fibers) is one owner by default: its tasks enter each other's locks. Use the asynchronous calls, or an owner per
// task. An id is never reused within its process, and engines distinguish processes. A value type; any thread may copy
// it.
class LockOwner {
 public:
  // A new owner.
  static LockOwner New() { return LockOwner(NewOwnerId()); }
  static LockOwner ThisThread() { return LockOwner(ThisThreadOwnerId()); }

  // The owner with an id from NewOwnerId() or ThisThreadOwnerId().
  explicit LockOwner(OwnerId id) : id_(id) {}
  OwnerId id() const { return id_; }

  friend bool operator==(LockOwner, LockOwner) = default;

 private:
  OwnerId id_;
};

// Options of one acquire.
struct STOCKADE_EXPORT AcquireOptions {
  // The kind, which must always be the same for a name, except that kRead and kWrite may be mixed.
  LockKind kind = LockKind::kReentrant;

  // How long to wait while other owners hold the lock; zero or less does not wait. If the engine does not answer, the
  // call may take LockServiceOptions::engine_timeout longer.
  Duration wait = absl::InfiniteDuration();

  // The length of the lease, after which it ends without a renewal; choose it longer than the work takes. kMinLease to
  // kMaxLease. Zero, the default, means the service's watchdog_lease, which is renewed until the release.
  Duration lease = absl::ZeroDuration();

  // The owner. By default the calling thread, and a new owner for AcquireAsync() and AcquireAwait(). A thread may
  // acquire again what it owns, so a lease that another thread will use needs its own owner, such as LockOwner::New().
  // If it has none and the first thread acquires the lock again, both threads are inside. The release by the other
  // thread then aborts if assertions are enabled (NDEBUG is not defined), and logs an error otherwise.
  std::optional<LockOwner> owner = std::nullopt;

  // Requires that the fencing token is larger than all earlier ones, whichever server issued them. FailedPrecondition
  // if the engine does not guarantee that: see LockLease::fencing_token().
  bool require_growing_token = false;

  // Cancels the wait: the call returns Cancelled, and requests that were already sent are undone. If the engine does
  // not answer, this needs a thread; if none can be started, the call ends after the engine's time-out.
  std::stop_token stop = {};

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// The shortest and the longest lease.
inline constexpr absl::Duration kMinLease = absl::Milliseconds(10);
inline constexpr absl::Duration kMaxLease = absl::Hours(24 * 365);
// The longest name of a lock, in bytes; the shortest is one byte. A name may contain any bytes, but on a Redis cluster
// braces must form a hash tag ("{tag}").
//
// On Redis, do not use both "x" and "{x}" as names of locks. In Redisson's protocol the two share the keys for queues
// and for the time-outs of readers, so the release of one may admit a writer to the other. Do not use names that begin
// with "redisson_" either.
inline constexpr size_t kMaxLockNameBytes = 4096;

}  // namespace stockade

#endif  // STOCKADE_LOCKS_ACQUIRE_OPTIONS_H_
