#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "stockade/base/hazard_row.h"
#include "stockade/cache/internal/entry.h"
#include "stockade/cache/internal/entry_index.h"
#include "stockade/cache/internal/s3_fifo.h"
#include "stockade/cache/internal/tag_groups.h"

namespace stockade::cache_internal {

// The entries of one shard. Guarded by the shard's mutex, except for FindUnlocked().
//
// Invariant: index_ and queue_ contain exactly the entries that were inserted and not removed, at most one per key, and
// tagged_ contains their tags. The table owns them. A removed entry is passed to the caller, who must not free it at
// once because it may still be read (RetiredEntries). All entries are removed before the destructor.
template <typename Key, typename Value, typename Eq>
class EntryTable {
 public:
  using Entry = CacheEntry<Key, Value>;
  using Owned = std::unique_ptr<Entry>;
  using Entries = std::vector<Owned>;

  // `row` is ThisLightRow().
  [[gnu::always_inline]] Entry* FindAtHome(uint64_t hash, const Key& key, HazardRow& row) const {
    return index_.FindAtHome(hash, row, [&](const Entry& entry) { return Eq()(entry.key, key); });
  }

  Entry* FindUnlocked(uint64_t hash, const Key& key, HazardRow& row) const {
    return index_.FindUnlocked(hash, row, [&](const Entry& entry) { return Eq()(entry.key, key); });
  }

  Entry* Find(uint64_t hash, const Key& key) {
    return index_.Find(hash, [&](const Entry& entry) { return Eq()(entry.key, key); });
  }

  // The key must not be in the table.
  Entry* Insert(Owned fresh) {
    Entry& entry = *fresh.release();
    Tag(entry);
    index_.Insert(entry);
    queue_.Insert(entry);
    return &entry;
  }

  // `fresh` has the key of `old` and takes its place.
  Owned Replace(Entry& old, Owned fresh) {
    Entry& entry = *fresh.release();
    Tag(entry);
    index_.Replace(old, entry);
    queue_.Replace(old, entry);
    Untag(old);
    return Owned(&old);
  }

  Owned Remove(Entry& entry) {
    queue_.Remove(entry);
    index_.Remove(entry);
    Untag(entry);
    return Owned(&entry);
  }

  // All entries, some at a time: see EntryIndex.
  static constexpr uint64_t kEnd = EntryIndex<Entry>::kEnd;
  static constexpr size_t kSome = EntryIndex<Entry>::kSome;
  std::vector<Entry*> Some(uint64_t& position, size_t homes = kSome) const { return index_.Some(position, homes); }

  // Sets the entries with the tag apart, to be removed some at a time: see TagGroups.
  using Doomed = typename TagGroups<Entry>::Doomed;
  Doomed DoomTagged(std::string_view tag) { return tagged_.Doom(tag); }
  Entry* AnyDoomed(std::string_view tag) { return tagged_.AnyDoomed(tag); }
  void ForgetDoomed(Doomed doomed) { tagged_.Forget(doomed); }

  // Removes the next victim, which is never `spared`. Null if there is none. O(1) amortized.
  Owned Evict(const Entry* spared) {
    auto* const victim = static_cast<Entry*>(queue_.Evict(spared));
    if (victim == nullptr) return nullptr;
    index_.Remove(*victim);
    Untag(*victim);
    return Owned(victim);
  }

 private:
  void Tag(Entry& entry) {
    for (auto& tag : entry.tags) tagged_.Add(tag);
  }
  void Untag(Entry& entry) {
    for (auto& tag : entry.tags) tagged_.Remove(tag);
  }

  EntryIndex<Entry> index_;
  S3Fifo queue_;
  TagGroups<Entry> tagged_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_
