#ifndef STOCKADE_METRICS_STRIPED_CELLS_H_
#define STOCKADE_METRICS_STRIPED_CELLS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/base/thread_slot.h"

namespace stockade::internal {

// A row of 64-bit sums that threads add to without sharing a cache line: each thread slot has a row of its own, made at
// its first use, and a read adds the rows up. LongAdder (Java) and folly's ThreadCachedInt are of this kind.
//
// Invariants: row s is written only by the thread that has slot s now, so an addition is a plain load and store
// (relaxed; no read-modify-write); slots are handed on with synchronization, so no addition is lost between owners.
// Threads without a slot below kRows add to one shared row by fetch_add. A sum is exact once the adders have been
// joined, and never falls.
//
// Memory: 2 KiB, and a row (8 bytes a cell, rounded up to 64) for each thread slot that has ever added.
class STOCKADE_EXPORT StripedCells {
 public:
  explicit StripedCells(size_t cells);
  ~StripedCells();

  StripedCells(const StripedCells&) = delete;
  StripedCells& operator=(const StripedCells&) = delete;

  // Wait-free, but for a thread's first call, which allocates; a thread for which there is no memory adds to the shared
  // row. Returns what the row that it has added to now has.
  uint64_t Add(size_t cell, uint64_t n) noexcept {
    const uint32_t slot = ThisThreadSlot();
    if (slot < kRows) [[likely]] {
      std::atomic<uint64_t>* const row = rows_[slot].load(std::memory_order_relaxed);
      if (row == nullptr) [[unlikely]] {
        return AddInNewRow(slot, cell, n);
      }
      return AddIn(row, cell, n);
    }
    return shared_[cell].fetch_add(n, std::memory_order_relaxed) + n;
  }

  // Adds where that takes a load and a store. False: it does not, and nothing was added. `slot`: ThisThreadSlotIfAny().
  bool TryAdd(uint32_t slot, size_t cell, uint64_t n) noexcept {
    if (slot >= kRows) return false;
    std::atomic<uint64_t>* const row = rows_[slot].load(std::memory_order_relaxed);
    if (row == nullptr) return false;
    AddIn(row, cell, n);
    return true;
  }

  // O(threads that have added).
  uint64_t Sum(size_t cell) const;

 private:
  static constexpr uint32_t kRows = 256;

  static uint64_t AddIn(std::atomic<uint64_t>* row, size_t cell, uint64_t n) {
    const uint64_t sum = row[cell].load(std::memory_order_relaxed) + n;
    row[cell].store(sum, std::memory_order_relaxed);
    return sum;
  }
  std::atomic<uint64_t>* NewRow() const;
  uint64_t AddInNewRow(uint32_t slot, size_t cell, uint64_t n) noexcept;

  const size_t cells_;
  std::atomic<uint64_t>* const shared_;
  std::array<std::atomic<std::atomic<uint64_t>*>, kRows> rows_{};
};

}  // namespace stockade::internal

#endif  // STOCKADE_METRICS_STRIPED_CELLS_H_
