#ifndef STOCKADE_LOCKS_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_LOCK_SERVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/acquire_options.h"
#include "stockade/locks/lock_lease.h"
#include "stockade/locks/lock_service_options.h"

namespace stockade {

// The state of a lock in its engine, across all processes.
struct LockState {
  bool locked = false;  // Held by any owner.
  // If locked: the kind of the holds; kWrite if the writer also reads. A lock that Redisson holds as fair is kReentrant
  // while it has no waiters, because Redisson stores both in the same way.
  LockKind kind = LockKind::kReentrant;
  int64_t owner_holds = 0;                          // Holds of the given owner, reads and writes together.
  absl::Duration remaining = absl::ZeroDuration();  // Until it expires without a renewal.
};

// Locks by name. Owners hold them for the length of a lease, in all processes that use the same engine:
//
//   absl::StatusOr<std::unique_ptr<LockService>> locks = RedisLockService::Connect("redis://127.0.0.1:6379");
//   absl::StatusOr<LockLease> held = (*locks)->Acquire("ticket", {.wait = absl::Seconds(3)});
//   if (!held.ok()) return held.status();
//   std::stop_callback lost(held->lost(), [&] { Stop(); });  // The lock is no longer ours.
//   db.Sell(*held->fencing_token());
//   absl::Status released = held->Release();  // Or let the destructor do it.
//
// Thread-safe. A service must not be destroyed by a callback on its own thread, nor during one of its calls, except
// that AcquireAsync() and AcquireAwait() may be waiting. The destructor cancels waiting calls (Cancelled) and ends the
// remaining leases. These are lost then, and the engine keeps them until they expire: call ReleaseAll() first if other
// owners should not wait for that. Not usable in a forked child, where the destructor does nothing. pthread_exit() or
// pthread_cancel() within a callback aborts the process.
class STOCKADE_EXPORT LockService {
 public:
  virtual ~LockService() = default;

  // Acquires a lock. Blocks at most for options.wait plus LockServiceOptions::engine_timeout; on Redis with
  // min_replicas, for twice engine_timeout more if replicas do not confirm and the hold must be undone. Calls of one
  // owner on one lock are sent to the engine one after another, within the same limits. Each acquire of an owner that
  // already holds the lock returns another lease.
  //
  //   DeadlineExceeded    other owners hold the lock
  //   Unavailable         the engine cannot be reached or does not answer
  //   Cancelled           options.stop was requested, or the service is being destroyed
  //   InvalidArgument     the name or an option is invalid; the message says which
  //   FailedPrecondition  a write while the owner only reads, which would wait for itself; or the name is used with
  //                       another kind
  //   Unimplemented       the engine does not support this kind
  //   ResourceExhausted   the process has no thread left, or no file descriptor for a connection
  //   PermissionDenied    the user lacks a right that locks need
  //   Unauthenticated     a new connection was refused: the password, or a certificate
  //   Unknown, Internal   the server's error or answer is none that is known; the message quotes it
  //
  // A failed acquire leaves nothing behind that is renewed. If it is unknown whether the engine has run it, it is
  // undone; if that fails, too, it expires within a lease.
  virtual absl::StatusOr<LockLease> Acquire(std::string_view name, AcquireOptions options = {}) = 0;

  // Like Acquire(), but never blocks on the engine. `done`, which must not be empty (aborts), is invoked once with the
  // result, on LockServiceOptions::executor; exceptions that it throws are logged. If the service's own callback thread
  // cannot be started, callbacks run on the thread that has the result, which may be the caller's. If options.owner is
  // not set, the lease gets a new owner. stockade/locks/coroutine.h has the same for co_await.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<LockLease>)>;
  virtual void AcquireAsync(std::string_view name, AcquireOptions options, Callback done) = 0;

  // Reads the state from the engine without changing it. The state may be outdated when it arrives, so use it for
  // reports and not for decisions. FailedPrecondition: the key or the rows of this name hold data that is not a lock's.
  // Otherwise the errors are those of Acquire().
  virtual absl::StatusOr<LockState> Inspect(std::string_view name, LockOwner owner = LockOwner::ThisThread()) = 0;

  // Force-releases the lock for all its holders in all processes. Returns the kind that it was held as
  // (LockState::kind), or nullopt if it was not held. Holders are notified at their next renewal, or when they release.
  // FailedPrecondition: the key or the rows of this name hold data that is not a lock's; nothing was changed. Otherwise
  // the errors are those of Acquire().
  virtual absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name) = 0;

  // Releases all leases of this service, for an orderly shutdown in which other owners need not wait until the leases
  // expire. The leases are lost (LockLease::lost()). Blocks at most for `timeout`. Unavailable: some leases may not be
  // released, and expire at the engine. O(leases).
  virtual absl::Status ReleaseAll(Duration timeout) = 0;

  // Identifies the set of locks: equal for services that share their locks, and different otherwise, such as "redis
  // 127.0.0.1:6379/0". AcquireAll() sorts by it.
  virtual std::string_view id() const = 0;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_SERVICE_H_
