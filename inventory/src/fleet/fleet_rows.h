#ifndef STOCKADE_INVENTORY_FLEET_FLEET_ROWS_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_ROWS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fleet_schema.h"
#include "fleet_sold_out.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/order.h"

// What the tables of a fleet say of SKUs and orders, as one read shows it. Pure: a server may send any value, and what
// is not sound is damage.
namespace stockade::inventory_internal {

// What a row of stock says that belongs to a Redis node. Each fence is a generation: the units that the node has
// given out under an older one cannot be paid any more.
struct FleetNodeRow {
  int64_t fence = 0;
  int64_t fills = 0;  // Of the row, so far.
};

// A row of skus, and what its rows of stock have, all of one moment.
struct FleetSkuRow {
  std::string name = {};
  // A value that this code never writes, as text: "the mode 7". Empty if all values are sound.
  std::string damage = {};
  int64_t per_buyer_limit = 0;
  int64_t segments = 1;
  bool removed = false;
  int64_t granted = 0;
  FleetLatch latch = {};
  int64_t units = 0;
  int64_t held = 0;
  int64_t sold = 0;
  std::vector<int64_t> segment_units = {};  // Of the ledger's.
  bool has_nodes = false;
  std::map<int64_t, FleetNodeRow> nodes = {};  // By segment. Their units are in `units`.

  // `damage`, or what its rows of stock have that together they cannot, or do not have. One of them alone may have a
  // negative number of units held or sold, because orders end in other segments.
  std::string Damage() const;
  // Held by orders, in limbo, or for sale.
  int64_t unsold() const { return granted - sold; }
  // Those that a refusal counts.
  int64_t UnitsForSale() const;
  // Units in limbo count as held.
  SkuSnapshot Snapshot() const;
};

// Units, units held, units sold, segment, fence and fills of a row of stock.
using FleetStockColumns = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
// The id, the name, the limit per buyer, removed, granted, segments, mode, epoch, lease_us, limbo,
// redis_segments, and a row of stock. A row for each row of stock.
using FleetSkuColumns = std::tuple<uint64_t, std::string, int64_t, bool, int64_t, int64_t, int64_t, int64_t, int64_t,
                                   int64_t, bool, std::optional<FleetStockColumns>>;
using FleetSkuTable = std::vector<FleetSkuColumns>;
using FleetSkuRows = std::map<uint64_t, FleetSkuRow>;

// Of a row of orders, and of one of its lines: the order's id, kind, state, buyer, created_at, ttl_us, at, version, the
// SKU, the quantity, and how many of these units came back after the sale.
using FleetOrderColumns =
    std::tuple<OrderId, int64_t, int64_t, FleetHash, int64_t, int64_t, int64_t, int64_t, uint64_t, int64_t, int64_t>;

// A row of orders, and its lines.
struct FleetOrderRow {
  OrderId id = 0;
  std::string damage = {};  // As that of a FleetSkuRow.
  OrderKind kind = OrderKind::kTake;
  OrderState state = OrderState::kHeld;
  std::map<uint64_t, int64_t> lines = {};     // Quantities by SKU.
  std::map<uint64_t, int64_t> returned = {};  // Those of them that came back after the sale, if any did.
  FleetHash buyer = {};
  int64_t created_at = 0;
  int64_t ttl_us = 0;
  int64_t at = 0;
  int64_t version = 0;     // Raised by each transaction that changes the order.
  bool is_change = false;  // The request id by which it was read is that of a change of it.

  // Units of a line that have not come back.
  int64_t Left(uint64_t sku) const;
  // It was sold, and all of it came back.
  bool AllReturned() const;
  // By how much later it expires, if it is held: see ExtensionUs() of order_rules.h. Any numbers may be in the row.
  int64_t ExtensionUs(int64_t now, int64_t ttl, int64_t longest) const;
  // A row for one of its lines.
  void Add(const FleetOrderColumns& row);
};
using FleetOrderRows = std::map<OrderId, FleetOrderRow>;

// The rows of SKUs, each with its rows of stock.
void AddFleetSkus(const FleetSkuTable& table, FleetSkuRows& skus);

// Whether units that come back go to limbo, as the SKU was read.
bool DepositsToLimbo(const FleetLatch& latch);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_ROWS_H_
