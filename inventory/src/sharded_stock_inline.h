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

// A slot modulo the shards by two multiplications: a division would take longer than all else in a refusal. The
// reciprocal is rounded up, which with slots times shards at most 2^24 never reaches the next quotient.
inline uint64_t ShardedStock::InUse(int32_t shards) {
  const uint64_t count = static_cast<uint64_t>(shards);
  return ((uint64_t{1} << kReciprocalBits) + count - 1) / count << 32 | count;
}

inline size_t ShardedStock::OwnShard() const {
  static_assert(uint64_t{internal::kMaxThreadSlots} * kMaxShards <= uint64_t{1} << kReciprocalBits);
  const uint64_t in_use = in_use_.load(std::memory_order_relaxed);
  const uint64_t slot = internal::ThisThreadSlot();
  if (slot == internal::kNoSlot) [[unlikely]] {
    return 0;
  }
  const uint64_t quotient = slot * (in_use >> 32) >> kReciprocalBits;
  return slot - quotient * (in_use & UINT32_MAX);
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

// An inventory counts its own.
inline void ShardedStock::CountTake(bool taken) const {
  if (counts_ != nullptr) counts_->Add(taken ? takes_cell_ : refusals_cell_, 1);
}

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_SHARDED_STOCK_INLINE_H_
