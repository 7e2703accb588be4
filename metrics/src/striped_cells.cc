#include "stockade/metrics/striped_cells.h"

#include <new>

namespace stockade::internal {
namespace {

constexpr std::align_val_t kCacheLine{64};
constexpr size_t kCellsALine = 64 / sizeof(std::atomic<uint64_t>);

}  // namespace

StripedCells::StripedCells(size_t cells) : cells_(cells), shared_(NewRow()) {}

StripedCells::~StripedCells() {
  operator delete[](shared_, kCacheLine);
  for (auto& row : rows_) operator delete[](row.load(std::memory_order_relaxed), kCacheLine);
}

std::atomic<uint64_t>* StripedCells::NewRow() const {
  const size_t rounded = (cells_ + kCellsALine - 1) / kCellsALine * kCellsALine;
  return new (kCacheLine) std::atomic<uint64_t>[rounded]();
}

std::atomic<uint64_t>* StripedCells::MakeRow(uint32_t slot) {
  std::atomic<uint64_t>* const row = NewRow();
  // Release: a reader that sees the row sees its zeros.
  rows_[slot].store(row, std::memory_order_release);
  return row;
}

uint64_t StripedCells::Sum(size_t cell) const {
  uint64_t sum = shared_[cell].load(std::memory_order_relaxed);
  for (const auto& row : rows_) {
    const std::atomic<uint64_t>* const cells = row.load(std::memory_order_acquire);
    if (cells != nullptr) sum += cells[cell].load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace stockade::internal
