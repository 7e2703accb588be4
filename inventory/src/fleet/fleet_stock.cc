#include "fleet_stock.h"

#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "fleet_core.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Between two readings; longer if they take long, so that the server is busy with them for 2 % of the time at most.
constexpr absl::Duration kStockInterval = absl::Seconds(10);
constexpr int kShareOfTime = 50;
// Rows of buyers that one reading checks. The next one goes on from there.
constexpr int kBuyersPage = 10'000;

}  // namespace

FleetStock::FleetStock(const FleetInventoryOptions& options)
    : clock_(*options.clock),
      sku_metrics_(options.metrics, options.name, options.sku_metrics),
      metrics_(options.metrics, StockMetricDefs().subspan(kAvailableUnits, kBuyersOverLimit - kAvailableUnits + 1),
               {{"inventory", options.name}}) {
  const auto add = [this](StockMetric metric, std::function<double(const Figures&)> read) {
    Add(metrics_, metric - kAvailableUnits, std::move(read));
  };
  add(kAvailableUnits, [](const Figures& of) { return static_cast<double>(of.all.available); });
  add(kHeldUnits, [](const Figures& of) { return static_cast<double>(of.all.held); });
  add(kSoldUnits, [](const Figures& of) { return static_cast<double>(of.all.sold); });
  add(kOversoldUnits, [](const Figures& of) { return static_cast<double>(of.oversold); });
  add(kBuyersOverLimit, [](const Figures& of) { return static_cast<double>(of.buyers_over_limit); });
}

void FleetStock::Add(ComponentMetrics& to, size_t metric, std::function<double(const Figures&)> read) {
  to.AddGauge(metric, [this, read = std::move(read)] {
    const MutexLock lock(mutex_);
    if (!has_figures_ || clock_.Now() >= export_end_) return std::numeric_limits<double>::quiet_NaN();
    return read(figures_);
  });
}

void FleetStock::Set(Figures figures) {
  for (const auto& [sku, units] : figures.skus) {
    if (named_.contains(sku)) continue;
    ComponentMetrics* const metrics = sku_metrics_.Add(sku);
    if (metrics == nullptr) break;
    named_.insert(sku);
    const auto add = [&](SkuMetric metric, int64_t Units::*number) {
      Add(*metrics, metric, [name = sku, number](const Figures& of) {
        const auto found = of.skus.find(name);
        return found == of.skus.end() ? std::numeric_limits<double>::quiet_NaN()
                                      : static_cast<double>(found->second.*number);
      });
    };
    add(kSkuAvailableUnits, &Units::available);
    add(kSkuHeldUnits, &Units::held);
    add(kSkuSoldUnits, &Units::sold);
  }
  const MutexLock lock(mutex_);
  figures_ = std::move(figures);
  has_figures_ = true;
}

void FleetStock::ExportUntil(Instant end) {
  const MutexLock lock(mutex_);
  export_end_ = end;
}

void FleetStock::Clear() {
  const MutexLock lock(mutex_);
  has_figures_ = false;
}

bool FleetCore::ReadStock(Lane& lane) {
  StockReading& reading = lane.stock;
  const Instant sent = clock_.Now();
  if (!stock_.enabled() || sent < reading.next) return true;
  const bool was_read = ReadStockNow(lane);
  const Instant now = clock_.Now();
  reading.next = now + std::max(kStockInterval, kShareOfTime * (now - sent));
  return was_read;
}

bool FleetCore::ReadStockNow(Lane& lane) {
  StockReading& reading = lane.stock;
  const std::string& buyers = ledger_.tables.buyers;
  const std::string page =
      Concat(" FROM ", buyers, kByKey, " WHERE sku_id>", reading.buyer.first, " OR (sku_id=", reading.buyer.first,
             " AND buyer>", FleetHashLiteral(reading.buyer.second), ") ORDER BY sku_id,buyer LIMIT ");
  const auto sum = [](std::string_view of) { return Concat("CAST(COALESCE(SUM(", of, "),0) AS SIGNED)"); };
  std::tuple<int64_t, int64_t, int64_t, int64_t> all;
  int64_t over = 0;
  std::vector<std::tuple<uint64_t, FleetHash>> last;
  const MySqlReply reply = lane.writer.Read(
      Concat("SELECT ", sum("units"), ",", sum("held+limbo"), ",", sum("sold"), ",",
             sum("GREATEST(held+sold-granted,0)"),
             " FROM (SELECT s.granted,s.limbo,SUM(t.units) AS units,SUM(t.held) AS held,SUM(t.sold) AS sold FROM ",
             ledger_.tables.skus, " s JOIN ", ledger_.tables.stock,
             " t ON t.sku_id=s.sku_id GROUP BY s.sku_id,s.granted,s.limbo) by_sku;SELECT ", sum("is_over"),
             " FROM (SELECT units>most AS is_over", page, kBuyersPage, ") page;SELECT sku_id,buyer", page, "1 OFFSET ",
             kBuyersPage - 1),
      MySqlInto(all, over, last));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  reading.over_limit += over;
  FleetStock::Figures figures{
      .all = {.available = std::get<0>(all), .held = std::get<1>(all), .sold = std::get<2>(all)},
      .oversold = std::get<3>(all),
      .buyers_over_limit = std::max(reading.over_limit, reading.over_limit_of_all)};
  if (last.empty()) reading.over_limit_of_all = std::exchange(reading.over_limit, 0);
  reading.buyer = {};
  if (!last.empty()) reading.buyer = {std::get<0>(last.front()), std::get<1>(last.front())};
  if (options_.sku_metrics > 0) {
    FleetSkuRows rows;
    if (!ReadSkus(lane.writer,
                  Concat("s.sku_id IN (SELECT sku_id FROM (SELECT sku_id FROM ", ledger_.tables.skus,
                         " WHERE removed=0 ORDER BY sku_id LIMIT ", options_.sku_metrics, ") some)"),
                  rows)) {
      return false;
    }
    for (const auto& [id, row] : rows) {
      figures.skus[row.name] = {.available = row.units, .held = row.held + row.latch.limbo, .sold = row.sold};
    }
  }
  stock_.Set(std::move(figures));
  return true;
}

}  // namespace stockade::inventory_internal
