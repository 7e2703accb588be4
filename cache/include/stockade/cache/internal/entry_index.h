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

namespace stockade::internal {

// Finds entries by key: a hash table with linear probing, read without a lock and changed with the shard's mutex held.
// A cell is an entry's address with the upper 16 bits of its hash in those that an address does not use, so that a
// lookup reads one cell and one entry, most of the time.
//
// Invariants: an entry is in exactly one cell of the current cells between changes, in none once Remove() has returned,
// and in none of the older cells once Grow() has. So who finds that a cell has an entry, after having said in its
// HazardRow that it reads it, has an entry that is there at that moment, and is not freed while it says so. A lookup
// without a lock may miss what is there, while cells are moved; what it finds is there.
//
// Older cells are kept to the end: readers need not say that they read them. All together are smaller than the current
// ones. At most 3 of 8 cells are used.
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

  // As FindUnlocked(), in the first cell only; most are there. `row` is ThisLightRow(). Null: look on.
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

  // Without a lock. `equal(entry)` says if it is the one; it is protected by `row.reads` when returned. Null: look
  // again with the mutex held.
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

  // Its key must not be there. O(1) amortized: growing is O(entries), and lookups go on meanwhile.
  void Insert(Entry& entry) {
    if ((size_ + 1) * 8 > all_.back().count() * 3) Grow();
    Place(all_.back(), entry);
    ++size_;
  }

  // `fresh` takes the cell of `old`, which has its key and must be there, and may be read as after Remove(). At no
  // moment is the key without an entry.
  void Replace(const Entry& old, Entry& fresh) {
    const EntryCells cells = all_.back();
    cells[CellOf(cells, old)].store(CellFor(fresh), std::memory_order_seq_cst);
  }

  // The entry must be there. It may be read until a HeavyFence() has been and no HazardRow says so.
  void Remove(const Entry& entry) {
    const EntryCells cells = all_.back();
    size_t hole = CellOf(cells, entry);
    // Moves back what had to go past the hole (Knuth, vol. 3, 6.4, algorithm R), so that lookups stop where they did.
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

  // Some of the entries from `position` on, which goes on to where the rest begins; kEnd: there is none. From 0 to kEnd
  // that is each entry that is there all the while once, and some of those that come meanwhile, whatever is changed
  // between the calls. Of so many homes at a time, of which 3 of 8 have an entry on average: O(homes).
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
  static constexpr int kFewest = 3;    // Cells, as a power of two.
  static constexpr size_t kAhead = 8;  // Entries that are fetched while others are moved.
  static constexpr int kTagShift = 48;
  static constexpr uintptr_t kAddress = (uintptr_t{1} << kTagShift) - 1;

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the tag has made an integer of it.
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

  alignas(64) std::atomic<EntryCells> cells_;  // The last of all_. On a line that changes write only when they grow.
  alignas(64) std::vector<EntryCells> all_;
  size_t size_ = 0;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_
