#ifndef STOCKADE_LOCKS_SRC_SERVICE_HOLD_TABLE_H_
#define STOCKADE_LOCKS_SRC_SERVICE_HOLD_TABLE_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "hold.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

// The records of one service. A record is there exactly while somebody has it pinned. Thread-safe; O(1).
class HoldTable {
 public:
  // Each Pin() and PinAgain() is followed by one Unpin().
  std::shared_ptr<HoldRecord> Pin(HoldKey key);
  // Of a record that is pinned.
  void PinAgain(HoldRecord& record);
  void Unpin(HoldRecord& record);

  // What this owner has of this kind; null: nothing, or no more.
  std::shared_ptr<ServiceHold> Find(const HoldKey& key);
  std::vector<std::shared_ptr<ServiceHold>> All();

 private:
  struct alignas(64) Shard {
    Mutex mutex;
    absl::flat_hash_map<HoldKey, std::shared_ptr<HoldRecord>> records STOCKADE_GUARDED_BY(mutex);
  };
  Shard& ShardOf(const HoldKey& key) { return shards_[absl::HashOf(key) % shards_.size()]; }

  std::array<Shard, 16> shards_;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_HOLD_TABLE_H_
