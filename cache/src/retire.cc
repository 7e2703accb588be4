// Boxes that have left their slots: they are freed when no hit reads them any more.
//
// They are freed in batches, which share the cost of a HeavyFence(). A shard keeps its batch (Shard::Retired). A batch
// that no later store frees is freed within 100 ms by a thread that all caches of the process share. Of each batch, one
// box per thread may stay, which the thread was reading. After the batch of a pinned value was freed, its handles own
// it: each has a share.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "shard.h"
#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/hazard_row.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {
namespace {

// If the pin pins one of `boxes`, each of which has a share of its own here, replaces the pin by a share for its owner.
void HandOver(std::atomic<uintptr_t>& pin, const std::vector<const Box*>& boxes) {
  uintptr_t pinned = pin.load(std::memory_order_acquire);
  if (pinned == 0) return;
  const auto found = std::lower_bound(boxes.begin(), boxes.end(), pinned, [](const Box* box, uintptr_t address) {
    return reinterpret_cast<uintptr_t>(box) < address;
  });
  if (found == boxes.end() || reinterpret_cast<uintptr_t>(*found) != pinned) return;
  (*found)->Share();
  if (!pin.compare_exchange_strong(pinned, pinned | HazardRow::kHandedOver, std::memory_order_acq_rel)) {
    (*found)->Unshare();
  }
}

}  // namespace

// With the shard's mutex held. With a clock other than the system clock, boxes are freed at once, so that a test with a
// ManualClock sees when values are destroyed.
void CacheCore::Retire(Shard& shard, const Box* box, int64_t weight, Aftermath& after) {
  if (box == nullptr) return;
  Shard::Retired& retired = shard.retired;
  retired.boxes.push_back(box);
  retired.bytes += box->bytes();
  retired.weight += weight;
  if (options_.clock == Clock::System()) {
    const Instant tick = options_.clock->CoarseNow();
    const int64_t share = static_cast<int64_t>(shard_count_) * Shard::Retired::kWeightPart;
    const bool waits = tick == retired.freed_at && retired.boxes.size() < Shard::Retired::kMostBoxes &&
                       retired.bytes < Shard::Retired::kMostBytes && retired.weight <= options_.max_weight / share;
    if (waits) {
      after.retired = true;
      return;
    }
    retired.freed_at = tick;
  }
  after.boxes.insert(after.boxes.end(), retired.boxes.begin(), retired.boxes.end());
  retired.Clear();
}

// Gives back a share of each box. Runs destructors of keys and values, so no mutex may be held.
void CacheCore::FreeBoxes(std::vector<const Box*> boxes) noexcept {
  if (boxes.empty()) return;
  std::sort(boxes.begin(), boxes.end());
  HeavyFence();
  std::vector<const Box*> read;
  for (HazardRow& row : HazardRows()) {
    // Before the pins: a value that is no longer being read has its pin by then.
    const auto* const reads = static_cast<const Box*>(row.reads.load(std::memory_order_seq_cst));
    if (reads != nullptr && std::binary_search(boxes.begin(), boxes.end(), reads)) read.push_back(reads);
    for (std::atomic<uintptr_t>& pin : row.pins) HandOver(pin, boxes);
  }
  if (!read.empty()) {
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    const ShardLock lock = Lock(shards_[0]);
    std::vector<const Box*>& kept = shards_[0].retired.boxes;
    kept.insert(kept.end(), read.begin(), read.end());
  }
  for (const Box* const box : boxes) {
    if (!std::binary_search(read.begin(), read.end(), box)) box->Unshare();
  }
  if (!read.empty() && options_.clock == Clock::System()) PlanReclaim();
}

// Frees what waits in all shards.
void CacheCore::FlushRetired() noexcept {
  std::vector<const Box*> boxes;
  for (size_t index = 0; index < shard_count_; ++index) {
    const ShardLock lock = Lock(shards_[index]);
    Shard::Retired& retired = shards_[index].retired;
    boxes.insert(boxes.end(), retired.boxes.begin(), retired.boxes.end());
    retired.Clear();
  }
  FreeBoxes(std::move(boxes));
}

void CacheCore::PlanReclaim() noexcept {
  if (reclaim_planned_.load(std::memory_order_relaxed)) return;
  if (reclaim_planned_.exchange(true, std::memory_order_relaxed)) return;
  try {
    const absl::Status planned = ScheduleReclaim([this, gate = gate_] {
      CallGate::Call inside(*gate, 0);
      if (!inside.inside()) return;
      reclaim_planned_.store(false, std::memory_order_relaxed);  // First: later boxes plan another reclaim.
      FlushRetired();
    });
    // No thread: the next retired box tries again.
    if (!planned.ok()) reclaim_planned_.store(false, std::memory_order_relaxed);
  } catch (...) {  // Out of memory: the same.
    reclaim_planned_.store(false, std::memory_order_relaxed);
  }
}

}  // namespace stockade::cache_internal
