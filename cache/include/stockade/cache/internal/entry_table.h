#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/removal.h"

namespace stockade::internal {

template <typename Key, typename Value>
struct CacheEntry {
  Key key;
  std::shared_ptr<const Value> value;  // Null: the key is known to have none, and `absence` is what the loader said.
  absl::Status absence;
  int64_t weight;
  EntryTimes times;
  std::vector<std::string> tags;  // None twice.
  RemovalCause cause{};           // Once it has left.
};

// The entries of one shard in the order of their last use. Guarded by the shard's mutex.
//
// Invariant: index_ holds exactly the nodes of entries_, at most one a key, and tagged_ of each tag those that have it,
// and no tag that none has. Nodes are never destroyed here, only moved
// to the caller's list, who drops it after the mutex: values have destructors of their own.
template <typename Key, typename Value, typename Hash, typename Eq>
class EntryTable {
 public:
  using Entry = CacheEntry<Key, Value>;
  using Entries = std::list<Entry>;

  Entry* Find(const Key& key) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &**found;
  }

  // Takes the only node of `fresh`. The key must not be there.
  void Insert(Entries& fresh) {
    entries_.splice(entries_.begin(), fresh, fresh.begin());
    index_.insert(entries_.begin());
    for (const std::string& tag : entries_.front().tags) tagged_[tag].insert(&entries_.front());
  }

  // Makes an entry the one used last.
  void Touch(const Entry& entry) { entries_.splice(entries_.begin(), entries_, *index_.find(entry.key)); }

  void Remove(const Entry& entry, Entries& removed) {
    const auto found = index_.find(entry.key);
    const Node node = *found;
    index_.erase(found);
    for (const std::string& tag : node->tags) {
      const auto of_tag = tagged_.find(tag);
      of_tag->second.erase(&*node);
      if (of_tag->second.empty()) tagged_.erase(of_tag);
    }
    removed.splice(removed.end(), entries_, node);
  }

  void RemoveAll(Entries& removed) {
    index_.clear();
    tagged_.clear();
    removed.splice(removed.end(), entries_);
  }

  // Some entry that has the tag; null: there is none.
  Entry* Tagged(std::string_view tag) {
    const auto found = tagged_.find(tag);
    return found == tagged_.end() ? nullptr : *found->second.begin();
  }

  // The entry whose last use is longest ago, other than `spared`. Null: there is none.
  Entry* Oldest(const Entry* spared) {
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      if (&*entry != spared) return &*entry;
    }
    return nullptr;
  }

 private:
  using Node = typename Entries::iterator;

  struct KeyHash {
    using is_transparent = void;
    size_t operator()(const Key& key) const { return Hash()(key); }
    size_t operator()(Node node) const { return Hash()(node->key); }
  };
  struct KeyEq {
    using is_transparent = void;
    bool operator()(Node a, Node b) const { return Eq()(a->key, b->key); }
    bool operator()(const Key& a, Node b) const { return Eq()(a, b->key); }
    bool operator()(Node a, const Key& b) const { return Eq()(a->key, b); }
  };

  struct TagHash {
    using is_transparent = void;
    size_t operator()(std::string_view tag) const { return std::hash<std::string_view>()(tag); }
  };

  Entries entries_;  // Used last first.
  std::unordered_set<Node, KeyHash, KeyEq> index_;
  std::unordered_map<std::string, std::unordered_set<Entry*>, TagHash, std::equal_to<>> tagged_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_TABLE_H_
