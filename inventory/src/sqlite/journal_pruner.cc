#include "journal_pruner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ledger_rows.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {

using Kind = LedgerRecord::Kind;

absl::StatusOr<JournalPruner> JournalPruner::Create(SqliteDatabase& database, JournalStart start,
                                                    RequestFingerprint fingerprint) {
  JournalPruner pruner(database, std::move(start), fingerprint);
  const std::pair<SqliteStatement*, std::string_view> statements[] = {
      {&pruner.find_row_, "SELECT at_us FROM journal WHERE position = ?1"},
      {&pruner.delete_lines_, "DELETE FROM order_lines WHERE order_id = ?1"},
      {&pruner.delete_order_, "DELETE FROM orders WHERE order_id = ?1 AND state <> 'held' RETURNING request_id, buyer"},
      {&pruner.delete_restock_, "DELETE FROM restocks WHERE position = ?1 RETURNING request_id"},
      {&pruner.find_later_change_, "SELECT 1 FROM changes WHERE order_id = ?1 AND position > ?2 LIMIT 1"},
      {&pruner.keep_order_, "UPDATE orders SET end_folded = 1 WHERE order_id = ?1"},
      {&pruner.lines_left_, kLinesLeft},
      {&pruner.find_changes_, "SELECT request_id, change_id FROM changes WHERE order_id = ?1"},
      {&pruner.delete_change_lines_,
       "DELETE FROM change_lines WHERE position IN (SELECT position FROM changes WHERE order_id = ?1)"},
      {&pruner.delete_changes_, "DELETE FROM changes WHERE order_id = ?1"},
      {&pruner.add_bought_,
       "INSERT INTO bought(sku, buyer, units) SELECT sku, ?2, ?3 FROM skus "
       "WHERE sku = ?1 AND per_buyer_limit > 0 AND removed = 0 "
       "ON CONFLICT(sku, buyer) DO UPDATE SET units = units + excluded.units"},
      {&pruner.delete_bought_, "DELETE FROM bought WHERE sku = ?1"},
      {&pruner.update_sku_,
       "UPDATE skus SET start_granted = coalesce(start_granted, 0) + ?2, "
       "start_available = coalesce(start_available, 0) + ?3, start_removed = ?4, "
       "sold_forgotten = sold_forgotten + ?5 WHERE sku = ?1"},
      {&pruner.insert_forgotten_, "INSERT INTO forgotten(journal_start, fingerprints) VALUES(?1, ?2)"},
      {&pruner.delete_journal_lines_, "DELETE FROM journal_lines WHERE position <= ?1"},
      {&pruner.delete_journal_, "DELETE FROM journal WHERE position <= ?1"},
      {&pruner.update_start_, "UPDATE ledger SET journal_start = ?1, last_forgotten_id = max(last_forgotten_id, ?2)"},
  };
  for (const auto& [statement, sql] : statements) {
    absl::StatusOr<SqliteStatement> prepared = database.Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  return pruner;
}

absl::StatusOr<bool> JournalPruner::IsDue(int64_t before_us, uint64_t last_position) {
  if (last_position < start_.position + kStep || not_due_us_ >= before_us) return false;
  const absl::StatusOr<bool> row = find_row_.With(start_.position + kStep).Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(Concat("journal: position ", start_.position + kStep, " is missing"));
  not_due_us_ = find_row_.Int(0);
  (void)find_row_.Run();
  return not_due_us_ < before_us;
}

absl::StatusOr<std::vector<uint64_t>> JournalPruner::Step(int64_t before_us, uint64_t last_position) {
  const absl::StatusOr<bool> due = IsDue(before_us, last_position);
  if (!due.ok()) return due.status();
  if (!*due) return std::vector<uint64_t>();
  absl::Status status = database_->Execute("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  absl::StatusOr<Fold> fold = FoldRows(before_us);
  status = fold.status();
  CrashPoint("prune: orders deleted, before the rest");
  if (status.ok()) status = Write(*fold);
  CrashPoint("prune: journal deleted, before the commit");
  if (status.ok()) status = database_->Execute("COMMIT");
  if (!status.ok()) return database_->RollBackAfter(std::move(status));
  CrashPoint("prune: committed");
  start_.position = fold->end;
  start_.removed.merge(fold->removed);
  return std::move(fold->requests);
}

absl::StatusOr<JournalPruner::Fold> JournalPruner::FoldRows(int64_t before_us) {
  Fold fold{.end = start_.position};
  const absl::StatusOr<int64_t> changes = database_->QueryInt("SELECT EXISTS (SELECT 1 FROM changes)");
  if (!changes.ok()) return changes.status();
  has_changes_ = *changes != 0;
  absl::StatusOr<JournalReader> journal = JournalReader::Create(*database_, fold.end, fold.end + kStep);
  if (!journal.ok()) return journal.status();
  absl::StatusOr<bool> next;
  while ((next = journal->Next()).ok() && *next) {
    const JournalRow& row = journal->row();
    // A clock that was set back makes a later row older.
    if (row.at_us >= before_us) {
      not_due_us_ = row.at_us;
      return fold;
    }
    if (absl::Status status = FoldRow(row, fold); !status.ok()) return status;
    fold.end = row.position;
  }
  if (!next.ok()) return next.status();
  return fold;
}

absl::Status JournalPruner::FoldRow(const JournalRow& row, Fold& fold) {
  for (const OrderLine& line : row.lines) {
    fold.skus[line.sku].moved.Add(TransferOf(row.kind, !Removed(line.sku, fold)), line.quantity);
  }
  if (const std::optional<OrderState> state = StateAfter(row.kind); state.has_value()) {
    return state == OrderState::kHeld ? absl::OkStatus() : ForgetOrder(row, fold);
  }
  if (row.kind == Kind::kRestock && row.order_id != 0) return ForgetRestock(row, fold);
  if (row.kind != Kind::kRemoveSku) return absl::OkStatus();
  fold.removed.insert(row.lines[0].sku);
  return delete_bought_.With(row.lines[0].sku).Run();
}

absl::Status JournalPruner::ForgetOrder(const JournalRow& last, Fold& fold) {
  const absl::StatusOr<bool> comes_back = ComesBackLater(last);
  if (!comes_back.ok()) return comes_back.status();
  const bool is_return = IsReturn(last.kind);
  if (*comes_back) return is_return ? absl::OkStatus() : keep_order_.With(last.order_id).Run();
  OrderLines left = last.lines;
  absl::Status status = is_return ? ForgetChanges(last.order_id, fold, left) : absl::OkStatus();
  if (status.ok() && (last.basket || is_return)) status = delete_lines_.With(last.order_id).Run();
  if (!status.ok()) return status;
  const absl::StatusOr<bool> row = delete_order_.With(last.order_id).Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(Concat("journal: it ends order ", last.order_id, ", which has not ended"));
  fold.requests.push_back(fingerprint_(delete_order_.Text(0)));
  fold.last_id = std::max(fold.last_id, last.order_id);
  const std::string buyer(delete_order_.Text(1));
  status = delete_order_.Run();
  if (StateAfter(last.kind) != OrderState::kSold) return status;
  for (const OrderLine& line : left) {
    fold.skus[line.sku].sold_forgotten += line.quantity;
    if (status.ok()) status = add_bought_.With(line.sku, buyer, line.quantity).Run();
  }
  return status;
}

absl::StatusOr<bool> JournalPruner::ComesBackLater(const JournalRow& row) {
  if (!has_changes_) return false;
  absl::StatusOr<bool> found = find_later_change_.With(row.order_id, row.position).Step();
  if (found.ok() && *found) (void)find_later_change_.Run();
  return found;
}

absl::Status JournalPruner::ForgetChanges(uint64_t order_id, Fold& fold, OrderLines& left) {
  left.clear();
  lines_left_.With(order_id);
  absl::StatusOr<bool> row;
  while ((row = lines_left_.Step()).ok() && *row) {
    if (lines_left_.Int(1) == 0) continue;
    left.push_back({.sku = std::string(lines_left_.Text(0)), .quantity = lines_left_.Int(1)});
  }
  if (!row.ok()) return row.status();
  find_changes_.With(order_id);
  while ((row = find_changes_.Step()).ok() && *row) {
    fold.requests.push_back(fingerprint_(find_changes_.Text(0)));
    fold.last_id = std::max(fold.last_id, static_cast<uint64_t>(find_changes_.Int(1)));
  }
  if (!row.ok()) return row.status();
  absl::Status status = delete_change_lines_.With(order_id).Run();
  return status.ok() ? delete_changes_.With(order_id).Run() : status;
}

absl::Status JournalPruner::ForgetRestock(const JournalRow& row, Fold& fold) {
  const absl::StatusOr<bool> found = delete_restock_.With(row.position).Step();
  if (!found.ok()) return found.status();
  if (!*found) return absl::DataLossError(Concat("journal: restock ", row.order_id, " is not in its table"));
  fold.requests.push_back(fingerprint_(delete_restock_.Text(0)));
  fold.last_id = std::max(fold.last_id, row.order_id);
  return delete_restock_.Run();
}

absl::Status JournalPruner::Write(const Fold& fold) {
  absl::Status status;
  for (const auto& [sku, change] : fold.skus) {
    const auto& [moved, sold_forgotten] = change;
    status = update_sku_.With(sku, moved.granted(), moved.available, Removed(sku, fold), sold_forgotten).Run();
    if (!status.ok()) return status;
  }
  if (!fold.requests.empty()) {
    const std::string blob = ToBlob(fold.requests);
    insert_forgotten_.With(fold.end).BindBlob(2, blob);
    if (status = insert_forgotten_.Run(); !status.ok()) return status;
  }
  status = update_start_.With(fold.end, fold.last_id).Run();
  for (SqliteStatement* const statement : {&delete_journal_lines_, &delete_journal_}) {
    if (status.ok()) status = statement->With(fold.end).Run();
  }
  return status;
}

}  // namespace stockade::inventory_internal
