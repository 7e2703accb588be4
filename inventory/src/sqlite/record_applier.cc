#include "record_applier.h"

#include <functional>
#include <map>
#include <utility>

#include "ledger_rows.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

absl::Status CheckLength(std::string_view what, std::string_view name, size_t most) {
  if (name.size() <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      Concat("a ", what, " of ", name.size(), " bytes; at most ", most, " are allowed"));
}

// What an inventory never asks for. ResourceExhausted, so that the record is refused and does not fail the ledger.
absl::Status CheckLimits(const LedgerRecord& record) {
  absl::Status within = CheckLength("request_id", record.request_id, kMaxRequestIdBytes);
  if (within.ok()) within = CheckLength("buyer", record.buyer, kMaxBuyerBytes);
  if (within.ok() && record.lines.size() > kMaxBasketLines) {
    within = absl::ResourceExhaustedError(
        Concat("a basket of ", record.lines.size(), " lines; at most ", kMaxBasketLines, " are allowed"));
  }
  for (const OrderLine& line : record.lines) {
    if (within.ok()) within = CheckLength("sku", line.sku, kMaxSkuBytes);
  }
  return within;
}

// Of a row; NULL for a basket.
std::optional<std::string_view> SkuOf(const OrderLine* single) {
  return single == nullptr ? std::nullopt : std::optional<std::string_view>(single->sku);
}
std::optional<int64_t> QuantityOf(const OrderLine* single) {
  return single == nullptr ? std::nullopt : std::optional(single->quantity);
}

}  // namespace

using Kind = LedgerRecord::Kind;

absl::StatusOr<RecordApplier> RecordApplier::Create(SqliteDatabase& database, Balances balances,
                                                    RequestFingerprint fingerprint,
                                                    absl::flat_hash_set<uint64_t> requests) {
  RecordApplier applier(database, fingerprint);
  applier.balances_ = std::move(balances);
  applier.requests_ = std::move(requests);
  const std::pair<SqliteStatement*, std::string_view> statements[] = {
      {&applier.begin_, "BEGIN IMMEDIATE"},
      {&applier.commit_, "COMMIT"},
      {&applier.insert_sku_,
       "INSERT INTO skus(sku, granted, shards, per_buyer_limit, removed, sold_forgotten) VALUES(?1, ?2, ?3, ?4, 0, 0)"},
      {&applier.update_sku_, "UPDATE skus SET granted = ?2, removed = ?3 WHERE sku = ?1"},
      {&applier.insert_order_,
       "INSERT INTO orders(order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us, "
       "created_at_us, settled_at_us, position) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"},
      {&applier.insert_line_, "INSERT INTO order_lines(order_id, line, sku, quantity) VALUES(?1, ?2, ?3, ?4)"},
      {&applier.settle_order_,
       "UPDATE orders SET state = ?2, settled_at_us = ?3 WHERE order_id = ?1 AND state = 'held' "
       "RETURNING sku, quantity"},
      {&applier.extend_order_,
       "UPDATE orders SET extended_us = ?2 WHERE order_id = ?1 AND state = 'held' RETURNING sku, quantity"},
      {&applier.insert_journal_,
       "INSERT INTO journal(position, at_us, kind, order_id, sku, quantity) VALUES(?1, ?2, ?3, ?4, ?5, ?6)"},
      {&applier.insert_journal_lines_,
       "INSERT INTO journal_lines(position, line, sku, quantity) SELECT ?1, line, sku, quantity FROM order_lines "
       "WHERE order_id = ?2 RETURNING sku, quantity"},
      {&applier.insert_restock_,
       "INSERT INTO restocks(order_id, request_id, sku, quantity, at_us, position) VALUES(?1, ?2, ?3, ?4, ?5, ?6)"},
      {&applier.lines_left_, kLinesLeft},
      {&applier.insert_change_,
       "INSERT INTO changes(position, change_id, request_id, order_id, kind, of_all, at_us) "
       "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"},
      {&applier.insert_change_line_,
       "INSERT INTO change_lines(position, line, sku, quantity, to_stock) VALUES(?1, ?2, ?3, ?4, ?5)"},
      {&applier.insert_returned_lines_,
       "INSERT INTO journal_lines(position, line, sku, quantity) SELECT position, line, sku, quantity "
       "FROM change_lines WHERE position = ?1"},
      {&applier.find_request_,
       "SELECT order_id FROM orders WHERE request_id = ?1 UNION ALL "
       "SELECT order_id FROM restocks WHERE request_id = ?1 UNION ALL "
       "SELECT order_id FROM changes WHERE request_id = ?1"},
  };
  for (const auto& [statement, sql] : statements) {
    absl::StatusOr<SqliteStatement> prepared = database.Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  return applier;
}

absl::Status RecordApplier::Apply(std::span<const LedgerRecord> batch, uint64_t first_position, absl::Time at,
                                  const char* also) {
  absl::Status status = begin_.Run();
  if (status.ok() && also != nullptr) status = database_->Execute(also);
  CrashPoint("writer: transaction begun");
  if (status.ok()) status = ApplyAll(batch, {first_position, absl::ToUnixMicros(at)});
  CrashPoint("writer: records applied, before the commit");
  if (status.ok()) status = commit_.Run();
  if (status.ok()) {
    balances_.Keep();
  } else {
    balances_.RollBack();
    Forget(new_requests_);
    status = database_->RollBackAfter(std::move(status));
  }
  new_requests_.clear();
  return status;
}

absl::Status RecordApplier::ApplyAll(std::span<const LedgerRecord> batch, Place place) {
  for (const LedgerRecord& record : batch) {
    absl::Status status = ApplyOne(record, place);
    if (!status.ok()) {
      return absl::Status(status.code(), Concat("record ", place.position, " (", KindName(record.kind), ", order ",
                                                record.order_id, "): ", status.message()));
    }
    ++place.position;
    CrashPoint("writer: one record applied");
  }
  return absl::OkStatus();
}

absl::Status RecordApplier::ApplyOne(const LedgerRecord& record, Place place) {
  if (absl::Status within = CheckLimits(record); !within.ok()) return within;
  if (IsReturn(record.kind)) return WriteReturn(record, place);
  const std::optional<OrderState> state = StateAfter(record.kind);
  if (state.has_value() && !IsGrant(record.kind)) return ChangeOrder(record, *state, place);
  if (record.lines.empty() || (record.lines.size() > 1 && record.kind != Kind::kReserveBasket)) {
    return absl::FailedPreconditionError(Concat("a record with ", record.lines.size(), " lines"));
  }
  absl::Status status;
  for (const OrderLine& line : record.lines) {
    if (status.ok()) status = Move(record, line);
  }
  if (!status.ok()) return status;
  const OrderLine* const single = record.kind == Kind::kReserveBasket ? nullptr : record.lines.data();
  if (record.kind == Kind::kRestock && !record.request_id.empty()) status = WriteRestock(record, place);
  if (state.has_value()) status = WriteOrder(record, *state, single, place);
  if (status.ok()) status = WriteJournal(record, place, single);
  return status.ok() && single == nullptr ? WriteJournalLines(record.order_id, place.position).status() : status;
}

absl::Status RecordApplier::WriteRestock(const LedgerRecord& record, Place place) {
  if (absl::Status added = AddRequest(record.request_id); !added.ok()) return added;
  const OrderLine& line = record.lines[0];
  return insert_restock_.With(record.order_id, record.request_id, line.sku, line.quantity, place.at_us, place.position)
      .Run();
}

absl::Status RecordApplier::WriteReturn(const LedgerRecord& record, Place place) {
  absl::Status status = CheckLeft(record);
  if (status.ok()) status = AddRequest(record.request_id);
  if (status.ok()) {
    status = insert_change_
                 .With(place.position, record.change_id, record.request_id, record.order_id, KindName(record.kind),
                       record.of_all, place.at_us)
                 .Run();
  }
  int64_t number = 0;
  for (const OrderLine& line : record.lines) {
    if (!status.ok()) return status;
    const Balance* const balance = balances_.Find(line.sku);
    const bool to_stock = TransferOf(record.kind, balance != nullptr && balance->on_sale).to == Account::kAvailable;
    status = insert_change_line_.With(place.position, ++number, line.sku, line.quantity, to_stock).Run();
    if (status.ok()) status = Move(record, line);
  }
  const bool is_single = record.lines.size() == 1;
  if (status.ok()) status = WriteJournal(record, place, is_single ? record.lines.data() : nullptr);
  return status.ok() && !is_single ? insert_returned_lines_.With(place.position).Run() : status;
}

absl::Status RecordApplier::CheckLeft(const LedgerRecord& record) {
  std::map<std::string, int64_t, std::less<>> left;
  lines_left_.With(record.order_id);
  absl::StatusOr<bool> row;
  while ((row = lines_left_.Step()).ok() && *row) left.emplace(lines_left_.Text(0), lines_left_.Int(1));
  if (!row.ok()) return row.status();
  if (left.empty()) return absl::NotFoundError("no such order is sold, or it was pruned");
  if (record.lines.empty()) return absl::FailedPreconditionError("a return without lines");
  for (const auto& [sku, units] : record.lines) {
    int64_t& of_sku = left[sku];
    if (units < 1 || units > of_sku) {
      return absl::FailedPreconditionError(
          Concat(units, " units of SKU '", sku, "' come back, of which the order has ", of_sku, " left"));
    }
    of_sku -= units;
  }
  return absl::OkStatus();
}

absl::Status RecordApplier::ChangeOrder(const LedgerRecord& record, OrderState state, Place place) {
  SqliteStatement& change = state == OrderState::kHeld
                                ? extend_order_.With(record.order_id, absl::ToInt64Microseconds(record.extended))
                                : settle_order_.With(record.order_id, StateName(state), place.at_us);
  const absl::StatusOr<bool> row = change.Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::FailedPreconditionError("no such order is held");
  const bool basket = change.IsNull(0);
  const OrderLine single{.sku = std::string(change.Text(0)), .quantity = change.Int(1)};
  absl::Status status = change.Run();
  if (status.ok()) status = WriteJournal(record, place, basket ? nullptr : &single);
  if (!status.ok() || !basket) return status.ok() ? Move(record, single) : status;
  const absl::StatusOr<OrderLines> lines = WriteJournalLines(record.order_id, place.position);
  if (!lines.ok()) return lines.status();
  for (const OrderLine& line : *lines) {
    if (status.ok()) status = Move(record, line);
  }
  return status;
}

absl::Status RecordApplier::Move(const LedgerRecord& record, const OrderLine& line) {
  const absl::StatusOr<const Balance*> balance = balances_.Apply(record.kind, line.sku, line.quantity);
  if (!balance.ok()) return balance.status();
  if (record.kind == Kind::kAddSku) {
    return insert_sku_.With(line.sku, line.quantity, record.shards, record.per_buyer_limit).Run();
  }
  const Transfer transfer = TransferOf(record.kind, (*balance)->on_sale);
  if (transfer.from != Account::kOutside && transfer.to != Account::kOutside) return absl::OkStatus();
  return update_sku_.With(line.sku, (*balance)->granted(), !(*balance)->on_sale).Run();
}

absl::Status RecordApplier::AddRequest(const std::string& request_id) {
  const uint64_t request = fingerprint_(request_id);
  if (requests_.insert(request).second) {
    new_requests_.push_back(request);
    return absl::OkStatus();
  }
  // Another id may have the same fingerprint, once in a thousand years. It takes a walk through all orders.
  const absl::StatusOr<bool> found = find_request_.With(request_id).Step();
  if (!found.ok()) return found.status();
  if (!*found) return absl::OkStatus();
  const int64_t order_id = find_request_.Int(0);
  (void)find_request_.Run();
  return absl::FailedPreconditionError(Concat("request id '", request_id, "' is that of order ", order_id));
}

absl::Status RecordApplier::WriteOrder(const LedgerRecord& record, OrderState state, const OrderLine* single,
                                       Place place) {
  if (absl::Status added = AddRequest(record.request_id); !added.ok()) return added;
  const bool reserved = state == OrderState::kHeld;
  std::optional<int64_t> expires_at_us;
  std::optional<int64_t> ttl_us;
  std::optional<int64_t> settled_at_us;
  if (reserved && record.expires_at != absl::InfiniteFuture()) expires_at_us = absl::ToUnixMicros(record.expires_at);
  if (reserved && record.ttl != absl::InfiniteDuration()) ttl_us = absl::ToInt64Microseconds(record.ttl);
  if (!reserved) settled_at_us = place.at_us;
  absl::Status status =
      insert_order_
          .With(record.order_id, record.request_id, SkuOf(single), QuantityOf(single), record.buyer, StateName(state),
                reserved, expires_at_us, ttl_us, place.at_us, settled_at_us, place.position)
          .Run();
  int64_t number = 0;
  for (const OrderLine& line : record.lines) {
    if (!status.ok() || single != nullptr) break;
    status = insert_line_.With(record.order_id, ++number, line.sku, line.quantity).Run();
    // Of a SKU that it has a line of already.
    if (!status.ok()) return absl::Status(status.code(), Concat("SKU '", line.sku, "': ", status.message()));
  }
  return status;
}

absl::Status RecordApplier::WriteJournal(const LedgerRecord& record, Place place, const OrderLine* single) {
  std::optional<uint64_t> order_id;
  const bool of_order = StateAfter(record.kind).has_value();
  if (of_order || (record.kind == Kind::kRestock && !record.request_id.empty())) order_id = record.order_id;
  return insert_journal_
      .With(place.position, place.at_us, KindName(record.kind), order_id, SkuOf(single), QuantityOf(single))
      .Run();
}

absl::StatusOr<OrderLines> RecordApplier::WriteJournalLines(uint64_t order_id, uint64_t position) {
  insert_journal_lines_.With(position, order_id);
  OrderLines lines;
  absl::StatusOr<bool> row;
  while ((row = insert_journal_lines_.Step()).ok() && *row) {
    lines.push_back({.sku = std::string(insert_journal_lines_.Text(0)), .quantity = insert_journal_lines_.Int(1)});
  }
  if (!row.ok()) return row.status();
  return lines;
}

}  // namespace stockade::inventory_internal
