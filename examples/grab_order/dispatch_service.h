#ifndef STOCKADE_EXAMPLES_GRAB_ORDER_DISPATCH_SERVICE_H_
#define STOCKADE_EXAMPLES_GRAB_ORDER_DISPATCH_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "order_store.h"
#include "stockade/locks/lock_service.h"

namespace grab_order {

// The service that drivers' phones talk to. It runs more than once, on several machines; the instances share nothing
// but the store and the engine of the locks. Thread-safe.
class DispatchService {
 public:
  // `place`: the prefix of its locks' names, the same in all instances. The store must outlive it.
  DispatchService(std::unique_ptr<stockade::LockService> locks, std::string place, OrderStore* store);

  // Blocks for the engine and the store, not for other drivers. True: the order is this driver's. False: another driver
  // has it, or is just about to.
  absl::StatusOr<bool> Grab(int64_t order, int driver);

 private:
  absl::StatusOr<bool> GiveIfOpen(int64_t order, int driver, int64_t token);

  const std::unique_ptr<stockade::LockService> locks_;
  const std::string place_;
  OrderStore* const store_;
};

}  // namespace grab_order

#endif  // STOCKADE_EXAMPLES_GRAB_ORDER_DISPATCH_SERVICE_H_
