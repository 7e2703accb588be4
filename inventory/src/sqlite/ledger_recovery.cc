#include "ledger_recovery.h"

#include <optional>
#include <string_view>
#include <utility>

#include "stockade/base/strings.h"

namespace stockade::internal {
namespace {

// What the journal says of a SKU.
struct Tally {
  int64_t granted = 0;
  int64_t available = 0;
};

std::optional<OrderState> StateCalled(std::string_view name) {
  if (name == "held") return OrderState::kHeld;
  if (name == "sold") return OrderState::kSold;
  if (name == "cancelled") return OrderState::kCancelled;
  if (name == "expired") return OrderState::kExpired;
  return std::nullopt;
}

absl::Status CheckFile(SqliteDatabase& database) {
  const absl::StatusOr<std::string> verdict = database.QueryText("PRAGMA quick_check(1)");
  if (!verdict.ok()) return verdict.status();
  return *verdict == "ok" ? absl::OkStatus() : absl::DataLossError(Concat("quick_check: ", *verdict));
}

absl::Status ReadSkus(SqliteDatabase& database, RecoveredLedger& to) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare("SELECT sku, granted, shards, per_buyer_limit FROM skus");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    LedgerState::Sku sku{.sku = std::string(rows->Text(0)),
                         .granted = rows->Int(1),
                         .shards = static_cast<int32_t>(rows->Int(2)),
                         .per_buyer_limit = rows->Int(3)};
    to.available.emplace(sku.sku, sku.granted);
    to.state.skus.push_back(std::move(sku));
  }
  return row.status();
}

absl::Status ReadOrders(SqliteDatabase& database, RecoveredLedger& to) {
  absl::StatusOr<SqliteStatement> rows = database.Prepare(
      "SELECT order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us FROM orders "
      "ORDER BY order_id");
  if (!rows.ok()) return rows.status();
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    LedgerState::Order order{.order_id = static_cast<uint64_t>(rows->Int(0)),
                             .request_id = std::string(rows->Text(1)),
                             .sku = std::string(rows->Text(2)),
                             .quantity = rows->Int(3),
                             .buyer = std::string(rows->Text(4)),
                             .reserved = rows->Int(6) != 0};
    if (!rows->IsNull(7)) order.expires_at = absl::FromUnixMicros(rows->Int(7));
    if (!rows->IsNull(8)) order.ttl = absl::Microseconds(rows->Int(8));
    const std::optional<OrderState> state = StateCalled(rows->Text(5));
    if (!state.has_value()) return absl::DataLossError(Concat("order ", order.order_id, " is '", rows->Text(5), "'"));
    order.state = *state;
    const auto available = to.available.find(order.sku);
    if (available == to.available.end()) {
      return absl::DataLossError(Concat("order ", order.order_id, " is of the unknown SKU '", order.sku, "'"));
    }
    if (order.state == OrderState::kHeld || order.state == OrderState::kSold) {
      // Both are positive by the tables' constraints, so this cannot overflow before it is found out.
      available->second -= order.quantity;
      if (available->second < 0) {
        return absl::DataLossError(
            Concat("SKU '", order.sku, "': its orders up to ", order.order_id, " hold more units than were granted"));
      }
    }
    to.state.orders.push_back(std::move(order));
  }
  return row.status();
}

void Count(std::string_view kind, int64_t quantity, Tally& tally) {
  int64_t granted = 0;
  int64_t available = 0;
  if (kind == "add_sku" || kind == "restock") granted = available = quantity;
  if (kind == "reserve" || kind == "take") available = -quantity;
  if (kind == "cancel" || kind == "expire") available = quantity;
  // Of a damaged file; then the sum is wrong, and shows.
  (void)__builtin_add_overflow(tally.granted, granted, &tally.granted);
  (void)__builtin_add_overflow(tally.available, available, &tally.available);
}

// The journal alone must lead to the state that the other tables show, by way of states that were right.
absl::Status CheckJournal(SqliteDatabase& database, RecoveredLedger& recovered) {
  absl::StatusOr<SqliteStatement> rows =
      database.Prepare("SELECT position, kind, sku, quantity FROM journal ORDER BY position");
  if (!rows.ok()) return rows.status();
  std::unordered_map<std::string, Tally> tallies;
  absl::StatusOr<bool> row;
  while ((row = rows->Step()).ok() && *row) {
    const uint64_t position = static_cast<uint64_t>(rows->Int(0));
    if (position != recovered.last_position + 1) {
      return absl::DataLossError(Concat("journal: position ", recovered.last_position + 1, " is missing"));
    }
    recovered.last_position = position;
    Tally& tally = tallies[std::string(rows->Text(2))];
    Count(rows->Text(1), rows->Int(3), tally);
    if (tally.available < 0) {
      return absl::DataLossError(
          Concat("journal: position ", position, " takes units of SKU '", rows->Text(2), "' that were not there"));
    }
  }
  if (!row.ok()) return row.status();
  for (const LedgerState::Sku& sku : recovered.state.skus) {
    const Tally tally = tallies[sku.sku];
    if (tally.granted != sku.granted || tally.available != recovered.available[sku.sku]) {
      return absl::DataLossError(Concat("SKU '", sku.sku, "': ", sku.granted, " granted and ",
                                        recovered.available[sku.sku], " available, but by the journal ", tally.granted,
                                        " and ", tally.available));
    }
  }
  if (tallies.size() != recovered.state.skus.size()) return absl::DataLossError("journal: it names an unknown SKU");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database) {
  RecoveredLedger recovered;
  absl::Status status = CheckFile(database);
  if (status.ok()) status = ReadSkus(database, recovered);
  if (status.ok()) status = ReadOrders(database, recovered);
  if (status.ok()) status = CheckJournal(database, recovered);
  if (!status.ok()) return status;
  return recovered;
}

}  // namespace stockade::internal
