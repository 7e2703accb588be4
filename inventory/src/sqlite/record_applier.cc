#include "record_applier.h"

#include <utility>

#include "stockade/base/strings.h"

namespace stockade::internal {
namespace {

std::string_view KindName(LedgerRecord::Kind kind) {
  switch (kind) {
    case LedgerRecord::Kind::kAddSku: return "add_sku";
    case LedgerRecord::Kind::kRestock: return "restock";
    case LedgerRecord::Kind::kReserve: return "reserve";
    case LedgerRecord::Kind::kTake: return "take";
    case LedgerRecord::Kind::kCommit: return "commit";
    case LedgerRecord::Kind::kCancel: return "cancel";
    case LedgerRecord::Kind::kExpire: return "expire";
    case LedgerRecord::Kind::kReserveBasket: return "reserve_basket";
    case LedgerRecord::Kind::kRemoveSku: return "remove_sku";
  }
  return "unknown";  // The journal's constraint refuses it.
}

bool IsDeposit(LedgerRecord::Kind kind) {
  return kind == LedgerRecord::Kind::kCancel || kind == LedgerRecord::Kind::kExpire;
}

absl::Status UnknownSku(const std::string& sku) {
  return absl::FailedPreconditionError(Concat("unknown SKU '", sku, "'"));
}

}  // namespace

absl::StatusOr<RecordApplier> RecordApplier::Create(SqliteDatabase& database,
                                                    std::unordered_map<std::string, int64_t> available) {
  RecordApplier applier(database);
  applier.available_ = std::move(available);
  const std::pair<SqliteStatement*, std::string_view> statements[] = {
      {&applier.begin_, "BEGIN IMMEDIATE"},
      {&applier.commit_, "COMMIT"},
      {&applier.insert_sku_, "INSERT INTO skus(sku, granted, shards, per_buyer_limit) VALUES(?1, ?2, ?3, ?4)"},
      {&applier.add_granted_, "UPDATE skus SET granted = granted + ?2 WHERE sku = ?1"},
      {&applier.insert_order_,
       "INSERT INTO orders(order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us, "
       "created_at_us) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"},
      {&applier.settle_order_,
       "UPDATE orders SET state = ?2 WHERE order_id = ?1 AND state = 'held' RETURNING sku, quantity"},
      {&applier.insert_journal_,
       "INSERT INTO journal(position, at_us, kind, order_id, sku, quantity) VALUES(?1, ?2, ?3, ?4, ?5, ?6)"},
  };
  for (const auto& [statement, sql] : statements) {
    absl::StatusOr<SqliteStatement> prepared = database.Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  return applier;
}

absl::Status RecordApplier::Apply(std::span<const LedgerRecord> batch, uint64_t first_position, absl::Time at) {
  absl::Status status = begin_.Run();
  if (status.ok()) status = ApplyAll(batch, first_position, absl::ToUnixMicros(at));
  if (status.ok()) status = commit_.Run();
  // SQLite has rolled back by itself after some errors. Where this fails, closing the file does it.
  if (!status.ok() && database_->in_transaction()) (void)database_->Execute("ROLLBACK");
  return status;
}

absl::Status RecordApplier::ApplyAll(std::span<const LedgerRecord> batch, uint64_t first_position, int64_t at_us) {
  uint64_t position = first_position;
  for (const LedgerRecord& record : batch) {
    absl::Status status = ApplyOne(record, position, at_us);
    if (!status.ok()) {
      return absl::Status(status.code(), Concat("record ", position, " (", KindName(record.kind), ", order ",
                                                record.order_id, "): ", status.message()));
    }
    ++position;
  }
  return absl::OkStatus();
}

absl::Status RecordApplier::ApplyOne(const LedgerRecord& record, uint64_t position, int64_t at_us) {
  std::string sku = record.sku;
  int64_t quantity = record.quantity;
  absl::Status status;
  switch (record.kind) {
    case LedgerRecord::Kind::kAddSku: status = AddSku(record); break;
    case LedgerRecord::Kind::kRestock: status = Restock(record); break;
    case LedgerRecord::Kind::kReserve:
    case LedgerRecord::Kind::kTake: status = Grant(record, at_us); break;
    case LedgerRecord::Kind::kCommit: status = Settle(record.order_id, "sold", sku, quantity); break;
    case LedgerRecord::Kind::kCancel: status = Settle(record.order_id, "cancelled", sku, quantity); break;
    case LedgerRecord::Kind::kExpire: status = Settle(record.order_id, "expired", sku, quantity); break;
    case LedgerRecord::Kind::kReserveBasket:
    case LedgerRecord::Kind::kRemoveSku: return absl::UnimplementedError("not kept by schema version 1");
  }
  if (status.ok()) status = Write(position, at_us, record, sku, quantity);
  if (status.ok() && IsDeposit(record.kind)) available_[sku] += quantity;
  return status;
}

absl::Status RecordApplier::AddSku(const LedgerRecord& record) {
  insert_sku_.Bind(1, record.sku);
  insert_sku_.Bind(2, record.quantity);
  insert_sku_.Bind(3, int64_t{record.shards});
  insert_sku_.Bind(4, record.per_buyer_limit);
  if (absl::Status status = insert_sku_.Run(); !status.ok()) return status;
  available_[record.sku] = record.quantity;
  return absl::OkStatus();
}

absl::Status RecordApplier::Restock(const LedgerRecord& record) {
  const auto available = available_.find(record.sku);
  if (available == available_.end()) return UnknownSku(record.sku);
  add_granted_.Bind(1, record.sku);
  add_granted_.Bind(2, record.quantity);
  // A sum above 2^63 - 1 would be a real number, which the STRICT table refuses.
  if (absl::Status status = add_granted_.Run(); !status.ok()) return status;
  // Cannot overflow: never more than granted. A quantity below 1 is refused by the journal.
  available->second += record.quantity;
  return absl::OkStatus();
}

absl::Status RecordApplier::Grant(const LedgerRecord& record, int64_t at_us) {
  const auto available = available_.find(record.sku);
  if (available == available_.end()) return UnknownSku(record.sku);
  if (available->second < record.quantity) {
    return absl::FailedPreconditionError(
        Concat("it takes ", record.quantity, " units of SKU '", record.sku, "', which has ", available->second));
  }
  const bool reserved = record.kind == LedgerRecord::Kind::kReserve;
  insert_order_.Bind(1, static_cast<int64_t>(record.order_id));
  insert_order_.Bind(2, record.request_id);
  insert_order_.Bind(3, record.sku);
  insert_order_.Bind(4, record.quantity);
  insert_order_.Bind(5, record.buyer);
  insert_order_.Bind(6, reserved ? "held" : "sold");
  insert_order_.Bind(7, int64_t{reserved});
  if (reserved && record.expires_at != absl::InfiniteFuture()) {
    insert_order_.Bind(8, absl::ToUnixMicros(record.expires_at));
  } else {
    insert_order_.BindNull(8);
  }
  if (reserved && record.ttl != absl::InfiniteDuration()) {
    insert_order_.Bind(9, absl::ToInt64Microseconds(record.ttl));
  } else {
    insert_order_.BindNull(9);
  }
  insert_order_.Bind(10, at_us);
  if (absl::Status status = insert_order_.Run(); !status.ok()) return status;
  available->second -= record.quantity;
  return absl::OkStatus();
}

absl::Status RecordApplier::Settle(uint64_t order_id, std::string_view state, std::string& sku, int64_t& quantity) {
  settle_order_.Bind(1, static_cast<int64_t>(order_id));
  settle_order_.Bind(2, state);
  absl::StatusOr<bool> row = settle_order_.Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::FailedPreconditionError("no such order is held");
  sku = std::string(settle_order_.Text(0));
  quantity = settle_order_.Int(1);
  return settle_order_.Run();
}

absl::Status RecordApplier::Write(uint64_t position, int64_t at_us, const LedgerRecord& record, std::string_view sku,
                                  int64_t quantity) {
  insert_journal_.Bind(1, static_cast<int64_t>(position));
  insert_journal_.Bind(2, at_us);
  insert_journal_.Bind(3, KindName(record.kind));
  if (record.kind == LedgerRecord::Kind::kAddSku || record.kind == LedgerRecord::Kind::kRestock) {
    insert_journal_.BindNull(4);
  } else {
    insert_journal_.Bind(4, static_cast<int64_t>(record.order_id));
  }
  insert_journal_.Bind(5, sku);
  insert_journal_.Bind(6, quantity);
  return insert_journal_.Run();
}

}  // namespace stockade::internal
