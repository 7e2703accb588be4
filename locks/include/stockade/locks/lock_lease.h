#ifndef STOCKADE_LOCKS_LOCK_LEASE_H_
#define STOCKADE_LOCKS_LOCK_LEASE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/acquire_options.h"

namespace stockade {

namespace internal {
struct LeaseState;
class ServiceCore;
}  // namespace internal

// One hold of a lock, released with it. Movable; any thread may use it, one at a time, and several may call valid() and
// lost(). Before you move a lease to another thread, see AcquireOptions::owner. May outlive its service, which ends it.
// Not for use in a forked child, where its destructor does nothing.
//
// All leases of one owner on one lock stand on one hold in the engine: they are valid, and are lost, together.
class [[nodiscard]] STOCKADE_EXPORT LockLease {
 public:
  LockLease() = default;                                            // Of nothing: not valid.
  explicit LockLease(std::shared_ptr<internal::LeaseState> state);  // For services.
  // As Release(); an error is logged. If the engine did not answer the last request, the release is sent in the
  // background until the lease lapses, and this does not wait.
  ~LockLease();
  LockLease(LockLease&& other) noexcept = default;
  LockLease& operator=(LockLease&& other) noexcept;

  // Whether it is held now: false once its time is over on this machine's clock, before the engine gives the lock to
  // somebody else for that reason. Loss by other ways (force-release, an emptied server, failover) shows at the next
  // renewal, or at the release where nothing is renewed. Once false, false for good. It reads a clock, some 30 ns.
  bool valid() const;

  // Is told when it is lost. Callbacks run on LockServiceOptions::executor; where it was lost before they were made, in
  // their constructor. None runs once Release() or the destructor has returned, which wait for one that runs, unless
  // they are called by it. Of nothing: a token without a state.
  std::stop_token lost() const;

  // Larger than that of everybody who held this lock before and excludes this owner; than that of a hold which this one
  // re-enters too, where the engine does not give the same (ZooKeeper). Send it along with what the lock protects, and
  // let the store refuse a smaller one than it has seen: that holds though this process may sleep past its lease.
  //
  // ZooKeeper and the engine in memory promise this without exception. Redis and MySQL replicate asynchronously, and
  // tokens there are the server's time in microseconds or, if that is larger, the last token and one. So after a
  // failover that lost the last acquire, a token may be smaller than the lost one if the new server's clock is behind
  // by more than the failover took, and this service has had no token that was the old server's time. A service that
  // has had one continues from the old server's time, to within the time of one answer, which is shorter than a
  // failover. (After the old server's clock stepped back, its tokens are the last token and one until its clock has
  // caught up: a service that has had only such tokens may get a smaller one from the new server.)
  // AcquireOptions::require_growing_token refuses such an engine.
  //
  // FailedPrecondition: there is none (RedLock, a degraded lease, nothing).
  absl::StatusOr<int64_t> fencing_token() const;

  // How long valid() will be true if no renewal comes; zero where it is false.
  absl::Duration remaining() const;
  // How many leases its owner has on this lock through this service; zero once lost or released.
  int64_t hold_count() const;

  // As it was acquired. Of nothing: empty, kReentrant and kNoOwner.
  std::string_view name() const;
  LockKind kind() const;
  LockOwner owner() const;
  // Given by FallbackLockService in place of a lock that could not be reached: it excludes this process only.
  bool degraded() const;

  // Blocks until the engine has answered, at most LockServiceOptions::engine_timeout. Only the first call does
  // something. FailedPrecondition: it had been lost, of which the message tells the reason, or released; the engine is
  // not asked, and whoever holds the lock by now is not disturbed. Unavailable: the engine has not said that it is
  // released. Then it will not be renewed, and the release is tried again in the background, so others get in after
  // `remaining()` of before at the latest.
  absl::Status Release();

 private:
  friend class internal::ServiceCore;

  std::shared_ptr<internal::LeaseState> state_;  // Null: of nothing.
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_LEASE_H_
