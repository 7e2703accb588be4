#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_CELLS_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_CELLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "stockade/base/export.h"

namespace stockade::cache_internal {

// An array of 2^n cells and n in one word, so that a lookup gets both with one load: the array is aligned to 64 bytes,
// and n is in the low bits of its address. Does not own the array; a value type.
//
// The home of a hash is the upper n of its lower 40 bits. A hash with a lower home also has a lower home in an array of
// twice the size. An interrupted walk over the homes can therefore continue after the array was replaced by a larger
// one.
class EntryCells {
 public:
  using Cell = std::atomic<uintptr_t>;

  // The positions of hashes, which do not depend on the number of cells.
  static constexpr int kPositionBits = 40;
  static constexpr uint64_t kPositions = uint64_t{1} << kPositionBits;

  EntryCells() = default;
  // Creates an array of empty cells. 1 <= log2_count <= kPositionBits.
  explicit EntryCells(int log2_count) {
    const size_t count = size_t{1} << log2_count;
    auto* const first = static_cast<Cell*>(::operator new(count * sizeof(Cell), std::align_val_t{kAlign}));
    std::uninitialized_value_construct_n(first, count);
    word_ = reinterpret_cast<uintptr_t>(first) | static_cast<uintptr_t>(log2_count);
  }
  void Free() const { ::operator delete(first(), std::align_val_t{kAlign}); }

  // NOLINTNEXTLINE(google-explicit-constructor)
  friend bool operator==(EntryCells a, EntryCells b) { return a.word_ == b.word_; }

  int log2_count() const { return static_cast<int>(word_ % kAlign); }
  size_t count() const { return size_t{1} << log2_count(); }
  Cell& operator[](size_t at) const { return first()[at]; }

  size_t Home(uint64_t hash) const { return (hash << (64 - kPositionBits)) >> (-word_ % 64); }
  size_t HomeAt(uint64_t position) const { return position >> (kPositionBits - log2_count()); }
  uint64_t PositionOf(size_t home) const { return uint64_t{home} << (kPositionBits - log2_count()); }
  size_t Next(size_t at) const { return (at + 1) & (count() - 1); }
  // The number of steps forward from one cell to another.
  size_t Distance(size_t from, size_t to) const { return (to - from) & (count() - 1); }

 private:
  static constexpr size_t kAlign = 64;

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is stored together with n in an integer.
  Cell* first() const { return reinterpret_cast<Cell*>(word_ & ~(kAlign - 1)); }

  uintptr_t word_ = 0;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_CELLS_H_
