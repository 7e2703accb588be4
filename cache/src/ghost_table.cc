#include "stockade/cache/internal/ghost_table.h"

#include <new>
#include <utility>

namespace stockade::cache_internal {
namespace {

// Slots per ghost: as many at least, and after growing.
constexpr uint64_t kLeastSlotsOfThree = 4;
constexpr uint64_t kSlotsWhenGrown = 2;
constexpr uint32_t kClockMask = ~uint32_t{0} >> 1;

// std::hash of a number is the number, so bits are spread here.
uint32_t Fingerprint(uint64_t hash) {
  hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93;
  return static_cast<uint32_t>((hash ^ hash >> 29) * 0x9E3779B97F4A7C15 >> 32);
}

}  // namespace

void GhostTable::Remember(uint64_t hash, Queue queue, Rooms rooms) {
  GrowFor(rooms);
  const auto index = static_cast<size_t>(queue);
  const uint32_t stamp = (clocks_[index]++ & kClockMask) | static_cast<uint32_t>(queue) << 31;
  if (bucket_count_ > 0) Place({Fingerprint(hash), stamp}, rooms);
}

std::optional<GhostTable::Ghost> GhostTable::Take(uint64_t hash, Rooms rooms) {
  if (bucket_count_ == 0) return std::nullopt;
  const uint32_t fingerprint = Fingerprint(hash);
  for (Slot& slot : BucketOf(fingerprint).slots) {
    if (slot.fingerprint != fingerprint || LifeLeft(slot, rooms) <= 0) continue;
    const Ghost ghost{QueueOf(slot), AgeOf(slot)};
    slot = Slot();
    return ghost;
  }
  return std::nullopt;
}

uint32_t GhostTable::AgeOf(Slot slot) const {
  return (clocks_[static_cast<size_t>(QueueOf(slot))] - 1 - slot.stamp) & kClockMask;
}

// Of a ghost that is dead, 0 or less.
int64_t GhostTable::LifeLeft(Slot slot, Rooms rooms) const {
  const uint32_t room = QueueOf(slot) == Queue::kSmall ? rooms.small : rooms.main;
  return int64_t{room} - AgeOf(slot);
}

void GhostTable::Place(Slot slot, Rooms rooms) {
  Bucket& bucket = BucketOf(slot.fingerprint);
  Slot* least = &bucket.slots.front();
  for (Slot& other : bucket.slots) {
    if (LifeLeft(other, rooms) < LifeLeft(*least, rooms)) least = &other;
  }
  *least = slot;
}

// Room for what may live. A cache grows until it is full, and stays so: the table never shrinks.
void GhostTable::GrowFor(Rooms rooms) {
  const uint64_t ghosts = uint64_t{rooms.small} + rooms.main;
  const size_t slots_a_bucket = Bucket().slots.size();
  if (bucket_count_ * slots_a_bucket * 3 >= ghosts * kLeastSlotsOfThree) return;
  const size_t count = (ghosts * kSlotsWhenGrown + slots_a_bucket - 1) / slots_a_bucket;
  // An eviction is no place to run out of memory.
  std::unique_ptr<Bucket[]> fresh(new (std::nothrow) Bucket[count]);
  if (fresh == nullptr) return;
  const std::unique_ptr<Bucket[]> old = std::exchange(buckets_, std::move(fresh));
  const size_t old_count = std::exchange(bucket_count_, count);
  for (size_t i = 0; i < old_count; ++i) {
    for (const Slot slot : old[i].slots) {
      if (LifeLeft(slot, rooms) > 0) Place(slot, rooms);
    }
  }
}

}  // namespace stockade::cache_internal
