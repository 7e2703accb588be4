#ifndef STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_
#define STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sqlite_database.h"
#include "stock_book.h"
#include "stockade/inventory/ledger.h"

namespace stockade::internal {

// Writes records into the tables, a batch a transaction. For one thread at a time. Must be gone before `database`.
class RecordApplier {
 public:
  // `book`: as recovered.
  static absl::StatusOr<RecordApplier> Create(SqliteDatabase& database, StockBook book);

  // OK: all of `batch`, which begins at `first_position`, is durable. An error: rolled back, or at a failing commit
  // unknown; after that the object must not be used.
  absl::Status Apply(std::span<const LedgerRecord> batch, uint64_t first_position, absl::Time at);

 private:
  // Where a record goes in the journal.
  struct Place {
    uint64_t position;
    int64_t at_us;
  };

  explicit RecordApplier(SqliteDatabase& database) : database_(&database) {}

  absl::Status ApplyAll(std::span<const LedgerRecord> batch, Place place);
  absl::Status ApplyOne(const LedgerRecord& record, Place place);
  absl::Status AddSku(const LedgerRecord& record);
  absl::Status ChangeSku(const LedgerRecord& record);
  absl::Status Grant(const LedgerRecord& record, Place place);
  absl::Status GrantBasket(const LedgerRecord& record, Place place);
  absl::Status Settle(const LedgerRecord& record, Place place);
  absl::Status SettleBasket(const LedgerRecord& record, Place place);

  absl::Status GiveBack(const std::string& sku, int64_t quantity);
  absl::Status WriteSku(const std::string& sku, const SkuStock& stock);
  // The order, without its lines.
  absl::Status WriteOrder(const LedgerRecord& record, int64_t at_us);
  // No `sku`: of a basket.
  absl::Status WriteJournal(const LedgerRecord& record, Place place, std::optional<std::string_view> sku,
                            int64_t quantity);
  // Copies the lines of a basket to where WriteJournal() has put it, and returns them.
  absl::StatusOr<std::vector<OrderLine>> WriteJournalLines(uint64_t order_id, uint64_t position);

  SqliteDatabase* database_;
  SqliteStatement begin_;
  SqliteStatement commit_;
  SqliteStatement insert_sku_;
  SqliteStatement update_sku_;
  SqliteStatement insert_order_;
  SqliteStatement insert_line_;
  SqliteStatement settle_order_;
  SqliteStatement insert_journal_;
  SqliteStatement insert_journal_lines_;
  StockBook book_;  // After the last record applied.
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_
