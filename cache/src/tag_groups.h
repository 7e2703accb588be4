#ifndef STOCKADE_CACHE_SRC_TAG_GROUPS_H_
#define STOCKADE_CACHE_SRC_TAG_GROUPS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "stockade/cache/internal/slot.h"

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

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_TAG_GROUPS_H_
