#ifndef STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_SUPPORT_H_
#define STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_SUPPORT_H_

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/temp_dir.h"

namespace stockade::testing {

// What anybody with sqlite3's shell sees: a connection of its own that knows nothing of the ledger.
class PlainSql {
 public:
  using Row = std::vector<std::string>;  // "NULL" for NULL.

  explicit PlainSql(const std::string& path) {
    if (sqlite3_open(path.c_str(), &connection_) != SQLITE_OK) ADD_FAILURE() << sqlite3_errmsg(connection_);
  }
  ~PlainSql() { sqlite3_close(connection_); }

  sqlite3* connection() { return connection_; }

  // SQLITE_OK, or what went wrong.
  int TryRun(const std::string& sql) { return sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr); }

  void Run(const std::string& sql) { ASSERT_EQ(TryRun(sql), SQLITE_OK) << sql << ": " << sqlite3_errmsg(connection_); }

  std::vector<Row> Query(const std::string& sql) {
    std::vector<Row> rows;
    const auto add = [](void* to, int columns, char** values, char**) {
      Row row;
      for (int i = 0; i < columns; ++i) row.emplace_back(values[i] == nullptr ? "NULL" : values[i]);
      static_cast<std::vector<Row>*>(to)->push_back(std::move(row));
      return 0;
    };
    const int code = sqlite3_exec(connection_, sql.c_str(), add, &rows, nullptr);
    EXPECT_EQ(code, SQLITE_OK) << sql << ": " << sqlite3_errmsg(connection_);
    return rows;
  }

  int64_t QueryInt(const std::string& sql) {
    const std::vector<Row> rows = Query(sql);
    return rows.empty() ? -1 : std::stoll(rows[0][0]);
  }

 private:
  sqlite3* connection_ = nullptr;
};

inline LedgerRecord AddSku(std::string sku, int64_t stock) {
  return {.kind = LedgerRecord::Kind::kAddSku, .lines = {{std::move(sku), stock}}, .shards = 4};
}

inline LedgerRecord Take(uint64_t order_id, std::string sku, int64_t quantity) {
  return {.kind = LedgerRecord::Kind::kTake,
          .order_id = order_id,
          .request_id = absl::StrCat("request-", order_id),
          .lines = {{std::move(sku), quantity}},
          .buyer = absl::StrCat("buyer-", order_id)};
}

inline LedgerRecord Reserve(uint64_t order_id, std::string sku, int64_t quantity) {
  LedgerRecord record = Take(order_id, std::move(sku), quantity);
  record.kind = LedgerRecord::Kind::kReserve;
  record.expires_at = absl::FromUnixMicros(1'700'000'600'000'001);
  record.ttl = absl::Seconds(600);
  return record;
}

inline LedgerRecord ReserveBasket(uint64_t order_id, OrderLines lines) {
  LedgerRecord record = Reserve(order_id, "", 0);
  record.kind = LedgerRecord::Kind::kReserveBasket;
  record.lines = std::move(lines);
  return record;
}

inline LedgerRecord Restock(std::string sku, int64_t quantity) {
  return {.kind = LedgerRecord::Kind::kRestock, .lines = {{std::move(sku), quantity}}};
}

// With a request id.
inline LedgerRecord RestockOnce(uint64_t order_id, std::string sku, int64_t quantity) {
  LedgerRecord record = Restock(std::move(sku), quantity);
  record.order_id = order_id;
  record.request_id = absl::StrCat("request-", order_id);
  return record;
}

inline LedgerRecord RemoveSku(std::string sku, int64_t quantity) {
  return {.kind = LedgerRecord::Kind::kRemoveSku, .lines = {{std::move(sku), quantity}}};
}

inline LedgerRecord Settle(LedgerRecord::Kind kind, uint64_t order_id) { return {.kind = kind, .order_id = order_id}; }

// A ledger without metrics; null, and a failed test, where it does not open.
inline std::unique_ptr<SqliteLedger> OpenLedger(const std::string& path, SqliteLedgerOptions options = {}) {
  options.metrics = nullptr;
  absl::StatusOr<std::unique_ptr<SqliteLedger>> ledger = SqliteLedger::Open(path, std::move(options));
  EXPECT_TRUE(ledger.ok()) << ledger.status();
  return ledger.ok() ? *std::move(ledger) : nullptr;
}

// A closed ledger that has forgotten. Its journal begins after position 1,024, where were
//   2,000 shoes, of which a buyer may have 5: 1,015 sold, one each, by orders 4 to 1,018, to buyer-4 to buyer-1018;
//   15 laces: 3 sold by order 3, 4 held by order 1;
//   no hats: removed, when order 2 held 3, which came back.
inline void MakePrunedLedger(const std::string& path) {
  ManualClock clock;
  const auto ledger = OpenLedger(path, {.clock = &clock});
  ledger->SetRetention(absl::ZeroDuration());
  LedgerRecord shoes = AddSku("shoe", 2'000);
  shoes.per_buyer_limit = 5;
  for (const LedgerRecord& record : {shoes, AddSku("lace", 10), AddSku("hat", 10), Reserve(1, "lace", 4),
                                     ReserveBasket(2, {{"lace", 2}, {"hat", 3}}), RemoveSku("hat", 7),
                                     Settle(LedgerRecord::Kind::kCancel, 2), Take(3, "lace", 3), Restock("lace", 5)}) {
    ledger->Append(record);
  }
  uint64_t position = 0;
  for (uint64_t id = 4; position < 1'100; ++id) position = ledger->Append(Take(id, "shoe", 1));
  EXPECT_TRUE(ledger->AwaitDurable(position).ok());
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Restock("shoe", 1))).ok());
}

// What opening `path` again finds.
inline LedgerState Reopened(const std::string& path) {
  const std::unique_ptr<SqliteLedger> ledger = OpenLedger(path);
  return ledger == nullptr ? LedgerState() : ledger->TakeRecovered();
}

// By its name; an empty one, and a failed test, where there is none.
inline const LedgerState::Sku& SkuIn(const LedgerState& state, std::string_view name) {
  const auto found = std::ranges::find(state.skus, name, &LedgerState::Sku::sku);
  EXPECT_NE(found, state.skus.end()) << name;
  static const LedgerState::Sku none{};
  return found == state.skus.end() ? none : *found;
}

// granted less what is held or sold.
inline int64_t AvailableIn(const LedgerState& state, std::string_view sku) {
  int64_t available = SkuIn(state, sku).granted;
  for (const LedgerState::Order& order : state.orders) {
    if (order.state != OrderState::kHeld && order.state != OrderState::kSold) continue;
    for (const OrderLine& line : order.lines) {
      if (line.sku == sku) available -= line.quantity;
    }
  }
  return available;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_SUPPORT_H_
