#ifndef STOCKADE_INVENTORY_ORDER_RECORD_H_
#define STOCKADE_INVENTORY_ORDER_RECORD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "item.h"
#include "stockade/base/instant.h"
#include "stockade/inventory/ledger.h"
#include "stockade/inventory/order.h"

namespace stockade::inventory_internal {

struct ItemLine {
  Item* item;
  int64_t quantity;
  int64_t returned = 0;  // Of an order: units of them that came back after the sale. Guarded as OrderRecord::state.

  int64_t left() const { return quantity - returned; }
};
// Ascending by SKU, each once.
using ItemLines = absl::InlinedVector<ItemLine, 1>;

// Of a return, whose lines are what came back.
struct OrderChange {
  OrderId order;
  bool of_all;                                 // The request named no lines.
  Instant remembered_since = {};               // The order, without this return. For undoing it.
  absl::InlinedVector<bool, 1> to_stock = {};  // Of each line; otherwise its units were withdrawn.
};

// What a request got. Restocks and returns are no orders: they are here for their request ids, have ended (kSold) from
// the beginning, and their units are counted nowhere.
struct OrderRecord {
  // Set once, before others see the record.
  OrderId id;
  uint64_t fingerprint;  // FingerprintOf(request_id).
  LedgerRecord::Kind kind;
  ItemLines lines;
  std::string request_id;
  std::string buyer;
  absl::Duration ttl;
  absl::Time expires_at;
  std::unique_ptr<const OrderChange> change = nullptr;  // Of a return.

  // Guarded by the request's stripe.
  Instant deadline;  // Infinite unless reserved.
  // By how much later the order expires than `expires_at`.
  absl::Duration extended = absl::ZeroDuration();
  // kHeld becomes one of the others, once.
  OrderState state;
  // When it did, or when units came back after that; infinite before.
  Instant ended_at = Instant::InfiniteFuture();
  // The position of its last record in the ledger; 0: durable since recovery, or no ledger. A call that reports the
  // order waits until this position is durable.
  uint64_t position = 0;
  // Its place in the stripe's list of records that have ended. Of the book alone.
  OrderRecord* ended_before = nullptr;
  OrderRecord* ended_after = nullptr;

  // Its TTL has passed, and the reaper has not come by yet. Needs the stripe.
  bool IsDue(Instant now) const { return state == OrderState::kHeld && now >= deadline; }
  // It was sold, and all of it came back.
  bool all_returned() const {
    return std::ranges::all_of(lines, [](const ItemLine& line) { return line.left() == 0; });
  }
  bool has_buyer_limit() const {
    for (const ItemLine& line : lines) {
      if (line.item->per_buyer_limit != 0) return true;
    }
    return false;
  }
};

// Of a return.
inline std::vector<ReturnedLine> ReturnedLinesOf(const OrderRecord& record) {
  std::vector<ReturnedLine> lines;
  lines.reserve(record.lines.size());
  for (size_t i = 0; i < record.lines.size(); ++i) {
    const auto& [item, quantity, returned] = record.lines[i];
    lines.push_back({.sku = item->sku, .quantity = quantity, .to_stock = record.change->to_stock[i]});
  }
  return lines;
}

template <typename Lines>
Lines LinesOf(const OrderRecord& record) {
  Lines lines;
  lines.reserve(record.lines.size());
  for (const ItemLine& line : record.lines) lines.push_back({.sku = line.item->sku, .quantity = line.quantity});
  return lines;
}

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_ORDER_RECORD_H_
