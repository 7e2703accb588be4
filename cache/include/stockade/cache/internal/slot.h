#ifndef STOCKADE_CACHE_INTERNAL_SLOT_H_
#define STOCKADE_CACHE_INTERNAL_SLOT_H_

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
#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/export.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/instant.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/internal/pinned.h"

namespace stockade::cache_internal {

struct Slot;

struct TagLink {
  TagLink* next = nullptr;
  TagLink* previous = nullptr;
};

// One tag of an entry, which owns it and never moves it while it is linked.
struct EntryTag : TagLink {
  explicit EntryTag(std::string n) : name(std::move(n)) {}

  std::string name;
  Slot* slot = nullptr;
};

// Parts that only few entries have.
struct STOCKADE_EXPORT EntryExtra {
  // For an entry with these; null if it needs none.
  static std::unique_ptr<EntryExtra> For(const EntryTimes& times, const std::vector<std::string>& tag_names,
                                         const absl::Status& absence = absl::OkStatus());

  EntryTimes times;
  absl::Status absence;  // Not OK: there is no value, but the loader's NotFoundError or, for error_ttl, another error.
  std::vector<EntryTag> tags;
};

// The place of one entry, without its key and value. A slot is used for one entry after another and is never freed
// while its cache exists, so a hit may read a slot that no longer has the entry that it has found: see SlotOf.
//
// While the slot is in an EntryIndex, hits read `seq` and `quiet_until` and count their use. Everything else, and each
// write except for that count, needs the mutex of the shard. With a key and a value of 8 bytes it is one cache line,
// and 4 bytes are left.
struct STOCKADE_EXPORT Slot {
  static constexpr uint8_t kMostUses = 3;

  // Counts a hit. A slot with the maximum is only read, so that its cache line stays shared. Some of several concurrent
  // hits may not count.
  [[gnu::always_inline]] void Touch() {
    const uint8_t counted = uses.load(std::memory_order_relaxed);
    if (counted < kMostUses) uses.store(counted + 1, std::memory_order_relaxed);
  }

  bool free() const { return weight == 0; }
  bool has_value() const { return extra == nullptr || extra->absence.ok(); }
  Instant expires_at() const {
    return extra != nullptr ? extra->times.expires_at : quiet_until.load(std::memory_order_relaxed);
  }
  // True for a cached error that is not an absence.
  bool IsError() const { return !has_value() && !absl::IsNotFound(extra->absence); }
  bool HasTag(std::string_view name) const;
  std::vector<std::string> TagNames() const;

  std::atomic<uint32_t> seq{0};  // Odd while hits must not use what they read.
  std::atomic<uint8_t> uses{0};  // 0 to kMostUses: hits that the queues have not used up.
  bool in_main = false;
  // Until then hits need neither a lock nor anything else. Without `extra` it is also the time of expiry.
  std::atomic<Instant> quiet_until{Instant::InfinitePast()};
  uint32_t hash = 0;   // The bits of the key's hash that are its position in the index: SlotHash().
  uint32_t newer = 0;  // In its queue; in a free slot the next free one.
  uint32_t older = 0;
  int64_t weight = 0;  // 0: the slot is free.
  std::unique_ptr<EntryExtra> extra;
};

// A slot for the types of a cache. A key or a value that is small and trivially copyable is kept in the slot; others
// are in a box: the key, the value, or both.
//
// A hit reads under a sequence lock (Boehm, "Can seqlocks get along with programming language memory
// models?", MSPC 2012), whether a Put replaces the value or the slot gets another entry. `seq` is odd while the words
// are written, and a reader whose two looks at it differ, or are odd, has read nothing. The fences order the words
// after the first look and before the second one, and after the store of the odd number. A box is also announced in the
// reader's HazardRow before the second look. It is freed when it is in no slot and, after a HeavyFence(), announced in
// no row, so an accepted box lives as long as the read. tests/models/seqlock.pml and hazard.pml are models of this.
//
// `seq` wraps after 2^31 changes: a hit that is interrupted for exactly that many may mistake the words of two entries.
template <typename Key, typename Value>
class alignas(64) SlotOf final : public Slot {
 public:
  static constexpr bool kKeyCopied = kCopiedOut<Key>;
  static constexpr bool kValueCopied = kCopiedOut<Value>;
  static constexpr bool kBoxed = !kKeyCopied || !kValueCopied;

  struct None {};

  // A copy. Empty until it is filled.
  union KeyCopy {
    KeyCopy() : none() {}
    char none;
    Key key;
  };
  union ValueCopy {
    ValueCopy() : none() {}
    char none;
    Value value;
  };
  // The result of a look.
  struct Seen {
    Instant quiet_until;
    std::conditional_t<kValueCopied, ValueCopy, const Box*> value;
  };
  enum class Look {
    kThis,
    kOther,     // The slot has another key.
    kChanging,  // The slot is being written.
  };

  // The look of a thread that is in a Read of the cache. `row.reads` protects what it has seen. kLight: `row` is
  // ThisLightRow().
  template <bool kLight, typename Eq>
  [[gnu::always_inline]] Look Read(const Key& key, HazardRow& row, Seen& seen) const {
    const uint32_t first = seq.load(std::memory_order_acquire);
    SyncPoint();
    std::conditional_t<kKeyCopied, KeyCopy, None> copy;
    if constexpr (kKeyCopied) CopyTo(copy, 0);
    if constexpr (kValueCopied) CopyTo(seen.value, kKeyWords);
    SyncPoint();
    seen.quiet_until = quiet_until.load(std::memory_order_relaxed);
    const Box* box = nullptr;
    if constexpr (kBoxed) {
      box = box_.load(std::memory_order_acquire);
      if constexpr (kLight) {
        InlineLightStore(row.reads, static_cast<const void*>(box));
      } else {
        LightStore(row.reads, static_cast<const void*>(box));
      }
      SyncPoint();
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (first % 2 != 0 || seq.load(kBoxed ? std::memory_order_seq_cst : std::memory_order_relaxed) != first) {
      return Look::kChanging;
    }
    if constexpr (!kValueCopied) seen.value = box;
    if constexpr (kKeyCopied) {
      return Eq()(copy.key, key) ? Look::kThis : Look::kOther;
    } else {
      return box != nullptr && Eq()(KeyIn(*box), key) ? Look::kThis : Look::kOther;
    }
  }

  // The others need the shard's mutex.

  template <typename Function>
  auto WithKey(const Function& function) const {
    if constexpr (kKeyCopied) {
      KeyCopy copy;
      CopyTo(copy, 0);
      return function(std::as_const(copy.key));
    } else {
      return function(KeyIn(*box()));
    }
  }
  // Makes a box if values are copied. The slot must have a value.
  Pinned value() const {
    if constexpr (kValueCopied) {
      ValueCopy copy;
      CopyTo(copy, kKeyWords);
      return Pinned(new ValueBox<Value>(Value(copy.value)));
    } else {
      return SharedBox();
    }
  }
  // Null: there is none.
  const Box* box() const {
    if constexpr (kBoxed) return box_.load(std::memory_order_relaxed);
    return nullptr;
  }
  Pinned SharedBox() const {
    box()->Share();
    return Pinned(box());
  }

  // Writes `value` and `box`, and `key` unless that is null: then the slot has that key already. Null for `value`:
  // there is none. Returns the box that was in the slot, whose share is the caller's now; null if there was none.
  const Box* Write(const Key* key, const Value* value, const Box* box, Instant quiet) {
    const uint32_t first = seq.load(std::memory_order_relaxed);
    seq.store(first + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    if constexpr (kKeyCopied) {
      if (key != nullptr) CopyFrom(*key, 0);
    }
    if constexpr (kValueCopied) {
      if (value != nullptr) CopyFrom(*value, kKeyWords);
    }
    const Box* old = nullptr;
    if constexpr (kBoxed) {
      old = box_.load(std::memory_order_relaxed);
      box_.store(box, std::memory_order_release);
    }
    quiet_until.store(quiet, std::memory_order_relaxed);
    seq.store(first + 2, std::memory_order_release);
    return old;
  }

 private:
  template <typename T>
  static constexpr size_t kWordsOf = kCopiedOut<T> ? (sizeof(T) + 7) / 8 : 0;
  static constexpr size_t kKeyWords = kWordsOf<Key>;
  static constexpr size_t kWords = kKeyWords + kWordsOf<Value>;

  static const Key& KeyIn(const Box& box) { return static_cast<const KeyBox<Key>&>(box).key; }

  template <typename Copy>
  [[gnu::always_inline]] void CopyTo(Copy& copy, size_t from) const {
    std::array<uint64_t, (sizeof(Copy) + 7) / 8> words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = words_[from + i].load(std::memory_order_relaxed);
    std::memcpy(static_cast<void*>(&copy), words.data(), sizeof copy);
  }
  template <typename T>
  void CopyFrom(const T& object, size_t to) {
    std::array<uint64_t, (sizeof(T) + 7) / 8> words{};
    std::memcpy(words.data(), &object, sizeof object);
    for (size_t i = 0; i < words.size(); ++i) words_[to + i].store(words[i], std::memory_order_relaxed);
  }

  [[no_unique_address]] std::conditional_t<kWords == 0, None, std::array<std::atomic<uint64_t>, kWords>> words_{};
  [[no_unique_address]] std::conditional_t<kBoxed, std::atomic<const Box*>, None> box_{};
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_SLOT_H_
