#ifndef STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
#define STOCKADE_CACHE_SRC_ENTRY_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

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
// Guarded by the shard's mutex. Complexity: O(1); Evict() is amortized O(1), because a step removes uses from an entry
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

// The entries of a shard by tag: one ring per tag, linked through the entries themselves, so that a tag with many
// entries is neither rehashed nor freed at once. Guarded by the shard's mutex. O(1) each.
//
// Invariant: each tag that was added and not removed is in one ring: that of its name, or that of a doomed group of its
// name. The ring of a name is never empty.
class TagGroups {
  struct Group : TagLink {
    explicit Group(std::string n) : name(std::move(n)) { next = previous = this; }
    bool empty() const { return next == this; }

    const std::string name;
    bool doomed = false;
  };

 public:
  using Tag = EntryTag;
  using Doomed = std::list<Group>::iterator;

  TagGroups() = default;
  TagGroups(const TagGroups&) = delete;
  TagGroups& operator=(const TagGroups&) = delete;

  // If it throws std::bad_alloc, nothing has changed.
  void Add(Tag& tag) { Link(tag, GroupOf(tag)); }

  // From a doomed group back to that of its name. False: there is no memory for that one.
  bool TryReturn(Tag& tag) noexcept {
    try {
      Group& group = GroupOf(tag);
      Remove(tag);
      Link(tag, group);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void Remove(Tag& tag) {
    tag.next->previous = tag.previous;
    tag.previous->next = tag.next;
    if (tag.next != tag.previous) return;
    const auto* const group = static_cast<Group*>(tag.next);  // Only the group is left.
    if (!group->doomed && group->empty()) groups_.erase(groups_.find(group->name));
  }

  // Sets the entries apart that have the tag now.
  Doomed Doom(std::string_view name) {
    Group& doomed = doomed_.emplace_front(std::string(name));
    doomed.doomed = true;
    const auto found = groups_.find(name);
    if (found == groups_.end()) return doomed_.begin();
    Group& group = found->second;
    doomed.next = group.next;
    doomed.previous = group.previous;
    doomed.next->previous = doomed.previous->next = &doomed;
    groups_.erase(found);
    return doomed_.begin();
  }
  // Some entry that was set apart because of the tag, in any group. Null if there is none. O(groups).
  Slot* AnyDoomed(std::string_view name) {
    for (Group& group : doomed_) {
      if (group.name == name && !group.empty()) return static_cast<Tag*>(group.next)->slot;
    }
    return nullptr;
  }
  // The group must be empty.
  void Forget(Doomed doomed) { doomed_.erase(doomed); }

 private:
  Group& GroupOf(const Tag& tag) {
    auto found = groups_.find(tag.name);
    if (found == groups_.end()) found = groups_.try_emplace(tag.name, tag.name).first;
    return found->second;
  }
  static void Link(Tag& tag, Group& group) {
    tag.next = &group;
    tag.previous = group.previous;
    group.previous->next = &tag;
    group.previous = &tag;
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  std::unordered_map<std::string, Group, Hash, std::equal_to<>> groups_;
  std::list<Group> doomed_;
};

// The entries of one shard. Guarded by the shard's mutex.
//
// Invariant: index_ and queue_ contain exactly the slots that were inserted and not removed, at most one per key, and
// tagged_ contains their tags; the other slots are free. All entries are removed before the destructor.
class EntryTable {
 public:
  // Called once, before everything else. Lookups of hits read `index` without the mutex.
  void Use(Slab::Type type, EntryIndex& index) {
    slab_.Use(type);
    index_ = &index;
  }

  template <typename Equal>
  Slot* Find(uint64_t hash, const Equal& equal) const STOCKADE_REQUIRES(kShardMutex) {
    return index_->Find(hash, equal);
  }
  size_t size() const { return queue_.size(); }
  int64_t weight() const { return queue_.weight(); }

  // Adds a slot, into which `write` puts the key, the value and the time. The key must not be in the table. Throws
  // std::bad_alloc. `reader`: see EntryIndex.
  template <typename Write>
  Slot& Insert(uint64_t hash, int64_t weight, std::unique_ptr<EntryExtra> extra, const void* reader, const Write& write)
      STOCKADE_REQUIRES(kShardMutex) {
    index_->Reserve(reader);
    const uint32_t id = slab_.Take();
    Slot& slot = slab_[id];
    try {
      if (extra != nullptr) AddTags(slot, *extra);
    } catch (...) {
      slab_.Give(id);
      throw;
    }
    SetExtra(slot, std::move(extra));
    write(slot);
    Fill(slot, id, hash, weight);
    return slot;
  }

  // Gives the slot of the next victim to another entry, whose key, value and time the caller writes into it. There is a
  // victim, and it owns no box. Needs no memory.
  Slot& ReplaceVictim(uint64_t hash, int64_t weight);

  // Whether more than EntryIndex::kMostEqual entries had the hash of one that was added since the last call.
  bool TakeCrowded() { return std::exchange(crowded_, false); }

  void Reweigh(Slot& slot, int64_t weight) { queue_.Reweigh(slot, weight); }

  // Enters the tags of `extra`, which is then to be the slot's: see SetExtra(). All of them, or throws std::bad_alloc.
  void AddTags(Slot& slot, EntryExtra& extra) {
    size_t added = 0;
    try {
      for (EntryTag& tag : extra.tags) {
        tag.slot = &slot;
        tagged_.Add(tag);
        ++added;
      }
    } catch (...) {
      for (EntryTag& tag : extra.tags) {
        if (added-- == 0) break;
        tagged_.Remove(tag);
      }
      throw;
    }
  }

  // Replaces the tags with the rest of `extra`, whose tags were added.
  void SetExtra(Slot& slot, std::unique_ptr<EntryExtra> extra) {
    if (slot.extra != nullptr) {
      for (EntryTag& tag : slot.extra->tags) tagged_.Remove(tag);
    }
    slot.extra = std::move(extra);
  }

  // Takes the slot out of its queue: the caller must pass its number to Free().
  uint32_t Unlink(const Slot& slot) {
    const uint32_t id = queue_.IdOf(slot);
    queue_.Remove(id);
    return id;
  }

  // The next victim, which is never `spared`, is out of its queue: the caller must pass it to Free(). 0: there is none.
  // O(1) amortized.
  uint32_t Evict(const Slot* spared) { return queue_.Evict(spared); }
  // `clear` takes out what the slot owns.
  template <typename Clear>
  void Free(uint32_t id, const Clear& clear) STOCKADE_REQUIRES(kShardMutex) {
    Slot& slot = slab_[id];
    index_->Remove(slot);
    if (slot.extra != nullptr) SetExtra(slot, nullptr);
    clear();
    slot.weight = 0;
    slab_.Give(id);
  }

  Slot& operator[](uint32_t id) const { return slab_[id]; }
  // Slots have the numbers from 1 to end() - 1; some may be free.
  uint32_t end() const { return slab_.end(); }

  // Sets the entries with the tag apart, to be removed some at a time: see TagGroups.
  using Doomed = TagGroups::Doomed;
  Doomed DoomTagged(std::string_view tag) { return tagged_.Doom(tag); }
  Slot* AnyDoomed(std::string_view tag) { return tagged_.AnyDoomed(tag); }
  // The entry has the tag, is set apart because of it, and is to stay. False: there is no memory for that, and nothing
  // has changed.
  bool TrySpare(Slot& slot, std::string_view tag) noexcept {
    for (EntryTag& own : slot.extra->tags) {
      if (own.name == tag && !tagged_.TryReturn(own)) return false;
    }
    return true;
  }
  void ForgetDoomed(Doomed doomed) { tagged_.Forget(doomed); }

 private:
  void Fill(Slot& slot, uint32_t id, uint64_t hash, int64_t weight) {
    slot.hash = SlotHash(hash);
    slot.weight = weight;
    queue_.Insert(id);
    if (index_->Insert(slot)) crowded_ = true;
  }

  Slab slab_;
  EntryIndex* index_ = nullptr;
  S3Fifo queue_{slab_};
  TagGroups tagged_;
  bool crowded_ = false;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
