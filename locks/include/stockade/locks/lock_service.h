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

// A lock as its engine has it, for all processes.
struct LockState {
  bool locked = false;  // By anybody.
  // locked: what it is held as; kWrite where its writer reads too. A lock that Redisson holds as fair is kReentrant
  // while nobody waits for it, because Redisson keeps both alike.
  LockKind kind = LockKind::kReentrant;
  int64_t owner_holds = 0;                          // Of the owner asked for; for reading and for writing together.
  absl::Duration remaining = absl::ZeroDuration();  // Until it lapses if nobody renews it.
};

// Locks by name, held by owners for the length of a lease, in all processes that use the same engine:
//
//   absl::StatusOr<std::unique_ptr<LockService>> locks = RedisLockService::Connect("redis://127.0.0.1:6379");
//   absl::StatusOr<LockLease> held = (*locks)->Acquire("ticket", {.wait = absl::Seconds(3)});
//   if (!held.ok()) return held.status();
//   std::stop_callback lost(held->lost(), [&] { Stop(); });  // The lock is no longer ours.
//   db.Sell(*held->fencing_token());
//   absl::Status released = held->Release();  // Or let the destructor do it.
//
// Thread-safe. A service must not be destroyed within a call of it, or by a callback on its own thread. Its destructor
// gives up what waits (Cancelled) and ends the leases that are left, which are lost then and lapse at the engine by
// themselves: call ReleaseAll() first if others are not to wait for that. Not for use in a forked child, where the
// destructor does nothing.
class STOCKADE_EXPORT LockService {
 public:
  virtual ~LockService() = default;

  // Blocks until it is held, at most options.wait and LockServiceOptions::engine_timeout; on Redis with min_replicas,
  // engine_timeout twice more if replicas do not confirm and the hold must be taken back. Calls of one owner on one
  // lock are sent to the engine one after another, within the same limits. Every acquire of an owner that holds the
  // lock already gives one lease more.
  //
  //   DeadlineExceeded    others hold it
  //   Unavailable         the engine cannot be reached, or does not answer
  //   Cancelled           options.stop was requested, or the service is being destroyed
  //   InvalidArgument     a bad name or bad options, told in the text
  //   FailedPrecondition  to write while the owner only reads, which would wait for itself; a name that is used with
  //                       another kind
  //   Unimplemented       the engine has no lock of this kind
  //   ResourceExhausted   a thread, or a file descriptor, that it needs is not to be had
  //
  // An acquire that fails leaves nothing behind that is renewed. Where it is not known whether the engine has run it,
  // it is taken back, and lapses by itself within a lease where that fails too.
  virtual absl::StatusOr<LockLease> Acquire(std::string_view name, AcquireOptions options = {}) = 0;

  // Never blocks for the engine. `done` is called once, on LockServiceOptions::executor, with what Acquire() returns;
  // what it throws is logged. If the service's own thread for callbacks cannot be started, they run on the thread that
  // has the result, which may be the caller's. Without options.owner the lease belongs to somebody new.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<LockLease>)>;
  virtual void AcquireAsync(std::string_view name, AcquireOptions options, Callback done) = 0;

  // Asks the engine, and changes nothing there. The answer may be old when it arrives: use it to report, not to decide.
  // FailedPrecondition: on Redis, the key of this name holds data that is not a lock's.
  virtual absl::StatusOr<LockState> Inspect(std::string_view name, LockOwner owner = LockOwner::ThisThread()) = 0;

  // Takes the lock away from all its holders, in all processes, and returns what it was held as (LockState::kind).
  // None: nobody held it. Its holders are notified at their next renewal, or when they release. FailedPrecondition, and
  // nothing is changed: on Redis, the key of this name holds data that is not a lock's.
  virtual absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name) = 0;

  // Releases all leases of this service, for an orderly end of the process: others need not wait until they lapse. The
  // leases are lost then (LockLease::lost()). Blocks at most `timeout`. Unavailable: some may not be released, and
  // lapse at the engine. O(leases).
  virtual absl::Status ReleaseAll(absl::Duration timeout) = 0;

  // The same for all services that share locks, different for others: "redis 127.0.0.1:6379/0". AcquireAll() sorts by
  // it.
  virtual std::string_view id() const = 0;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_SERVICE_H_
