#ifndef STOCKADE_CACHE_INTERNAL_TYPED_CACHE_H_
#define STOCKADE_CACHE_INTERNAL_TYPED_CACHE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/strings.h"
#include "stockade/cache/cache_callbacks.h"
#include "stockade/cache/cache_entry.h"
#include "stockade/cache/cache_handle.h"
#include "stockade/cache/internal/cache_core.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/internal/pinned.h"
#include "stockade/cache/internal/slots.h"

namespace stockade::cache_internal {

// A key for messages: quoted if it is text, otherwise as printed by operator<<, or "?".
template <typename Key>
std::string KeyText(const Key& key) {
  constexpr size_t kLongest = 100;  // Bytes.
  std::string text = "?";
  try {
    if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
      text = Concat("'", absl::CHexEscape(AbslView(std::string_view(key).substr(0, kLongest))), "'");
    } else if constexpr (requires(std::ostream& out) { out << key; }) {
      std::ostringstream out;
      out << key;
      text = std::move(out).str().substr(0, kLongest);
    }
  } catch (...) {  // A key that cannot be printed.
  }
  return text;
}

template <typename Key, typename Eq>
class KeyHolderOf final : public KeyHolder {
 public:
  explicit KeyHolderOf(const Key& key) : KeyHolder(std::addressof(key_)), key_(key) {}

  bool Is(const void* key) const override { return Eq()(key_, *static_cast<const Key*>(key)); }
  std::string Text() const override { return KeyText(key_); }

 private:
  const Key key_;
};

// For emplace_back(): constructs the result of a function in its place, where the compiler elides the move (CWG 2327).
template <typename Make>
struct MadeInPlace {
  explicit MadeInPlace(Make m) : make(m) {}
  operator std::invoke_result_t<Make>() const { return make(); }  // NOLINT(google-explicit-constructor)
  Make make;
};

// The part of a cache that depends on its types: it answers hits, and runs the user's functions for the core.
template <typename Key, typename Value, typename Hash, typename Eq>
class TypedCache final : public CacheCore {
 public:
  using Callbacks = CacheCallbacks<Key, Value, Hash, Eq>;
  using Handle = CacheHandle<Value>;
  using Done = absl::AnyInvocable<void(absl::StatusOr<Handle>)>;

  TypedCache(LoadingCacheOptions&& options, Callbacks&& callbacks)
      : CacheCore(std::move(options),
                  {.load = static_cast<bool>(callbacks.load),
                   .load_all = static_cast<bool>(callbacks.load_all),
                   .weigh = static_cast<bool>(callbacks.weigh),
                   .on_removal = static_cast<bool>(callbacks.on_removal),
                   .on_load_error = static_cast<bool>(callbacks.on_load_error),
                   .boxes = SlotT::kBoxed,
                   .key_boxes = !SlotT::kKeyCopied && SlotT::kValueCopied},
                  Slab::TypeOf<SlotT>()),
        callbacks_(std::move(callbacks)) {}

  // Where K is not Key, it is a view of one: see LoadingCache.
  template <typename K>
  [[gnu::always_inline]] absl::StatusOr<Handle> Get(const K& key) {
    try {
      return FindOr<absl::StatusOr<Handle>>(key,
                                            [&](const Look& look) { return Find(key, default_call_, nullptr, look); });
    } catch (...) {
      return ThrownError();
    }
  }
  template <typename K>
  [[gnu::always_inline]] absl::StatusOr<Handle> Get(const K& key, const CacheGetOptions& options,
                                                    const MakeLoader* make_loader) {
    try {
      return FindOr<absl::StatusOr<Handle>>(key,
                                            [&](const Look& look) { return Find(key, options, make_loader, look); });
    } catch (...) {
      return ThrownError();
    }
  }
  template <typename K>
  [[gnu::always_inline]] std::optional<Handle> GetIfPresent(const K& key) {
    try {
      return FindOr<std::optional<Handle>>(key, [&](const Look& look) { return FindPresent(key, look); });
    } catch (...) {
      LogThrown("GetIfPresent() finds nothing");
      return std::nullopt;
    }
  }

  template <typename K>
  absl::StatusOr<Value> GetCopy(const K& key, const CacheGetOptions& options) {
    const absl::StatusOr<Handle> got = Get(key, options, nullptr);
    if (!got.ok()) return got.status();
    return Guarded<absl::StatusOr<Value>>("copying a value", [&]() -> absl::StatusOr<Value> { return **got; });
  }

  template <typename K>
  absl::StatusOr<CacheEntry<Value>> GetEntry(const K& key, const CacheGetOptions& options) {
    CheckFork();
    try {
      const Key& own = OwnKey(key);
      const KeyAt at = Hashed(own);
      CallGate::Call inside(*gate_, at.shard);
      if (!inside.inside()) return CancelledError();
      Found found = FindEntryOf(at, options);
      if (!found.answer.ok()) return found.answer.status();
      return EntryOf(std::move(found));
    } catch (...) {
      return ThrownError();
    }
  }

  template <typename K>
  std::optional<CacheEntry<Value>> Peek(const K& key) {
    CheckFork();
    try {
      const Key& own = OwnKey(key);
      const KeyAt at = Hashed(own);
      CallGate::Call inside(*gate_, at.shard);
      if (!inside.inside()) return std::nullopt;
      std::optional<Found> found = CacheCore::Peek(at);
      if (!found.has_value()) return std::nullopt;
      return EntryOf(*std::move(found));
    } catch (...) {
      LogThrown("Peek() finds nothing");
      return std::nullopt;
    }
  }

  absl::Status ForEach(absl::FunctionRef<bool(const Key&, const CacheEntry<Value>&)> visitor) {
    CheckFork();
    CallGate::Call inside(*gate_, 0);
    if (!inside.inside()) return CancelledError();
    absl::Status thrown;
    absl::Status walked = Guarded<absl::Status>("a walk over the entries", [&] {
      return CacheCore::ForEach([&](const Box& key, Found found) {
        bool goes_on = false;
        thrown = base_internal::GuardCallback<absl::Status>("a visitor of ForEach()", [&] {
          goes_on = visitor(static_cast<const KeyBox<Key>&>(key).key, EntryOf(std::move(found)));
          return absl::OkStatus();
        });
        return goes_on;
      });
    });
    return thrown.ok() ? walked : thrown;
  }

  // For a MakeLoader. InvalidArgument: the loader is empty.
  template <typename CallLoader>
  absl::StatusOr<LoaderPtr> CopyLoader(const CallLoader& loader) const {
    return Guarded<absl::StatusOr<LoaderPtr>>("copying a loader", [&]() -> absl::StatusOr<LoaderPtr> {
      auto copy = std::make_shared<const typename Callbacks::Loader>(loader);
      if (!*copy) return EmptyLoaderError(options_.name);
      return copy;
    });
  }

  std::vector<absl::StatusOr<Handle>> GetAll(std::span<const Key> keys, const CacheGetOptions& options) {
    CheckFork();
    std::vector<absl::StatusOr<Handle>> answers;
    try {
      answers.reserve(keys.size());
    } catch (const std::bad_alloc&) {
      return answers;
    }
    try {
      CallGate::Call inside(*gate_, 0);
      if (inside.inside()) {
        FindMany(keys, options, answers);
      } else {
        answers.assign(keys.size(), CancelledError());
      }
    } catch (...) {
      const absl::StatusOr<Handle> thrown = ThrownError();
      answers.resize(keys.size(), thrown);
      for (absl::StatusOr<Handle>& answer : answers) {
        if (!answer.ok()) answer = thrown;
      }
    }
    return answers;
  }

  absl::StatusOr<WarmUpReport> WarmUp(const std::vector<Key>& keys, const WarmUpOptions& options) {
    CheckFork();
    CallGate::Call inside(*gate_, 0);
    if (!inside.inside()) return CancelledError();
    try {
      return CacheCore::WarmUp(DistinctOf(keys), options);
    } catch (...) {
      return ThrownError();
    }
  }

  template <typename Callback>
  std::optional<absl::StatusOr<Handle>> GetOrAsync(const Key& key, Executor& executor, Callback&& done,
                                                   const CacheGetOptions& options) {
    if constexpr (requires { done == nullptr; }) {
      if (done == nullptr) NoCallbackFatal();
    }
    try {
      return FindOr<std::optional<absl::StatusOr<Handle>>>(key, [&](const Look& look) {
        return FindOrSchedule(key, executor, std::forward<Callback>(done), options, look);
      });
    } catch (...) {
      return ThrownError();
    }
  }

  void GetAsync(const Key& key, Executor& executor, Done done, const CacheGetOptions& options) {
    CheckFork();
    if (!done) NoCallbackFatal();
    AnswerCallback deliver;
    try {
      auto boxed = std::make_unique<Done>();
      *boxed = std::move(done);
      // Small enough to be in the AnyInvocable itself.
      deliver = [boxed = std::move(boxed)](Answer answer) { (*boxed)(HandleOf(std::move(answer))); };
    } catch (const std::bad_alloc&) {
      return RunCallback([&] { done(ThrownError()); });
    }
    try {
      CacheCore::GetAsync(Keep(Hashed(key)), executor, std::move(deliver), options);
    } catch (...) {
      Deliver(executor, std::move(deliver), ThrownError());
    }
  }

  void Refresh(const Key& key) {
    CheckFork();
    try {
      const KeyAt at = Hashed(key);
      CallGate::Call inside(*gate_, at.shard);
      if (inside.inside()) StartRefresh(at, RefreshTrigger::kManual, nullptr);
    } catch (...) {
      LogThrown("a refresh does not start");
    }
  }

  void Put(const Key& key, Value&& value, const EntryOptions& entry) {
    CheckFork();
    try {
      const KeyAt at = Hashed(key);
      if constexpr (SlotT::kValueCopied) {
        // Within a read instead of the gate: the destructor waits for both, and a read costs less.
        const HazardRow::Read read = Open(nullptr);
        if (read.row() != nullptr && !entry.ttl.has_value() && entry.tags.empty() && TryPut(at, std::addressof(value)))
          return;
      }
      CallGate::Call inside(*gate_, at.shard);
      if (!inside.inside()) return;
      if constexpr (SlotT::kValueCopied) {
        Store(at, std::addressof(value), nullptr, entry);
      } else {
        const Pinned box = MakeBox<Key, Value>(key, std::move(value));
        Store(at, box.raw(), box, entry);
      }
    } catch (...) {
      LogThrown("Put() stores nothing and invalidates the key");
      Invalidate(key);  // The old value is outdated.
    }
  }

  void Invalidate(const Key& key) {
    CheckFork();
    try {
      const KeyAt at = Hashed(key);
      CallGate::Call inside(*gate_, at.shard);
      if (inside.inside()) CacheCore::Invalidate(at);
    } catch (...) {
      InvalidateUnknown();
    }
  }

  void InvalidateKeys(std::span<const Key> keys) {
    CheckFork();
    try {
      CallGate::Call inside(*gate_, 0);
      if (!inside.inside()) return;
      CacheCore::InvalidateKeys(DistinctOf(keys));
    } catch (...) {
      InvalidateUnknown();
    }
  }

  void PutAll(std::vector<std::pair<Key, Value>>&& entries, const EntryOptions& entry) {
    CheckFork();
    try {
      CallGate::Call inside(*gate_, 0);
      if (!inside.inside()) return;
      const std::vector<Repeat> repeats =
          RepeatsIn(entries.size(), [&](size_t index) -> const Key& { return entries[index].first; });
      std::vector<Value*> values;
      values.reserve(entries.size());
      for (auto& [key, value] : entries) values.push_back(std::addressof(value));
      for (const Repeat& repeat : repeats) values[repeat.first] = values[repeat.index];
      if (options_.tier == nullptr) {
        ForEachFirst(entries.size(), repeats,
                     [&](size_t index) { Put(entries[index].first, std::move(*values[index]), entry); });
        return;
      }
      std::vector<KeyAt> keys;
      std::vector<Pinned> boxes;
      keys.reserve(entries.size());
      boxes.reserve(entries.size());
      ForEachFirst(entries.size(), repeats, [&](size_t index) {
        keys.push_back(Hashed(entries[index].first));
        if constexpr (SlotT::kValueCopied) {
          boxes.push_back(Boxed(values[index]));
        } else {
          boxes.push_back(MakeBox<Key, Value>(entries[index].first, std::move(*values[index])));
        }
      });
      CacheCore::PutAll(keys, boxes, entry);
    } catch (...) {
      InvalidateUnknown();  // The old values are outdated.
    }
  }

  // `Write` is one of the two functions that CacheCore::UpdateThrough() takes.
  template <typename Result, typename Write>
  Result UpdateThrough(const Key& key, Write write, absl::Duration timeout) {
    CheckFork();
    try {
      const KeyAt at = Hashed(key);
      CallGate::Call inside(*gate_, at.shard);
      if (!inside.inside()) return CancelledError();
      return CacheCore::UpdateThrough(at, write, timeout);
    } catch (...) {
      return ThrownError();
    }
  }

 private:
  using SlotT = SlotOf<Key, Value>;
  using Seen = typename SlotT::Seen;
  using SlotLook = typename SlotT::Look;
  using Batch = typename Callbacks::Batch;

  // The state of a lookup without a lock.
  struct Look {
    HazardRow* open = nullptr;  // The thread's row, in a HazardRow::Read of this cache. Null: there is no read.
    Slot* slot = nullptr;       // The one that had the key within that read. Null: none.
  };

  // std::hash of a number is the number itself. The two halves of a product spread it over all bits (Wang Yi's wyhash).
  // The index uses the lowest and the 16 highest bits, the shards use others.
  template <typename K>
  static uint64_t HashOf(const K& key) {
    __extension__ using Product = unsigned __int128;
    const Product product = Product{uint64_t{Hash()(key)}} * 0x9E3779B97F4A7C15;
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }
  KeyAt Hashed(const Key& key) const {
    const uint64_t hash = HashOf(key);
    return {std::addressof(key), hash, ShardOfHash(hash)};
  }
  // The key that a view stands for; a key itself is not copied.
  template <typename K>
  static decltype(auto) OwnKey(const K& key) {
    if constexpr (std::is_same_v<K, Key>) {
      return (key);
    } else {
      return Key(key);
    }
  }
  static const Key& KeyOf(const void* key) { return *static_cast<const Key*>(key); }
  static SlotT& Typed(Slot& slot) { return static_cast<SlotT&>(slot); }
  static const SlotT& Typed(const Slot& slot) { return static_cast<const SlotT&>(slot); }

  static CacheEntry<Value> EntryOf(Found found) {
    return {found.answer.ok() ? Handle(*std::move(found.answer)) : Handle(), found.source, found.expires_in};
  }
  static absl::StatusOr<Handle> HandleOf(Answer answer) {
    if (!answer.ok()) return answer.status();
    return Handle(*std::move(answer));
  }

  // The hit path: no lock, no read-modify-write, and no store to shared data except for the first few uses of an entry.
  // A hit does not enter the gate; the destructor waits for it by AwaitReads().
  //
  // FindOr() handles the simplest hits in as few instructions as possible, because that number limits what a core can
  // do while it waits for memory. `otherwise` handles the other cases; it gets the open read and the entry that was
  // found.
  template <typename Result, typename K, typename Otherwise>
  [[gnu::always_inline]] Result FindOr(const K& key, const Otherwise& otherwise) {
    HazardRow* const row = ThisLightRow();
    if (row == nullptr || row->caller.load(std::memory_order_relaxed) != nullptr) return otherwise(Look());
    HazardRow::Read read = HazardRow::Read::Light(*row, reader());
    const uint64_t hash = HashOf(key);
    Slot* const slot = IndexOf(hash).AtHome(hash);
    Seen seen;
    if (slot == nullptr || Typed(*slot).template Read<true, Eq>(key, *row, seen) != SlotLook::kThis) {
      return otherwise({.open = read.Release()});
    }
    if (seen.plain_hit_until == Instant::InfiniteFuture() && TryCountHit()) [[likely]] {
      slot->Touch();
      return Handle(*row, seen.value);
    }
    return otherwise({.open = read.Release(), .slot = slot});
  }

  // Hits that are not in their home cell, among others. Returns nothing if the call must look up the key under the
  // mutex. This is also the case for an Eq or a clock that uses a cache from within a hit. `read` is open whenever the
  // thread may read.
  template <typename K>
  std::optional<Handle> FindUnlocked(const K& key, const HazardRow::Read& read) {
    constexpr int kLooks = 16;  // At a slot that is being written.
    std::optional<Handle> hit;
    if (read.row() == nullptr) return hit;
    const uint64_t hash = HashOf(key);
    IndexOf(hash).FindUnlocked(hash, [&](Slot& slot) {
      Seen seen;
      SlotLook look = SlotLook::kChanging;
      for (int i = 0; i < kLooks && look == SlotLook::kChanging; ++i) {
        look = Typed(slot).template Read<false, Eq>(key, *read.row(), seen);
      }
      if (look == SlotLook::kOther) return false;
      if (look == SlotLook::kThis && MayHit(slot, seen.seq, seen.plain_hit_until)) {
        Count(kRequestHit);
        slot.Touch();
        hit = Handle(*read.row(), seen.value);
      }
      return true;
    });
    return hit;
  }

  HazardRow::Read Open(HazardRow* open) const {
    if (open != nullptr) return HazardRow::Read(open);
    HazardRow* const row = ThisHazardRow();
    if (row == nullptr || row->caller.load(std::memory_order_relaxed) != nullptr) return {};
    return {*row, reader()};
  }

  // Enters the gate before the read ends, so that the destructor waits for the whole call.
  template <typename Callback>
  [[gnu::noinline]] std::optional<absl::StatusOr<Handle>> FindOrSchedule(const Key& key, Executor& executor,
                                                                         Callback&& done,
                                                                         const CacheGetOptions& options,
                                                                         const Look& look) {
    HazardRow::Read first(look.open);
    Seen seen;
    if (TryHit(key, look, seen)) return Handle(*look.open, seen.value);
    CheckFork();
    HazardRow::Read read = Open(first.Release());
    if (std::optional<Handle> hit = FindUnlocked(key, read)) return *std::move(hit);
    const KeyAt at = Hashed(key);
    CallGate::Call inside(*gate_, at.shard);
    if (!inside.inside()) return CancelledError();
    read.End();
    if (std::optional<Answer> answer = FindAtOnce(at, options)) return HandleOf(*std::move(answer));
    GetAsync(key, executor, Done(std::forward<Callback>(done)), options);
    return std::nullopt;
  }

  // These handle the hits on entries that expire, and leave all else to a search.
  template <typename K>
  [[gnu::noinline]] absl::StatusOr<Handle> Find(const K& key, const CacheGetOptions& options,
                                                const MakeLoader* make_loader, const Look& look) {
    HazardRow::Read read(look.open);
    Seen seen;
    if (TryHit(key, look, seen)) return Handle(*look.open, seen.value);
    return Search(key, options, make_loader, read.Release());
  }
  template <typename K>
  [[gnu::noinline]] std::optional<Handle> FindPresent(const K& key, const Look& look) {
    HazardRow::Read read(look.open);
    Seen seen;
    if (TryHit(key, look, seen)) return Handle(*look.open, seen.value);
    return SearchPresent(key, read.Release());
  }
  // Reads the slot again, because to pass on what was read there would cost the simplest hits instructions.
  template <typename K>
  [[gnu::always_inline]] bool TryHit(const K& key, const Look& look, Seen& seen) {
    if (look.slot == nullptr || Typed(*look.slot).template Read<true, Eq>(key, *look.open, seen) != SlotLook::kThis ||
        !MayHit(*look.slot, seen.seq, seen.plain_hit_until) || !TryCountHit()) {
      return false;
    }
    look.slot->Touch();
    return true;
  }

  template <typename K>
  [[gnu::noinline]] absl::StatusOr<Handle> Search(const K& key, const CacheGetOptions& options,
                                                  const MakeLoader* make_loader, HazardRow* open) {
    CheckFork();
    HazardRow::Read read = Open(open);
    if (std::optional<Handle> hit = FindUnlocked(key, read)) return *std::move(hit);
    const Key& own = OwnKey(key);
    const KeyAt at = Hashed(own);
    CallGate::Call inside(*gate_, at.shard);
    if (!inside.inside()) return CancelledError();
    read.End();
    return HandleOf(CacheCore::Find(at, options, make_loader));
  }

  template <typename K>
  [[gnu::noinline]] std::optional<Handle> SearchPresent(const K& key, HazardRow* open) {
    CheckFork();
    HazardRow::Read read = Open(open);
    if (std::optional<Handle> hit = FindUnlocked(key, read)) return *std::move(hit);
    const Key& own = OwnKey(key);
    const KeyAt at = Hashed(own);
    CallGate::Call inside(*gate_, at.shard);
    if (!inside.inside()) return std::nullopt;
    read.End();
    std::optional<Pinned> value = FindIfPresent(at);
    if (!value.has_value()) return std::nullopt;
    return Handle(*std::move(value));
  }

  // A key of a list that equals the one at `first`.
  struct Repeat {
    size_t index;
    size_t first;
  };
  // In the order of the list. O(n), unless many keys have the same hash.
  template <typename KeyAtIndex>
  static std::vector<Repeat> RepeatsIn(size_t keys, const KeyAtIndex& key_at) {
    std::vector<Repeat> repeats;
    if (keys < 2) return repeats;
    // By linear probing: a cell is 0 or 1 + the index of a key. Cheaper than a std::unordered_map, which allocates.
    std::vector<size_t> cells(std::bit_ceil(2 * keys));
    const size_t mask = cells.size() - 1;
    for (size_t index = 0; index < keys; ++index) {
      size_t cell = HashOf(key_at(index)) & mask;
      while (cells[cell] != 0 && !Eq()(key_at(cells[cell] - 1), key_at(index))) cell = (cell + 1) & mask;
      if (cells[cell] == 0) {
        cells[cell] = index + 1;
      } else {
        repeats.push_back({index, cells[cell] - 1});
      }
    }
    return repeats;
  }
  template <typename Use>
  static void ForEachFirst(size_t keys, std::span<const Repeat> repeats, const Use& use) {
    for (size_t index = 0; index < keys; ++index) {
      if (!repeats.empty() && repeats.front().index == index) {
        repeats = repeats.subspan(1);
      } else {
        use(index);
      }
    }
  }

  std::vector<KeyAt> DistinctOf(std::span<const Key> keys) const {
    const std::vector<Repeat> repeats = RepeatsIn(keys.size(), [&](size_t index) -> const Key& { return keys[index]; });
    std::vector<KeyAt> distinct;
    distinct.reserve(keys.size());
    ForEachFirst(keys.size(), repeats, [&](size_t index) { distinct.push_back(Hashed(keys[index])); });
    return distinct;
  }

  // A hit without the mutex. Not OK: there is none.
  [[gnu::always_inline]] absl::StatusOr<Handle> TryFind(const Key& key) {
    return FindOr<absl::StatusOr<Handle>>(key, [&](const Look& look) { return TryFindOther(key, look); });
  }
  [[gnu::noinline]] absl::StatusOr<Handle> TryFindOther(const Key& key, const Look& look) {
    HazardRow::Read read(look.open);
    Seen seen;
    if (TryHit(key, look, seen)) return Handle(*look.open, seen.value);
    const HazardRow::Read opened = Open(read.Release());
    if (std::optional<Handle> hit = FindUnlocked(key, opened)) return *std::move(hit);
    return NoHit();
  }
  static absl::Status NoHit() { return absl::Status(absl::StatusCode::kUnknown, {}); }  // Needs no memory.

  // Answers hits each on its own, and looks up the other keys together. A repeated key has the answer to the first one.
  void FindMany(std::span<const Key> keys, const CacheGetOptions& options,
                std::vector<absl::StatusOr<Handle>>& answers) {
    const std::vector<Repeat> repeats = RepeatsIn(keys.size(), [&](size_t index) -> const Key& { return keys[index]; });
    std::vector<size_t> missed;
    ForEachFirst(keys.size(), repeats, [&](size_t index) {
      while (answers.size() < index) answers.emplace_back(NoHit());
      answers.emplace_back(MadeInPlace([&] { return TryFind(keys[index]); }));
      if (!answers.back().ok()) missed.push_back(index);
    });
    answers.resize(keys.size(), NoHit());
    if (!missed.empty()) {
      std::vector<KeyAt> missing;
      missing.reserve(missed.size());
      for (const size_t index : missed) missing.push_back(Hashed(keys[index]));
      std::vector<Answer> found = FindAll(missing, options);
      for (size_t i = 0; i < missed.size(); ++i) answers[missed[i]] = HandleOf(std::move(found[i]));
    }
    for (const Repeat& repeat : repeats) answers[repeat.index] = answers[repeat.first];
  }

  std::optional<std::string_view> CodecId() const override { return IdOf(callbacks_.codec); }
  absl::Status EncodeKey(const void* key, std::string* bytes) const override {
    return Encode(callbacks_.codec.encode_key, KeyOf(key), bytes);
  }
  absl::Status EncodeValue(const Pinned& value, std::string* bytes) const override {
    return Encode(callbacks_.codec.encode_value, value.box()->template value<Value>(), bytes);
  }
  absl::StatusOr<Pinned> DecodeValue(const void* key, std::string_view bytes) const override {
    absl::StatusOr<Value> value = Decode(callbacks_.codec.decode_value, bytes);
    if (!value.ok()) return value.status();
    return Pinned(MakeBox<Key, Value>(KeyOf(key), *std::move(value)));
  }
  absl::Status WithKey(std::string_view bytes, absl::FunctionRef<void(const KeyAt&)> function) const override {
    const absl::StatusOr<Key> key = Decode(callbacks_.codec.decode_key, bytes);
    if (!key.ok()) return key.status();
    function(Hashed(*key));
    return absl::OkStatus();
  }
  std::unique_ptr<const KeyHolder> KeepKey(const void* key) const override {
    return std::make_unique<const KeyHolderOf<Key, Eq>>(KeyOf(key));
  }
  std::string TextOf(const void* key) const override { return KeyText(KeyOf(key)); }
  int64_t Weigh(const void* key, const void* value) const override {
    return callbacks_.weigh(KeyOf(key), *static_cast<const Value*>(value));
  }
  void TellRemoval(const Removal& removal) const override {
    const auto& key = static_cast<const KeyBox<Key>&>(*removal.key.box());
    callbacks_.on_removal(key.key, Handle(removal.value), removal.cause);
  }
  void TellLoadError(const void* key, const absl::Status& error) const override {
    callbacks_.on_load_error(KeyOf(key), error);
  }
  Pinned BoxFor(const void* key, const Pinned& value, bool renews) const override {
    if constexpr (!SlotT::kBoxed) return nullptr;
    if (!SlotT::kValueCopied && value != nullptr) return renews ? RenewBox<Key, Value>(KeyOf(key), value) : value;
    return SlotT::kKeyCopied ? nullptr : Pinned(new KeyBox<Key>(KeyOf(key)));
  }
  Pinned Boxed(const void* value) const override {
    if constexpr (SlotT::kValueCopied) return Pinned(new ValueBox<Value>(Value(*static_cast<const Value*>(value))));
    return nullptr;
  }
  bool IsFor(const Slot& slot, const void* key) const override { return Eq()(Typed(slot).key(), KeyOf(key)); }
  Pinned ValueOf(const Slot& slot) const override { return Typed(slot).value(); }
  Removal RemovalOf(const Slot& slot, RemovalCause cause) const override {
    const SlotT& typed = Typed(slot);
    if constexpr (SlotT::kKeyCopied) {
      return {Pinned(new KeyBox<Key>(typed.key())), typed.value(), cause};
    } else {
      return {typed.SharedBox(), typed.value(), cause};
    }
  }
  const Box* Write(Slot& slot, const void* key, NewEntry* entry) const override {
    SlotT& typed = Typed(slot);
    if (entry == nullptr) return typed.Write(nullptr, nullptr, nullptr, Instant::InfinitePast());
    const auto* const value = static_cast<const Value*>(entry->value);
    // The box of a value that is kept in its slot has the key, which stays.
    const bool keeps_box = SlotT::kValueCopied && key == nullptr;
    const Box* const box = keeps_box ? typed.box() : entry->box.Release();
    const Box* const old = typed.Write(static_cast<const Key*>(key), value, box, entry->plain_hit_until);
    return keeps_box ? nullptr : old;
  }

  static const Value* PreviousOf(const LoadRequest& request) {
    return request.previous == nullptr ? nullptr : std::addressof(request.previous->value<Value>());
  }

  LoadResult Load(const LoadRequest& request, const LoaderPtr& loader, Instant deadline, const std::stop_token& stop,
                  bool& threw) override {
    const auto& load =
        loader != nullptr ? *static_cast<const typename Callbacks::Loader*>(loader.get()) : callbacks_.load;
    ValueLoadContext<Value> context(options_.clock, deadline, stop, PreviousOf(request), &previous_asked_);
    LoadResult result;
    // Two steps, because what the loader throws is kInternal, also if that is std::bad_alloc.
    absl::StatusOr<Value> value =
        base_internal::GuardCallback<absl::StatusOr<Value>>(loader_label_, [&]() -> absl::StatusOr<Value> {
          absl::StatusOr<Value> loaded = load(KeyOf(request.key), context);
          threw = false;
          return loaded;
        });
    result.answer =
        value.ok()
            ? Guarded<Answer>(loader_label_,
                              [&]() -> Answer { return MakeBox<Key, Value>(KeyOf(request.key), *std::move(value)); })
            : Answer(value.status());
    const absl::Status copied = Guarded<absl::Status>(loader_label_, [&] {
      result.entry = context.entry();  // Counts whatever came of the load, also if the loader threw.
      return absl::OkStatus();
    });
    if (!copied.ok()) result.answer = copied;
    return result;
  }

  absl::Status LoadAll(std::span<const LoadRequest> requests, Instant deadline, const std::stop_token& stop,
                       std::vector<LoadResult>& results, bool& threw) override {
    std::vector<Key> keys;
    keys.reserve(requests.size());
    for (const LoadRequest& request : requests) keys.push_back(KeyOf(request.key));
    Batch batch(options_.clock, deadline, stop, keys);
    batch.asked_ = &previous_asked_;
    std::vector<typename Batch::Item*> items;  // By request, so that no key is looked up after the loader has run.
    items.reserve(requests.size());
    for (const LoadRequest& request : requests) {
      items.push_back(&batch.items_.find(KeyOf(request.key))->second);
      items.back()->previous = PreviousOf(request);
    }
    std::vector<LoadResult> slots(requests.size());
    absl::Status done = base_internal::GuardCallback<absl::Status>(loader_label_, [&] {
      absl::Status loaded = callbacks_.load_all(keys, batch);
      threw = false;
      return loaded;
    });
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i]->result.has_value()) slots[i].answer = *std::move(items[i]->result);
      slots[i].entry = std::move(items[i]->entry);
    }
    results = std::move(slots);
    return done;
  }

  const Callbacks callbacks_;
  const CacheGetOptions default_call_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_TYPED_CACHE_H_
