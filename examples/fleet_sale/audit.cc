#include "audit.h"

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fleet_audit.h"

namespace fleet_sale {
namespace {

using examples::MariaDbClient;
using examples::MariaDbRow;
using examples::MariaDbRows;

constexpr size_t kRowsPerInsert = 1000;

struct Figure {
  const char* sql;
  int64_t* value;
};

absl::Status ReadFigures(MariaDbClient& database, std::initializer_list<Figure> figures) {
  for (const Figure& figure : figures) {
    const absl::StatusOr<int64_t> value = database.QueryInt(figure.sql);
    if (!value.ok()) return value.status();
    *figure.value = *value;
  }
  return absl::OkStatus();
}

}  // namespace

bool Audit::Holds() const {
  return oversold == 0 && duplicates == 0 && lost == 0 && held == 0 && sold == stock && faults.empty();
}

absl::Status StoreAnswers(MariaDbClient& database, const std::string& half, SharedSale& sale) {
  auto made = database.Run(
      "CREATE TABLE IF NOT EXISTS answers"
      " (half VARCHAR(16) NOT NULL, request_id VARCHAR(64) NOT NULL, order_id BIGINT NOT NULL)");
  if (!made.ok()) return made.status();
  std::vector<std::string> rows;
  const auto insert = [&] {
    if (rows.empty()) return absl::OkStatus();
    auto inserted = database.Run(absl::StrCat("INSERT INTO answers VALUES ", absl::StrJoin(rows, ",")));
    rows.clear();
    return inserted.status();
  };
  for (int64_t buyer = 0; buyer < sale.buyers(); ++buyer) {
    const BuyerRow& row = sale.buyer(buyer);
    for (const int64_t order : {row.first.load(), row.second.load()}) {
      if (order > 0) rows.push_back(absl::StrCat("('", half, "','request-", buyer, "',", order, ")"));
    }
    if (rows.size() < kRowsPerInsert) continue;
    if (absl::Status inserted = insert(); !inserted.ok()) return inserted;
  }
  return insert();
}

absl::StatusOr<Audit> AuditNaive(MariaDbClient& database) {
  Audit audit;
  int64_t missing = 0;
  const absl::Status read = ReadFigures(
      database,
      {{"SELECT SUM(units) FROM naive_stock", &audit.stock},
       {"SELECT COUNT(*) FROM naive_orders", &audit.sold},
       {"SELECT (SELECT SUM(units) FROM naive_stock) - (SELECT COUNT(*) FROM naive_orders)", &audit.available},
       {"SELECT GREATEST(0, (SELECT COUNT(*) FROM naive_orders) - (SELECT SUM(units) FROM naive_stock))",
        &audit.oversold},
       {"SELECT COUNT(*) - COUNT(DISTINCT request_id) FROM naive_orders", &audit.duplicates},
       {"SELECT SUM(GREATEST(0, s.units - (SELECT COUNT(*) FROM naive_orders o WHERE o.node = s.node)))"
        " FROM naive_stock s",
        &audit.lost},
       {"SELECT COUNT(*) FROM answers a LEFT JOIN naive_orders o ON o.order_id = a.order_id"
        " WHERE a.half = 'naive' AND o.order_id IS NULL",
        &missing}});
  if (!read.ok()) return read;
  audit.lost += missing;
  return audit;
}

absl::StatusOr<Audit> AuditStockade(MariaDbClient& database) {
  Audit audit;
  int64_t missing = 0, answered_twice = 0;
  const absl::Status read = ReadFigures(
      database,
      {{"SELECT granted FROM sale_skus WHERE sku = 'flash-sale'", &audit.stock},
       {"SELECT COALESCE(SUM(quantity), 0) FROM sale_orders WHERE state = 1", &audit.sold},
       {"SELECT COALESCE(SUM(quantity), 0) FROM sale_orders WHERE state = 0", &audit.held},
       {"SELECT SUM(units) + (SELECT limbo FROM sale_skus WHERE sku = 'flash-sale') FROM sale_stock", &audit.available},
       {"SELECT GREATEST(0, (SELECT COALESCE(SUM(quantity), 0) FROM sale_orders WHERE state IN (0, 1)) -"
        " (SELECT granted FROM sale_skus WHERE sku = 'flash-sale'))",
        &audit.oversold},
       {"SELECT COUNT(*) - COUNT(DISTINCT request) FROM sale_orders", &audit.duplicates},
       {"SELECT COUNT(DISTINCT order_id) - COUNT(DISTINCT request_id) FROM answers WHERE half = 'stockade'",
        &answered_twice},
       {"SELECT GREATEST(0, (SELECT granted FROM sale_skus WHERE sku = 'flash-sale') -"
        " (SELECT COALESCE(SUM(quantity), 0) FROM sale_orders WHERE state IN (0, 1)))",
        &audit.lost},
       {"SELECT COUNT(*) FROM answers a LEFT JOIN sale_orders o ON o.order_id = a.order_id"
        " WHERE a.half = 'stockade' AND o.order_id IS NULL",
        &missing}});
  if (!read.ok()) return read;
  audit.lost += missing;
  audit.duplicates += answered_twice;
  const absl::StatusOr<MariaDbRows> faults = database.Run(kFleetAudit);
  if (!faults.ok()) return faults.status();
  for (const MariaDbRow& row : *faults) {
    audit.faults.push_back(absl::StrCat("docs/fleet_audit.sql finds: ", absl::StrJoin(row, ", ")));
  }
  return audit;
}

absl::StatusOr<std::string> ExplainNaive(MariaDbClient& database) {
  const absl::StatusOr<MariaDbRows> nodes = database.Run(
      "SELECT CONCAT('Redis node ', s.node + 1, ' sold ', (SELECT COUNT(*) FROM naive_orders o WHERE o.node = s.node),"
      " ' of its ', s.units, ' units') FROM naive_stock s ORDER BY s.node");
  if (!nodes.ok()) return nodes.status();
  return absl::StrJoin(*nodes, "; ", [](std::string* out, const MariaDbRow& row) { out->append(row[0]); });
}

std::string AuditLine(const Audit& audit) {
  return absl::StrCat("audit: stock=", audit.stock, " sold=", audit.sold, " held=", audit.held,
                      " available=", audit.available, " oversold=", audit.oversold, " duplicates=", audit.duplicates,
                      " lost=", audit.lost);
}

}  // namespace fleet_sale
