#ifndef STOCKADE_METRICS_STRIPED_CELLS_H_
#define STOCKADE_METRICS_STRIPED_CELLS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/base/thread_slot.h"

namespace stockade::metrics_internal {

// A row of 64-bit sums that threads add to without sharing cache lines. Each thread slot has its own row, created when
// it is first used, and a read adds up the rows. LongAdder (Java) and folly's ThreadCachedInt work in the same way.
//
// Invariants: only the thread that has slot s writes row s, so an addition is a plain load and store (relaxed; no
// read-modify-write). Reuse of a slot synchronizes, so no addition is lost between owners. Threads without a slot below
// kRows add to one shared row by fetch_add. A sum is exact after the adding threads have been joined, and never
// decreases.
//
// Memory: 2 KiB, plus one row (8 bytes per cell, rounded up to 64 bytes) for each thread slot that has ever added.
class STOCKADE_EXPORT StripedCells {
 public:
  explicit StripedCells(size_t cells);
  ~StripedCells();

  StripedCells(const StripedCells&) = delete;
  StripedCells& operator=(const StripedCells&) = delete;

  // Wait-free, except for a thread's first call, which allocates its row. A thread whose row cannot be allocated adds
  // to the shared row. Returns the new value of the cell in the row that was used.
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

  // Adds if one load and one store are enough. Otherwise returns false and adds nothing. `slot` is
  // ThisThreadSlotIfAny().
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

}  // namespace stockade::metrics_internal

#endif  // STOCKADE_METRICS_STRIPED_CELLS_H_
