#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "stockade/base/hazard_row.h"
#include "stockade/cache/internal/entry.h"
#include "stockade/cache/internal/entry_index.h"
#include "stockade/cache/internal/s3_fifo.h"

namespace stockade::internal {

// The entries of one shard. Guarded by the shard's mutex, but for FindUnlocked().
//
// Invariant: index_ and queue_ hold exactly the entries that were inserted and not removed, at most one a key, and
// tagged_ of each tag, together with one of the doomed groups of it, those that have it; tagged_ no tag that none has.
// It owns them; what is removed goes to the caller, who must not free it at once: it may be read (RetiredEntries). All
// are removed before the end.
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

  // The key must not be there.
  Entry* Insert(Owned fresh) {
    Entry& entry = *fresh.release();
    Tag(entry);
    index_.Insert(entry);
    queue_.Insert(entry);
    return &entry;
  }

  // `fresh` has the key of `old`, and takes its place.
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

  // All entries, some at a time: as of EntryIndex.
  static constexpr uint64_t kEnd = EntryIndex<Entry>::kEnd;
  static constexpr size_t kSome = EntryIndex<Entry>::kSome;
  std::vector<Entry*> Some(uint64_t& position, size_t homes = kSome) const { return index_.Some(position, homes); }

  static bool HasTag(const Entry& entry, std::string_view tag) {
    return std::binary_search(entry.tags.begin(), entry.tags.end(), tag);
  }

  // The entries that had a tag at one moment, and have not left since.
  struct TagGroup {
    const std::string tag;
    std::unordered_set<Entry*> entries;
  };
  using Doomed = typename std::list<TagGroup>::iterator;

  // Sets those that have the tag apart, to be removed some at a time; what comes later is not among them. O(1).
  Doomed DoomTagged(std::string_view tag) {
    doomed_.push_front({.tag = std::string(tag), .entries = {}});
    if (const auto found = tagged_.find(tag); found != tagged_.end()) {
      doomed_.front().entries.swap(found->second);
      tagged_.erase(found);
    }
    return doomed_.begin();
  }
  // Some entry that was set apart by its having the tag, in whatever group. Null: there is none. O(groups).
  Entry* AnyDoomed(std::string_view tag) {
    for (TagGroup& group : doomed_) {
      if (group.tag == tag && !group.entries.empty()) return *group.entries.begin();
    }
    return nullptr;
  }
  // None of the group may be left.
  void ForgetDoomed(Doomed doomed) { doomed_.erase(doomed); }

  // The entry that can best be done without, other than `spared`. Null: there is none. O(1) amortized.
  Owned Evict(const Entry* spared) {
    auto* const victim = static_cast<Entry*>(queue_.Evict(spared));
    if (victim == nullptr) return nullptr;
    index_.Remove(*victim);
    Untag(*victim);
    return Owned(victim);
  }

 private:
  struct TagHash {
    using is_transparent = void;
    size_t operator()(std::string_view tag) const { return std::hash<std::string_view>()(tag); }
  };

  void Tag(Entry& entry) {
    for (const std::string& tag : entry.tags) tagged_[tag].insert(&entry);
  }

  void Untag(Entry& entry) {
    for (const std::string& tag : entry.tags) {
      const auto of_tag = tagged_.find(tag);
      if (of_tag == tagged_.end() || of_tag->second.erase(&entry) == 0) {
        for (TagGroup& group : doomed_) {
          if (group.tag == tag) group.entries.erase(&entry);
        }
      } else if (of_tag->second.empty()) {
        tagged_.erase(of_tag);
      }
    }
  }

  EntryIndex<Entry> index_;
  S3Fifo queue_;
  std::unordered_map<std::string, std::unordered_set<Entry*>, TagHash, std::equal_to<>> tagged_;
  std::list<TagGroup> doomed_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_
