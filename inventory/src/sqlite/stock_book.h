#ifndef STOCKADE_INVENTORY_SQLITE_STOCK_BOOK_H_
#define STOCKADE_INVENTORY_SQLITE_STOCK_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stockade::inventory_internal {

// 0 <= available <= granted, and available is 0 once removed. The rest of granted is held or sold.
struct SkuStock {
  int64_t granted = 0;
  int64_t available = 0;
  bool removed = false;
};

// What each SKU has, and what a record may do to it, apart from how that is written down: the last line of defence
// against overselling. Records pass through it before they are written, and the journal passes through it when it is
// read, so both obey the same rules.
//
// A call returns what the SKU has after it. FailedPrecondition: the record cannot be, and why, naming the SKU; nothing
// has changed. Changes can be taken back until they are kept.
class StockBook {
 public:
  using Result = absl::StatusOr<const SkuStock*>;

  // A SKU as it is where the journal begins.
  void Begin(const std::string& sku, const SkuStock& stock) { stocks_.insert_or_assign(sku, stock); }

  Result Add(const std::string& sku, int64_t quantity);
  Result Restock(const std::string& sku, int64_t quantity);
  // `quantity`: all that is available.
  Result Remove(const std::string& sku, int64_t quantity);
  Result Take(const std::string& sku, int64_t quantity);
  // Of units taken before. For sale again; or withdrawn, where the SKU has been removed.
  Result GiveBack(const std::string& sku, int64_t quantity);

  // Null: unknown.
  const SkuStock* Find(const std::string& sku) const;
  size_t size() const { return stocks_.size(); }

  // Keeps all changes since the last call of either.
  void Keep() { changes_.clear(); }
  void RollBack();

 private:
  using Entry = std::pair<const std::string, SkuStock>;

  // Entries stay where they are. No value: the SKU is new.
  struct Change {
    Entry* entry;
    std::optional<SkuStock> before;
  };

  // Known and not removed.
  absl::StatusOr<Entry*> FindOnSale(const std::string& sku);
  // What may be changed of `entry` from now on.
  SkuStock& Changing(Entry& entry);

  std::unordered_map<std::string, SkuStock> stocks_;
  std::vector<Change> changes_;  // Since Keep() or RollBack(), oldest first.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_STOCK_BOOK_H_
