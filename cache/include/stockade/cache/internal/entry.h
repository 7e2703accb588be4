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

namespace stockade::internal {

// What handles are made of: a copy of the value, or its box. Nothing where the entry has no value.
template <typename Value>
union ValueCopy {
  ValueCopy() : none() {}

  char none;
  Value value;
};

// What a hit reads of an entry, besides the `uses` that follow: one cache line, where the key is no longer than a
// std::string.
template <typename Key, typename Value>
struct EntryHead {
  explicit EntryHead(const Key& k) : key(k) {}

  const Key key;
  Instant quiet_until = Instant::InfinitePast();  // Until then a hit is a hit, and sets nothing off.
  std::conditional_t<kCopiedOut<Value>, ValueCopy<Value>, const ValueBox<Value>*> shown{};
};

// What a cache keeps of one key. While it is in a table, hits read the head without a lock, which nobody changes, and
// mark its use; all else is guarded by the mutex of the key's shard.
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

  // A remembered error, not an absence.
  bool IsError() const { return value == nullptr && !absl::IsNotFound(absence); }

  const Pinned<Value>
      value;  // Null: `absence` is what the loader said, NotFoundError or, for error_ttl, another error.
  EntryTimes times;
  const absl::Status absence;
  std::vector<EntryTag<CacheEntry>> tags;  // None twice; never moved.
  RemovalCause cause{};                    // Once it has left.
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_H_
