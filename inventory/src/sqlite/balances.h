#ifndef STOCKADE_INVENTORY_SQLITE_BALANCES_H_
#define STOCKADE_INVENTORY_SQLITE_BALANCES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "order_rules.h"

namespace stockade::inventory_internal {

// The accounts of all SKUs, none of which is ever below zero: the last line of defence against overselling. Records
// pass through it before they are written, and the journal passes through it when it is read, so both obey the same
// rules. Changes can be taken back until they are kept.
class Balances {
 public:
  // A SKU as it is where the journal begins.
  void Begin(const std::string& sku, const Balance& balance) { balances_.insert_or_assign(sku, balance); }

  // What the SKU has after a line of a record. FailedPrecondition: the record cannot be, and why, naming the SKU;
  // nothing has changed.
  absl::StatusOr<const Balance*> Apply(LedgerRecord::Kind kind, const std::string& sku, int64_t units);

  // Null: unknown.
  const Balance* Find(const std::string& sku) const;
  size_t size() const { return balances_.size(); }

  // Keeps all changes since the last call of either.
  void Keep() { changes_.clear(); }
  void RollBack();

 private:
  using Entry = std::pair<const std::string, Balance>;

  // Entries stay where they are. No value: the SKU is new.
  struct Change {
    Entry* entry;
    std::optional<Balance> before;
  };

  absl::StatusOr<const Balance*> AddSku(const std::string& sku, int64_t units);

  std::unordered_map<std::string, Balance> balances_;
  std::vector<Change> changes_;  // Since Keep() or RollBack(), oldest first.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_BALANCES_H_
