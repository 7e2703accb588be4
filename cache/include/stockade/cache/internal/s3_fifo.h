#ifndef STOCKADE_CACHE_INTERNAL_S3_FIFO_H_
#define STOCKADE_CACHE_INTERNAL_S3_FIFO_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/cache/internal/ghost_table.h"

namespace stockade::internal {

// What S3Fifo keeps of an entry, which derives from this: 40 bytes. The entry sets weight and hash before it is
// inserted; the rest is S3Fifo's.
struct S3FifoNode {
  S3FifoNode() = default;
  S3FifoNode(const S3FifoNode&) = delete;
  S3FifoNode& operator=(const S3FifoNode&) = delete;

  static constexpr uint8_t kMostUses = 3;

  // A hit. Any thread, at any time in the node's life, in a queue or not. A node that is hot already is only read, so
  // that its line stays shared; of hits at the same moment some may not count.
  [[gnu::always_inline]] void Touch() {
    const uint8_t counted = uses.load(std::memory_order_relaxed);
    if (counted < kMostUses) uses.store(counted + 1, std::memory_order_relaxed);
  }

  std::atomic<uint8_t> uses{0};  // 0 to kMostUses: hits that the queues have not taken note of.
  bool in_main = false;
  uint64_t hash = 0;            // Of its key; need not be spread well. Does not change while it is in a queue.
  int64_t weight = 1;           // At least 1. Does not change while it is in a queue.
  S3FifoNode* newer = nullptr;  // In its queue; null: it is in none.
  S3FifoNode* older = nullptr;
};

// Which entry of a shard is evicted next: S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP
// 2023), by weight, with a share of the small queue that adapts.
//
// A new entry enters the small queue. Evict takes from the small queue while that weighs more than its share of all,
// else from main. What leaves the small queue with a use goes on to main; without, it is the victim, and its hash is
// remembered. What leaves main with a use enters it again with one use less; without, it is the victim. A remembered
// hash that comes back enters main at once. So what is asked for once passes through quickly, and a hit moves nothing.
//
// The share follows what is regretted, as in ARC (Megiddo, Modha, FAST 2003) and the paper's S3-FIFO-D: a miss on what
// the small queue evicted in its last few evictions would have been a hit, had that queue been a little larger, and
// likewise for main. Both windows are equally long, so the two rates are what a little more room for either is worth,
// and the share moves until they are equal. Where it has grown, what is asked for changes quickly. There main takes all
// uses of an entry at once instead of one by one, so that what was hot does not stay for three more rounds, and one use
// in the small queue, which is long, is worth one more round there: two lead to main.
//
// One S3Fifo is of one shard, but the bound is of the whole cache, which calls Evict of its shards in turn while it is
// over its weight: shares are of what the shard weighs at the moment.
//
// Guarded by the shard's mutex, all but Touch. Nodes belong to the caller and are never destroyed here.
// Complexity: O(1), but Evict: amortized O(1), since a step takes uses from a node or moves it on to main, and at
// most kMostSteps and one a call. Memory: 40 bytes an entry and 11 to 16 a ghost, of which there are 1.1 an
// entry.
class STOCKADE_EXPORT S3Fifo {
 public:
  S3Fifo() = default;
  S3Fifo(const S3Fifo&) = delete;
  S3Fifo& operator=(const S3Fifo&) = delete;

  // The node is in no queue; its uses begin at 0.
  void Insert(S3FifoNode& node);

  // Puts `fresh`, which is in no queue, in the place of `old`, with its uses: a value that is loaded anew or put over
  // another is no new entry, and a hot one stays hot.
  void Replace(S3FifoNode& old, S3FifoNode& fresh);

  // Unlinks a node, and remembers nothing.
  void Remove(S3FifoNode& node);

  // Unlinks the next victim and returns it. Never `spared`, which may be null or in no queue: only its address counts.
  // Null: there is no other node.
  S3FifoNode* Evict(const S3FifoNode* spared);

  // Some node; null: there is none. `while (S3FifoNode* node = Any()) Remove(*node)` empties it.
  S3FifoNode* Any();

  size_t size() const { return small_.size + main_.size; }
  int64_t weight() const { return small_.weight + main_.weight; }

  double small_share() const { return small_share_; }
  size_t ghost_bytes() const { return ghosts_.bytes(); }

  static constexpr double kFirstShare = 0.1;  // The paper's.
  static constexpr double kLeastShare = 0.01;
  static constexpr double kMostShare = 0.9;

  // Ghosts, as shares of the entries: of the small queue as many as main holds in the paper, of main one window.
  static constexpr double kSmallGhosts = 0.9;
  static constexpr double kWindow = 0.2;
  static constexpr size_t kMostGhosts = 1u << 29;  // Of a queue: far from a wrap of its clock.

  // A regret moves the share by so many mean entries. Main's weigh a little more: what the small queue regrets is more
  // often asked for just once again.
  static constexpr double kSmallStep = 0.5;
  static constexpr double kMainStep = 0.625;

  // The shard is restless while the small queue's share is above this.
  static constexpr double kRestlessShare = 0.15;

  // Uses are not honoured for more than so many steps of a call: bounds the time that the shard's mutex is held for,
  // and ends the race with threads that touch nodes as fast as Evict takes their uses.
  static constexpr size_t kMostSteps = 128;

 private:
  // A ring through `ends`: ends.older is the newest node, ends.newer the oldest.
  // Invariant: size and weight are of the nodes in the ring, and these have in_main set in main_ only.
  struct Queue {
    Queue() { ends.newer = ends.older = &ends; }
    S3FifoNode* Oldest() { return ends.newer; }

    S3FifoNode ends;
    size_t size = 0;
    int64_t weight = 0;
  };

  Queue& QueueOf(const S3FifoNode& node) { return node.in_main ? main_ : small_; }
  void Link(S3FifoNode& node, bool in_main);
  void Unlink(S3FifoNode& node);
  Queue& QueueToEvictFrom(const S3FifoNode* spared);
  bool restless() const { return small_share_ > kRestlessShare; }
  GhostTable::Rooms GhostRooms() const;
  void Regret(const GhostTable::Ghost& ghost);

  Queue small_;
  Queue main_;
  GhostTable ghosts_;
  double small_share_ = kFirstShare;  // Between kLeastShare and kMostShare.
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_S3_FIFO_H_
