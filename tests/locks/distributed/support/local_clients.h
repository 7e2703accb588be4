#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCAL_CLIENTS_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCAL_CLIENTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "stockade/locks/lock_service.h"

namespace stockade::testing {

// Several services over one engine in memory, like several processes that use one server. Must outlive them. For one
// thread, except the services.
class LocalClients {
 public:
  LocalClients();
  ~LocalClients();

  std::unique_ptr<LockService> New(LockServiceOptions options);

  // In the queue of a fair lock.
  int64_t Queued(const std::string& name) const;

 private:
  class Shared;
  class Client;

  const std::shared_ptr<Shared> shared_;
  uint16_t clients_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCAL_CLIENTS_H_
