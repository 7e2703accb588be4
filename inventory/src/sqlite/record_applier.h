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
#include "balances.h"
#include "request_fingerprint.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// Writes records into the tables, a batch a transaction. For one thread at a time. Must be gone before `database`.
class RecordApplier {
 public:
  // As recovered: the accounts of the SKUs, and the request ids of the orders in the table, by their fingerprints.
  static absl::StatusOr<RecordApplier> Create(SqliteDatabase& database, Balances balances,
                                              RequestFingerprint fingerprint, absl::flat_hash_set<uint64_t> requests);

  // OK: all of `batch`, which begins at `first_position`, is durable. ResourceExhausted: there was no room, or a record
  // exceeds a limit. NotFound: units of an order come back that is not there, perhaps no longer. After both it is as if
  // nobody had called. Any other error: rolled back, or at a failing commit unknown; after that the object must not be
  // used. `also`: a statement of the same transaction, or null.
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

  absl::Status ApplyAll(std::span<const LedgerRecord> batch, Place place);
  absl::Status ApplyOne(const LedgerRecord& record, Place place);
  // Ends a held order, or extends it.
  absl::Status ChangeOrder(const LedgerRecord& record, OrderState state, Place place);
  // Moves the units of a line, and writes what has changed in the SKU's row.
  absl::Status Move(const LedgerRecord& record, const OrderLine& line);
  absl::Status WriteRestock(const LedgerRecord& record, Place place);
  absl::Status WriteReturn(const LedgerRecord& record, Place place);
  // OK: the order is sold, and has the units of the record left. NotFound: it is not there, perhaps no longer.
  absl::Status CheckLeft(const LedgerRecord& record);
  // With its lines. `single`, here and below: null for a basket.
  absl::Status WriteOrder(const LedgerRecord& record, OrderState state, const OrderLine* single, Place place);
  absl::Status AddRequest(const std::string& request_id);
  absl::Status WriteJournal(const LedgerRecord& record, Place place, const OrderLine* single);
  // Copies the lines of a basket to where WriteJournal() has put it, and returns them.
  absl::StatusOr<OrderLines> WriteJournalLines(uint64_t order_id, uint64_t position);

  SqliteDatabase* database_;
  SqliteStatement begin_;
  SqliteStatement commit_;
  SqliteStatement insert_sku_;
  SqliteStatement update_sku_;
  SqliteStatement insert_order_;
  SqliteStatement insert_line_;
  SqliteStatement insert_restock_;
  SqliteStatement settle_order_;
  SqliteStatement extend_order_;
  SqliteStatement insert_journal_;
  SqliteStatement insert_journal_lines_;
  SqliteStatement lines_left_;
  SqliteStatement insert_change_;
  SqliteStatement insert_change_line_;
  SqliteStatement insert_returned_lines_;
  SqliteStatement find_request_;
  RequestFingerprint fingerprint_;
  // After the last record applied: the accounts of the SKUs, and the fingerprints of all request ids in the table of
  // orders.
  Balances balances_;
  absl::flat_hash_set<uint64_t> requests_;
  std::vector<uint64_t> new_requests_;  // Those of this batch.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_
