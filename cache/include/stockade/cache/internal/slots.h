#ifndef STOCKADE_CACHE_INTERNAL_SLOTS_H_
#define STOCKADE_CACHE_INTERNAL_SLOTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
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
#include "stockade/base/thread_annotations.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/internal/pinned.h"

namespace stockade::cache_internal {

// The mutex of a shard of a cache (shard.h), for clang's thread-safety analysis. It stands for the mutexes of
// all shards: a thread never holds two, and clang refuses a second one. Whether the mutex is that of the right shard,
// clang does not see.
class STOCKADE_CAPABILITY("mutex of a shard") ShardMutex {};
inline constexpr ShardMutex kShardMutex;

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

// The place of an entry in the journal of the tier, and its version: see TierRecord.
struct TierStamp {
  uint64_t position = 0;
  uint64_t version = 0;  // 0: it is not in the tier.
};
inline constexpr uint64_t kUnstoredVersion = 1;  // The tier has not taken it. Its own versions are random.

// Parts that only few entries have.
struct STOCKADE_EXPORT EntryExtra {
  // For an entry with these; null if it needs none.
  static std::unique_ptr<EntryExtra> For(const EntryTimes& times, const std::vector<std::string>& tag_names,
                                         const absl::Status& absence = absl::OkStatus(), TierStamp stamp = {}) {
    if (tag_names.empty() && absence.ok() && !times.MustBeKept() && stamp.version == 0) return nullptr;
    std::unique_ptr<EntryExtra> extra = Make(times, tag_names, absence);
    extra->stamp = stamp;
    return extra;
  }
  static std::unique_ptr<EntryExtra> Make(const EntryTimes& times, const std::vector<std::string>& tag_names,
                                          const absl::Status& absence);

  EntryTimes times;
  absl::Status absence;  // Not OK: there is no value, but the loader's NotFoundError or, for error_ttl, another error.
  std::vector<EntryTag> tags;
  TierStamp stamp = {};
};

// The place of one entry, without its key and value. A slot is used for one entry after another and is never freed
// while its cache exists, so a hit may read a slot that no longer has the entry that it has found: see SlotOf.
//
// While the slot is in an EntryIndex, hits read `seq` and `plain_hit_until` and count their use. Everything else, and
// each write except for that count, needs the mutex of the shard. With a key and a value of 8 bytes it is one cache
// line.
struct STOCKADE_EXPORT Slot {
  static constexpr uint8_t kMostUses = 3;
  // In place of InfiniteFuture() in a cache with an idle_ttl: such hits need a look at `last_use`.
  static constexpr Instant kNeverPlain = Instant::FromNanoseconds(INT64_MAX - 1);

  // Counts a hit. A slot with the maximum is only read, so that its cache line stays shared. Some of several concurrent
  // hits may not count.
  [[gnu::always_inline]] void Touch() {
    const uint8_t counted = uses.load(std::memory_order_relaxed);
    if (counted < kMostUses) uses.store(counted + 1, std::memory_order_relaxed);
  }

  bool free() const { return weight == 0; }
  bool has_value() const STOCKADE_REQUIRES(kShardMutex) { return extra == nullptr || extra->absence.ok(); }
  Instant expires_at() const STOCKADE_REQUIRES(kShardMutex) {
    if (extra != nullptr) return extra->times.expires_at;
    const Instant until = plain_hit_until.load(std::memory_order_relaxed);
    return until == kNeverPlain ? Instant::InfiniteFuture() : until;
  }
  TierStamp stamp() const STOCKADE_REQUIRES(kShardMutex) { return extra != nullptr ? extra->stamp : TierStamp{}; }
  // True for a cached error that is not an absence.
  bool IsError() const STOCKADE_REQUIRES(kShardMutex) { return !has_value() && !absl::IsNotFound(extra->absence); }
  bool HasTag(std::string_view name) const STOCKADE_REQUIRES(kShardMutex);
  std::vector<std::string> TagNames() const STOCKADE_REQUIRES(kShardMutex);

  std::atomic<uint32_t> seq{0};  // Odd while hits must not use what they read.
  std::atomic<uint8_t> uses{0};  // 0 to kMostUses: hits that the queues have not used up.
  bool in_main = false;
  // Until then hits need neither a lock nor anything else. Without `extra` it is also the time of expiry.
  std::atomic<Instant> plain_hit_until{Instant::InfinitePast()};
  uint32_t hash = 0;   // The bits of the key's hash that are its position in the index: SlotHash().
  uint32_t newer = 0;  // In its queue; in a free slot the next free one.
  uint32_t older = 0;
  // With an idle_ttl: when a use was recorded last, in the ticks of IdleClock. Hits read it under `seq`.
  std::atomic<uint32_t> last_use{0};
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
  template <typename T>
  union CopyOf {
    CopyOf() : none() {}
    char none;
    T value;
  };
  // The result of a look.
  struct Seen {
    uint32_t seq;
    Instant plain_hit_until;
    std::conditional_t<kValueCopied, CopyOf<Value>, const Box*> value;
  };
  enum class Look {
    kThis,
    kOther,     // The slot has another key.
    kChanging,  // The slot is being written.
  };

  // The look of a thread that is in a Read of the cache. `row.reads` protects what it has seen. kLight: `row` is
  // ThisLightRow(). K: Key, or what Eq compares with it.
  template <bool kLight, typename Eq, typename K>
  [[gnu::always_inline]] Look Read(const K& key, HazardRow& row, Seen& seen) const {
    const uint32_t first = seq.load(std::memory_order_acquire);
    SyncPoint();
    std::conditional_t<kKeyCopied, CopyOf<Key>, None> copy;
    if constexpr (kKeyCopied) CopyTo(copy, 0);
    if constexpr (kValueCopied) CopyTo(seen.value, kKeyWords);
    SyncPoint();
    seen.plain_hit_until = plain_hit_until.load(std::memory_order_relaxed);
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
    seen.seq = first;
    if constexpr (!kValueCopied) seen.value = box;
    if constexpr (kKeyCopied) {
      return Eq()(copy.value, key) ? Look::kThis : Look::kOther;
    } else {
      return box != nullptr && Eq()(KeyIn(*box), key) ? Look::kThis : Look::kOther;
    }
  }

  // The others need the shard's mutex.

  std::conditional_t<kKeyCopied, Key, const Key&> key() const {
    if constexpr (kKeyCopied) {
      CopyOf<Key> copy;
      CopyTo(copy, 0);
      return copy.value;
    } else {
      return KeyIn(*box());
    }
  }
  // Makes a box if values are copied. The slot must have a value.
  Pinned value() const {
    if constexpr (kValueCopied) {
      CopyOf<Value> copy;
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
    plain_hit_until.store(quiet, std::memory_order_relaxed);
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

// The slots of one shard, by number. Memory comes in blocks of 1/8 of what there is, up to 2 MB, and is kept until
// destruction: a slot that is given back is the next one taken.
class STOCKADE_EXPORT Slab {
 public:
  // How to make slots, which are SlotOf.
  struct Type {
    size_t size;  // Bytes.
    void (*construct)(void* memory, size_t count);
  };
  template <typename AnySlot>
  static Type TypeOf() {
    return {sizeof(AnySlot), [](void* memory, size_t count) {
              std::uninitialized_default_construct_n(static_cast<AnySlot*>(memory), count);
            }};
  }

  Slab() = default;
  // All slots are free.
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Called once, before everything else.
  void Use(Type type) { type_ = type; }

  // Slots have the numbers from 1 to end() - 1; those that are free() have no entry.
  [[gnu::always_inline]] Slot& operator[](uint32_t id) const {
    return *reinterpret_cast<Slot*>(granules_[id / kGranule] + id % kGranule * type_.size);
  }
  uint32_t end() const { return end_; }

  // Takes a free slot. Throws std::bad_alloc.
  uint32_t Take() {
    if (free_ == 0) return TakeFresh();
    const uint32_t id = free_;
    free_ = (*this)[id].newer;
    return id;
  }
  void Give(uint32_t id) {
    (*this)[id].newer = free_;
    free_ = id;
  }

 private:
  static constexpr uint32_t kGranule = 64;

  uint32_t TakeFresh();
  void Grow();

  Type type_{};
  std::vector<std::byte*> granules_;
  std::vector<std::span<std::byte>> blocks_;  // Of granules.
  uint32_t end_ = 1;
  uint32_t free_ = 0;  // 0: none.
};

// An array of 2^n cells and n in one word, so that a lookup gets both with one load: the array is aligned to 64 bytes,
// and n is in the low bits of its address. Does not own the array; a value type.
class EntryCells {
 public:
  using Cell = std::atomic<uint64_t>;

  EntryCells() = default;
  // Creates an array of empty cells. 1 <= log2_count <= kPositionBits. Throws std::bad_alloc.
  STOCKADE_EXPORT explicit EntryCells(int log2_count);
  STOCKADE_EXPORT void Free() const;

  // NOLINTNEXTLINE(google-explicit-constructor)
  friend bool operator==(EntryCells a, EntryCells b) { return a.word_ == b.word_; }

  int log2_count() const { return static_cast<int>(word_ % kAlign); }
  size_t count() const { return size_t{1} << log2_count(); }
  Cell& operator[](size_t at) const { return first()[at]; }
  size_t Next(size_t at) const { return (at + 1) & (count() - 1); }
  // The number of steps forward from one cell to another.
  size_t Distance(size_t from, size_t to) const { return (to - from) & (count() - 1); }

  // The first cell for a hash: the upper n bits of SlotHash().
  size_t Home(uint64_t hash) const { return (hash << 24) >> (-word_ % 64); }

 private:
  static constexpr size_t kAlign = 64;

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is stored together with n in an integer.
  Cell* first() const { return reinterpret_cast<Cell*>(word_ & ~(kAlign - 1)); }

  uintptr_t word_ = 0;
};

// The bits of a hash that an index uses.
inline uint32_t SlotHash(uint64_t hash) { return static_cast<uint32_t>(hash >> 8); }

// Finds slots by key: a hash table with linear probing. Lookups may read it without a lock; changes need the shard's
// mutex. A cell is the address of a slot without its six low bits, which are 0, and the upper 22 bits of SlotHash().
// These are the home in up to 2^22 cells, so changes seldom read slots.
//
// Invariant: between changes, a slot is in exactly one cell of the current array, and a removed one in none. A lookup
// without a lock may be in an older array, or may miss a slot while cells are moved. It finds slots that may have
// another entry by then, so it compares keys.
//
// An older array is freed when no thread is in a read that began before the array was replaced. One that is still read
// is freed later; all of them together are smaller than the current one. At most 3 of 8 cells are used.
class STOCKADE_EXPORT EntryIndex {
 public:
  EntryIndex();
  ~EntryIndex();
  EntryIndex(const EntryIndex&) = delete;
  EntryIndex& operator=(const EntryIndex&) = delete;

  static constexpr size_t kMostEqual = 64;

  // From now on lookups without a lock find nothing. Called before the first insertion.
  void Hide() { current_ = EntryCells(kFewest); }

  size_t size() const { return size_; }

  // The slot of the first cell, in which most keys are, for a lookup without a lock. Null: search further.
  [[gnu::always_inline]] Slot* AtHome(uint64_t hash) const {
    SyncPoint();
    const EntryCells cells = cells_.load(std::memory_order_acquire);
    const uint64_t cell = cells[cells.Home(hash)].load(std::memory_order_acquire);
    return HasTag(cell, hash) ? SlotOfCell(cell) : nullptr;  // An empty cell leads to null, too.
  }

  // Fetches the first cell into the processor's cache. Needs no mutex.
  void Prefetch(uint64_t hash) const {
    const EntryCells cells = cells_.load(std::memory_order_acquire);
    __builtin_prefetch(&cells[cells.Home(hash)]);
  }

  // Calls `accepts` for one slot after another that may have the key, without a lock, until it returns true.
  template <typename Accepts>
  void FindUnlocked(uint64_t hash, const Accepts& accepts) const {
    SyncPoint();
    // After the store of `caller`, if that is a seq_cst one because there is no membarrier: see Grow().
    const EntryCells cells = cells_.load(std::memory_order_seq_cst);
    size_t at = cells.Home(hash);
    for (size_t step = 0; step < cells.count(); ++step, at = cells.Next(at)) {
      const uint64_t cell = cells[at].load(std::memory_order_acquire);
      if (cell == 0 || (HasTag(cell, hash) && accepts(*SlotOfCell(cell)))) return;
    }
  }

  // The slot that has the key. Null: there is none.
  template <typename Equal>
  Slot* Find(uint64_t hash, const Equal& equal) const STOCKADE_REQUIRES(kShardMutex) {
    for (size_t at = current_.Home(hash);; at = current_.Next(at)) {
      const uint64_t cell = current_[at].load(std::memory_order_relaxed);
      if (cell == 0) return nullptr;
      if (HasTag(cell, hash) && equal(*SlotOfCell(cell))) return SlotOfCell(cell);
    }
  }

  // Makes room for one more slot. `reader` is what lookups announce as their caller. O(1) amortized: growing is
  // O(slots), and lookups continue meanwhile. Throws std::bad_alloc.
  void Reserve(const void* reader);
  // There is room, and the slot's hash is set. Its key must not be in the table. Returns whether more than kMostEqual
  // slots have its hash now: each search among them compares the keys of all, one after another.
  bool Insert(Slot& slot);
  // The slot must be in the table.
  void Remove(const Slot& slot);

 private:
  static constexpr int kFewest = 3;  // The smallest number of cells, as a power of two.
  static constexpr int kTagBits = 22;
  static constexpr uint64_t kTagMask = (uint64_t{1} << kTagBits) - 1;

  static bool HasTag(uint64_t cell, uint64_t hash) { return ((cell ^ (hash >> 18)) & kTagMask) == 0; }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is stored together with hash bits in an integer.
  static Slot* SlotOfCell(uint64_t cell) { return reinterpret_cast<Slot*>(cell >> kTagBits << 6); }
  static uint64_t CellFor(const Slot& slot) {
    return reinterpret_cast<uintptr_t>(&slot) >> 6 << kTagBits | slot.hash >> (32 - kTagBits);
  }
  static size_t HomeOf(EntryCells cells, uint64_t cell) {
    return cells.Home(cells.log2_count() <= kTagBits ? cell << 18 : uint64_t{SlotOfCell(cell)->hash} << 8);
  }
  static size_t Place(EntryCells cells, uint64_t cell);
  bool HasMoreThanMostEqual(const Slot& slot) const;
  void Grow(const void* reader);

  // For lookups without a lock: `current_`, or empty. On a line that is written only when the array grows.
  alignas(64) std::atomic<EntryCells> cells_;
  alignas(64) EntryCells current_;
  size_t size_ = 0;
  std::vector<EntryCells> old_;
};

// Returns the distance from the home.
inline size_t EntryIndex::Place(EntryCells cells, uint64_t cell) {
  const size_t home = HomeOf(cells, cell);
  size_t at = home;
  while (cells[at].load(std::memory_order_relaxed) != 0) at = cells.Next(at);
  cells[at].store(cell, std::memory_order_release);
  return cells.Distance(home, at);
}

// Slots with one hash have one home, so if they are few, they are near it.
inline bool EntryIndex::Insert(Slot& slot) {
  const size_t distance = Place(current_, CellFor(slot));
  ++size_;
  return distance >= kMostEqual && HasMoreThanMostEqual(slot);
}

// Moves back cells that had to skip the hole (Knuth, vol. 3, 6.4, algorithm R), so that probing still ends at empty
// cells.
inline void EntryIndex::Remove(const Slot& slot) {
  const EntryCells cells = current_;
  const uint64_t removed = CellFor(slot);
  size_t hole = HomeOf(cells, removed);
  while (cells[hole].load(std::memory_order_relaxed) != removed) hole = cells.Next(hole);
  for (size_t at = cells.Next(hole);; at = cells.Next(at)) {
    const uint64_t cell = cells[at].load(std::memory_order_relaxed);
    if (cell == 0) break;
    if (cells.Distance(HomeOf(cells, cell), at) < cells.Distance(hole, at)) continue;
    cells[hole].store(cell, std::memory_order_release);
    hole = at;
  }
  cells[hole].store(0, std::memory_order_release);
  --size_;
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_SLOTS_H_
