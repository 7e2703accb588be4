#include "fleet_rows.h"

#include <algorithm>
#include <numeric>

#include "fleet_calls.h"
#include "fleet_rules.h"
#include "order_rules.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {

void AddFleetSkus(const FleetSkuTable& table, FleetSkuRows& skus) {
  for (const auto& [id, name, limit, removed, granted, segments, mode, epoch, lease_us, limbo, has_nodes, stock] :
       table) {
    FleetSkuRow& sku = skus[id];
    sku.name = name;
    if (mode < 0 || mode > static_cast<int>(FleetMode::kDraining)) sku.damage = Concat("the mode ", mode);
    if (segments < 1 || segments > kMaxShards) sku.damage = Concat(segments, " segments");
    if (limit < 0) sku.damage = Concat("the per_buyer_limit ", limit);
    sku.per_buyer_limit = limit;
    sku.removed = removed;
    sku.granted = FleetClamp(granted);
    sku.segments = segments;
    sku.latch = {.mode = sku.damage.empty() ? static_cast<FleetMode>(mode) : FleetMode::kOpen,
                 .epoch = epoch,
                 .lease = absl::Microseconds(lease_us),
                 .limbo = FleetClamp(limbo)};
    sku.has_nodes = has_nodes;
    if (!stock.has_value()) continue;
    const auto& [units, held, sold, segment, fence, fills] = *stock;
    sku.units = FleetSum(sku.units, units);
    sku.held = FleetSum(sku.held, held);
    sku.sold = FleetSum(sku.sold, sold);
    if (segment < kFirstNodeSegment) {
      sku.segment_units.push_back(FleetClamp(units));
    } else {
      sku.nodes[segment] = {.fence = FleetClamp(fence), .fills = FleetClamp(fills)};
    }
  }
}

std::string FleetSkuRow::Damage() const {
  if (!damage.empty()) return damage;
  if (segment_units.size() != static_cast<size_t>(segments)) {
    return Concat(segment_units.size(), " rows of stock instead of ", segments);
  }
  if (std::min({units, held, sold, latch.limbo}) >= 0) return {};
  return Concat(units, " units, ", held, " held, ", sold, " sold and ", latch.limbo, " in limbo");
}

int64_t FleetSkuRow::UnitsForSale() const {
  if (!FleetRules::CountsAllSegments()) return segment_units[0];
  if (!FleetRules::CountsNodes()) {
    return std::accumulate(segment_units.begin(), segment_units.end(), int64_t{0});
  }
  return units;
}

SkuSnapshot FleetSkuRow::Snapshot() const {
  return {.sku = name,
          .granted = granted,
          .available = units,
          .held = held + latch.limbo,
          .sold = sold,
          .per_buyer_limit = per_buyer_limit,
          .sold_out = units == 0,
          .shards = static_cast<int32_t>(segment_units.size()),
          .shard_units = segment_units};
}

void FleetOrderRow::Add(const FleetOrderColumns& row) {
  int64_t kind_number = 0;
  int64_t state_number = 0;
  uint64_t sku = 0;
  int64_t quantity = 0;
  int64_t came_back = 0;
  std::tie(id, kind_number, state_number, buyer, created_at, ttl_us, at, version, sku, quantity, came_back) = row;
  if (kind_number < 0 || kind_number > static_cast<int>(OrderKind::kRestock)) {
    damage = Concat("the kind ", kind_number);
  } else if (state_number < 0 || state_number > static_cast<int>(OrderState::kExpired)) {
    damage = Concat("the state ", state_number);
  } else if (quantity < 1 || quantity > kMaxUnits) {
    damage = Concat(quantity, " units");
  } else if (came_back < 0 || came_back > quantity) {
    damage = Concat(quantity, " units, of which ", came_back, " came back");
  } else {
    kind = static_cast<OrderKind>(kind_number);
    state = static_cast<OrderState>(state_number);
    lines[sku] = quantity;
    if (came_back > 0) returned[sku] = came_back;
  }
}

int64_t FleetOrderRow::Left(uint64_t sku) const {
  const auto found = returned.find(sku);
  return lines.at(sku) - (found == returned.end() ? 0 : found->second);
}

bool FleetOrderRow::AllReturned() const {
  return !returned.empty() && std::ranges::all_of(lines, [&](const auto& line) { return Left(line.first) == 0; });
}

int64_t FleetOrderRow::ExtensionUs(int64_t now, int64_t ttl, int64_t longest) const {
  if (ttl_us == kNever || at == kNever) return 0;
  const int64_t granted = FleetClamp(ttl_us);
  const int64_t extended = FleetSum(FleetSum(at, -FleetClamp(created_at)), -granted);
  return inventory_internal::ExtensionUs(FleetClamp(ttl), FleetSum(at, -FleetClamp(now)), granted, extended,
                                         FleetClamp(longest));
}

bool DepositsToLimbo(const FleetLatch& latch) {
  return FleetRules::DrainingStaysInLimbo() ? latch.mode != FleetMode::kOpen : latch.mode == FleetMode::kLatched;
}

}  // namespace stockade::inventory_internal
