#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/instant.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/internal/pinned.h"
#include "stockade/cache/internal/s3_fifo.h"
#include "stockade/cache/internal/tag_groups.h"
#include "stockade/cache/removal.h"

namespace stockade::cache_internal {

// The data for a handle: a copy of the value, or its box. Empty if the entry has no value.
template <typename Value>
union ValueCopy {
  ValueCopy() : none() {}

  char none;
  Value value;
};

// The part of an entry that a hit reads, in addition to `uses`, which follows. It is one cache line if the key is not
// longer than a std::string.
template <typename Key, typename Value>
struct EntryHead {
  explicit EntryHead(const Key& k) : key(k) {}

  const Key key;
  Instant quiet_until = Instant::InfinitePast();  // Until then a hit needs nothing but the value.
  std::conditional_t<kCopiedOut<Value>, ValueCopy<Value>, const ValueBox<Value>*> shown{};
};

// The entry of one key. While it is in a table, its head does not change; hits read the head without a lock and count
// their use. The mutex of the key's shard guards everything else.
template <typename Key, typename Value>
struct alignas(64) CacheEntry : EntryHead<Key, Value>, S3FifoNode {
  CacheEntry(const Key& k, uint64_t h, Pinned<Value> v, absl::Status a, int64_t w, const EntryTimes& t,
             std::vector<std::string> g)
      : EntryHead<Key, Value>(k), value(std::move(v)), times(t), absence(std::move(a)) {
    hash = h;
    weight = w;
    tags.reserve(g.size());
    for (std::string& name : g) tags.emplace_back(std::move(name), this);
    if (value == nullptr) return;
    this->quiet_until = times.QuietUntil();
    if constexpr (kCopiedOut<Value>) {
      std::construct_at(&this->shown.value, *value);
    } else {
      this->shown = value.box();
    }
  }

  bool HasTag(std::string_view name) const {
    return std::any_of(tags.begin(), tags.end(), [&](const auto& tag) { return tag.name == name; });
  }
  std::vector<std::string> TagNames() const {
    std::vector<std::string> names;
    names.reserve(tags.size());
    for (const auto& tag : tags) names.push_back(tag.name);
    return names;
  }

  // True for a cached error that is not an absence.
  bool IsError() const { return value == nullptr && !absl::IsNotFound(absence); }

  const Pinned<Value>
      value;  // Null: `absence` has the loader's status, NotFoundError or, for error_ttl, another error.
  EntryTimes times;
  const absl::Status absence;
  std::vector<EntryTag<CacheEntry>> tags;  // Each tag once; never moved.
  RemovalCause cause{};                    // Set when it has left.
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_H_
