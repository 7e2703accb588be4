#ifndef STOCKADE_CACHE_SRC_EVICTION_H_
#define STOCKADE_CACHE_SRC_EVICTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "stockade/cache/internal/slots.h"

namespace stockade::cache_internal {

// The hashes of entries that two queues have evicted recently, called ghosts. Each queue has a clock that counts its
// evictions, so that ghosts expire without any work.
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

  // The largest number of live ghosts of each queue, below 2^29.
  struct Rooms {
    uint32_t small;
    uint32_t main;
  };

  void Remember(uint64_t hash, Queue queue, Rooms rooms);

  // Removes and returns the ghost of this hash, if it is alive.
  std::optional<Ghost> Take(uint64_t hash, Rooms rooms);

  // Fetches the line of the hash into the processor's cache.
  void Prefetch(uint64_t hash) const;

  size_t bytes() const { return bucket_count_ * sizeof(Bucket); }

 private:
  static constexpr size_t kWays = 8;
  struct alignas(64) Bucket {
    std::array<uint32_t, kWays> fingerprints{};
    std::array<uint32_t, kWays> stamps{};  // The queue's clock at the eviction.
  };

  std::array<int32_t, kWays> LivesOf(const Bucket& bucket, Rooms rooms) const;
  Bucket& BucketOf(uint32_t fingerprint) const { return buckets_[uint64_t{fingerprint} * bucket_count_ >> 32]; }
  void Place(uint32_t fingerprint, uint32_t stamp, Rooms rooms);
  void Grow(uint64_t ghosts, Rooms rooms);

  // By queue. A clock advances by 2, so its lowest bit says which one it is. The clocks wrap: a ghost that was neither
  // taken nor replaced for 2^30 evictions may become alive again. An empty place has been dead for long: kDead.
  static constexpr uint32_t kDead = 1u << 30;
  std::array<uint32_t, 2> clocks_{kDead, kDead + 1};
  size_t bucket_count_ = 0;
  std::unique_ptr<Bucket[]> buckets_;  // bucket_count_ of them.
};

// Selects the entry of a shard that is evicted next: S3-FIFO (Yang et al., "FIFO queues are all you need for cache
// eviction", SOSP 2023), by weight, with an adaptive share of the small queue.
//
// A new entry enters the small queue. Evict() takes from the small queue while its weight exceeds its share of the
// total, otherwise from the main queue. An entry at the end of the small queue that was used twice moves to the main
// queue; otherwise it is the victim, and its hash is remembered. An entry at the end of the main queue that was used is
// reinserted there with one use less; otherwise it is the victim. An entry that comes back while its hash is remembered
// by the small queue enters the main queue at once. One that the main queue evicted does not: a loop that is longer
// than the main queue would replace that queue's entries shortly before their next requests (`loop and Zipf 0.9` in
// bench/cache/generators.cc: 23 % instead of 54 % of the requests would hit).
//
// While a shard is *filling*, an entry that the small queue would evict moves to the main queue instead, at most
// kMostFills per Evict(), and never the last one that could be evicted there. Filling begins when the small queue has
// kFillSlack more of the weight than its share, and ends when the main queue has the rest. Otherwise a loop that is
// longer than the cache would never hit: nothing in it is used twice, so the main queue would stay empty, and the small
// queue would evict each entry just before its next use. Now the main queue keeps a part of the loop, which the rest
// passes by. The slack is for shards that gain and lose weight all the time, because they evict in turn: without it
// each gain would put unused entries into the main queue.
//
// The share follows regrets, as in ARC (Megiddo, Modha, FAST 2003) and the paper's S3-FIFO-D. A miss of an entry that
// was among the last evictions of the small queue would have been a hit if that queue had been a little larger; the
// same holds for the main queue. Both windows have the same length, so the share moves until both have the same rate.
//
// A large share means that the popular entries change quickly. The cache is then called restless. The main queue clears
// all uses of an entry at once, so that formerly popular entries do not stay for three more rounds. One use in the
// small queue, which is long then, gives one more round there. Any entry whose hash is remembered enters the main
// queue.
//
// An S3Fifo manages one shard, but the bound applies to the whole cache, which calls Evict() of its shards in turn
// while it exceeds its weight. Shares refer to the shard's current weight.
//
// Complexity: O(1); Evict() is amortized O(1), because a step removes uses from an entry
// or moves it to the main queue. Memory: 11 to 16 bytes per ghost; there are 1.1 ghosts per entry.
class S3Fifo {
 public:
  // Queues slots of `slab`, which have their weight and hash.
  explicit S3Fifo(Slab& slab) : slab_(slab) {}
  S3Fifo(const S3Fifo&) = delete;
  S3Fifo& operator=(const S3Fifo&) = delete;

  // The slot must be in no queue; its uses start at 0.
  void Insert(uint32_t id);

  // Changes the weight of a slot in a queue. A value that is reloaded or overwritten is not a new entry, so a popular
  // one stays popular.
  void Reweigh(Slot& slot, int64_t weight);

  // Unlinks a slot without remembering its hash.
  void Remove(uint32_t id);

  // Unlinks and returns the next victim. Never returns `spared`, which may be null or in no queue, because only its
  // address is used. 0: there is no other.
  uint32_t Evict(const Slot* spared);

  // The number of a slot in a queue.
  uint32_t IdOf(const Slot& slot) const;

  size_t size() const { return size_t{small_.size} + main_.size; }
  int64_t weight() const { return small_.weight + main_.weight; }

  void PrefetchGhost(uint32_t hash) const { ghosts_.Prefetch(hash); }

  double small_share() const { return small_share_; }
  size_t ghost_bytes() const { return ghosts_.bytes(); }

  static constexpr double kFirstShare = 0.1;  // As in the paper.
  static constexpr double kLeastShare = 0.01;
  static constexpr double kMostShare = 0.9;

  // The numbers of ghosts, as fractions of the number of entries. The small queue has as many as the main queue has
  // entries in the paper; the main queue has one window.
  static constexpr double kSmallGhosts = 0.9;
  static constexpr double kWindow = 0.2;
  static constexpr size_t kMostGhosts = 1u << 29;  // Per queue: below a wrap of its clock.

  // A regret moves the share by this many mean entries. The step of the main queue is larger, because entries that the
  // small queue regrets are more often requested only once more.
  static constexpr double kSmallStep = 0.75;
  static constexpr double kMainStep = 1.05;

  // Regrets do not count while the small queue has this much more of the weight than its share: while a cache fills up,
  // nearly all entries are in the small queue, so its evictions say nothing about its share.
  static constexpr double kShareSlack = 0.1;

  static constexpr double kRestlessShare = 0.13;

  // See "filling" above.
  static constexpr double kFillSlack = 0.2;
  static constexpr size_t kMostFills = 2;

  // Evict() honours uses for at most this many steps per call. This bounds the time that the shard's mutex is held, and
  // ends the race with threads that touch nodes as fast as Evict() clears their uses.
  static constexpr size_t kMostSteps = 128;

 private:
  // Invariant: size and weight are those of the slots in the queue; their in_main is set in main_ only.
  struct Queue {
    uint32_t newest = 0;  // 0: none.
    uint32_t oldest = 0;
    uint32_t size = 0;
    int64_t weight = 0;
  };

  Queue& QueueOf(const Slot& slot) { return slot.in_main ? main_ : small_; }
  void Link(Slot& slot, uint32_t id, bool in_main);
  void Unlink(Slot& slot);
  uint32_t OldestBut(const Slot* spared, const Queue& queue) const;
  bool restless() const { return small_share_ > kRestlessShare; }
  bool IsFilling();
  GhostTable::Rooms GhostRooms();
  void Regret(const GhostTable::Ghost& ghost);

  Slab& slab_;
  Queue small_;
  Queue main_;
  GhostTable ghosts_;
  // Of rooms_size_ entries. In a full queue, evictions and insertions ask for the same.
  GhostTable::Rooms rooms_{};
  size_t rooms_size_ = ~size_t{0};
  bool filling_ = false;              // As of the last eviction from the small queue.
  double small_share_ = kFirstShare;  // Between kLeastShare and kMostShare.
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_EVICTION_H_
