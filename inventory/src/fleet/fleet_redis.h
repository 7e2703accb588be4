#ifndef STOCKADE_INVENTORY_FLEET_FLEET_REDIS_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_REDIS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fleet_dispenser.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::inventory_internal {

// The names of Redis nodes in the table `nodes`: their URLs without passwords. InvalidArgument: a URL is invalid, or is
// there twice.
absl::StatusOr<std::vector<std::string>> FleetNodeNames(std::span<const std::string> urls);

// The nodes FleetInventoryOptions::redis, which need not be reachable. `nodes`: by their order there.
// InvalidArgument: a node cannot be used as its URL says. ResourceExhausted: a thread cannot be started.
absl::StatusOr<std::unique_ptr<FleetDispenser>> ConnectFleetNodes(const FleetInventoryOptions& options,
                                                                  std::vector<FleetDispenser::Node> nodes);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_REDIS_H_
