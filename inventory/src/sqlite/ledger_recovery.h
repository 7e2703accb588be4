#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "balances.h"
#include "journal_pruner.h"
#include "ledger_rows.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// The state from which the journal goes on, as far as the other tables do not show it.
struct ReplayStart {
  uint64_t position = 0;  // The journal begins after it.
  // What SKUs had there: all that are known by then.
  struct Sku {
    std::string sku;
    int64_t granted;
    int64_t available;
    bool removed;
  };
  std::vector<Sku> skus = {};
  std::vector<uint64_t> granted_at = {};    // Of shown.orders: the position of each one's grant.
  std::vector<bool> end_folded = {};        // Of shown.orders: it was sold there, and units of it came back later.
  std::vector<uint64_t> changed_at = {};    // Of shown.changes: their positions, which ascend.
  std::vector<uint64_t> restocked_at = {};  // Of shown.restocks: their positions, which ascend.
};

// The journal must lead from its start to the state that the other tables show, by way of states that were right: no
// order granted twice or ended twice, no units taken that were not there, nothing done to a SKU that is gone.
class JournalReplay {
 public:
  // `shown`: what the other tables say. Must outlive the object and stay as it is, as `start` must.
  JournalReplay(const LedgerState& shown, const ReplayStart& start)
      : shown_(shown),
        start_(start),
        states_(shown.orders.size()),
        extended_(shown.orders.size()),
        last_position_(start.position) {}

  // Before the first row. DataLoss: the start does not add up.
  absl::Status Begin();

  // The next row. DataLoss: it cannot be, or the other tables say otherwise.
  absl::Status Apply(const JournalRow& row);

  // After the last row. DataLoss: the other tables show what the journal does not say.
  absl::Status Finish() const;

  uint64_t last_position() const { return last_position_; }
  Balances TakeBalances() { return std::move(balances_); }

 private:
  // Null: not shown.
  const LedgerState::Order* FindOrder(uint64_t order_id) const;
  // That a restock with a request id is the next one in the table of restocks.
  absl::Status CheckRestock(const JournalRow& row);
  // That a return is the next one in the table of changes.
  absl::Status CheckReturn(const JournalRow& row);
  // That the order may get this row next, and is shown with it.
  absl::Status CheckOrder(const JournalRow& row);

  const LedgerState& shown_;
  const ReplayStart& start_;
  std::vector<std::optional<OrderState>> states_;  // Of shown_.orders, by the journal so far; none: not granted yet.
  std::vector<bool> extended_;                     // Of shown_.orders: the journal so far extends it.
  Balances balances_;
  size_t next_restock_ = 0;  // Of shown_.restocks.
  size_t next_change_ = 0;   // Of shown_.changes.
  uint64_t last_position_;
};

struct RecoveredLedger {
  LedgerState state;
  FingerprintKey key = {};
  JournalStart start;
  Balances balances;                       // Of state.skus.
  absl::flat_hash_set<uint64_t> requests;  // Fingerprints of the request ids of state.orders, .changes and .restocks.
  uint64_t last_position = 0;              // 0: there never was a record.
  int64_t session = 0;                     // Of the last that wrote to it.
};

// Checks the file and reads it. DataLoss: damaged; or the state does not add up, by itself or with the journal.
// O(journal * log(orders)).
absl::StatusOr<RecoveredLedger> RecoverLedger(SqliteDatabase& database);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_RECOVERY_H_
