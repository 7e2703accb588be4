#ifndef STOCKADE_INVENTORY_FLEET_FLEET_SQL_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_SQL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fleet_rows.h"
#include "fleet_schema.h"
#include "fleet_statements.h"
#include "stockade/base/strings.h"

// All SQL about a fleet's SKUs, stock, orders and buyers. fleet_lane.cc has that about its lanes.
namespace stockade::inventory_internal {

class FleetLane;

// The text of a packet.
class FleetScript {
 public:
  FleetScript(const FleetTables& tables, const FleetPacket& packet);

  const std::string& sql() const { return sql_; }
  // The tag of the statement at this index.
  size_t tag(size_t index) const { return tags_[index]; }
  size_t size() const { return tags_.size(); }
  bool HasTag(size_t tag) const { return std::ranges::find(tags_, tag) != tags_.end(); }

 private:
  struct Writer;

  std::string sql_;
  std::vector<size_t> tags_;
};

std::string FleetHashLiteral(const FleetHash& hash);

// The reads. Each blocks for one round trip. False: the ledger cannot be used.

// SQL that selects SKUs, for ReadSkuRows().
std::string OneSku(uint64_t sku);
std::string TheseSkus(std::span<const uint64_t> skus);
// The first `most` SKUs that are for sale and have higher ids than `last`, and any `most` whose limbo has units.
std::string SkusAfter(const FleetTables& tables, uint64_t last, size_t most);
std::string DrainingSkus(const FleetTables& tables, size_t most);
// Reads the SKUs and their stock as they are at one moment.
bool ReadSkuRows(FleetLane& lane, std::string_view which, FleetSkuRows& skus);

// `now`: the database's time. `large`, if not null, gets the ids of large orders, which are then not read.
bool ReadOrderRows(FleetLane& lane, std::span<const OrderId> ids, FleetOrderRows& orders, int64_t& now,
                   std::vector<OrderId>* large = nullptr);
// Counts the lines of baskets. Other orders are missing.
bool CountOrderLines(FleetLane& lane, std::span<const OrderId> ids, std::map<OrderId, uint64_t>& lines);

// What is read before requests are granted or refused.
struct FleetGrantQuery {
  std::vector<uint64_t> skus = {};
  std::map<uint64_t, std::vector<FleetHash>> buyers = {};  // By SKU.
  std::vector<FleetHash> requests = {};
  std::vector<uint64_t> fingerprints = {};  // Those of the ids, in a fleet that was imported.
};
// The answer. The stock was read first, then the buyers, and the request ids last: so a request that is refused for
// lack of units had not taken any when they were counted.
struct FleetGrantRows {
  int64_t now = 0;
  FleetSkuRows skus = {};
  std::map<std::pair<uint64_t, FleetHash>, int64_t> buyer_units = {};  // By SKU and buyer.
  std::map<FleetHash, std::optional<FleetOrderRow>> orders = {};       // nullopt: forgotten.
  std::vector<uint64_t> forgotten = {};                                // Fingerprints.
  // The orders of the ids have more lines than the requests, and were not read to the end.
  bool is_cut = false;
};
bool ReadGrantRows(FleetLane& lane, const FleetGrantQuery& question, FleetGrantRows& rows);
// Reads what one id was used for.
struct FleetRequestRow {
  bool is_forgotten = false;  // It is one of those that were forgotten before the fleet was imported.
  OrderId order = 0;          // 0 if it was not used.
  bool is_change = false;     // It is that of a change of the order.
};
bool ReadRequest(FleetLane& lane, const FleetHash& request, std::optional<uint64_t> fingerprint, FleetRequestRow& row);
// Reads a change of an order: of each line the kind, whether it was of all, the SKU, the quantity, and whether the
// units went to stock. No lines: there is no such change.
using FleetChange = std::vector<std::tuple<int64_t, bool, uint64_t, int64_t, bool>>;
bool ReadChange(FleetLane& lane, OrderId order, const FleetHash& request, FleetChange& change);
// Reads the next `most` orders after `last` that took units of a SKU, and their request ids: baskets, or all others.
using FleetTakers = std::vector<std::tuple<OrderId, FleetHash>>;
bool ReadTakers(FleetLane& lane, uint64_t sku, bool in_baskets, OrderId last, size_t most, FleetTakers& takers);

// The upkeep finds orders by the time at which they are due, or ended.
//
// Claims the upkeep for this lane's process, for so long. `is_ours`: no other process has it; nothing: the tables have
// no row that says who does.
bool ClaimUpkeep(FleetLane& lane, int64_t janitor_us, std::optional<bool>& is_ours);
// Reads the first `most` orders that were due at `from` or later, and come after `found`.
struct FleetDuePage {
  std::vector<std::tuple<OrderId, int64_t, bool>> rows = {};  // The id, when it was due, and whether it is small.
  std::optional<int64_t> next = {};                           // When the first one is due that is not.
  bool oldest_is_held = false;
  int64_t now = 0;
};
bool ReadDue(FleetLane& lane, int64_t from, std::pair<int64_t, OrderId> found, size_t most, OrderId oldest,
             FleetDuePage& due);
// Reads for how long the processes that are alive want orders to be kept.
bool ReadRetention(FleetLane& lane, std::optional<int64_t>& retention_us);
// Reads the ids and the numbers of lines of orders that ended between these times: the first `most` of each state.
using FleetOldOrders = std::vector<std::tuple<OrderId, uint64_t>>;
bool ReadOld(FleetLane& lane, int64_t from, int64_t before, size_t most, FleetOldOrders& old);
// Deletes up to `most` buyers of a removed SKU. `is_more`: some may be left.
bool DeleteBuyers(FleetLane& lane, uint64_t sku, size_t most, bool& is_more);

// Reads what the metrics show: sums over all SKUs, and how many of the next `most` rows of buyers are above their
// limit.
struct FleetTotals {
  std::tuple<int64_t, int64_t, int64_t, int64_t> sums = {};  // Units available, held, sold, oversold.
  int64_t over_limit = 0;
  std::vector<std::tuple<uint64_t, FleetHash>> last = {};  // The last of these buyers; none if it was the end.
};
bool ReadTotals(FleetLane& lane, const std::pair<uint64_t, FleetHash>& after, size_t most, FleetTotals& totals);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_SQL_H_
