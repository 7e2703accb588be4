#ifndef STOCKADE_INVENTORY_FLEET_FLEET_STATEMENTS_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_STATEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fleet_rows.h"
#include "fleet_schema.h"
#include "stockade/inventory/order.h"

// What a transaction of a fleet does, as data. Each statement does all that it says, or the transaction is rolled back:
// a statement about rows that are not as it expects them fails. One without rows does nothing. fleet_sql.cc has the
// SQL.
//
// Lock order of the tables, in every transaction: lanes, skus, requests, existing orders, buyers, new orders,
// order_lines, stock; within a table ascending by primary key. A transaction that puts units into stock has locked the
// rows of their SKUs.
namespace stockade::inventory_internal {
namespace statements {

// Units of a buyer, which count against a limit.
struct BuyerRow {
  uint64_t sku;
  FleetHash buyer;
  int64_t units;
  int64_t limit;
};

// Fails if an id was used, or was forgotten before the fleet was imported.
struct InsertRequests {
  std::vector<std::pair<FleetHash, OrderId>> rows;
  std::vector<uint64_t> fingerprints = {};  // Of the ids, if the fleet was imported.
};
// Adds to the units that buyers have. Fails if a buyer has more than the limit then.
struct ChargeBuyers {
  std::vector<BuyerRow> rows;
};
// Orders and their lines. A take and a restock are sold at once, all others are held.
struct InsertOrders {
  struct Row {
    OrderId id;
    FleetHash request;
    FleetHash buyer;
    OrderKind kind;
    int64_t ttl_us;
    std::vector<std::pair<uint64_t, int64_t>> lines;  // SKU and quantity; one, unless it is a basket.
  };
  std::vector<Row> rows;
};
// Units of one segment become held and sold. Fails if it has too few, or if the segment of a node has another fence.
struct Pay {
  uint64_t sku = 0;
  int64_t held = 0;
  int64_t sold = 0;
  int64_t segment = 0;
  std::optional<int64_t> fence = {};
  // Of all segments. What is left goes to segment 0, and the fences of nodes are raised.
  bool merges = false;
  bool may_lack = false;  // The segment gives what it has.

  int64_t units() const { return held + sold; }
};
// Units come back to SKUs, whose rows are as they were read and stay locked. Settle puts those on sale of open SKUs.
struct ComeBack {
  struct Row {
    uint64_t sku;
    int64_t units;
    bool removed;  // They are withdrawn.
    bool to_limbo;
    int64_t epoch;
  };
  std::vector<Row> rows;
  bool draining_is_open = false;
};
// Held orders end; those that expire are due, all others are not.
struct EndOrders {
  std::vector<std::pair<OrderId, OrderState>> rows;
};
// Takes from the units that buyers have.
struct CreditBuyers {
  std::vector<BuyerRow> rows;
};
// Held units are sold, or come back: `units` of them to this segment.
struct Settle {
  struct Row {
    uint64_t sku;
    int64_t segment;
    int64_t units;
    int64_t held;
    int64_t sold;
  };
  std::vector<Row> rows;
};
// Of a SKU whose latch still is as it was read.
struct Restock {
  uint64_t sku;
  int64_t units;
  FleetMode mode;
  int64_t epoch;
  bool to_limbo;
};
// Spreads units over the segments of the ledger, of which there are as many.
struct Spread {
  uint64_t sku;
  int64_t units;
  int32_t segments;
};
struct AddSku {
  uint64_t sku;
  std::string name;
  int64_t stock;
  int64_t per_buyer_limit;
  int32_t segments;
  bool has_nodes;
};
// Units for sale and in limbo are withdrawn.
struct RemoveSku {
  uint64_t sku;
};
// Units at nodes come back, and the fences of their rows are raised.
struct Reshard {
  uint64_t sku;
  int32_t segments;
};
// Moves units of an open SKU to the row of a node, which is as it was read.
struct FillNode {
  uint64_t sku;
  int64_t from;  // A segment of the ledger.
  int64_t node;  // The node's.
  int64_t units;
  std::optional<FleetNodeRow> before;
  FleetNodeRow after;
};
// A SKU without units: a new epoch begins. It was open. The epoch is a time, so that none comes again after a restore
// or a failover that has lost a latch.
struct Latch {
  uint64_t sku;
  int64_t lease_us;
  bool or_draining = false;
};
// Units in limbo are spread over the segments of the ledger, and the SKU is open. nullopt: in any epoch.
struct MoveLimbo {
  uint64_t sku;
  std::optional<int64_t> epoch;
};
// Deletes orders that have ended, and counts what they sold.
struct Forget {
  std::map<uint64_t, int64_t> sold;  // Units by SKU.
  std::vector<OrderId> orders;
};

}  // namespace statements

using FleetStatement = std::variant<statements::InsertRequests, statements::ChargeBuyers, statements::InsertOrders,
                                    statements::Pay, statements::ComeBack, statements::EndOrders,
                                    statements::CreditBuyers, statements::Settle, statements::Restock,
                                    statements::Spread, statements::AddSku, statements::RemoveSku, statements::Reshard,
                                    statements::FillNode, statements::Latch, statements::MoveLimbo, statements::Forget>;

// The statements of one transaction. Their tags say which one has failed: see FleetOutcome.
struct FleetTagged {
  FleetStatement statement;
  size_t tag = 0;
};
using FleetPacket = std::vector<FleetTagged>;

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_STATEMENTS_H_
