#ifndef STOCKADE_CACHE_INTERNAL_GHOST_TABLE_H_
#define STOCKADE_CACHE_INTERNAL_GHOST_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "stockade/base/export.h"

namespace stockade::cache_internal {

// The hashes of entries that two queues have evicted recently, called ghosts. Each queue has a clock that counts its
// evictions. The age of a ghost follows from its queue's clock, so that it expires without any work.
//
// A bucket is one cache line of eight ghosts. A new ghost replaces the one that has the shortest time to live or has
// been dead for longest. In a full table some 2 % of the ghosts are replaced before they expire, the oldest ones first.
// Two hashes are mistaken for each other with a probability of about 8 * buckets / 2^32; the only consequence is that a
// new entry gets a better place than it should.
//
// Memory: 11 to 16 bytes per possible ghost. If the table cannot grow because memory is short, more ghosts are replaced
// early. Complexity: one cache line per call, except that Remember() copies the table when it grows.
class GhostTable {
 public:
  enum class Queue : uint8_t { kSmall, kMain };

  struct Ghost {
    Queue queue;   // The queue that evicted the entry.
    uint32_t age;  // Evictions of that queue since then: 0 for the latest.
  };

  // The largest number of live ghosts of each queue.
  struct Rooms {
    uint32_t small;
    uint32_t main;
  };

  void Remember(uint64_t hash, Queue queue, Rooms rooms);

  // Removes and returns the ghost of this hash, if it is alive.
  std::optional<Ghost> Take(uint64_t hash, Rooms rooms);

  size_t bytes() const { return bucket_count_ * sizeof(Bucket); }

 private:
  // The lower 31 bits of the queue's clock at the eviction, and the queue.
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

  // The initial value of the clocks, so that an empty slot is as old as possible. The clocks wrap: a ghost that was not
  // removed for 2^31 evictions may become alive again.
  static constexpr uint32_t kFirstTick = 1u << 30;

  std::array<uint32_t, 2> clocks_{kFirstTick, kFirstTick};  // By queue.
  size_t bucket_count_ = 0;
  std::unique_ptr<Bucket[]> buckets_;  // bucket_count_ of them.
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_GHOST_TABLE_H_
