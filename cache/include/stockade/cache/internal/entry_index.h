#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/sync_point.h"

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
// ones. At most 5 of 8 cells are used.
template <typename Entry>
class EntryIndex {
 public:
  EntryIndex() { Use(std::make_unique<Cells>(kFewest)); }

  size_t size() const { return size_; }

  // Without a lock. `equal(entry)` says if it is the one; it is protected by `row.reads` when returned. Null: look
  // again with the mutex held.
  template <typename Equal>
  Entry* FindUnlocked(uint64_t hash, HazardRow& row, const Equal& equal) const {
    for (;;) {
      SyncPoint();
      const Cells* const cells = cells_.load(std::memory_order_acquire);
      for (size_t at = hash & cells->mask;; at = (at + 1) & cells->mask) {
        const uintptr_t cell = cells->at[at].load(std::memory_order_acquire);
        if (cell == 0) break;
        if ((cell ^ hash) >> kTagShift != 0) continue;
        Entry* const entry = EntryOf(cell);
        SyncPoint();
        LightStore(row.reads, static_cast<const void*>(entry));
        SyncPoint();
        if (cells->at[at].load(std::memory_order_seq_cst) != cell) break;
        if (equal(*entry)) return entry;
      }
      if (cells_.load(std::memory_order_acquire) == cells) return nullptr;
    }
  }

  template <typename Equal>
  Entry* Find(uint64_t hash, const Equal& equal) const {
    const Cells& cells = *all_.back();
    for (size_t at = hash & cells.mask;; at = (at + 1) & cells.mask) {
      const uintptr_t cell = cells.at[at].load(std::memory_order_relaxed);
      if (cell == 0) return nullptr;
      if ((cell ^ hash) >> kTagShift == 0 && equal(*EntryOf(cell))) return EntryOf(cell);
    }
  }

  // Its key must not be there. O(1) amortized: growing is O(entries), and lookups go on meanwhile.
  void Insert(Entry& entry) {
    if ((size_ + 1) * 8 > (all_.back()->mask + 1) * 5) Grow();
    Place(*all_.back(), entry);
    ++size_;
  }

  // `fresh` takes the cell of `old`, which has its key and must be there, and may be read as after Remove(). At no
  // moment is the key without an entry.
  void Replace(const Entry& old, Entry& fresh) {
    Cells& cells = *all_.back();
    cells.at[CellOf(cells, old)].store(CellFor(fresh), std::memory_order_seq_cst);
  }

  // The entry must be there. It may be read until a HeavyFence() has been and no HazardRow says so.
  void Remove(const Entry& entry) {
    Cells& cells = *all_.back();
    size_t hole = CellOf(cells, entry);
    // Moves back what had to go past the hole (Knuth, vol. 3, 6.4, algorithm R), so that lookups stop where they did.
    for (size_t at = (hole + 1) & cells.mask;; at = (at + 1) & cells.mask) {
      const uintptr_t cell = cells.at[at].load(std::memory_order_relaxed);
      if (cell == 0) break;
      const size_t home = EntryOf(cell)->hash & cells.mask;
      if (((at - home) & cells.mask) < ((at - hole) & cells.mask)) continue;
      cells.at[hole].store(cell, std::memory_order_seq_cst);
      hole = at;
    }
    cells.at[hole].store(0, std::memory_order_seq_cst);
    --size_;
  }

  template <typename Visit>
  void ForEach(const Visit& visit) const {
    const Cells& cells = *all_.back();
    for (size_t at = 0; at <= cells.mask; ++at) {
      const uintptr_t cell = cells.at[at].load(std::memory_order_relaxed);
      if (cell != 0) visit(*EntryOf(cell));
    }
  }

 private:
  static constexpr size_t kFewest = 8;
  static constexpr int kTagShift = 48;
  static constexpr uintptr_t kAddress = (uintptr_t{1} << kTagShift) - 1;

  struct Cells {
    explicit Cells(size_t count) : mask(count - 1), at(new std::atomic<uintptr_t>[count]()) {}

    const size_t mask;
    const std::unique_ptr<std::atomic<uintptr_t>[]> at;
  };

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the tag has made an integer of it.
  static Entry* EntryOf(uintptr_t cell) { return reinterpret_cast<Entry*>(cell & kAddress); }

  static uintptr_t CellFor(Entry& entry) {
    return reinterpret_cast<uintptr_t>(&entry) | (entry.hash >> kTagShift << kTagShift);
  }

  static size_t CellOf(const Cells& cells, const Entry& entry) {
    size_t at = entry.hash & cells.mask;
    while (EntryOf(cells.at[at].load(std::memory_order_relaxed)) != &entry) at = (at + 1) & cells.mask;
    return at;
  }

  static void Place(Cells& cells, Entry& entry) {
    size_t at = entry.hash & cells.mask;
    while (cells.at[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & cells.mask;
    cells.at[at].store(CellFor(entry), std::memory_order_release);
  }

  void Use(std::unique_ptr<Cells> cells) {
    all_.push_back(std::move(cells));
    cells_.store(all_.back().get(), std::memory_order_release);
  }

  void Grow() {
    const Cells& old = *all_.back();
    auto grown = std::make_unique<Cells>((old.mask + 1) * 2);
    ForEach([&](Entry& entry) { Place(*grown, entry); });
    Use(std::move(grown));
    for (size_t at = 0; at <= old.mask; ++at) old.at[at].store(0, std::memory_order_seq_cst);
  }

  alignas(64) std::atomic<const Cells*> cells_;  // The last of all_. On a line that changes write only when they grow.
  alignas(64) std::vector<std::unique_ptr<Cells>> all_;
  size_t size_ = 0;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_INDEX_H_
