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
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/internal/pinned.h"
#include "stockade/cache/internal/s3_fifo.h"
#include "stockade/cache/removal.h"

namespace stockade::cache_internal {

class CacheEntry;

struct TagLink {
  TagLink* next = nullptr;
  TagLink* previous = nullptr;
};

// One tag of an entry. The entry owns it and never moves it.
struct EntryTag : TagLink {
  EntryTag(std::string n, CacheEntry* e) : name(std::move(n)), entry(e) {}

  std::string name;
  CacheEntry* entry;
};

// The parts of an entry, except for its key.
struct EntryParts {
  Pinned value;  // Null: `absence` has the loader's status, NotFoundError or, for error_ttl, another error.
  absl::Status absence;
  int64_t weight;
  EntryTimes times;
  std::vector<std::string> tags;  // Each tag once.
};

// The entry of one key, without the key. While it is in a table, hits count their use; the mutex of the key's shard
// guards everything else.
class STOCKADE_EXPORT CacheEntry : public S3FifoNode {
 public:
  CacheEntry(uint64_t h, EntryParts parts);
  virtual ~CacheEntry() = default;

  virtual const void* key() const = 0;
  // Whether it is the entry of `*key`, which has the key type of its cache.
  virtual bool IsFor(const void* key) const = 0;

  bool HasTag(std::string_view name) const {
    return std::any_of(tags.begin(), tags.end(), [&](const EntryTag& tag) { return tag.name == name; });
  }
  std::vector<std::string> TagNames() const;

  // True for a cached error that is not an absence.
  bool IsError() const { return value == nullptr && !absl::IsNotFound(absence); }

  const Pinned value;
  EntryTimes times;
  const absl::Status absence;
  std::vector<EntryTag> tags;
  RemovalCause cause{};  // Set when it has left.
};
using OwnedEntry = std::unique_ptr<CacheEntry>;
using Entries = std::vector<OwnedEntry>;

// The data for a handle: a copy of the value, or its box. Empty if the entry has no value.
template <typename Value>
union ValueCopy {
  ValueCopy() : none() {}

  char none;
  Value value;
};

// The part of an entry that a hit reads, in addition to `uses`, which follows. Does not change while the entry is in a
// table. It is one cache line if the key is not longer than a std::string.
template <typename Key, typename Value>
struct EntryHead {
  const Key stored_key;
  Instant quiet_until;  // Until then a hit needs nothing but the value.
  std::conditional_t<kCopiedOut<Value>, ValueCopy<Value>, const ValueBox*> shown{};
};

template <typename Key, typename Value, typename Eq>
class alignas(64) EntryOf final : public EntryHead<Key, Value>, public CacheEntry {
 public:
  // `quiet`: hits may use it without a lock.
  EntryOf(const Key& k, uint64_t h, EntryParts parts, bool quiet)
      : EntryHead<Key, Value>{k, Instant::InfinitePast()}, CacheEntry(h, std::move(parts)) {
    if (value == nullptr) return;
    if (quiet) this->quiet_until = times.QuietUntil();
    if constexpr (kCopiedOut<Value>) {
      std::construct_at(&this->shown.value, value.box()->template value<Value>());
    } else {
      this->shown = value.box();
    }
  }

  const void* key() const override { return &this->stored_key; }
  bool IsFor(const void* key) const override { return Eq()(this->stored_key, *static_cast<const Key*>(key)); }
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_H_
