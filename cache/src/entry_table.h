#ifndef STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
#define STOCKADE_CACHE_SRC_ENTRY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "stockade/cache/internal/eviction.h"
#include "stockade/cache/internal/slots.h"

namespace stockade::cache_internal {

// The entries of a shard by tag: one ring per tag, linked through the entries themselves, so that a tag with many
// entries is neither rehashed nor freed at once. Guarded by the shard's mutex. O(1) each.
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

  void Add(Tag& tag) {
    auto found = groups_.find(tag.name);
    if (found == groups_.end()) found = groups_.try_emplace(tag.name, tag.name).first;
    Group& group = found->second;
    tag.next = &group;
    tag.previous = group.previous;
    group.previous->next = &tag;
    group.previous = &tag;
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
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  std::unordered_map<std::string, Group, Hash, std::equal_to<>> groups_;
  std::list<Group> doomed_;
};

// The entries of one shard. Guarded by the shard's mutex.
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
  Slot* Find(uint64_t hash, const Equal& equal) const {
    return index_->Find(hash, equal);
  }
  size_t size() const { return queue_.size(); }
  int64_t weight() const { return queue_.weight(); }

  // Adds a slot, into which `write` puts the key, the value and the time. The key must not be in the table. Throws
  // std::bad_alloc. `reader`: see EntryIndex.
  template <typename Write>
  Slot& Insert(uint64_t hash, int64_t weight, std::unique_ptr<EntryExtra> extra, const void* reader,
               const Write& write) {
    index_->Reserve(reader);
    const uint32_t id = slab_.Take();
    Slot& slot = slab_[id];
    if (extra != nullptr) SetExtra(slot, std::move(extra));
    Fill(slot, id, hash, weight, write);
    return slot;
  }

  // Gives the slot of a victim to another entry, without memory. Returns what `write` returns.
  template <typename Write>
  auto Reuse(uint32_t id, uint64_t hash, int64_t weight, const Write& write) {
    Slot& slot = slab_[id];
    index_->Remove(slot);
    if (slot.extra != nullptr) SetExtra(slot, nullptr);
    return Fill(slot, id, hash, weight, write);
  }

  void Reweigh(Slot& slot, int64_t weight) { queue_.Reweigh(slot, weight); }

  // Replaces the tags with the rest of `extra`.
  void SetExtra(Slot& slot, std::unique_ptr<EntryExtra> extra) {
    if (slot.extra != nullptr) {
      for (EntryTag& tag : slot.extra->tags) tagged_.Remove(tag);
    }
    slot.extra = std::move(extra);
    if (slot.extra == nullptr) return;
    for (EntryTag& tag : slot.extra->tags) {
      tag.slot = &slot;
      tagged_.Add(tag);
    }
  }

  // Takes the slot out of its queue: the caller must pass its number to Free().
  uint32_t Unlink(const Slot& slot) {
    const uint32_t id = queue_.IdOf(slot);
    queue_.Remove(id);
    return id;
  }

  // The next victim, which is never `spared`, is out of its queue: the caller must pass it to Free() or Reuse(). 0:
  // there is none. O(1) amortized.
  uint32_t Evict(const Slot* spared) { return queue_.Evict(spared); }
  // `clear` takes out what the slot owns.
  template <typename Clear>
  void Free(uint32_t id, const Clear& clear) {
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
  void ForgetDoomed(Doomed doomed) { tagged_.Forget(doomed); }

 private:
  template <typename Write>
  auto Fill(Slot& slot, uint32_t id, uint64_t hash, int64_t weight, const Write& write) {
    slot.hash = SlotHash(hash);
    slot.weight = weight;
    const auto written = write(slot);
    queue_.Insert(id);
    index_->Insert(slot);
    return written;
  }

  Slab slab_;
  EntryIndex* index_ = nullptr;
  S3Fifo queue_{slab_};
  TagGroups tagged_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_ENTRY_TABLE_H_
