#include "stockade/cache/internal/eviction.h"

#include <algorithm>
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

void S3Fifo::Insert(uint32_t id) {
  Slot& slot = slab_[id];
  slot.uses.store(0, std::memory_order_relaxed);
  const auto ghost = ghosts_.Take(slot.hash, GhostRooms());
  if (ghost.has_value()) Regret(*ghost);
  Link(id, ghost.has_value() && (ghost->queue == GhostTable::Queue::kSmall || restless()));
}

void S3Fifo::Reweigh(Slot& slot, int64_t weight) {
  QueueOf(slot).weight += weight - slot.weight;
  slot.weight = weight;
}

uint32_t S3Fifo::Evict(const Slot* spared) {
  for (size_t steps = 0;;) {
    const Queue& queue = QueueToEvictFrom(spared);
    uint32_t id = queue.oldest;
    if (id != 0 && &slab_[id] == spared) id = spared->newer;
    if (id == 0) return 0;
    Slot& slot = slab_[id];
    if (slot.newer != 0) __builtin_prefetch(&slab_[slot.newer]);
    const bool in_main = slot.in_main;
    Remove(id);
    const uint8_t uses = slot.uses.load(std::memory_order_relaxed);
    const uint8_t needed = in_main || restless() ? 1 : 2;
    if (uses >= needed && steps++ < kMostSteps) {
      slot.uses.store(in_main && !restless() ? uses - 1 : 0, std::memory_order_relaxed);
      Link(id, in_main || uses > 1);
      continue;
    }
    ghosts_.Remember(slot.hash, in_main ? GhostTable::Queue::kMain : GhostTable::Queue::kSmall, GhostRooms());
    return id;
  }
}

uint32_t S3Fifo::IdOf(const Slot& slot) const {
  if (slot.newer != 0) return slab_[slot.newer].older;
  return (slot.in_main ? main_ : small_).newest;
}

// As the newest.
void S3Fifo::Link(uint32_t id, bool in_main) {
  Slot& slot = slab_[id];
  slot.in_main = in_main;
  Queue& queue = QueueOf(slot);
  slot.newer = 0;
  slot.older = queue.newest;
  (slot.older != 0 ? slab_[slot.older].newer : queue.oldest) = id;
  queue.newest = id;
  ++queue.size;
  queue.weight += slot.weight;
}

void S3Fifo::Remove(uint32_t id) {
  Slot& slot = slab_[id];
  Queue& queue = QueueOf(slot);
  (slot.newer != 0 ? slab_[slot.newer].older : queue.newest) = slot.older;
  (slot.older != 0 ? slab_[slot.older].newer : queue.oldest) = slot.newer;
  --queue.size;
  queue.weight -= slot.weight;
}

bool S3Fifo::HasOther(const Queue& queue, const Slot* spared) const {
  return queue.size > 1 || (queue.size == 1 && &slab_[queue.oldest] != spared);
}

// The one whose turn it is, where it holds another slot than `spared`, else the other.
S3Fifo::Queue& S3Fifo::QueueToEvictFrom(const Slot* spared) {
  const bool small_is_due = static_cast<double>(small_.weight) > small_share_ * static_cast<double>(weight());
  return HasOther(small_, spared) && (small_is_due || !HasOther(main_, spared)) ? small_ : main_;
}

GhostTable::Rooms S3Fifo::GhostRooms() const {
  const auto entries = static_cast<double>(std::min(size(), kMostGhosts));
  return {.small = static_cast<uint32_t>(std::max(1.0, kSmallGhosts * entries)),
          .main = static_cast<uint32_t>(std::max(1.0, kWindow * entries))};
}

// Moves the share towards the queue that a node which comes back was evicted from, within the window. Skipped while the
// small queue is far above its share.
void S3Fifo::Regret(const GhostTable::Ghost& ghost) {
  const double entries = static_cast<double>(std::max<size_t>(size(), 1));
  if (ghost.age >= std::max(1.0, kWindow * entries)) return;
  if (static_cast<double>(small_.weight) > (small_share_ + kShareSlack) * static_cast<double>(weight())) return;
  const double step = ghost.queue == GhostTable::Queue::kSmall ? kSmallStep : -kMainStep;
  small_share_ = std::clamp(small_share_ + step / entries, kLeastShare, kMostShare);
}

}  // namespace stockade::cache_internal
