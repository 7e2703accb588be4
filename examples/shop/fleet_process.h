#ifndef STOCKADE_EXAMPLES_SHOP_FLEET_PROCESS_H_
#define STOCKADE_EXAMPLES_SHOP_FLEET_PROCESS_H_

#include <memory>
#include <string>

#include "stockade/inventory/inventory.h"

namespace shop {

// Accidents that happen to a process, forced so that a rare event happens in every run.
enum class Fate {
  kNone,
  kPausedInTheJob,   // SIGSTOP between its look at the lock and its write.
  kKilledInTheSale,  // SIGKILL while its threads sell.
};

struct FleetPlan {
  int number = 1;
  Fate fate = Fate::kNone;
  std::string locks;      // The URL.
  std::string lock_name;  // Of the job's lock.
  std::string redis;      // The URL of the cache's second level.
  std::string ledger;     // The URL of the stock.
  std::string socket;     // Of the same MariaDB, for the shop's own tables.
  std::string directory;

  // The answers that its buyers got: the ids of orders that were acknowledged.
  std::string told() const { return directory + "/told-" + std::to_string(number) + ".txt"; }
};

inline constexpr int kFleet = 3;
inline constexpr int kVisitors = 100;  // Of each process.
inline constexpr int kToldBeforeTheKill = 100;
inline constexpr int64_t kNewPrice = 79;

// The stock that the processes share.
std::unique_ptr<stockade::Inventory> ConnectStock(const FleetPlan& plan);

// One process of the fleet: takes part in the job, shows prices to its visitors, then sells until all is sold.
void RunFleetProcess(const FleetPlan& plan);

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_FLEET_PROCESS_H_
