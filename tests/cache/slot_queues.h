#ifndef STOCKADE_TESTS_CACHE_SLOT_QUEUES_H_
#define STOCKADE_TESTS_CACHE_SLOT_QUEUES_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "eviction.h"
#include "stockade/cache/internal/slots.h"

namespace stockade::cache_internal {

// An S3Fifo over slots of its own, which are named by their addresses.
class SlotQueues {
 public:
  SlotQueues() { slab_.Use(Slab::TypeOf<Slot>()); }

  Slot& New(uint64_t hash, int64_t weight = 1) {
    const uint32_t id = slab_.Take();
    Slot& slot = slab_[id];
    slot.hash = static_cast<uint32_t>(hash);
    slot.weight = weight;
    ids_[&slot] = id;
    return slot;
  }
  void Insert(Slot& slot) {
    queues_.Insert(ids_.at(&slot));
    in_.insert(&slot);
  }
  void Remove(Slot& slot) {
    EXPECT_EQ(queues_.IdOf(slot), ids_.at(&slot));
    queues_.Remove(ids_.at(&slot));
    in_.erase(&slot);
  }
  void Reweigh(Slot& slot, int64_t weight) { queues_.Reweigh(slot, weight); }
  Slot* Evict(const Slot* spared) {
    const uint32_t id = queues_.Evict(spared);
    if (id == 0) return nullptr;
    in_.erase(&slab_[id]);
    return &slab_[id];
  }
  bool Has(const Slot& slot) const { return in_.contains(&slot); }

  size_t size() const { return queues_.size(); }
  int64_t weight() const { return queues_.weight(); }
  double small_share() const { return queues_.small_share(); }
  size_t ghost_bytes() const { return queues_.ghost_bytes(); }

 private:
  Slab slab_;
  S3Fifo queues_{slab_};
  std::unordered_map<const Slot*, uint32_t> ids_;
  std::unordered_set<const Slot*> in_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_TESTS_CACHE_SLOT_QUEUES_H_
