#ifndef STOCKADE_BENCH_FLEET_INVENTORY_ROWS_H_
#define STOCKADE_BENCH_FLEET_INVENTORY_ROWS_H_

#include <functional>
#include <string>
#include <string_view>

#include "harness/suite.h"
#include "servers/disk_server.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::bench {

// Starts it if it does not run yet.
using StartServer = std::function<const DiskServer&()>;

// Of a database on a MariaDB.
std::string FleetUrl(const DiskServer& server, std::string_view database);

// An empty database for it, with the tables of a fleet, and the options to connect to it.
FleetInventoryOptions NewFleet(const DiskServer& server, const std::string& fleet);

void AddFleetInventoryRows(Suite& suite);
void AddEndRows(Suite& suite, const StartServer& server);
void AddOneCallerRows(Suite& suite, const StartServer& server);
void AddRefusalRows(Suite& suite, const StartServer& server);
void AddRedisRows(Suite& suite, const StartServer& server);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_INVENTORY_ROWS_H_
