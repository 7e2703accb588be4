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

#include "absl/container/inlined_vector.h"
#include "fleet_rows.h"
#include "fleet_schema.h"
#include "stockade/inventory/order.h"

// The statements of a fleet's transactions, as data. A transaction is rolled back unless each statement does all that
// it says; a statement fails if the rows are not as it expects them. A statement without rows does nothing.
// fleet_sql.cc has the SQL.
//
// All transactions lock the rows of the tables in this order: lanes, skus, requests, existing orders, buyers, new
// orders, order_lines, changes, stock; within a table ascending by primary key. A transaction that puts units into
// stock has locked the rows of their SKUs.
namespace stockade::inventory_internal {
namespace statements {

// The units of a buyer that count towards the limit of a SKU.
struct BuyerRow {
  uint64_t sku;
  FleetHash buyer;
  int64_t units;
  int64_t limit;
};

// Inserts request ids. Fails if one was used, or was forgotten before the fleet was imported.
struct InsertRequests {
  std::vector<std::pair<FleetHash, OrderId>> rows;
  std::vector<uint64_t> fingerprints = {};  // Those of the ids, if the fleet was imported.
};
// Adds to the units that buyers have. Fails if a buyer would have more than the limit.
struct ChargeBuyers {
  std::vector<BuyerRow> rows;
};
// Inserts orders and their lines. A take and a restock are sold at once, all others are held.
struct InsertOrders {
  struct Row {
    OrderId id;
    FleetHash request;
    FleetHash buyer;
    OrderKind kind;
    int64_t ttl_us;
    absl::InlinedVector<std::pair<uint64_t, int64_t>, 1> lines;  // SKUs and quantities; only a basket may have several.
  };
  std::vector<Row> rows;
};
// Takes units from one segment, and counts them as held and sold. Fails if the segment has too few, or another fence.
struct Pay {
  uint64_t sku = 0;
  int64_t held = 0;
  int64_t sold = 0;
  int64_t segment = 0;
  std::optional<int64_t> fence = {};  // Only the segments of nodes have one.
  // Takes them from all segments, moves the rest to segment 0, and raises the fences of the nodes.
  bool merges = false;
  bool may_lack = false;  // A segment with too few units gives those that it has.

  int64_t units() const { return held + sold; }
};
// Locks the rows of the SKUs whose units come back, and puts units into limbo. Fails if a SKU is not as it was read.
// SettleStock puts the units of open SKUs on sale.
struct ReturnUnits {
  struct Row {
    uint64_t sku;
    int64_t units;
    bool removed;  // The units are withdrawn.
    bool to_limbo;
    int64_t epoch;
    bool written_off = false;  // They are withdrawn, whether it is removed or not.
  };
  std::vector<Row> rows;
  bool draining_is_open = false;
};
// Ends held orders, or lets them last longer. Fails if an order was changed since it was read, is not held, expires
// before it is due, or is changed otherwise after that.
struct EndOrders {
  struct Row {
    OrderId id;
    int64_t version;  // As read.
    OrderState state;
    int64_t at = 0;  // kHeld: the new end.
  };
  std::vector<Row> rows;
};
// Notes that an order is changed that is sold. Fails if it was changed since it was read.
struct ChangeSold {
  OrderId id;
  int64_t version;  // As read.
};
// Inserts what an order's change took back, whose version is now `version`.
struct InsertChange {
  struct Line {
    uint64_t sku;
    int64_t quantity;
    bool to_stock;
  };
  OrderId id;
  int64_t version;
  ChangeKind kind;
  bool of_all;
  FleetHash request;
  std::vector<Line> lines;
};
// Takes from the units that buyers have.
struct CreditBuyers {
  std::vector<BuyerRow> rows;
};
// Counts held units as sold, or as held no more, and sold ones as sold no more. Adds `units` to a segment.
struct SettleStock {
  struct Row {
    uint64_t sku;
    int64_t segment;
    int64_t units;
    int64_t held;
    int64_t sold;
  };
  std::vector<Row> rows;
};
// Grants units to a SKU, and may put them into limbo. Fails if its latch is not as it was read.
struct Restock {
  uint64_t sku;
  int64_t units;
  FleetMode mode;
  int64_t epoch;
  bool to_limbo;
};
// Spreads units over all segments of the ledger. Fails if there are not so many.
struct SpreadUnits {
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
// Removes a SKU, and withdraws the units that are for sale or in limbo.
struct RemoveSku {
  uint64_t sku;
};
// Changes the number of the ledger's segments. Moves the units of nodes there, and raises the nodes' fences.
struct Reshard {
  uint64_t sku;
  int32_t segments;
};
// Moves units of an open SKU from the ledger to the row of a node. Fails if that row is not as it was read.
struct FillNode {
  uint64_t sku;
  int64_t from;  // The segment of the ledger.
  int64_t node;  // The segment of the node.
  int64_t units;
  std::optional<FleetNodeRow> before;
  FleetNodeRow after;
};
// Latches an open SKU without units, which begins an epoch. The epoch is a time, so that none comes again after a
// restore or a failover that has lost a latch.
struct Latch {
  uint64_t sku;
  int64_t lease_us;
  bool or_draining = false;
};
// Spreads the units in limbo over the segments of the ledger, and opens the SKU. nullopt: in any epoch.
struct MoveLimbo {
  uint64_t sku;
  std::optional<int64_t> epoch;
};
// Deletes orders that have ended, with their changes, and counts the units that they sold. Fails if one was changed
// since it was read.
struct Forget {
  std::map<uint64_t, int64_t> sold;                 // Units by SKU.
  std::vector<std::pair<OrderId, int64_t>> orders;  // And their versions.
};

}  // namespace statements

using FleetStatement =
    std::variant<statements::InsertRequests, statements::ChargeBuyers, statements::InsertOrders, statements::Pay,
                 statements::ReturnUnits, statements::EndOrders, statements::ChangeSold, statements::InsertChange,
                 statements::CreditBuyers, statements::SettleStock, statements::Restock, statements::SpreadUnits,
                 statements::AddSku, statements::RemoveSku, statements::Reshard, statements::FillNode,
                 statements::Latch, statements::MoveLimbo, statements::Forget>;

// The statements of one transaction. FleetOutcome has the tag of a statement that failed.
struct FleetTagged {
  FleetStatement statement;
  size_t tag = 0;
};
using FleetPacket = std::vector<FleetTagged>;

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_STATEMENTS_H_
