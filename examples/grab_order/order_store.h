#ifndef STOCKADE_EXAMPLES_GRAB_ORDER_ORDER_STORE_H_
#define STOCKADE_EXAMPLES_GRAB_ORDER_ORDER_STORE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace grab_order {

// The orders and their drivers. It stands for a database, so it outlives both services and runs one statement at a
// time. It takes part in the lock: each statement carries a fencing token. If the token is smaller than the largest one
// that the order has seen, the statement is refused (Aborted), because its caller has lost the lock to a newer holder.
// Thread-safe.
class OrderStore {
 public:
  // SELECT: whether no driver has it.
  absl::StatusOr<bool> IsOpen(int64_t order, int64_t token);
  // UPDATE: the driver has it. It does not check whether another driver has it: the caller did, under the lock.
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
