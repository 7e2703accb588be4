#ifndef STOCKADE_INVENTORY_SHARDED_STOCK_INLINE_H_
#define STOCKADE_INVENTORY_SHARDED_STOCK_INLINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stockade/base/thread_slot.h"
#include "stockade/inventory/sharded_stock.h"

// What every take, refusal and deposit runs through. Inline, since the calls would cost as much as the work: what is
// visible outside of position-independent code is not inlined otherwise.
namespace stockade {

inline uint64_t ShardedStock::InUse(int32_t shards) {
  const uint64_t count = static_cast<uint64_t>(shards);
  return ((uint64_t{1} << kReciprocalBits) + count - 1) / count << 32 | count;
}

inline size_t ShardedStock::OwnShard() const {
  const uint32_t slot = base_internal::ThisThreadSlot();
  return slot == base_internal::kNoSlot ? 0 : ShardOf(slot);
}

// What a take of `units` comes to. kUnclear: the shard has fewer, or is frozen. That proves nothing about the item.
inline ShardedStock::Outcome ShardedStock::Judge(uint64_t word, uint64_t units) {
  if ((word & kLatched) != 0) return Outcome::kRefused;
  return (word & kFrozen) != 0 || word < units ? Outcome::kUnclear : Outcome::kTaken;
}

// True: at this moment there was not a single unit.
inline bool ShardedStock::SeenLatched() const {
  return (shards_[OwnShard()].word.load(std::memory_order_acquire) & kLatched) != 0;
}

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_SHARDED_STOCK_INLINE_H_
