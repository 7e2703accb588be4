#ifndef STOCKADE_INVENTORY_FLEET_FLEET_DISPENSER_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_DISPENSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::inventory_internal {

// Counters of units at the Redis nodes of a fleet, one per node and SKU. A counter says which lane may try to pay from
// the row of stock that belongs to the node. The row itself decides: its fence is the counter's generation, and its
// units cannot fall below 0. So a counter may lose units, give out too many, be older than it was, or be in two places,
// and no answer of the inventory rests on it.
//
// Thread-safe.
class FleetDispenser {
 public:
  struct Want {
    uint64_t sku = 0;
    // The oldest generation that the caller can use.
    int64_t least_generation = 0;
    int64_t units = 0;
  };
  struct Got {
    int64_t generation = 0;  // Of the counter; 0: there is none.
    int64_t units = 0;       // All that are wanted, or 0.
    int64_t left = 0;        // In the counter.
    bool usable = true;      // False: this counter cannot be used, but others of the node can.
  };

  struct Node {
    int32_t segment;   // In the table `stock`.
    std::string name;  // Its URL without user and password.
  };

  // At least one.
  explicit FleetDispenser(std::vector<Node> nodes) : nodes_(std::move(nodes)) {}
  virtual ~FleetDispenser() = default;

  size_t size() const { return nodes_.size(); }
  int32_t segment(size_t node) const { return nodes_[node].segment; }
  const std::string& name(size_t node) const { return nodes_[node].name; }

  // One for each of `wants`, in one round trip. nullopt: the node cannot be used; it may have given units. Blocks for
  // at most a time-out, except while a Sentinel set or a cluster is connected to for the first time; and does not block
  // while the node is known to be away.
  virtual std::optional<std::vector<Got>> Take(size_t node, std::span<const Want> wants) = 0;
  // Adds units that a transaction has moved to the node's row, whose fence was `generation`. It was the row's fill
  // number `fill`. False: the counter has a later generation or fill, or cannot be used, so nothing was added. If the
  // node cannot be used, perhaps nothing was added. Units that are not added stay in the row. Blocks as Take() does.
  virtual bool Fill(size_t node, uint64_t sku, int64_t generation, int64_t fill, int64_t units) = 0;

  // Whether the node is known to be away.
  virtual bool away(size_t node) const = 0;

 private:
  const std::vector<Node> nodes_;
};

// In fleet_redis.cc, a target of its own, which is built if there is stockade::redis.
//
// The names of Redis nodes in the table `nodes`: their URLs without passwords. InvalidArgument: a URL is invalid, or is
// there twice.
STOCKADE_EXPORT absl::StatusOr<std::vector<std::string>> FleetNodeNames(std::span<const std::string> urls);

// The nodes FleetInventoryOptions::redis, which need not be reachable. `nodes`: by their order there.
// InvalidArgument: a node cannot be used as its URL says. ResourceExhausted: a thread cannot be started.
STOCKADE_EXPORT absl::StatusOr<std::unique_ptr<FleetDispenser>> ConnectFleetNodes(
    const FleetInventoryOptions& options, std::vector<FleetDispenser::Node> nodes);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_DISPENSER_H_
