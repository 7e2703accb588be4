#ifndef STOCKADE_INVENTORY_SQLITE_JOURNAL_PRUNER_H_
#define STOCKADE_INVENTORY_SQLITE_JOURNAL_PRUNER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ledger_rows.h"
#include "order_rules.h"
#include "request_fingerprint.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// The start of the journal.
struct JournalStart {
  uint64_t position = 0;               // Records up to here are gone.
  std::set<std::string> removed = {};  // The SKUs that had been removed by then.
};

// Folds the oldest part of the journal into where it begins, with the orders that ended in it: see kTables. For one
// thread at a time. Must be gone before `database`.
class JournalPruner {
 public:
  // Rows of the journal in one step: 4 to 8 ms, twice that where SKUs have a limit per buyer, for which those who wait
  // for a commit wait.
  static constexpr uint64_t kStep = 1024;

  static absl::StatusOr<JournalPruner> Create(SqliteDatabase& database, JournalStart start,
                                              RequestFingerprint fingerprint);

  // Folds kStep rows, if as many are there and older than `before_us`, in a transaction of its own; else nothing.
  // Returns the fingerprints of the orders that are gone. `last_position`: of the journal. ResourceExhausted: there was
  // no room, and nothing has changed. Any other error: rolled back, or unknown.
  absl::StatusOr<std::vector<uint64_t>> Step(int64_t before_us, uint64_t last_position);

  // Positions up to it are gone.
  uint64_t start() const { return start_.position; }

 private:
  struct OfSku {
    Balance moved = {};  // What a step adds to where the journal begins.
    int64_t sold_forgotten = 0;
  };
  struct Fold {
    uint64_t end = 0;  // The last position.
    std::map<std::string, OfSku> skus = {};
    std::set<std::string> removed = {};
    std::vector<uint64_t> requests = {};  // Fingerprints.
    uint64_t last_id = 0;
  };

  JournalPruner(SqliteDatabase& database, JournalStart start, RequestFingerprint fingerprint)
      : database_(&database), start_(std::move(start)), fingerprint_(fingerprint) {}

  absl::StatusOr<bool> IsDue(int64_t before_us, uint64_t last_position);
  absl::StatusOr<Fold> FoldRows(int64_t before_us);
  absl::Status FoldRow(const JournalRow& row, Fold& fold);
  // By its last row in the journal, which ends it, or is a return. Others that end an order are kept.
  absl::Status ForgetOrder(const JournalRow& last, Fold& fold);
  absl::StatusOr<bool> ComesBackLater(const JournalRow& row);
  // With its changes. Sets `left` to what has not come back.
  absl::Status ForgetChanges(uint64_t order_id, Fold& fold, OrderLines& left);
  absl::Status ForgetRestock(const JournalRow& row, Fold& fold);
  absl::Status Write(const Fold& fold);
  bool Removed(const std::string& sku, const Fold& fold) const {
    return start_.removed.contains(sku) || fold.removed.contains(sku);
  }

  SqliteDatabase* database_;
  JournalStart start_;
  RequestFingerprint fingerprint_;
  int64_t not_due_us_ = INT64_MIN;  // Nothing is due before it is older than this.
  bool has_changes_ = false;        // At the last step.

  SqliteStatement find_row_;
  SqliteStatement delete_lines_;
  SqliteStatement delete_order_;
  SqliteStatement delete_restock_;
  SqliteStatement find_later_change_;
  SqliteStatement keep_order_;
  SqliteStatement lines_left_;
  SqliteStatement find_changes_;
  SqliteStatement delete_change_lines_;
  SqliteStatement delete_changes_;
  SqliteStatement add_bought_;
  SqliteStatement delete_bought_;
  SqliteStatement update_sku_;
  SqliteStatement insert_forgotten_;
  SqliteStatement delete_journal_lines_;
  SqliteStatement delete_journal_;
  SqliteStatement update_start_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_JOURNAL_PRUNER_H_
