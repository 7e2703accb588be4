#include "stockade/metrics/striped_cells.h"

#include <algorithm>
#include <new>

namespace stockade::metrics_internal {
namespace {

constexpr std::align_val_t kCacheLine{64};
constexpr size_t kCellsALine = 64 / sizeof(std::atomic<uint64_t>);

}  // namespace

StripedCells::StripedCells(size_t cells) : cells_(cells), shared_(NewRow()) {
  if (shared_ == nullptr) throw std::bad_alloc();
}

StripedCells::~StripedCells() {
  operator delete[](shared_, kCacheLine);
  for (auto& row : rows_) operator delete[](row.load(std::memory_order_relaxed), kCacheLine);
}

// Null without memory.
std::atomic<uint64_t>* StripedCells::NewRow() const {
  const size_t rounded = (cells_ + kCellsALine - 1) / kCellsALine * kCellsALine;
  return new (kCacheLine, std::nothrow) std::atomic<uint64_t>[rounded]();
}

uint64_t StripedCells::AddInNewRow(uint32_t slot, size_t cell, uint64_t n) noexcept {
  std::atomic<uint64_t>* const row = NewRow();
  if (row == nullptr) return shared_[cell].fetch_add(n, std::memory_order_relaxed) + n;
  row[cell].store(n, std::memory_order_relaxed);
  // Release: a reader that sees the row sees its zeros.
  rows_[slot].store(row, std::memory_order_release);
  return n;
}

uint64_t StripedCells::Sum(size_t cell) const {
  uint64_t sum = shared_[cell].load(std::memory_order_relaxed);
  // A thread has raised it before it adds.
  const uint32_t used = std::min(ThreadSlotsUsed(), kRows);
  for (uint32_t slot = 0; slot < used; ++slot) {
    const std::atomic<uint64_t>* const cells = rows_[slot].load(std::memory_order_acquire);
    if (cells != nullptr) sum += cells[cell].load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace stockade::metrics_internal
