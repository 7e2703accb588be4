#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/internal/entry_cells.h"

namespace stockade::cache_internal {

// Finds entries by key: a hash table with linear probing. Lookups may read it without a lock; changes need the shard's
// mutex. A cell is the address of an entry, with the upper 16 bits of its hash in the bits that addresses do not use. A
// lookup therefore usually reads one cell and one entry.
//
// Invariants: between changes, an entry is in exactly one cell of the current array. It is in no cell after Remove()
// has returned, and in no older array after Grow() has returned. A thread that announces an entry in its HazardRow and
// then finds the entry in a cell therefore has a valid entry, which is not freed while the announcement stands. A
// lookup without a lock may miss an entry while cells are moved, but what it finds is in the table.
//
// Older arrays are kept until destruction, so that readers need not announce them. All of them together are smaller
// than the current one. At most 3 of 8 cells are used.
template <typename Entry>
class EntryIndex {
 public:
  EntryIndex() { Use(EntryCells(kFewest)); }
  ~EntryIndex() {
    for (const EntryCells& cells : all_) cells.Free();
  }
  EntryIndex(const EntryIndex&) = delete;
  EntryIndex& operator=(const EntryIndex&) = delete;

  size_t size() const { return size_; }

  // Like FindUnlocked(), but checks only the first cell, in which most entries are. `row` is ThisLightRow(). Null:
  // search further.
  template <typename Equal>
  [[gnu::always_inline]] Entry* FindAtHome(uint64_t hash, HazardRow& row, const Equal& equal) const {
    SyncPoint();
    const EntryCells cells = cells_.load(std::memory_order_acquire);
    const EntryCells::Cell& home = cells[cells.Home(hash)];
    const uintptr_t cell = home.load(std::memory_order_acquire);
    if (cell == 0 || (cell ^ hash) >> kTagShift != 0) return nullptr;
    Entry* const entry = EntryOf(cell);
    SyncPoint();
    InlineLightStore(row.reads, static_cast<const void*>(entry));
    SyncPoint();
    return home.load(std::memory_order_seq_cst) == cell && equal(*entry) ? entry : nullptr;
  }

  // Finds an entry without a lock. `equal(entry)` tells whether it is the right one. `row.reads` protects the returned
  // entry. Null: look up the key with the mutex held.
  template <typename Equal>
  Entry* FindUnlocked(uint64_t hash, HazardRow& row, const Equal& equal) const {
    for (;;) {
      SyncPoint();
      const EntryCells cells = cells_.load(std::memory_order_acquire);
      for (size_t at = cells.Home(hash);; at = cells.Next(at)) {
        const uintptr_t cell = cells[at].load(std::memory_order_acquire);
        if (cell == 0) break;
        if ((cell ^ hash) >> kTagShift != 0) continue;
        Entry* const entry = EntryOf(cell);
        SyncPoint();
        LightStore(row.reads, static_cast<const void*>(entry));
        SyncPoint();
        if (cells[at].load(std::memory_order_seq_cst) != cell) break;
        if (equal(*entry)) return entry;
      }
      if (cells_.load(std::memory_order_acquire) == cells) return nullptr;
    }
  }

  template <typename Equal>
  Entry* Find(uint64_t hash, const Equal& equal) const {
    const EntryCells cells = all_.back();
    for (size_t at = cells.Home(hash);; at = cells.Next(at)) {
      const uintptr_t cell = cells[at].load(std::memory_order_relaxed);
      if (cell == 0) return nullptr;
      if ((cell ^ hash) >> kTagShift == 0 && equal(*EntryOf(cell))) return EntryOf(cell);
    }
  }

  // The key must not be in the table. O(1) amortized: growing is O(entries), and lookups continue meanwhile.
  void Insert(Entry& entry) {
    if ((size_ + 1) * 8 > all_.back().count() * 3) Grow();
    Place(all_.back(), entry);
    ++size_;
  }

  // `fresh` takes the cell of `old`, which has the same key and must be in the table. `old` may be read as after
  // Remove(). The key always has an entry.
  void Replace(const Entry& old, Entry& fresh) {
    const EntryCells cells = all_.back();
    cells[CellOf(cells, old)].store(CellFor(fresh), std::memory_order_seq_cst);
  }

  // The entry must be in the table. It may be read until a HeavyFence() has been executed and no HazardRow announces
  // it.
  void Remove(const Entry& entry) {
    const EntryCells cells = all_.back();
    size_t hole = CellOf(cells, entry);
    // Moves back entries that had to skip the hole (Knuth, vol. 3, 6.4, algorithm R), so that probing still ends at
    // empty cells.
    for (size_t at = cells.Next(hole);; at = cells.Next(at)) {
      const uintptr_t cell = cells[at].load(std::memory_order_relaxed);
      if (cell == 0) break;
      const size_t home = cells.Home(EntryOf(cell)->hash);
      if (cells.Distance(home, at) < cells.Distance(hole, at)) continue;
      cells[hole].store(cell, std::memory_order_seq_cst);
      hole = at;
    }
    cells[hole].store(0, std::memory_order_seq_cst);
    --size_;
  }

  static constexpr uint64_t kEnd = EntryCells::kPositions;
  static constexpr size_t kSome = 256;

  // Returns some entries from `position` on, and advances `position`, to kEnd at the end. A walk from 0 to kEnd returns
  // each entry that is in the table all the time exactly once, and some of those that are added meanwhile, whatever
  // changes between the calls. Covers `homes` homes, of which 3 of 8 have an entry on average: O(homes).
  std::vector<Entry*> Some(uint64_t& position, size_t homes = kSome) const {
    const EntryCells cells = all_.back();
    const size_t begin = cells.HomeAt(position);
    const size_t end = begin + std::min(cells.count() - begin, homes);
    std::vector<Entry*> some;
    for (size_t step = 0, at = begin; step < cells.count(); ++step, at = cells.Next(at)) {
      const uintptr_t cell = cells[at].load(std::memory_order_relaxed);
      if (cell == 0) {
        if (begin + step >= end) break;
        continue;
      }
      const size_t home = cells.Home(EntryOf(cell)->hash);
      if (begin <= home && home < end) some.push_back(EntryOf(cell));
    }
    position = cells.PositionOf(end);
    return some;
  }

 private:
  static constexpr int kFewest = 3;    // The smallest number of cells, as a power of two.
  static constexpr size_t kAhead = 8;  // Entries that are prefetched while others are moved.
  static constexpr int kTagShift = 48;
  static constexpr uintptr_t kAddress = (uintptr_t{1} << kTagShift) - 1;

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is stored together with hash bits in an integer.
  static Entry* EntryOf(uintptr_t cell) { return reinterpret_cast<Entry*>(cell & kAddress); }

  static uintptr_t CellFor(Entry& entry) {
    return reinterpret_cast<uintptr_t>(&entry) | (entry.hash >> kTagShift << kTagShift);
  }

  static size_t CellOf(EntryCells cells, const Entry& entry) {
    size_t at = cells.Home(entry.hash);
    while (EntryOf(cells[at].load(std::memory_order_relaxed)) != &entry) at = cells.Next(at);
    return at;
  }

  static void Place(EntryCells cells, Entry& entry) {
    size_t at = cells.Home(entry.hash);
    while (cells[at].load(std::memory_order_relaxed) != 0) at = cells.Next(at);
    cells[at].store(CellFor(entry), std::memory_order_release);
  }

  void Use(EntryCells cells) {
    all_.push_back(cells);
    cells_.store(cells, std::memory_order_release);
  }

  void Grow() {
    const EntryCells old = all_.back();
    const EntryCells grown(old.log2_count() + 1);
    for (size_t at = 0; at < old.count(); ++at) {
      __builtin_prefetch(EntryOf(old[(at + kAhead) & (old.count() - 1)].load(std::memory_order_relaxed)));
      const uintptr_t cell = old[at].load(std::memory_order_relaxed);
      if (cell != 0) Place(grown, *EntryOf(cell));
    }
    Use(grown);
    for (size_t at = 0; at < old.count(); ++at) old[at].store(0, std::memory_order_seq_cst);
  }

  alignas(64) std::atomic<EntryCells> cells_;  // The last of all_. On a line that is written only when the array grows.
  alignas(64) std::vector<EntryCells> all_;
  size_t size_ = 0;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_
