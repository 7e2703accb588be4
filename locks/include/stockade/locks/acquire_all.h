#ifndef STOCKADE_LOCKS_ACQUIRE_ALL_H_
#define STOCKADE_LOCKS_ACQUIRE_ALL_H_

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_lease.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// One of several locks to be acquired together.
struct LockTarget {
  LockService* service = nullptr;  // The service of the lock; not null.
  std::string name = {};           // Its name there.
};

// Several locks held together. Movable; has the thread safety of LockLease.
class [[nodiscard]] STOCKADE_EXPORT LockLeases {
 public:
  LockLeases();                                        // Not valid.
  explicit LockLeases(std::vector<LockLease> leases);  // Takes over these leases.
  ~LockLeases();
  LockLeases(LockLeases&&) noexcept;
  LockLeases& operator=(LockLeases&&) noexcept;

  // Whether all leases are valid.
  bool valid() const;
  // Requests stop when the first of the leases is lost, as LockLease::lost().
  std::stop_token lost() const;
  // One lease per distinct target, in the order in which they were acquired.
  std::span<const LockLease> leases() const;

  // Releases all leases, the last one first, even if some fail. Returns the first error; the errors are those of
  // LockLease::Release(). Blocks at most for the longest LockServiceOptions::engine_timeout of the services, for all
  // leases together: what an engine has not confirmed by then is released in the background.
  absl::Status Release();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Acquires all locks or none. Each is acquired once, in the order of service ids and names, so that callers that list
// the same locks in different orders do not deadlock. options.wait is the limit for all of them together, on the system
// clock. If one acquire fails, the locks acquired so far are released. A lease with a fixed length starts at its own
// acquire, so it should be longer than the wait. If a lease ends or is lost before the last lock is acquired, all are
// released and the result is DeadlineExceeded.
//
// Errors as for LockService::Acquire(), with the target's name; InvalidArgument if there is no target or one has no
// service. Blocks like Acquire() and is thread-safe; O(n log n) in addition.
STOCKADE_EXPORT absl::StatusOr<LockLeases> AcquireAll(std::span<const LockTarget> targets, AcquireOptions options = {});
STOCKADE_EXPORT absl::StatusOr<LockLeases> AcquireAll(LockService& service, std::span<const std::string> names,
                                                      AcquireOptions options = {});

}  // namespace stockade

#endif  // STOCKADE_LOCKS_ACQUIRE_ALL_H_
