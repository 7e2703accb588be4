#ifndef STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_
#define STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::internal {

// Writes records into the tables, a batch a transaction. For one thread at a time. Must be gone before `database`.
class RecordApplier {
 public:
  // `available`: as recovered.
  static absl::StatusOr<RecordApplier> Create(SqliteDatabase& database,
                                              std::unordered_map<std::string, int64_t> available);

  // OK: all of `batch`, which begins at `first_position`, is durable. An error: rolled back, or at a failing commit
  // unknown; after that the object must not be used.
  absl::Status Apply(std::span<const LedgerRecord> batch, uint64_t first_position, absl::Time at);

 private:
  explicit RecordApplier(SqliteDatabase& database) : database_(&database) {}

  absl::Status ApplyAll(std::span<const LedgerRecord> batch, uint64_t first_position, int64_t at_us);
  absl::Status ApplyOne(const LedgerRecord& record, uint64_t position, int64_t at_us);
  absl::Status AddSku(const LedgerRecord& record);
  absl::Status Restock(const LedgerRecord& record);
  absl::Status Grant(const LedgerRecord& record, int64_t at_us);
  // From held to `state`. Sets what the order is of.
  absl::Status Settle(uint64_t order_id, std::string_view state, std::string& sku, int64_t& quantity);
  absl::Status Write(uint64_t position, int64_t at_us, const LedgerRecord& record, std::string_view sku,
                     int64_t quantity);

  SqliteDatabase* database_;
  SqliteStatement begin_;
  SqliteStatement commit_;
  SqliteStatement insert_sku_;
  SqliteStatement add_granted_;
  SqliteStatement insert_order_;
  SqliteStatement settle_order_;
  SqliteStatement insert_journal_;
  // Units for sale by SKU, after the last record applied. Never negative: the last line of defence against overselling.
  std::unordered_map<std::string, int64_t> available_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_RECORD_APPLIER_H_
