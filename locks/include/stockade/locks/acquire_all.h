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

// One lock of several that are wanted together.
struct LockTarget {
  LockService* service = nullptr;  // Where it is; not null.
  std::string name = {};           // What it is called there.
};

// Several locks held together. Movable; as LockLease for threads.
class [[nodiscard]] STOCKADE_EXPORT LockLeases {
 public:
  LockLeases();                                        // Of nothing: not valid.
  explicit LockLeases(std::vector<LockLease> leases);  // Of these.
  ~LockLeases();
  LockLeases(LockLeases&&) noexcept;
  LockLeases& operator=(LockLeases&&) noexcept;

  // Whether all are.
  bool valid() const;
  // Is told when the first of them is lost, as LockLease::lost() is.
  std::stop_token lost() const;
  // One for each different target, in the order in which they were acquired.
  std::span<const LockLease> leases() const;

  // Releases all, the last one first, whatever becomes of the others. The first error.
  absl::Status Release();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Acquires all or nothing. They are acquired in the order of their services' ids and their names, each once, so callers
// that want the same locks in different orders do not wait for each other in a circle. options.wait is for all
// together, on the system's clock; what has been acquired is released where one fails. A lease that is given runs from
// each acquire on, so choose it longer than the wait: where one is over, or lost, before the last is held, all are
// released, DeadlineExceeded.
//
// Errors as LockService::Acquire(), with the target's name; InvalidArgument: no target, or one without a service.
// Blocks and is thread-safe as that; O(n log n) besides.
STOCKADE_EXPORT absl::StatusOr<LockLeases> AcquireAll(std::span<const LockTarget> targets, AcquireOptions options = {});
STOCKADE_EXPORT absl::StatusOr<LockLeases> AcquireAll(LockService& service, std::span<const std::string> names,
                                                      AcquireOptions options = {});

}  // namespace stockade

#endif  // STOCKADE_LOCKS_ACQUIRE_ALL_H_
