#ifndef STOCKADE_EXAMPLES_SHOP_FLEET_PROCESS_H_
#define STOCKADE_EXAMPLES_SHOP_FLEET_PROCESS_H_

#include <string>

namespace shop {

// Accidents that happen to a process, forced so that a rare event happens in every run.
enum class Fate {
  kNone,
  kPausedInTheJob,         // SIGSTOP between its look at the lock and its write.
  kKilledWithAnAllotment,  // SIGKILL with pairs in hand that are not in its ledger yet.
};

struct FleetPlan {
  int number = 1;
  Fate fate = Fate::kNone;
  std::string locks;      // The URL.
  std::string lock_name;  // Of the job's lock.
  std::string directory;  // Of the warehouse's file, which all share, and of the process's own ledger.

  std::string warehouse() const { return directory + "/warehouse.db"; }
  std::string ledger() const { return directory + "/orders-" + std::to_string(number) + ".db"; }
  // The answers that its buyers got: the request ids of orders that were acknowledged.
  std::string told() const { return directory + "/told-" + std::to_string(number) + ".txt"; }
};

// One process of the fleet: takes part in the job, then sells until the warehouse is empty.
void RunFleetProcess(const FleetPlan& plan);

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_FLEET_PROCESS_H_
