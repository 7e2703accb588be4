#ifndef STOCKADE_LOCKS_KEYED_SHARED_MUTEX_H_
#define STOCKADE_LOCKS_KEYED_SHARED_MUTEX_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "stockade/locks/key_table.h"
#include "stockade/locks/lock_options.h"

namespace stockade {

// A reentrant read-write lock for each key there is: KeyedMutex with readers. Everything that keyed_mutex.h says holds
// here too, and one key's lock promises what ReentrantSharedMutex promises, its table of what may be taken on top of
// what included: Lock() of a key that the thread only reads aborts, TryLock() and TryLockFor() of it are empty at once.
//
//   stockade::KeyedSharedMutex<std::string> by_sku({.name = "sku"});
//   { auto reading = by_sku.LockShared("air-force-one"); ... }
//   { auto writing = by_sku.Lock("air-force-one"); ... }
template <typename Key, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class KeyedSharedMutex {
  using Table = internal::KeyTable<Key, Hash, Eq>;
  using Mode = internal::LockMode;

 public:
  // One hold of one key, for writing or reading; movable; Release() lets go early; converts to bool: does it hold.
  using Guard = internal::KeyGuard<Table>;

  KeyedSharedMutex() : KeyedSharedMutex(LockOptions{}) {}
  // Aborts with the text of options.Validate().
  explicit KeyedSharedMutex(const LockOptions& options) : table_("KeyedSharedMutex", options) {}

  // For writing.
  [[nodiscard]] Guard Lock(const Key& key) { return Guard::Take(table_, key, Mode::kExclusive); }
  [[nodiscard]] std::optional<Guard> TryLock(const Key& key) {
    return TryTake(key, Mode::kExclusive, internal::kNoWait);
  }
  // Waits on the steady clock; empty no earlier than `wait`. A negative wait is none, an infinite one is for ever.
  [[nodiscard]] std::optional<Guard> TryLockFor(const Key& key, absl::Duration wait) {
    return TryTake(key, Mode::kExclusive, internal::DeadlineAfter(absl::ToChronoNanoseconds(wait)));
  }

  // For reading.
  [[nodiscard]] Guard LockShared(const Key& key) { return Guard::Take(table_, key, Mode::kShared); }
  [[nodiscard]] std::optional<Guard> TryLockShared(const Key& key) {
    return TryTake(key, Mode::kShared, internal::kNoWait);
  }
  // As TryLockFor().
  [[nodiscard]] std::optional<Guard> TryLockSharedFor(const Key& key, absl::Duration wait) {
    return TryTake(key, Mode::kShared, internal::DeadlineAfter(absl::ToChronoNanoseconds(wait)));
  }

  // Hold each of `keys` once, for writing or for reading, taken in ascending order: threads that hold several keys only
  // through one such call each never deadlock. One guard a key, in that order. O(n log n).
  [[nodiscard]] std::vector<Guard> LockAll(std::vector<Key> keys) {
    return Guard::TakeAll(table_, std::move(keys), Mode::kExclusive);
  }
  [[nodiscard]] std::vector<Guard> LockAllShared(std::vector<Key> keys) {
    return Guard::TakeAll(table_, std::move(keys), Mode::kShared);
  }

  // Keys that somebody holds or waits for now. O(1).
  size_t size() const { return table_.size(); }
  // As in the options. Valid as long as this object.
  std::string_view name() const { return table_.identity().name(); }
  // How many threads wait for `key` now: a look, out of date when it is returned.
  uint64_t waiters(const Key& key) { return table_.Waiters(key); }

 private:
  std::optional<Guard> TryTake(const Key& key, Mode mode, internal::SteadyDeadline deadline) {
    return Guard::TryTake(table_, key, mode, deadline);
  }

  Table table_;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_KEYED_SHARED_MUTEX_H_
