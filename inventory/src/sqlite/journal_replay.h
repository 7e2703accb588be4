#ifndef STOCKADE_INVENTORY_SQLITE_JOURNAL_REPLAY_H_
#define STOCKADE_INVENTORY_SQLITE_JOURNAL_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "journal_reader.h"
#include "stock_book.h"
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
  std::vector<uint64_t> restocked_at = {};  // Of shown.restocks: their positions, which ascend.
};

// The journal must lead from its start to the state that the other tables show, by way of states that were right: no
// order granted twice or ended twice, no units taken that were not there, nothing done to a SKU that is gone.
class JournalReplay {
 public:
  // `shown`: what the other tables say. Must outlive the object and stay as it is, as `start` must.
  JournalReplay(const LedgerState& shown, const ReplayStart& start)
      : shown_(shown), start_(start), states_(shown.orders.size()), last_position_(start.position) {}

  // Before the first row. DataLoss: the start does not add up.
  absl::Status Begin();

  // The next row. DataLoss: it cannot be, or the other tables say otherwise.
  absl::Status Apply(const JournalRow& row);

  // After the last row. DataLoss: the other tables show what the journal does not say.
  absl::Status Finish() const;

  uint64_t last_position() const { return last_position_; }
  const StockBook& book() const { return book_; }

 private:
  // Null: not shown.
  const LedgerState::Order* FindOrder(uint64_t order_id) const;
  absl::Status ApplyToSku(const JournalRow& row);
  // That a restock with a request id is the next one in the table of restocks.
  absl::Status CheckRestock(const JournalRow& row);
  absl::Status ApplyToOrder(const JournalRow& row);

  const LedgerState& shown_;
  const ReplayStart& start_;
  std::vector<std::optional<OrderState>> states_;  // Of shown_.orders, by the journal so far; none: not granted yet.
  StockBook book_;
  size_t next_restock_ = 0;  // Of shown_.restocks.
  uint64_t last_position_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_JOURNAL_REPLAY_H_
