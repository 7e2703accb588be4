#ifndef STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
#define STOCKADE_CACHE_SRC_ENTRY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "stockade/cache/internal/entry.h"
#include "stockade/cache/internal/entry_index.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/internal/s3_fifo.h"
#include "tag_groups.h"

namespace stockade::cache_internal {

// The entries of one shard. Guarded by the shard's mutex.
//
// Invariant: index_ and queue_ contain exactly the entries that were inserted and not removed, at most one per key, and
// tagged_ contains their tags. The table owns them. A removed entry is passed to the caller, who must not free it at
// once because it may still be read (RetiredEntries). All entries are removed before the destructor.
class EntryTable {
 public:
  // Called once, before everything else. Lookups of hits read `index` without the mutex.
  void Use(EntryIndex<CacheEntry>& index) { index_ = &index; }

  CacheEntry* Find(const KeyAt& at) {
    return index_->Find(at.hash, [&](const CacheEntry& entry) { return entry.IsFor(at.key); });
  }

  // The key must not be in the table.
  CacheEntry* Insert(OwnedEntry fresh) {
    CacheEntry& entry = *fresh.release();
    Tag(entry);
    index_->Insert(entry);
    queue_.Insert(entry);
    return &entry;
  }

  // `fresh` has the key of `old` and takes its place.
  OwnedEntry Replace(CacheEntry& old, OwnedEntry fresh) {
    CacheEntry& entry = *fresh.release();
    Tag(entry);
    index_->Replace(old, entry);
    queue_.Replace(old, entry);
    Untag(old);
    return OwnedEntry(&old);
  }

  OwnedEntry Remove(CacheEntry& entry) {
    queue_.Remove(entry);
    index_->Remove(entry);
    Untag(entry);
    return OwnedEntry(&entry);
  }

  // All entries, some at a time: see EntryIndex.
  static constexpr uint64_t kEnd = EntryIndex<CacheEntry>::kEnd;
  static constexpr size_t kSome = EntryIndex<CacheEntry>::kSome;
  std::vector<CacheEntry*> Some(uint64_t& position, size_t homes = kSome) const {
    return index_->Some(position, homes);
  }

  // Sets the entries with the tag apart, to be removed some at a time: see TagGroups.
  using Doomed = TagGroups::Doomed;
  Doomed DoomTagged(std::string_view tag) { return tagged_.Doom(tag); }
  CacheEntry* AnyDoomed(std::string_view tag) { return tagged_.AnyDoomed(tag); }
  void ForgetDoomed(Doomed doomed) { tagged_.Forget(doomed); }

  // Removes the next victim, which is never `spared`. Null if there is none. O(1) amortized.
  OwnedEntry Evict(const CacheEntry* spared) {
    auto* const victim = static_cast<CacheEntry*>(queue_.Evict(spared));
    if (victim == nullptr) return nullptr;
    index_->Remove(*victim);
    Untag(*victim);
    return OwnedEntry(victim);
  }

 private:
  void Tag(CacheEntry& entry) {
    for (EntryTag& tag : entry.tags) tagged_.Add(tag);
  }
  void Untag(CacheEntry& entry) {
    for (EntryTag& tag : entry.tags) tagged_.Remove(tag);
  }

  EntryIndex<CacheEntry>* index_ = nullptr;
  S3Fifo queue_;
  TagGroups tagged_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
