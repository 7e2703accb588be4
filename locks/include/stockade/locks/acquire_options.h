#ifndef STOCKADE_LOCKS_ACQUIRE_OPTIONS_H_
#define STOCKADE_LOCKS_ACQUIRE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/owner_id.h"

namespace stockade {

// One name is used with one kind, or with kRead and kWrite.
enum class LockKind : uint8_t {
  kReentrant,  // One owner at a time, which may acquire it again.
  kFair,       // As kReentrant, and waiters enter in the order in which they came, over all processes.
  kRead,       // Any number of owners, while nobody else writes.
  kWrite,      // One owner at a time, which may also acquire it for reading.
};

// "reentrant", "fair", "read", "write".
STOCKADE_EXPORT std::string_view LockKindName(LockKind kind);

// Who holds a lock: a thread, or a task or coroutine that goes from thread to thread. An id is never reused in its
// process, and engines tell processes apart. A value type; any thread may copy it.
class LockOwner {
 public:
  // Somebody new.
  static LockOwner New() { return LockOwner(NewOwnerId()); }
  static LockOwner ThisThread() { return LockOwner(ThisThreadOwnerId()); }

  // Of an id that NewOwnerId() or ThisThreadOwnerId() gave.
  explicit LockOwner(OwnerId id) : id_(id) {}
  OwnerId id() const { return id_; }

  friend bool operator==(LockOwner, LockOwner) = default;

 private:
  OwnerId id_;
};

// How one lock is acquired.
struct STOCKADE_EXPORT AcquireOptions {
  // A name keeps to one kind, or to kRead and kWrite.
  LockKind kind = LockKind::kReentrant;

  // How long to wait where others hold it; zero or less: not at all. An engine that does not answer may take
  // LockServiceOptions::engine_timeout longer.
  absl::Duration wait = absl::InfiniteDuration();

  // How long it is held without a renewal: choose it longer than the work may take. Zero, the default: the service's
  // watchdog_lease, renewed until it is released. kMinLease to kMaxLease
  // otherwise.
  absl::Duration lease = absl::ZeroDuration();

  // None: the calling thread, or for AcquireAsync() somebody new. A thread may acquire again what it owns, so a lease
  // that is to be used by another thread needs an owner of its own, such as LockOwner::New(). Where that is forgotten
  // and the first thread acquires again, both are inside: the release by the other thread aborts where assertions are
  // on (NDEBUG is not defined), and logs an error otherwise.
  std::optional<LockOwner> owner = std::nullopt;

  // Requires that the fencing token is larger than all before it, whatever server gave them. FailedPrecondition where
  // the engine does not promise that: see LockLease::fencing_token().
  bool require_growing_token = false;

  // Gives up the wait: Cancelled. What has been sent by then is taken back. While an engine does not answer, this takes
  // a thread; if none can be started, the call ends with the engine's time-out.
  std::stop_token stop = {};

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// The shortest and the longest lease that may be asked for.
inline constexpr absl::Duration kMinLease = absl::Milliseconds(10);
inline constexpr absl::Duration kMaxLease = absl::Hours(24 * 365);
// The longest name that a lock may have; the shortest is one byte. It may have any bytes, but on a Redis cluster braces
// must be a hash tag ("{tag}"), or there are none.
//
// On Redis, do not use both "x" and "{x}" as names of locks: in Redisson's protocol the two share the keys for queues
// and for the time-outs of readers, so the release of one may let a writer into the other. Nor use names that begin
// with "redisson_".
inline constexpr size_t kMaxLockNameBytes = 4096;

}  // namespace stockade

#endif  // STOCKADE_LOCKS_ACQUIRE_OPTIONS_H_
