#ifndef STOCKADE_EXAMPLES_GRAB_ORDER_ORDER_STORE_H_
#define STOCKADE_EXAMPLES_GRAB_ORDER_ORDER_STORE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace grab_order {

// The orders and who takes them: in the place of a database, so it outlives both services and does one statement at a
// time. It takes part in the lock: each statement shows a fencing token, and one that is smaller than the largest that
// the order has seen is refused (Aborted), for its caller has lost the lock to somebody newer. Thread-safe.
class OrderStore {
 public:
  // SELECT: whether nobody has it.
  absl::StatusOr<bool> IsOpen(int64_t order, int64_t token);
  // UPDATE: the driver has it. Whoever had it before is not asked for: that was the caller's to do, under the lock.
  absl::Status Give(int64_t order, int driver, int64_t token);

  // All that have been given it, the first one first: one, if all is well.
  std::vector<int> DriversOf(int64_t order) const;

 private:
  struct Order {
    int64_t largest_token = 0;
    std::vector<int> drivers = {};
  };

  // Aborted: the token is too small.
  absl::StatusOr<Order*> Find(int64_t order, int64_t token);  // Under mutex_.

  mutable std::mutex mutex_;
  std::map<int64_t, Order> orders_;  // Guarded by mutex_.
};

}  // namespace grab_order

#endif  // STOCKADE_EXAMPLES_GRAB_ORDER_ORDER_STORE_H_
