#include "eviction.h"

#include <algorithm>
#include <new>
#include <utility>

#include "entry_table.h"

namespace stockade::cache_internal {
namespace {

// Places per ghost: as many at least, and after growing.
constexpr uint64_t kLeastPlacesOfThree = 4;
constexpr uint64_t kPlacesWhenGrown = 2;

// Spreads the bits of hashes that are consecutive numbers or have equal low bits.
uint32_t Fingerprint(uint64_t hash) { return static_cast<uint32_t>(hash * 0x9E3779B97F4A7C15 >> 32); }

}  // namespace

// Twice the evictions that each ghost of the bucket has left to live: 0 or less if it is dead. Without branches, so
// that the compiler uses vectors.
inline std::array<int32_t, GhostTable::kWays> GhostTable::LivesOf(const Bucket& bucket, Rooms rooms) const {
  const uint32_t small = 2 * rooms.small - clocks_[0];
  const uint32_t main = 2 * rooms.main - clocks_[1];
  std::array<int32_t, kWays> lives;
  for (size_t way = 0; way < kWays; ++way) {
    const uint32_t stamp = bucket.stamps[way];
    lives[way] = static_cast<int32_t>(stamp + small + ((main - small) & (0 - (stamp & 1))));
  }
  return lives;
}

inline void GhostTable::Place(uint32_t fingerprint, uint32_t stamp, Rooms rooms) {
  Bucket& bucket = BucketOf(fingerprint);
  const auto lives = LivesOf(bucket, rooms);
  // Without branches, which nothing could predict: the lowest bits are the way.
  constexpr int64_t kAll = kWays;
  int64_t least = INT64_MAX;
  for (int64_t way = 0; way < kAll; ++way) least = std::min(least, lives[way] * kAll + way);
  const size_t way = static_cast<uint64_t>(least) % kWays;
  bucket.fingerprints[way] = fingerprint;
  bucket.stamps[way] = stamp;
}

void GhostTable::Prefetch(uint64_t hash) const {
  if (bucket_count_ > 0) __builtin_prefetch(&BucketOf(Fingerprint(hash)));
}

// A cache grows until it is full and stays so: the table never shrinks.
void GhostTable::Remember(uint64_t hash, Queue queue, Rooms rooms) {
  const uint64_t ghosts = uint64_t{rooms.small} + rooms.main;
  if (ghosts * kLeastPlacesOfThree > bucket_count_ * kWays * 3) Grow(ghosts, rooms);
  uint32_t& clock = clocks_[static_cast<size_t>(queue)];
  clock += 2;
  if (bucket_count_ > 0) Place(Fingerprint(hash), clock, rooms);
}

std::optional<GhostTable::Ghost> GhostTable::Take(uint64_t hash, Rooms rooms) {
  if (bucket_count_ == 0) return std::nullopt;
  const uint32_t fingerprint = Fingerprint(hash);
  Bucket& bucket = BucketOf(fingerprint);
  uint32_t matches = 0;
  for (const uint32_t other : bucket.fingerprints) matches |= other == fingerprint ? 1 : 0;
  if (matches == 0) return std::nullopt;
  for (size_t way = 0; way < kWays; ++way) {
    if (bucket.fingerprints[way] != fingerprint) continue;
    if (LivesOf(bucket, rooms)[way] <= 0) continue;
    const uint32_t stamp = std::exchange(bucket.stamps[way], clocks_[0] - kDead);
    bucket.fingerprints[way] = 0;
    return Ghost{static_cast<Queue>(stamp & 1), (clocks_[stamp & 1] - stamp) / 2};
  }
  return std::nullopt;
}

[[gnu::noinline]] void GhostTable::Grow(uint64_t ghosts, Rooms rooms) {
  const size_t count = (ghosts * kPlacesWhenGrown + kWays - 1) / kWays;
  // An eviction is no place to run out of memory.
  std::unique_ptr<Bucket[]> fresh(new (std::nothrow) Bucket[count]);
  if (fresh == nullptr) return;
  const std::unique_ptr<Bucket[]> old = std::exchange(buckets_, std::move(fresh));
  const size_t old_count = std::exchange(bucket_count_, count);
  for (size_t i = 0; i < old_count; ++i) {
    const auto lives = LivesOf(old[i], rooms);
    for (size_t way = 0; way < kWays; ++way) {
      if (lives[way] > 0) Place(old[i].fingerprints[way], old[i].stamps[way], rooms);
    }
  }
}

inline GhostTable::Rooms S3Fifo::GhostRooms() {
  if (size() == rooms_size_) return rooms_;
  rooms_size_ = size();
  const auto entries = static_cast<double>(std::min(rooms_size_, kMostGhosts));
  rooms_ = {.small = static_cast<uint32_t>(std::max(1.0, kSmallGhosts * entries)),
            .main = static_cast<uint32_t>(std::max(1.0, kWindow * entries))};
  return rooms_;
}

// 0: there is no other.
inline uint32_t S3Fifo::OldestBut(const Slot* spared, const Queue& queue) const {
  if (spared == nullptr || queue.oldest == 0) return queue.oldest;
  const Slot& oldest = slab_[queue.oldest];
  return &oldest == spared ? oldest.newer : queue.oldest;
}

// As the newest.
inline void S3Fifo::Link(Slot& slot, uint32_t id, bool in_main) {
  slot.in_main = in_main;
  Queue& queue = QueueOf(slot);
  slot.newer = 0;
  slot.older = queue.newest;
  (slot.older != 0 ? slab_[slot.older].newer : queue.oldest) = id;
  queue.newest = id;
  ++queue.size;
  queue.weight += slot.weight;
}

inline void S3Fifo::Unlink(Slot& slot) {
  Queue& queue = QueueOf(slot);
  (slot.newer != 0 ? slab_[slot.newer].older : queue.newest) = slot.older;
  (slot.older != 0 ? slab_[slot.older].newer : queue.oldest) = slot.newer;
  --queue.size;
  queue.weight -= slot.weight;
}

void S3Fifo::Insert(uint32_t id) {
  Slot& slot = slab_[id];
  slot.uses.store(0, std::memory_order_relaxed);
  const auto ghost = ghosts_.Take(slot.hash, GhostRooms());
  if (ghost.has_value()) Regret(*ghost);
  Link(slot, id, ghost.has_value() && (ghost->queue == GhostTable::Queue::kSmall || restless()));
}

void S3Fifo::Reweigh(Slot& slot, int64_t weight) {
  QueueOf(slot).weight += weight - slot.weight;
  slot.weight = weight;
}

void S3Fifo::Remove(uint32_t id) { Unlink(slab_[id]); }

// Asked about an entry that is in no queue.
[[gnu::noinline]] bool S3Fifo::IsFilling() {
  const auto all = static_cast<double>(weight());
  if (static_cast<double>(small_.weight) > (small_share_ + kFillSlack) * all) filling_ = true;
  if (static_cast<double>(main_.weight) >= (1 - small_share_) * all) filling_ = false;
  return filling_;
}

uint32_t S3Fifo::Evict(const Slot* spared) {
  size_t fills = 0;
  for (size_t steps = 0;;) {
    const auto small = static_cast<double>(small_.weight);
    const auto all = static_cast<double>(weight());
    const bool small_is_due = small > small_share_ * all;
    uint32_t id = OldestBut(spared, small_is_due ? small_ : main_);
    if (id == 0) id = OldestBut(spared, small_is_due ? main_ : small_);
    if (id == 0) return 0;
    Slot& slot = slab_[id];
    if (slot.newer != 0) __builtin_prefetch(&slab_[slab_[slot.newer].newer]);
    const bool in_main = slot.in_main;
    Unlink(slot);
    const uint8_t uses = slot.uses.load(std::memory_order_relaxed);
    const uint8_t needed = in_main || restless() ? 1 : 2;
    if (uses >= needed && steps++ < kMostSteps) {
      slot.uses.store(in_main && !restless() ? uses - 1 : 0, std::memory_order_relaxed);
      Link(slot, id, in_main || uses > 1);
      continue;
    }
    // Spares most evictions the call: without it IsFilling() is false.
    const bool may_fill = !in_main && (filling_ || small > (small_share_ + kFillSlack) * all);
    if (may_fill && IsFilling() && fills < kMostFills && OldestBut(spared, small_) != 0) {
      ++fills;
      slot.uses.store(0, std::memory_order_relaxed);
      Link(slot, id, /*in_main=*/true);
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

// Moves the share towards the queue that a node which comes back was evicted from, within the window. Skipped while the
// small queue is far above its share.
[[gnu::noinline]] void S3Fifo::Regret(const GhostTable::Ghost& ghost) {
  const double entries = static_cast<double>(std::max<size_t>(size(), 1));
  if (ghost.age >= std::max(1.0, kWindow * entries)) return;
  if (static_cast<double>(small_.weight) > (small_share_ + kShareSlack) * static_cast<double>(weight())) return;
  const double step = ghost.queue == GhostTable::Queue::kSmall ? kSmallStep : -kMainStep;
  small_share_ = std::clamp(small_share_ + step / entries, kLeastShare, kMostShare);
}

// Flat, because the calls would be a tenth of its instructions. The memory that the new entry needs at the end, and the
// next victim, is fetched ahead.
[[gnu::flatten]] Slot& EntryTable::ReplaceVictim(uint64_t hash, int64_t weight) {
  queue_.PrefetchGhost(SlotHash(hash));
  const uint32_t id = queue_.Evict(nullptr);
  Slot& slot = slab_[id];
  const uint32_t next_hash = slab_[slot.newer].hash;
  index_->Prefetch(uint64_t{next_hash} << 8);
  queue_.PrefetchGhost(next_hash);
  index_->Remove(slot);
  if (slot.extra != nullptr) SetExtra(slot, nullptr);
  Fill(slot, id, hash, weight);
  return slot;
}

}  // namespace stockade::cache_internal
