#ifndef STOCKADE_CACHE_INTERNAL_GHOST_TABLE_H_
#define STOCKADE_CACHE_INTERNAL_GHOST_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "stockade/base/export.h"

namespace stockade::internal {

// The hashes of what two queues have evicted of late. Each queue has a clock that counts its evictions, and a ghost's
// age is read from its queue's clock: it dies of age without anybody looking at it.
//
// A bucket is one cache line of eight ghosts; a new one takes the place of that which has the least left to live, or
// has been dead for longest. Of a table filled to the brim, some 2 % of the ghosts die early like this, the oldest
// first. Two hashes are taken for the same with a probability of about 8 * buckets / 2^32, and then a new entry gets a
// place that it has not earned: nothing worse.
//
// Memory: from 11 to 16 bytes for each ghost that there is room for. Of a table that cannot grow because memory is
// short, more ghosts die early. Complexity: one cache line for each call, but Remember copies the table where it grows.
class GhostTable {
 public:
  enum class Queue : uint8_t { kSmall, kMain };

  struct Ghost {
    Queue queue;   // Whose eviction it remembers.
    uint32_t age;  // Evictions of that queue since: 0 for the latest.
  };

  // Of each queue's ghosts, as many as may live.
  struct Rooms {
    uint32_t small;
    uint32_t main;
  };

  void Remember(uint64_t hash, Queue queue, Rooms rooms);

  // Takes the ghost of this hash away, where it lives.
  std::optional<Ghost> Take(uint64_t hash, Rooms rooms);

  size_t bytes() const { return bucket_count_ * sizeof(Bucket); }

 private:
  // Of a queue's clock, the lower 31 bits when the entry was evicted, and the queue.
  struct Slot {
    uint32_t fingerprint = 0;
    uint32_t stamp = 0;
  };
  struct alignas(64) Bucket {
    std::array<Slot, 8> slots;
  };

  static Queue QueueOf(Slot slot) { return static_cast<Queue>(slot.stamp >> 31); }
  uint32_t AgeOf(Slot slot) const;
  int64_t LifeLeft(Slot slot, Rooms rooms) const;
  Bucket& BucketOf(uint32_t fingerprint) { return buckets_[uint64_t{fingerprint} * bucket_count_ >> 32]; }
  void Place(Slot slot, Rooms rooms);
  void GrowFor(Rooms rooms);

  // Clocks begin here, so that an empty slot has been dead for as long as can be. They wrap: a ghost that nobody took
  // for 2^31 evictions may rise again.
  static constexpr uint32_t kFirstTick = 1u << 30;

  std::array<uint32_t, 2> clocks_{kFirstTick, kFirstTick};  // By queue.
  size_t bucket_count_ = 0;
  std::unique_ptr<Bucket[]> buckets_;  // bucket_count_ of them.
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_GHOST_TABLE_H_
