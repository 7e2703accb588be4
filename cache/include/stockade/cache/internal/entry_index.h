#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stockade/base/export.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/internal/slot.h"

namespace stockade::cache_internal {

// An array of 2^n cells and n in one word, so that a lookup gets both with one load: the array is aligned to 64 bytes,
// and n is in the low bits of its address. Does not own the array; a value type.
class EntryCells {
 public:
  using Cell = std::atomic<uint64_t>;

  EntryCells() = default;
  // Creates an array of empty cells. 1 <= log2_count <= kPositionBits. Throws std::bad_alloc.
  STOCKADE_EXPORT explicit EntryCells(int log2_count);
  STOCKADE_EXPORT void Free() const;

  // NOLINTNEXTLINE(google-explicit-constructor)
  friend bool operator==(EntryCells a, EntryCells b) { return a.word_ == b.word_; }

  int log2_count() const { return static_cast<int>(word_ % kAlign); }
  size_t count() const { return size_t{1} << log2_count(); }
  Cell& operator[](size_t at) const { return first()[at]; }
  size_t Next(size_t at) const { return (at + 1) & (count() - 1); }
  // The number of steps forward from one cell to another.
  size_t Distance(size_t from, size_t to) const { return (to - from) & (count() - 1); }

  // The first cell for a hash: the upper n bits of SlotHash().
  size_t Home(uint64_t hash) const { return (hash << 24) >> (-word_ % 64); }

 private:
  static constexpr size_t kAlign = 64;

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is stored together with n in an integer.
  Cell* first() const { return reinterpret_cast<Cell*>(word_ & ~(kAlign - 1)); }

  uintptr_t word_ = 0;
};

// The bits of a hash that an index uses.
inline uint32_t SlotHash(uint64_t hash) { return static_cast<uint32_t>(hash >> 8); }

// Finds slots by key: a hash table with linear probing. Lookups may read it without a lock; changes need the shard's
// mutex. A cell is the address of a slot without its six low bits, which are 0, and the upper 22 bits of SlotHash().
// These are the home in up to 2^22 cells, so changes seldom read slots.
//
// Invariant: between changes, a slot is in exactly one cell of the current array, and a removed one in none. A lookup
// without a lock may be in an older array, or may miss a slot while cells are moved. It finds slots that may have
// another entry by then, so it compares keys.
//
// An older array is freed when no thread is in a read that began before the array was replaced. One that is still read
// is freed later; all of them together are smaller than the current one. At most 3 of 8 cells are used.
class STOCKADE_EXPORT EntryIndex {
 public:
  EntryIndex();
  ~EntryIndex();
  EntryIndex(const EntryIndex&) = delete;
  EntryIndex& operator=(const EntryIndex&) = delete;

  // From now on lookups without a lock find nothing. Called before the first insertion.
  void Hide() { current_ = EntryCells(kFewest); }

  size_t size() const { return size_; }

  // The slot of the first cell, in which most keys are, for a lookup without a lock. Null: search further.
  [[gnu::always_inline]] Slot* AtHome(uint64_t hash) const {
    SyncPoint();
    const EntryCells cells = cells_.load(std::memory_order_acquire);
    const uint64_t cell = cells[cells.Home(hash)].load(std::memory_order_acquire);
    return cell != 0 && HasTag(cell, hash) ? SlotOfCell(cell) : nullptr;
  }

  // Calls `accepts` for one slot after another that may have the key, without a lock, until it returns true.
  template <typename Accepts>
  void FindUnlocked(uint64_t hash, const Accepts& accepts) const {
    SyncPoint();
    const EntryCells cells = cells_.load(std::memory_order_acquire);
    size_t at = cells.Home(hash);
    for (size_t step = 0; step < cells.count(); ++step, at = cells.Next(at)) {
      const uint64_t cell = cells[at].load(std::memory_order_acquire);
      if (cell == 0 || (HasTag(cell, hash) && accepts(*SlotOfCell(cell)))) return;
    }
  }

  // With the mutex held: the slot that has the key. Null: there is none.
  template <typename Equal>
  Slot* Find(uint64_t hash, const Equal& equal) const {
    for (size_t at = current_.Home(hash);; at = current_.Next(at)) {
      const uint64_t cell = current_[at].load(std::memory_order_relaxed);
      if (cell == 0) return nullptr;
      if (HasTag(cell, hash) && equal(*SlotOfCell(cell))) return SlotOfCell(cell);
    }
  }

  // Makes room for one more slot. `reader` is what lookups announce as their caller. O(1) amortized: growing is
  // O(slots), and lookups continue meanwhile. Throws std::bad_alloc.
  void Reserve(const void* reader);
  // There is room, and the slot's hash is set. Its key must not be in the table.
  void Insert(Slot& slot);
  // The slot must be in the table.
  void Remove(const Slot& slot);

 private:
  static constexpr int kFewest = 3;  // The smallest number of cells, as a power of two.
  static constexpr int kTagBits = 22;
  static constexpr uint64_t kTagMask = (uint64_t{1} << kTagBits) - 1;

  static bool HasTag(uint64_t cell, uint64_t hash) { return ((cell ^ (hash >> 18)) & kTagMask) == 0; }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is stored together with hash bits in an integer.
  static Slot* SlotOfCell(uint64_t cell) { return reinterpret_cast<Slot*>(cell >> kTagBits << 6); }
  static uint64_t CellFor(const Slot& slot) {
    return reinterpret_cast<uintptr_t>(&slot) >> 6 << kTagBits | slot.hash >> (32 - kTagBits);
  }
  static size_t HomeOf(EntryCells cells, uint64_t cell) {
    const uint64_t hash =
        cells.log2_count() <= kTagBits ? (cell & kTagMask) << 18 : uint64_t{SlotOfCell(cell)->hash} << 8;
    return cells.Home(hash);
  }
  static void Place(EntryCells cells, uint64_t cell);
  void Grow(const void* reader);

  // For lookups without a lock: `current_`, or empty. On a line that is written only when the array grows.
  alignas(64) std::atomic<EntryCells> cells_;
  alignas(64) EntryCells current_;
  size_t size_ = 0;
  std::vector<EntryCells> old_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_
