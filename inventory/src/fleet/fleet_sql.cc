#include "fleet_sql.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fleet_calls.h"
#include "fleet_lane.h"
#include "fleet_pause.h"
#include "fleet_rules.h"
#include "stockade/mysql/internal/mysql_literal.h"

namespace stockade::inventory_internal {
namespace {

using base_internal::Append;

// In statements over several rows of a small table: a server that reads all rows instead would lock all, in another
// order.
constexpr std::string_view kByKey = " FORCE INDEX (PRIMARY)";
static_assert(kFirstNodeSegment == 1'000'000);
constexpr std::string_view kOfLedger = " AND segment<1000000";
constexpr std::string_view kOfNodes = " AND segment>=1000000";

// Of orders that one look reads: more than those of requests that are repeated as they were.
constexpr size_t kMostLinesLooked = 2 * kMaxLines;

// Of `orders` o, left-joined with `order_lines` l. A row for each line: FleetOrderColumns, or NULL in all of them. Only
// orders that are sold and were changed have units that came back, so no others look for them.
std::string OrderColumns(const FleetTables& tables) {
  return Concat(
      "o.order_id,o.kind,o.state,o.buyer,o.created_at,o.ttl_us,o.at,o.version,COALESCE(l.sku_id,o.sku_id),"
      "COALESCE(l.quantity,o.quantity),IF(o.state=1 AND o.version>0,(SELECT CAST(COALESCE(SUM(c.quantity),0) AS SIGNED)"
      " FROM ",
      tables.changes, " c WHERE c.order_id=o.order_id AND c.sku_id=COALESCE(l.sku_id,o.sku_id)),0*o.state)");
}

std::string InSkus(std::span<const uint64_t> skus) { return Concat("sku_id IN (", absl::StrJoin(skus, ","), ")"); }

std::string Fingerprints(std::span<const uint64_t> prints) {
  return prints.empty() ? "FALSE" : Concat("fingerprint IN (", absl::StrJoin(prints, ","), ")");
}

std::string Hashes(std::span<const FleetHash> hashes) {
  return absl::StrJoin(hashes, ",",
                       [](std::string* out, const FleetHash& hash) { absl::StrAppend(out, FleetHashLiteral(hash)); });
}

// Of `units`, those of segment `segment` of `segments`.
std::string Share(std::string_view units, std::string_view segments, std::string_view segment) {
  return Concat("(", units, " DIV ", segments, "+(", segment, "<", units, " MOD ", segments, "))");
}

// The condition that the order `o` is small. It reads at most one line more than such an order has.
std::string IsSmallOrder(const FleetTables& tables) {
  return Concat("(o.sku_id<>0 OR (SELECT s.sku_id FROM ", tables.order_lines,
                " s WHERE s.order_id=o.order_id ORDER BY s.sku_id LIMIT 1 OFFSET ", kSmallLines, ") IS NULL)");
}

void Put(std::string& sql, const FleetHash& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  sql += "X'";
  for (const uint8_t byte : hash) (sql += kDigits[byte >> 4]) += kDigits[byte & 15];
  sql += '\'';
}
template <typename Value>
void Put(std::string& sql, const Value& value) {
  Append(sql, value);
}
// Adds a row in brackets to those that an INSERT lists.
template <typename... Values>
void PutRow(std::string& sql, const Values&... values) {
  sql += sql.empty() ? "(" : ",(";
  std::string_view before;
  ((Append(sql, std::exchange(before, ",")), Put(sql, values)), ...);
  sql += ')';
}

}  // namespace

std::string FleetHashLiteral(const FleetHash& hash) {
  std::string literal;
  Put(literal, hash);
  return literal;
}

// Writes each statement, which may be several of SQL.
struct FleetScript::Writer {
  const FleetTables& tables;
  FleetScript& script;
  size_t tag = 0;

  // A statement that fails if it cannot do all it says.
  template <typename... Pieces>
  void Add(const Pieces&... statement) {
    Append(script.sql_, ";", statement...);
    script.tags_.push_back(tag);
  }
  // A condition on the variables that earlier statements have set.
  template <typename... Pieces>
  void Demand(const Pieces&... condition) {
    Add("SET @miss=IF(@miss IS NULL AND ", condition..., ",", tag, ",@miss)");
  }
  template <typename... Pieces>
  void AddCondition(const Pieces&... condition) {
    Demand("NOT(", condition..., ")");
  }
  // A statement that must match `rows` rows: an UPDATE that matches no row is no error in SQL.
  template <typename... Pieces>
  void AddGuarded(size_t rows, const Pieces&... statement) {
    Add(statement...);
    Demand("ROW_COUNT()<>", rows);
  }
  // An UPDATE that joins rows with a table, in the order in which it locks them. `d` are the rows, `t` those of the
  // table; `columns` names the `fields` of each.
  template <typename Row, typename... Fields>
  void UpdateJoined(const std::vector<Row>& rows, const std::array<std::string_view, sizeof...(Fields)>& columns,
                    std::string_view table, std::string_view on, std::string_view set, Fields Row::*... fields) {
    constexpr size_t kMostRows = 256;  // Of one statement: a server may need stack for each.
    for (size_t begin = 0; begin < rows.size(); begin += kMostRows) {
      const size_t end = std::min(begin + kMostRows, rows.size());
      std::string joined;
      for (size_t i = begin; i < end; ++i) {
        joined += i == begin ? "SELECT " : " UNION ALL SELECT ";
        size_t column = 0;
        const auto put = [&](const auto& value) {
          if (column > 0) joined += ',';
          Put(joined, value);
          if (i == begin) Append(joined, " AS ", columns[column]);  // The first row names the columns.
          ++column;
        };
        (put(rows[i].*fields), ...);
      }
      AddGuarded(end - begin, "UPDATE (", joined, ") d STRAIGHT_JOIN ", table, " t", kByKey, " ON ", on, " SET ", set);
    }
  }

  void operator()(const statements::InsertRequests& it) {
    if (!it.fingerprints.empty()) {
      Add("SELECT COUNT(*) INTO @forgotten FROM ", tables.forgotten, " WHERE ", Fingerprints(it.fingerprints));
      AddCondition("@forgotten=0");
    }
    std::string rows;
    for (const auto& [request, order] : it.rows) PutRow(rows, request, order);
    Add("INSERT INTO ", tables.requests, " (id,order_id) VALUES ", rows);
  }
  void operator()(const statements::ChargeBuyers& it) {
    if (it.rows.empty()) return;
    std::string rows;
    for (const auto& [sku, buyer, units, limit] : it.rows) PutRow(rows, sku, buyer, units, limit);
    Add("INSERT INTO ", tables.buyers, " (sku_id,buyer,units,most) VALUES ", rows,
        " ON DUPLICATE KEY UPDATE units=units+VALUES(units)");
  }
  void operator()(const statements::InsertOrders& it) {
    std::string orders;
    std::string lines;
    for (const auto& row : it.rows) {
      const bool basket = row.kind == OrderKind::kBasket;
      const bool holds = basket || row.kind == OrderKind::kReserve;
      for (const auto& [sku, quantity] : row.lines) {
        if (basket) PutRow(lines, row.id, sku, quantity);
      }
      const auto [sku, quantity] = basket ? std::pair<uint64_t, int64_t>() : row.lines[0];
      const std::string at = !holds ? "@now" : row.ttl_us == kNever ? Concat(kNever) : Concat("@now+", row.ttl_us);
      PutRow(orders, row.id, "@fence", row.request, sku, quantity, row.buyer, static_cast<int>(row.kind), holds ? 0 : 1,
             "@now", row.ttl_us, at);
    }
    Add("INSERT INTO ", tables.orders,
        " (order_id,fence,request,sku_id,quantity,buyer,kind,state,created_at,ttl_us,at) VALUES ", orders);
    if (!lines.empty()) Add("INSERT INTO ", tables.order_lines, " (order_id,sku_id,quantity) VALUES ", lines);
  }
  void AddUp(uint64_t sku) {
    Add("SELECT SUM(units) INTO @units FROM ", tables.stock, kByKey, " WHERE sku_id=", sku, " FOR UPDATE");
  }
  void operator()(const statements::Pay& it) {
    if (it.merges) AddUp(it.sku);
    const std::string left = Concat(it.merges ? "@units-" : "units-", it.units());
    AddGuarded(1, "UPDATE ", tables.stock, " SET units=", it.may_lack ? Concat("GREATEST(", left, ",0)") : left,
               ",held=held+", it.held, ",sold=sold+", it.sold, " WHERE sku_id=", it.sku,
               " AND segment=", it.merges ? 0 : it.segment,
               it.fence.has_value() ? Concat(" AND fence=", *it.fence) : "");
    if (!it.merges) return;
    Add("UPDATE ", tables.stock, kByKey, " SET units=0,fence=fence+(segment>=", kFirstNodeSegment,
        ") WHERE sku_id=", it.sku, " AND segment>0");
  }
  static std::string ById(std::string_view cases, std::string_view otherwise) {
    return cases.empty() ? Concat(otherwise) : Concat("CASE order_id", cases, " ELSE ", otherwise, " END");
  }
  // What a SKU is to be in.
  static std::string_view Open(bool or_draining) { return or_draining ? "mode<>1" : "mode=0"; }
  void operator()(const statements::ReturnUnits& it) {
    using Row = statements::ReturnUnits::Row;
    std::vector<uint64_t> all;
    std::vector<uint64_t> open;
    std::vector<Row> written_off;
    std::vector<Row> removed;
    std::vector<Row> limbo;
    for (const Row& row : it.rows) {
      all.push_back(row.sku);
      row.written_off ? written_off.push_back(row)
      : row.removed   ? removed.push_back(row)
      : row.to_limbo  ? limbo.push_back(row)
                      : open.push_back(row.sku);
    }
    const auto lock = [&](std::span<const uint64_t> skus, std::string_view how) {
      Add("SELECT COUNT(*) INTO @locked FROM ", tables.skus, kByKey, " WHERE ", InSkus(skus), how);
    };
    // Ascending, before statements that are not so together.
    if (open.size() != all.size()) lock(all, " FOR UPDATE");
    if (!open.empty()) {
      lock(open, Concat(" AND removed=0 AND ", Open(it.draining_is_open), " LOCK IN SHARE MODE"));
      AddCondition("@locked=", open.size());
    }
    UpdateJoined(written_off, {"sku_id", "units"}, tables.skus, "t.sku_id=d.sku_id", "t.granted=t.granted-d.units",
                 &Row::sku, &Row::units);
    UpdateJoined(removed, {"sku_id", "units"}, tables.skus, "t.sku_id=d.sku_id AND t.removed=1",
                 "t.granted=t.granted-d.units", &Row::sku, &Row::units);
    UpdateJoined(limbo, {"sku_id", "epoch", "units"}, tables.skus,
                 "t.sku_id=d.sku_id AND t.removed=0 AND t.mode<>0 AND t.epoch=d.epoch",
                 "t.limbo=t.limbo+d.units,t.mode=2", &Row::sku, &Row::epoch, &Row::units);
  }
  void operator()(const statements::EndOrders& it) {
    if (it.rows.empty()) return;
    std::map<OrderState, std::vector<OrderId>> by_state;
    std::string ids;
    std::string versions;  // Other than 0.
    std::string ends;
    for (const auto& [id, version, state, at] : it.rows) {
      by_state[state].push_back(id);
      Append(ids, ids.empty() ? "" : ",", id);
      if (version != 0) Append(versions, " WHEN ", id, " THEN ", version);
      if (state == OrderState::kHeld) Append(ends, " WHEN ", id, " THEN ", at);
    }
    // In one statement, so that its order is that of the keys.
    const auto in = [&](OrderState state) {
      const std::vector<OrderId>& of = by_state[state];
      return of.empty() ? std::string("FALSE") : Concat("order_id IN (", absl::StrJoin(of, ","), ")");
    };
    AddGuarded(it.rows.size(), "UPDATE ", tables.orders, kByKey, " SET state=IF(", in(OrderState::kSold), ",1,IF(",
               in(OrderState::kCancelled), ",2,IF(", in(OrderState::kHeld), ",0,3))),at=", ById(ends, "@now"),
               ",version=version+1 WHERE order_id IN (", ids, ") AND version=", ById(versions, "0"),
               " AND state=0 AND IF(", in(OrderState::kExpired), ",at<=@now,at>@now)");
  }
  void operator()(const statements::ChangeSold& it) {
    AddGuarded(1, "UPDATE ", tables.orders, " SET at=@now,version=version+1 WHERE order_id=", it.id,
               " AND version=", it.version, " AND state=1");
  }
  void operator()(const statements::InsertChange& it) {
    std::string rows;
    for (const auto& [sku, quantity, to_stock] : it.lines) {
      PutRow(rows, it.id, it.version, sku, quantity, static_cast<int>(it.kind), it.of_all ? 1 : 0, to_stock ? 1 : 0,
             it.request, "@now");
    }
    Add("INSERT INTO ", tables.changes, " (order_id,version,sku_id,quantity,kind,of_all,to_stock,request,at) VALUES ",
        rows);
  }
  void operator()(const statements::CreditBuyers& it) {
    using Row = statements::BuyerRow;
    UpdateJoined(it.rows, {"sku_id", "buyer", "units"}, tables.buyers, "t.sku_id=d.sku_id AND t.buyer=d.buyer",
                 "t.units=t.units-d.units", &Row::sku, &Row::buyer, &Row::units);
  }
  void operator()(const statements::SettleStock& it) {
    using Row = statements::SettleStock::Row;
    UpdateJoined(it.rows, {"sku_id", "segment", "units", "held", "sold"}, tables.stock,
                 "t.sku_id=d.sku_id AND t.segment=d.segment",
                 "t.units=t.units+d.units,t.held=t.held-d.held,t.sold=t.sold+d.sold", &Row::sku, &Row::segment,
                 &Row::units, &Row::held, &Row::sold);
  }
  void operator()(const statements::Restock& it) {
    AddGuarded(1, "UPDATE ", tables.skus, " SET granted=granted+", it.units,
               it.to_limbo ? Concat(",limbo=limbo+", it.units, ",mode=2") : "", " WHERE sku_id=", it.sku,
               " AND removed=0 AND granted<=", kMaxUnits - it.units, " AND ",
               it.mode == FleetMode::kOpen ? "mode=0" : Concat("mode<>0 AND epoch=", it.epoch));
  }
  void operator()(const statements::SpreadUnits& it) {
    AddGuarded(static_cast<size_t>(it.segments), "UPDATE ", tables.stock, kByKey, " SET units=units+",
               Share(Concat(it.units), Concat(it.segments), "segment"), " WHERE sku_id=", it.sku, kOfLedger);
  }
  void operator()(const statements::AddSku& it) {
    Add("INSERT INTO ", tables.skus,
        " (sku_id,sku,granted,per_buyer_limit,segments,removed,sold_forgotten,redis_segments) VALUES (", it.sku, ",",
        MySqlLiteral(it.name), ",", it.stock, ",", it.per_buyer_limit, ",", it.segments, ",0,0,", it.has_nodes ? 1 : 0,
        ")");
    std::string stock;
    for (int32_t i = 0; i < it.segments; ++i) {
      PutRow(stock, it.sku, i, it.stock / it.segments + (i < it.stock % it.segments ? 1 : 0), 0, 0);
    }
    Add("INSERT INTO ", tables.stock, " (sku_id,segment,units,held,sold) VALUES ", stock);
  }
  void operator()(const statements::RemoveSku& it) {
    AddGuarded(1, "UPDATE ", tables.skus, " SET removed=1,granted=granted-limbo,limbo=0,mode=0 WHERE sku_id=", it.sku,
               " AND removed=0");
    AddUp(it.sku);
    AddGuarded(1, "UPDATE ", tables.skus, " SET granted=granted-COALESCE(@units,0) WHERE sku_id=", it.sku);
    Add("UPDATE ", tables.stock, kByKey, " SET units=0,latched=0 WHERE sku_id=", it.sku);
  }
  void operator()(const statements::Reshard& it) {
    const std::string of_sku = Concat(" WHERE sku_id=", it.sku);
    const std::string segments = Concat(it.segments);
    AddGuarded(1, "UPDATE ", tables.skus, " SET segments=", segments, of_sku, " AND removed=0");
    Add("SELECT SUM(units),SUM(held),SUM(sold) INTO @units,@held,@sold FROM ", tables.stock, kByKey, of_sku,
        " FOR UPDATE");
    Add("SELECT mode<>0 INTO @latched FROM ", tables.skus, of_sku);
    // A merge and a reshard lock segment 0 first, which is always there.
    Add("DELETE FROM ", tables.stock, of_sku, " AND segment>0", kOfLedger);
    AddGuarded(1, "UPDATE ", tables.stock, " SET units=", Share("@units", segments, "0"), ",held=@held,sold=@sold",
               of_sku, " AND segment=0");
    Add("UPDATE ", tables.stock, kByKey, " SET units=0,held=0,sold=0,fence=fence+1", of_sku, kOfNodes);
    std::string stock;
    for (int32_t i = 1; i < it.segments; ++i) {
      PutRow(stock, it.sku, i, Share("@units", segments, Concat(i)), 0, 0, "@latched");
    }
    if (stock.empty()) return;
    Add("INSERT INTO ", tables.stock, " (sku_id,segment,units,held,sold,latched) VALUES ", stock);
  }
  void operator()(const statements::FillNode& it) {
    Add("SET @open=0");
    Add("SELECT mode=0 AND removed=0 INTO @open FROM ", tables.skus, " WHERE sku_id=", it.sku, " LOCK IN SHARE MODE");
    AddCondition("@open=1");
    AddGuarded(1, "UPDATE ", tables.stock, " SET units=units-", it.units, " WHERE sku_id=", it.sku,
               " AND segment=", it.from);
    if (!it.before.has_value()) {
      Add("INSERT INTO ", tables.stock, " (sku_id,segment,units,held,sold,fence,fills) VALUES (", it.sku, ",", it.node,
          ",", it.units, ",0,0,", it.after.fence, ",", it.after.fills, ")");
      return;
    }
    AddGuarded(1, "UPDATE ", tables.stock, " SET units=units+", it.units, ",fence=", it.after.fence,
               ",fills=", it.after.fills, " WHERE sku_id=", it.sku, " AND segment=", it.node,
               " AND fence=", it.before->fence, " AND fills=", it.before->fills);
  }
  void operator()(const statements::Latch& it) {
    // The SKU's row first, so that nothing is deposited meanwhile, and no segment is added.
    AddGuarded(1, "UPDATE ", tables.skus, " SET mode=1,epoch=GREATEST(epoch+1,@now),lease_us=", it.lease_us,
               " WHERE sku_id=", it.sku, " AND removed=0 AND ", Open(it.or_draining));
    AddUp(it.sku);
    AddCondition("COALESCE(@units,1)=0");
    Add("UPDATE ", tables.stock, kByKey, " SET latched=1 WHERE sku_id=", it.sku);
  }
  void operator()(const statements::MoveLimbo& it) {
    Add("SET @limbo=NULL");
    Add("SELECT limbo,segments INTO @limbo,@segments FROM ", tables.skus, " WHERE sku_id=", it.sku,
        " AND mode=2 AND removed=0", it.epoch.has_value() ? Concat(" AND epoch=", *it.epoch) : "", " FOR UPDATE");
    AddCondition("@limbo IS NOT NULL");
    const std::string if_there = " AND @limbo IS NOT NULL";
    Add("UPDATE ", tables.skus, " SET limbo=0,mode=0 WHERE sku_id=", it.sku, if_there);
    Add("UPDATE ", tables.stock, kByKey, " SET latched=0,units=units+", Share("@limbo", "@segments", "segment"),
        " WHERE sku_id=", it.sku, kOfLedger, if_there);
    AddCondition("ROW_COUNT()=@segments");
    Add("UPDATE ", tables.stock, kByKey, " SET latched=0 WHERE sku_id=", it.sku, kOfNodes);
  }
  void operator()(const statements::Forget& it) {
    for (const auto& [sku, units] : it.sold) {
      AddGuarded(1, "UPDATE ", tables.skus, " SET sold_forgotten=sold_forgotten+", units, " WHERE sku_id=", sku);
    }
    std::string ids;
    std::string versions;  // Other than 0.
    for (const auto& [id, version] : it.orders) {
      Append(ids, ids.empty() ? "" : ",", id);
      if (version != 0) Append(versions, " WHEN ", id, " THEN ", version);
    }
    const std::string these = Concat(" WHERE order_id IN (", ids, ")");
    AddGuarded(it.orders.size(), "DELETE FROM ", tables.orders, these, " AND version=", ById(versions, "0"),
               " AND state<>0");
    Add("DELETE FROM ", tables.order_lines, these);
    if (!versions.empty()) Add("DELETE FROM ", tables.changes, these);
  }
};

FleetScript::FleetScript(const FleetTables& tables, const FleetPacket& packet) {
  Writer writer{.tables = tables, .script = *this};
  for (const auto& [statement, tag] : packet) {
    writer.tag = tag;
    std::visit(writer, statement);
  }
}

std::string OneSku(uint64_t sku) { return Concat("s.sku_id=", sku); }

std::string TheseSkus(std::span<const uint64_t> skus) { return Concat("s.", InSkus(skus)); }

std::string SkusAfter(const FleetTables& tables, uint64_t last, size_t most) {
  return Concat("s.sku_id IN (SELECT sku_id FROM (SELECT sku_id FROM ", tables.skus, " WHERE removed=0 AND sku_id>",
                last, " ORDER BY sku_id LIMIT ", most, ") page)");
}

std::string DrainingSkus(const FleetTables& tables, size_t most) {
  return Concat("s.sku_id IN (SELECT sku_id FROM (SELECT sku_id FROM ", tables.skus, " WHERE mode=2 LIMIT ", most,
                ") some)");
}

namespace {

// A row for each row of stock: FleetSkuTable.
std::string SkusQuery(const FleetTables& tables, std::string_view which) {
  return Concat(
      "SELECT s.sku_id,s.sku,s.per_buyer_limit,s.removed,s.granted,s.segments,s.mode,s.epoch,s.lease_us,s.limbo,"
      "s.redis_segments,t.units,t.held,t.sold,t.segment,t.fence,t.fills FROM ",
      tables.skus, " s LEFT JOIN ", tables.stock, " t ON t.sku_id=s.sku_id WHERE ", which,
      " ORDER BY s.sku_id,t.segment");
}

template <typename... Into>
bool Read(FleetLane& lane, std::string_view statements, Into&... into) {
  return lane.Read(statements, MySqlInto(into...)).status.ok();
}

}  // namespace

bool ReadSkuRows(FleetLane& lane, std::string_view which, FleetSkuRows& skus) {
  FleetSkuTable table;
  if (!Read(lane, SkusQuery(lane.tables(), which), table)) return false;
  AddFleetSkus(table, skus);
  return true;
}

bool ReadOrderRows(FleetLane& lane, std::span<const OrderId> ids, FleetOrderRows& orders, int64_t& now,
                   std::vector<OrderId>* large) {
  const FleetTables& tables = lane.tables();
  const std::string where = Concat("o.order_id IN (", absl::StrJoin(ids, ","), ")");
  const std::string small = IsSmallOrder(tables);
  std::vector<FleetOrderColumns> rows;
  std::vector<OrderId> large_ids;
  if (!Read(lane,
            Concat("SELECT ", OrderColumns(tables), " FROM ", tables.orders, " o LEFT JOIN ", tables.order_lines,
                   " l ON l.order_id=o.order_id WHERE ", where, large == nullptr ? "" : Concat(" AND ", small),
                   ";SELECT o.order_id FROM ", tables.orders, " o WHERE ",
                   large == nullptr ? std::string("FALSE") : Concat(where, " AND NOT ", small), ";SELECT ", kFleetNow),
            rows, large_ids, now)) {
    return false;
  }
  for (const FleetOrderColumns& row : rows) orders[std::get<0>(row)].Add(row);
  if (large != nullptr) *large = std::move(large_ids);
  now = FleetClamp(now);
  return true;
}

bool CountOrderLines(FleetLane& lane, std::span<const OrderId> ids, std::map<OrderId, uint64_t>& lines) {
  std::vector<std::tuple<OrderId, uint64_t>> counts;
  if (!Read(lane,
            Concat("SELECT order_id,COUNT(*) FROM ", lane.tables().order_lines, " WHERE order_id IN (",
                   absl::StrJoin(ids, ","), ") GROUP BY order_id"),
            counts)) {
    return false;
  }
  for (const auto& [id, count] : counts) lines[id] = count;
  return true;
}

bool ReadGrantRows(FleetLane& lane, const FleetGrantQuery& question, FleetGrantRows& rows) {
  const FleetTables& tables = lane.tables();
  const std::string buyers_sql =
      question.buyers.empty() ? "FALSE" : absl::StrJoin(question.buyers, " OR ", [](std::string* out, const auto& of) {
        absl::StrAppend(out, "(sku_id=", of.first, " AND buyer IN (", Hashes(of.second), "))");
      });
  const std::string requests_sql =
      Concat("SELECT r.id,COALESCE(o.request<>r.id,0),", OrderColumns(tables), " FROM ", tables.requests,
             " r LEFT JOIN ", tables.orders, " o ON o.order_id=r.order_id LEFT JOIN ", tables.order_lines,
             " l ON l.order_id=o.order_id WHERE r.id IN (", Hashes(question.requests), ") LIMIT ", kMostLinesLooked);
  using Requests = std::vector<std::tuple<FleetHash, bool, std::optional<FleetOrderColumns>>>;
  Requests early;
  if (!FleetRules::LooksOnce()) {
    (void)Read(lane, requests_sql, early);
    Pause(FleetPause::kLookReplied);
  }
  FleetSkuTable sku_table;
  std::vector<std::tuple<uint64_t, FleetHash, int64_t>> buyers;
  Requests requests;
  if (!Read(lane,
            Concat(SkusQuery(tables, TheseSkus(question.skus)), ";SELECT sku_id,buyer,units FROM ", tables.buyers,
                   " WHERE ", buyers_sql, ";", requests_sql, ";SELECT fingerprint FROM ", tables.forgotten, " WHERE ",
                   Fingerprints(question.fingerprints), ";SELECT ", kFleetNow),
            sku_table, buyers, requests, rows.forgotten, rows.now)) {
    return false;
  }
  AddFleetSkus(sku_table, rows.skus);
  for (const auto& [sku, buyer, units] : buyers) {
    rows.buyer_units[{sku, buyer}] = std::clamp<int64_t>(units, 0, kMaxUnits);
  }
  for (const auto& [request, is_change, row] : FleetRules::LooksOnce() ? requests : early) {
    std::optional<FleetOrderRow>& order = rows.orders[request];
    if (!row.has_value()) continue;
    if (!order.has_value()) order.emplace();
    order->Add(*row);
    order->is_change = is_change;
  }
  rows.is_cut = requests.size() >= kMostLinesLooked;
  return true;
}

bool ReadRequest(FleetLane& lane, const FleetHash& request, std::optional<uint64_t> fingerprint, FleetRequestRow& row) {
  const FleetTables& tables = lane.tables();
  std::vector<int64_t> found;
  std::vector<std::tuple<OrderId, bool>> rows;
  const std::vector<uint64_t> prints(fingerprint.has_value() ? 1 : 0, fingerprint.value_or(0));
  if (!Read(lane,
            Concat("SELECT 1 FROM ", tables.forgotten, " WHERE ", Fingerprints(prints),
                   ";SELECT r.order_id,COALESCE(o.request<>r.id,0) FROM ", tables.requests, " r LEFT JOIN ",
                   tables.orders, " o ON o.order_id=r.order_id WHERE r.id=", FleetHashLiteral(request)),
            found, rows)) {
    return false;
  }
  row.is_forgotten = !found.empty();
  if (!rows.empty()) std::tie(row.order, row.is_change) = rows.front();
  return true;
}

bool ReadChange(FleetLane& lane, OrderId order, const FleetHash& request, FleetChange& change) {
  return Read(lane,
              Concat("SELECT kind,of_all,sku_id,quantity,to_stock FROM ", lane.tables().changes,
                     " WHERE order_id=", order, " AND request=", FleetHashLiteral(request)),
              change);
}

bool ReadTakers(FleetLane& lane, uint64_t sku, bool in_baskets, OrderId last, size_t most, FleetTakers& takers) {
  const FleetTables& tables = lane.tables();
  const std::string page =
      in_baskets
          ? Concat("SELECT l.order_id,o.request FROM ", tables.order_lines, " l FORCE INDEX (by_sku) STRAIGHT_JOIN ",
                   tables.orders, " o ON o.order_id=l.order_id WHERE l.sku_id=", sku, " AND l.order_id>", last)
          : Concat("SELECT order_id,request FROM ", tables.orders, " FORCE INDEX (by_sku) WHERE sku_id=", sku,
                   " AND order_id>", last);
  return Read(lane, Concat(page, " ORDER BY order_id LIMIT ", most), takers);
}

bool ClaimUpkeep(FleetLane& lane, int64_t janitor_us, std::optional<bool>& is_ours) {
  if (!lane.Prepare().ok()) return false;
  // One process does it for all, as long as it lives. A clock that was set back ends that, too.
  const std::string me = Concat(lane.nonce());
  int64_t rows = 0;
  const MySqlReply reply = lane.Read(
      Concat("UPDATE ", lane.tables().fleet, " SET janitor=", me, ",janitor_until=", kFleetNow, "+", janitor_us,
             " WHERE one=1 AND (janitor=", me, " OR janitor_until<", kFleetNow, " OR janitor_until>", kFleetNow, "+",
             2 * janitor_us, ");SELECT COUNT(*) FROM ", lane.tables().fleet, " WHERE one=1"),
      MySqlInto(rows));
  if (!reply.status.ok()) return false;
  if (rows == 1) is_ours = reply.rows_matched.front() == 1;
  return true;
}

bool ReadDue(FleetLane& lane, int64_t from, std::pair<int64_t, OrderId> found, size_t most, OrderId oldest,
             FleetDuePage& due) {
  const FleetTables& tables = lane.tables();
  const std::string orders = Concat(tables.orders, " o FORCE INDEX (upkeep) WHERE o.state=0 AND o.at");
  return Read(
      lane,
      Concat("SET @due=", kFleetNow, ";SELECT o.order_id,o.at,", IsSmallOrder(tables), " FROM ", orders,
             ">=", std::max(from, found.first), " AND o.at<=@due AND (o.at>", found.first, " OR o.order_id>",
             found.second, ") ORDER BY o.at,o.order_id LIMIT ", most, ";SELECT MIN(o.at) FROM ", orders,
             ">@due;SELECT COUNT(*) FROM ", tables.orders, " WHERE state=0 AND order_id=", oldest, ";SELECT @due"),
      due.rows, due.next, due.oldest_is_held, due.now);
}

bool ReadRetention(FleetLane& lane, std::optional<int64_t>& retention_us) {
  return Read(lane,
              Concat("SELECT MAX(retention_us) FROM ", lane.tables().lanes,
                     " WHERE GREATEST(seen_at,created_at)>=", kFleetNow, "-retention_us"),
              retention_us);
}

bool ReadOld(FleetLane& lane, int64_t from, int64_t before, size_t most, FleetOldOrders& old) {
  const FleetTables& tables = lane.tables();
  // Damaged orders, and those of a SKU whose row is missing, stay as they are: their units cannot be counted as
  // forgotten. COUNT(*), because a server may turn EXISTS into a join and begin with another table.
  const std::string units = Concat("quantity BETWEEN 1 AND ", kMaxUnits);
  const std::string line_count =
      Concat("(SELECT COUNT(*) FROM ", tables.order_lines, " l WHERE l.order_id=o.order_id)");
  const std::string sound =
      Concat(" AND kind BETWEEN 0 AND 3 AND IF(sku_id=0,", line_count, " BETWEEN 1 AND ", kMaxBasketLines, ",", units,
             " AND (SELECT COUNT(*) FROM ", tables.skus, " s WHERE s.sku_id=o.sku_id)=1) AND (SELECT COUNT(*) FROM ",
             tables.order_lines, " l LEFT JOIN ", tables.skus,
             " s ON s.sku_id=l.sku_id WHERE l.order_id=o.order_id AND (s.sku_id IS NULL OR NOT l.", units, "))=0");
  const auto of_state = [&](OrderState state) {
    return Concat("(SELECT order_id,", line_count, " FROM ", tables.orders,
                  " o FORCE INDEX (upkeep) WHERE state=", static_cast<int>(state), " AND at>=", from, " AND at<",
                  before, sound, " ORDER BY at LIMIT ", most, ")");
  };
  return Read(lane,
              Concat(of_state(OrderState::kSold), " UNION ALL ", of_state(OrderState::kCancelled), " UNION ALL ",
                     of_state(OrderState::kExpired)),
              old);
}

bool DeleteBuyers(FleetLane& lane, uint64_t sku, size_t most, bool& is_more) {
  const MySqlReply reply =
      lane.Read(Concat("DELETE FROM ", lane.tables().buyers, " WHERE sku_id=", sku, " ORDER BY buyer LIMIT ", most));
  if (!reply.status.ok()) return false;
  is_more = reply.rows_matched.front() == static_cast<int64_t>(most);
  return true;
}

bool ReadTotals(FleetLane& lane, const std::pair<uint64_t, FleetHash>& after, size_t most, FleetTotals& totals) {
  const FleetTables& tables = lane.tables();
  const std::string page =
      Concat(" FROM ", tables.buyers, kByKey, " WHERE sku_id>", after.first, " OR (sku_id=", after.first, " AND buyer>",
             FleetHashLiteral(after.second), ") ORDER BY sku_id,buyer LIMIT ");
  const auto sum = [](std::string_view of) { return Concat("CAST(COALESCE(SUM(", of, "),0) AS SIGNED)"); };
  return Read(
      lane,
      Concat(
          "SELECT ", sum("units"), ",", sum("held+limbo"), ",", sum("sold"), ",", sum("GREATEST(held+sold-granted,0)"),
          " FROM (SELECT s.granted,s.limbo,SUM(t.units) AS units,SUM(t.held) AS held,SUM(t.sold) AS sold FROM ",
          tables.skus, " s JOIN ", tables.stock,
          " t ON t.sku_id=s.sku_id GROUP BY s.sku_id,s.granted,s.limbo) by_sku;SELECT ", sum("is_over"),
          " FROM (SELECT units>most AS is_over", page, most, ") page;SELECT sku_id,buyer", page, "1 OFFSET ", most - 1),
      totals.sums, totals.over_limit, totals.last);
}

}  // namespace stockade::inventory_internal
