#include "sale_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace flash_sale {
namespace {

using nlohmann::json;

const char* StageText(Stage stage) {
  switch (stage) {
    case Stage::kWaits: return "waits";
    case Stage::kPageViews: return "page views";
    case Stage::kSale: return "the sale is on";
    case Stage::kAudit: return "audit";
    case Stage::kDone: break;
  }
  return "done";
}

json HalfJson(const HalfBoard::Reading& half, int64_t stock) {
  const LiveFigures now = half.course.empty() ? LiveFigures{.units_left = stock} : half.course.back();
  json figures = {{"page_views", now.page_views},
                  {"page_view_p99_seconds", absl::ToDoubleSeconds(now.page_view_p99)},
                  {"queries", now.queries},
                  {"hot_queries", now.hot_queries},
                  {"orders", now.orders},
                  {"refusals", now.refusals},
                  {"wrong_refusals", now.wrong_refusals},
                  {"units_left", now.units_left},
                  // Before the audit: the units that buyers were sold beyond the stock.
                  {"oversold", half.audit ? half.audit->oversold : std::max<int64_t>(0, now.sold - stock)}};
  if (half.audit) {
    figures["duplicates"] = half.audit->duplicates;
    figures["queries_per_expiry"] = half.loads_per_expiry;
  }
  const auto column = [&](auto value) {
    json values = json::array();
    for (const LiveFigures& moment : half.course) values.push_back(value(moment));
    return values;
  };
  return {{"stage", StageText(half.stage)},
          {"figures", std::move(figures)},
          {"course",
           {{"seconds", column([](const LiveFigures& at) { return absl::ToDoubleSeconds(at.elapsed); })},
            {"orders", column([](const LiveFigures& at) { return at.orders; })},
            {"refusals", column([](const LiveFigures& at) { return at.refusals; })},
            {"hot_queries", column([](const LiveFigures& at) { return at.hot_queries; })}}}};
}

std::string Phase(const HalfBoard::Reading& naive, const HalfBoard::Reading& stockade) {
  if (stockade.stage == Stage::kDone) return "done";
  if (stockade.stage != Stage::kWaits) return std::string("stockade: ") + StageText(stockade.stage);
  return std::string("naive: ") + StageText(naive.stage);
}

}  // namespace

std::string SaleJson(const SaleBoard& board, const std::optional<std::vector<int64_t>>& shards, bool can_start) {
  const auto [request, naive, stockade] = board.Read();
  json sale = {{"number", request.number},
               {"arrival_seconds", absl::ToInt64Seconds(request.arrival)},
               {"can_start", can_start},
               {"phase", Phase(naive, stockade)},
               {"product", board.facts.product},
               {"stock", board.facts.stock},
               {"buyers", board.facts.buyers},
               {"viewers", board.facts.viewers},
               {"naive", HalfJson(naive, board.facts.stock)},
               {"stockade", HalfJson(stockade, board.facts.stock)},
               {"shards", nullptr}};
  if (shards) sale["shards"] = *shards;
  return sale.dump();
}

}  // namespace flash_sale
