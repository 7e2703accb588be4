#ifndef STOCKADE_CACHE_SRC_RETIRED_ENTRIES_H_
#define STOCKADE_CACHE_SRC_RETIRED_ENTRIES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "entry_table.h"
#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/clock.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/cache/internal/pinned.h"

namespace stockade::cache_internal {

// Entries that have left their table and may still be read by a hit that found them before. They are freed in batches,
// which share the cost of a HeavyFence(). Thread-safe.
//
// Invariant: of the waiting entries, fewer than kBatch were added within the current tick of the coarse clock, and
// their total weight is at most `weight_kept`. In addition there may be one entry per thread, which the thread was
// reading when its batch was freed. Entries that no later Add() frees are freed by the caller's Flush(). After the
// batch of a pinned value was freed, its handles own it: each has a share.
class RetiredEntries {
 public:
  // `pins`: handles pin values instead of copying them. If `clock` is null, only entries that are being read wait.
  RetiredEntries(bool pins, int64_t weight_kept, const Clock* clock)
      : pins_(pins), weight_kept_(weight_kept), clock_(clock) {}
  // No thread reads any of them any more.
  ~RetiredEntries() { Free(std::move(waiting_)); }
  RetiredEntries(const RetiredEntries&) = delete;
  RetiredEntries& operator=(const RetiredEntries&) = delete;

  // Runs destructors of keys and values, so no mutex may be held. Returns whether entries wait.
  bool Add(Entries entries) {
    const Instant tick = clock_ != nullptr ? clock_->CoarseNow() : Instant::InfinitePast();
    Entries batch;
    {
      const MutexLock lock(mutex_);
      for (OwnedEntry& entry : entries) {
        weight_ += entry->weight;
        waiting_.push_back(std::move(entry));
      }
      if (clock_ != nullptr && tick == freed_at_ && waiting_.size() < kBatch && weight_ <= weight_kept_) return true;
      freed_at_ = tick;
      batch.swap(waiting_);
      weight_ = 0;
    }
    return KeepRead(Free(std::move(batch)));
  }

  // Frees the waiting entries that are not being read. Otherwise like Add().
  bool Flush() {
    Entries batch;
    {
      const MutexLock lock(mutex_);
      batch.swap(waiting_);
      weight_ = 0;
    }
    return KeepRead(Free(std::move(batch)));
  }

 private:
  static constexpr size_t kBatch = 64;

  // Returns the entries that are being read.
  Entries Free(Entries batch) const {
    Entries kept;
    if (batch.empty()) return kept;
    std::vector<std::pair<uintptr_t, const ValueBox*>> boxes;
    if (pins_) {
      for (const OwnedEntry& entry : batch) {
        const auto* const box = entry->value().box();
        if (box != nullptr) boxes.emplace_back(reinterpret_cast<uintptr_t>(box), box);
      }
      std::sort(boxes.begin(), boxes.end());
    }
    HeavyFence();
    std::vector<const void*> read;
    for (HazardRow& row : HazardRows()) {
      // Before the pins: a value that is no longer being read has its pin by then.
      const void* const reads = row.reads.load(std::memory_order_seq_cst);
      if (reads != nullptr) read.push_back(reads);
      if (pins_) {
        for (std::atomic<uintptr_t>& pin : row.pins) HandOver(pin, boxes);
      }
    }
    for (OwnedEntry& entry : batch) {
      if (std::find(read.begin(), read.end(), entry.get()) != read.end()) kept.push_back(std::move(entry));
    }
    return kept;
  }

  // Returns whether entries wait.
  bool KeepRead(Entries read) {
    if (read.empty()) return false;
    const MutexLock lock(mutex_);
    for (OwnedEntry& entry : read) {
      weight_ += entry->weight;
      waiting_.push_back(std::move(entry));
    }
    return true;
  }

  // If the pin pins one of `boxes`, each of which has a share of its own here, replaces the pin by a share for its
  // owner.
  static void HandOver(std::atomic<uintptr_t>& pin, const std::vector<std::pair<uintptr_t, const ValueBox*>>& boxes) {
    uintptr_t pinned = pin.load(std::memory_order_acquire);
    if (pinned == 0) return;
    const auto found = std::lower_bound(boxes.begin(), boxes.end(), std::pair(pinned, (const ValueBox*)nullptr));
    if (found == boxes.end() || found->first != pinned) return;
    found->second->Share();
    if (!pin.compare_exchange_strong(pinned, pinned | HazardRow::kHandedOver, std::memory_order_acq_rel)) {
      found->second->Unshare();
    }
  }

  const bool pins_;
  const int64_t weight_kept_;
  const Clock* const clock_;
  Mutex mutex_;
  Entries waiting_ STOCKADE_GUARDED_BY(mutex_);
  int64_t weight_ STOCKADE_GUARDED_BY(mutex_) = 0;  // Of `waiting_`.
  // The tick of the last batch of Add().
  Instant freed_at_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfinitePast();
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_RETIRED_ENTRIES_H_
