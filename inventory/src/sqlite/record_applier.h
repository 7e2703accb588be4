#ifndef STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_
#define STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "request_fingerprint.h"
#include "sqlite_database.h"
#include "stock_book.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// Writes records into the tables, a batch a transaction. For one thread at a time. Must be gone before `database`.
class RecordApplier {
 public:
  // As recovered: what the SKUs have, and the request ids of the orders in the table, by their fingerprints.
  static absl::StatusOr<RecordApplier> Create(SqliteDatabase& database, StockBook book, RequestFingerprint fingerprint,
                                              absl::flat_hash_set<uint64_t> requests);

  // OK: all of `batch`, which begins at `first_position`, is durable. ResourceExhausted: there was no room, or a record
  // exceeds a limit, and it is as if nobody had called. Any other error: rolled back, or at a failing commit unknown;
  // after that the object must not be used. `also`: a statement of the same transaction, or null.
  absl::Status Apply(std::span<const LedgerRecord> batch, uint64_t first_position, absl::Time at, const char* also);

  // The orders with these fingerprints have gone from the table.
  void Forget(std::span<const uint64_t> requests) {
    for (const uint64_t request : requests) requests_.erase(request);
  }

 private:
  // The place of a record in the journal.
  struct Place {
    uint64_t position;
    int64_t at_us;
  };

  RecordApplier(SqliteDatabase& database, RequestFingerprint fingerprint)
      : database_(&database), fingerprint_(fingerprint) {}

  void Keep();
  void RollBack();
  absl::Status ApplyAll(std::span<const LedgerRecord> batch, Place place);
  absl::Status ApplyOne(const LedgerRecord& record, Place place);
  absl::Status AddSku(const LedgerRecord& record);
  absl::Status ChangeSku(const LedgerRecord& record);
  absl::Status Restock(const LedgerRecord& record, Place place);
  absl::Status Grant(const LedgerRecord& record, Place place);
  absl::Status GrantBasket(const LedgerRecord& record, Place place);
  absl::Status EndOrder(const LedgerRecord& record, Place place);
  absl::Status EndBasket(const LedgerRecord& record, Place place);

  absl::Status GiveBack(const std::string& sku, int64_t quantity);
  absl::Status WriteSku(const std::string& sku, const SkuStock& stock);
  // The order, without its lines.
  absl::Status WriteOrder(const LedgerRecord& record, Place place);
  absl::Status AddRequest(const std::string& request_id);
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
  SqliteStatement insert_restock_;
  SqliteStatement settle_order_;
  SqliteStatement insert_journal_;
  SqliteStatement insert_journal_lines_;
  SqliteStatement find_request_;
  RequestFingerprint fingerprint_;
  // After the last record applied: what the SKUs have, and the fingerprints of all request ids in the table of orders.
  StockBook book_;
  absl::flat_hash_set<uint64_t> requests_;
  std::vector<uint64_t> new_requests_;  // Those of this batch.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_
