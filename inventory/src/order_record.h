#ifndef STOCKADE_INVENTORY_ORDER_RECORD_H_
#define STOCKADE_INVENTORY_ORDER_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>

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
};
// Ascending by SKU, each once.
using ItemLines = absl::InlinedVector<ItemLine, 1>;

// What a request got. A restock is no order: it is here for its request id, has ended (kSold) from the beginning, and
// its units are counted nowhere.
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

  // Guarded by the request's stripe.
  Instant deadline;  // Infinite unless reserved.
  // By how much later the order expires than `expires_at`.
  absl::Duration extended = absl::ZeroDuration();
  // kHeld becomes one of the others, once.
  OrderState state;
  // When it did; infinite before.
  Instant ended_at = Instant::InfiniteFuture();
  // The position of its last record in the ledger; 0: durable since recovery, or no ledger. A call that reports the
  // order waits until this position is durable.
  uint64_t position = 0;
  // Its place in the stripe's list of records that have ended. Of the book alone.
  OrderRecord* ended_before = nullptr;
  OrderRecord* ended_after = nullptr;

  // Its TTL has passed, and the reaper has not come by yet. Needs the stripe.
  bool IsDue(Instant now) const { return state == OrderState::kHeld && now >= deadline; }
  bool has_buyer_limit() const {
    for (const ItemLine& line : lines) {
      if (line.item->per_buyer_limit != 0) return true;
    }
    return false;
  }
};

template <typename Lines>
Lines LinesOf(const OrderRecord& record) {
  Lines lines;
  lines.reserve(record.lines.size());
  for (const ItemLine& line : record.lines) lines.push_back({.sku = line.item->sku, .quantity = line.quantity});
  return lines;
}

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_ORDER_RECORD_H_
