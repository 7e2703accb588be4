#ifndef STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
#define STOCKADE_CACHE_SRC_ENTRY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "eviction.h"
#include "stockade/cache/internal/slots.h"

namespace stockade::cache_internal {

// The entries of a shard by tag: one ring per tag, linked through the entries themselves, so that a tag with many
// entries is neither rehashed nor freed at once. O(1) each.
//
// Invariant: each tag that was added and not removed is in one ring: that of its name, or that of a doomed group of its
// name. The ring of a name is never empty.
class TagGroups {
  struct Group : TagLink {
    explicit Group(std::string n) : name(std::move(n)) { next = previous = this; }
    bool empty() const { return next == this; }

    const std::string name;
    bool doomed = false;
  };

 public:
  using Tag = EntryTag;
  using Doomed = std::list<Group>::iterator;

  TagGroups() = default;
  TagGroups(const TagGroups&) = delete;
  TagGroups& operator=(const TagGroups&) = delete;

  // If it throws std::bad_alloc, nothing has changed.
  void Add(Tag& tag) { Link(tag, GroupOf(tag)); }

  // From a doomed group back to that of its name. False: there is no memory for that one.
  bool TryReturn(Tag& tag) noexcept {
    try {
      Group& group = GroupOf(tag);
      Remove(tag);
      Link(tag, group);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void Remove(Tag& tag) {
    tag.next->previous = tag.previous;
    tag.previous->next = tag.next;
    if (tag.next != tag.previous) return;
    const auto* const group = static_cast<Group*>(tag.next);  // Only the group is left.
    if (!group->doomed && group->empty()) groups_.erase(groups_.find(group->name));
  }

  // Sets the entries apart that have the tag now.
  Doomed Doom(std::string_view name) {
    Group& doomed = doomed_.emplace_front(std::string(name));
    doomed.doomed = true;
    const auto found = groups_.find(name);
    if (found == groups_.end()) return doomed_.begin();
    Group& group = found->second;
    doomed.next = group.next;
    doomed.previous = group.previous;
    doomed.next->previous = doomed.previous->next = &doomed;
    groups_.erase(found);
    return doomed_.begin();
  }
  // Some entry that was set apart because of the tag, in any group. Null if there is none. O(groups).
  Slot* AnyDoomed(std::string_view name) {
    for (Group& group : doomed_) {
      if (group.name == name && !group.empty()) return static_cast<Tag*>(group.next)->slot;
    }
    return nullptr;
  }
  // The group must be empty.
  void Forget(Doomed doomed) { doomed_.erase(doomed); }

 private:
  Group& GroupOf(const Tag& tag) {
    auto found = groups_.find(tag.name);
    if (found == groups_.end()) found = groups_.try_emplace(tag.name, tag.name).first;
    return found->second;
  }
  static void Link(Tag& tag, Group& group) {
    tag.next = &group;
    tag.previous = group.previous;
    group.previous->next = &tag;
    group.previous = &tag;
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  std::unordered_map<std::string, Group, Hash, std::equal_to<>> groups_;
  std::list<Group> doomed_;
};

// The entries of one shard.
//
// Invariant: index_ and queue_ contain exactly the slots that were inserted and not removed, at most one per key, and
// tagged_ contains their tags; the other slots are free. All entries are removed before the destructor.
class EntryTable {
 public:
  // Called once, before everything else. Lookups of hits read `index` without the mutex.
  void Use(Slab::Type type, EntryIndex& index) {
    slab_.Use(type);
    index_ = &index;
  }

  template <typename Equal>
  Slot* Find(uint64_t hash, const Equal& equal) const STOCKADE_REQUIRES(kShardMutex) {
    return index_->Find(hash, equal);
  }
  size_t size() const { return queue_.size(); }
  int64_t weight() const { return queue_.weight(); }

  // Adds a slot, into which `write` puts the key, the value and the time. The key must not be in the table. Throws
  // std::bad_alloc. `reader`: see EntryIndex.
  template <typename Write>
  Slot& Insert(uint64_t hash, int64_t weight, std::unique_ptr<EntryExtra> extra, const void* reader, const Write& write)
      STOCKADE_REQUIRES(kShardMutex) {
    index_->Reserve(reader);
    const uint32_t id = slab_.Take();
    Slot& slot = slab_[id];
    try {
      if (extra != nullptr) AddTags(slot, *extra);
    } catch (...) {
      slab_.Give(id);
      throw;
    }
    SetExtra(slot, std::move(extra));
    write(slot);
    Fill(slot, id, hash, weight);
    return slot;
  }

  // Gives the slot of the next victim to another entry, whose key, value and time the caller writes into it. There is a
  // victim, and it owns no box. Needs no memory.
  Slot& ReplaceVictim(uint64_t hash, int64_t weight);

  // Whether more than EntryIndex::kMostEqual entries had the hash of one that was added since the last call.
  bool TakeCrowded() { return std::exchange(crowded_, false); }

  void Reweigh(Slot& slot, int64_t weight) { queue_.Reweigh(slot, weight); }

  // Enters the tags of `extra`, which is then to be the slot's: see SetExtra(). All of them, or throws std::bad_alloc.
  void AddTags(Slot& slot, EntryExtra& extra) {
    size_t added = 0;
    try {
      for (EntryTag& tag : extra.tags) {
        tag.slot = &slot;
        tagged_.Add(tag);
        ++added;
      }
    } catch (...) {
      for (EntryTag& tag : extra.tags) {
        if (added-- == 0) break;
        tagged_.Remove(tag);
      }
      throw;
    }
  }

  // Replaces the tags with the rest of `extra`, whose tags were added.
  void SetExtra(Slot& slot, std::unique_ptr<EntryExtra> extra) {
    if (slot.extra != nullptr) {
      for (EntryTag& tag : slot.extra->tags) tagged_.Remove(tag);
    }
    slot.extra = std::move(extra);
  }

  // Takes the slot out of its queue: the caller must pass its number to Free().
  uint32_t Unlink(const Slot& slot) {
    const uint32_t id = queue_.IdOf(slot);
    queue_.Remove(id);
    return id;
  }

  // The next victim, which is never `spared`, is out of its queue: the caller must pass it to Free(). 0: there is none.
  // O(1) amortized.
  uint32_t Evict(const Slot* spared) { return queue_.Evict(spared); }
  // `clear` takes out what the slot owns.
  template <typename Clear>
  void Free(uint32_t id, const Clear& clear) STOCKADE_REQUIRES(kShardMutex) {
    Slot& slot = slab_[id];
    index_->Remove(slot);
    if (slot.extra != nullptr) SetExtra(slot, nullptr);
    clear();
    slot.weight = 0;
    slab_.Give(id);
  }

  Slot& operator[](uint32_t id) const { return slab_[id]; }
  // Slots have the numbers from 1 to end() - 1; some may be free.
  uint32_t end() const { return slab_.end(); }

  // Sets the entries with the tag apart, to be removed some at a time: see TagGroups.
  using Doomed = TagGroups::Doomed;
  Doomed DoomTagged(std::string_view tag) { return tagged_.Doom(tag); }
  Slot* AnyDoomed(std::string_view tag) { return tagged_.AnyDoomed(tag); }
  // The entry has the tag, is set apart because of it, and is to stay. False: there is no memory for that, and nothing
  // has changed.
  bool TrySpare(Slot& slot, std::string_view tag) noexcept {
    for (EntryTag& own : slot.extra->tags) {
      if (own.name == tag && !tagged_.TryReturn(own)) return false;
    }
    return true;
  }
  void ForgetDoomed(Doomed doomed) { tagged_.Forget(doomed); }

 private:
  void Fill(Slot& slot, uint32_t id, uint64_t hash, int64_t weight) {
    slot.hash = SlotHash(hash);
    slot.weight = weight;
    queue_.Insert(id);
    if (index_->Insert(slot)) crowded_ = true;
  }

  Slab slab_;
  EntryIndex* index_ = nullptr;
  S3Fifo queue_{slab_};
  TagGroups tagged_;
  bool crowded_ = false;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
