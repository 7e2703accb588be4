#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/base/sync_point.h"
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
  bool IsError() const { return !has_value && !absl::IsNotFound(absence); }

  // Makes a box if the values are copied. Null if there is none.
  virtual Pinned value() const = 0;

  const bool has_value;  // If not, `absence` has the loader's status: NotFoundError or, for error_ttl, another error.
  EntryTimes times;
  const absl::Status absence;
  std::vector<EntryTag> tags;
  RemovalCause cause{};  // Set when it has left.
};
using OwnedEntry = std::unique_ptr<CacheEntry>;
using Entries = std::vector<OwnedEntry>;

// The value of an entry, which hits pin, and the time until which they need nothing else. Does not change.
template <typename Value>
class BoxedCell {
 public:
  struct Seen {
    Instant quiet_until;
    const ValueBox* box;
  };

  BoxedCell(Pinned value, Instant quiet_until)
      : quiet_until_(value != nullptr ? quiet_until : Instant::InfinitePast()), value_(std::move(value)) {}

  [[gnu::always_inline]] bool Read(Seen& seen) const {
    seen = {quiet_until_, value_.box()};
    return true;
  }
  Pinned value() const { return value_; }

 private:
  const Instant quiet_until_;
  const Pinned value_;
};

// The same for values that are copied, which a Put replaces in place: a sequence lock (Boehm, "Can seqlocks get along
// with programming language memory models?", MSPC 2012). `seq_` is odd while the words are written, and a reader whose
// two looks at it differ, or are odd, has no copy. The fences order the words after the first look and before the
// second one, and after the store of the odd number. tests/models/seqlock.pml is a model of this.
template <typename Value>
class CopiedCell {
 public:
  // A copy. Empty until Read() has returned true.
  union Copy {
    Copy() : none() {}

    char none;
    Value value;
  };
  struct Seen {
    Instant quiet_until;
    Copy copy;
  };

  CopiedCell(const Pinned& value, Instant quiet_until) {
    if (value != nullptr) Write(value.box()->template value<Value>(), quiet_until);
  }

  // Called with the mutex of the key's shard held, or before another thread can see the entry.
  void Write(const Value& value, Instant quiet_until) {
    std::array<uint64_t, kWords> words{};
    std::memcpy(words.data(), &value, sizeof value);
    const uint32_t seq = seq_.load(std::memory_order_relaxed);
    seq_.store(seq + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    quiet_until_.store(quiet_until, std::memory_order_relaxed);
    seq_.store(seq + 2, std::memory_order_release);
  }
  // Returns false if the value is being replaced.
  [[gnu::always_inline]] bool Read(Seen& seen) const {
    const uint32_t seq = seq_.load(std::memory_order_acquire);
    SyncPoint();
    const std::array<uint64_t, kWords> words = Words();
    SyncPoint();
    seen.quiet_until = quiet_until_.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (seq % 2 != 0 || seq_.load(std::memory_order_relaxed) != seq) return false;
    std::memcpy(static_cast<void*>(&seen.copy), words.data(), sizeof(Value));
    return true;
  }
  // With the mutex held.
  Pinned value() const {
    const std::array<uint64_t, kWords> words = Words();
    Copy copy;
    std::memcpy(static_cast<void*>(&copy), words.data(), sizeof(Value));
    return PinnedOf<Value>::Make(Value(copy.value));
  }

 private:
  static constexpr size_t kWords = (sizeof(Value) + 7) / 8;

  [[gnu::always_inline]] std::array<uint64_t, kWords> Words() const {
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    return words;
  }

  std::atomic<uint32_t> seq_{0};
  std::atomic<Instant> quiet_until_{Instant::InfinitePast()};
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

template <typename Value>
using ValueCell = std::conditional_t<kCopiedOut<Value>, CopiedCell<Value>, BoxedCell<Value>>;

// The part of an entry that a hit reads, in addition to `uses`, which follows. It is one cache line if the key is not
// longer than a std::string.
template <typename Key, typename Value>
struct EntryHead {
  EntryHead(const Key& k, const Pinned& value, Instant quiet_until) : stored_key(k), cell(value, quiet_until) {}

  const Key stored_key;
  ValueCell<Value> cell;
};

template <typename Key, typename Value, typename Eq>
class alignas(64) EntryOf final : public EntryHead<Key, Value>, public CacheEntry {
 public:
  // Hits may use it without a lock until `quiet_until`.
  EntryOf(const Key& k, uint64_t h, EntryParts parts, Instant quiet_until)
      : EntryHead<Key, Value>(k, parts.value, quiet_until), CacheEntry(h, std::move(parts)) {}

  const void* key() const override { return &this->stored_key; }
  bool IsFor(const void* key) const override { return Eq()(this->stored_key, *static_cast<const Key*>(key)); }
  Pinned value() const override { return has_value ? this->cell.value() : nullptr; }
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_H_
