#ifndef STOCKADE_LOCKS_LOCK_LEASE_H_
#define STOCKADE_LOCKS_LOCK_LEASE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/acquire_options.h"

namespace stockade {

class LockLease;

namespace locks_internal {
struct LeaseState;
class ServiceCore;
// Its destructor releases it as ReleaseAsync() does.
STOCKADE_EXPORT void ReleaseWithoutWaiting(LockLease& lease);
}  // namespace locks_internal

// One hold of a lock, which is released with this object. Movable. Any thread may use it, one at a time; valid() and
// lost() may be called by several threads at once. Before a lease is moved to another thread, see
// AcquireOptions::owner. May outlive its service, which ends the lease. Not usable in a forked child, where its
// destructor does nothing.
//
// All leases of one owner on one lock share one hold in the engine: they are valid, and are lost, together.
class [[nodiscard]] STOCKADE_EXPORT LockLease {
 public:
  LockLease() = default;                                                  // Empty: not valid.
  explicit LockLease(std::shared_ptr<locks_internal::LeaseState> state);  // For services.
  // Calls Release(), and logs the error if that fails; a loss was logged when it was noticed. If the engine has not
  // answered the last request, the release is sent in the background until the lease ends, and the destructor does not
  // wait. A lease that AcquireAwait() has returned is released as by ReleaseAsync(), without waiting.
  ~LockLease();
  LockLease(LockLease&& other) noexcept = default;
  LockLease& operator=(LockLease&& other) noexcept;

  // Whether the lock is held. Becomes false when the lease ends on this machine's clock, which is before the engine
  // gives the lock to another owner for that reason. A loss for other reasons (force-release, an emptied server,
  // failover) becomes visible at the next renewal, or at the release if the lease is not renewed. Once false, it stays
  // false. Reads a clock, which takes some 30 ns.
  bool valid() const;

  // A token whose stop is requested when the lease is lost. Callbacks run on LockServiceOptions::executor; if the lease
  // is already lost, a callback runs in its constructor. No callback runs after Release() or the destructor has
  // returned. Both wait for a running callback, unless that callback called them. ReleaseAsync() does not wait, nor the
  // destructor after it; no callback begins after them. The token of an empty lease has no state.
  std::stop_token lost() const;

  // A number that is larger than the tokens of all earlier holders of this lock that exclude this owner. It is also
  // larger than the token of a hold that this one re-enters, unless the engine returns the same token (ZooKeeper). Send
  // it with each request to the protected resource, which must reject tokens smaller than the largest one it has seen.
  // This protects the resource even if this process is suspended past its lease.
  //
  // ZooKeeper and the in-memory engine always guarantee this. Redis and MySQL replicate asynchronously; their token is
  // the server's time in microseconds or the last token plus one, whichever is larger. After a failover that lost the
  // last acquire, a token may therefore be smaller than the lost one. This happens only if the new server's clock is
  // behind by more than the failover took, and this service has received no token that was the old server's time. A
  // service that has received one continues from the old server's time, to within the time of one answer, which is
  // shorter than a failover. (After the old server's clock has stepped back, its tokens are the last token plus one
  // until its clock has caught up. A service that has received only such tokens may get a smaller one from the new
  // server.) AcquireOptions::require_growing_token refuses such an engine.
  //
  // FailedPrecondition: there is no token (RedLock, a degraded lease, an empty lease).
  absl::StatusOr<int64_t> fencing_token() const;

  // How long valid() stays true without a renewal; zero if it is false.
  absl::Duration remaining() const;
  // The number of leases that the owner has on this lock through this service; zero after a loss or a release.
  int64_t hold_count() const;

  // The arguments of the acquire. For an empty lease: empty, kReentrant and kNoOwner.
  std::string_view name() const;
  LockKind kind() const;
  LockOwner owner() const;
  // True if FallbackLockService granted it because the primary was unavailable: it only excludes degraded leases of
  // this process.
  bool degraded() const;

  // Releases the lock. Blocks until the engine has answered, at most for LockServiceOptions::engine_timeout. Only the
  // first call has an effect.
  //   FailedPrecondition: the lease was lost, and the message says why, or was already released. The engine is not
  //     contacted, so a new holder is not affected.
  //   Unavailable: the engine has not confirmed the release. The lease is not renewed any more, and the release is
  //     retried in the background, so other owners can enter at the latest after the previous `remaining()`.
  //   ResourceExhausted, PermissionDenied, Unauthenticated, Unknown, Internal: as for LockService::Acquire(). The
  //     release is retried in the background.
  absl::Status Release();

  // Like Release(), but waits for nobody, neither for the engine nor for a callback of lost(): for event loops, which
  // call it, or co_await ReleaseAwait(), before the lease is destroyed. The lease is not valid from here on. A thread
  // of the service sends the releases, one after another, so other owners enter later than after Release(); it starts
  // with the first. While the engine does not answer, the release is Unavailable at once, and retried in the
  // background. `done`, which may be empty, is invoked once with what Release() would have returned, on
  // LockServiceOptions::executor, after the callbacks of lost() have returned; for an empty lease on this thread.
  // Exceptions that it throws are logged. The destructor of the service sends what is left, while the engine answers:
  // if it does not, the destructor waits for some two engine_timeout at most.
  void ReleaseAsync(absl::AnyInvocable<void(absl::Status)> done = nullptr);

 private:
  friend class locks_internal::ServiceCore;
  friend void locks_internal::ReleaseWithoutWaiting(LockLease& lease);

  std::shared_ptr<locks_internal::LeaseState> state_;  // Null: empty.
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_LEASE_H_
