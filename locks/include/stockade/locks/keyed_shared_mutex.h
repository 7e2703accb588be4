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
#include "stockade/base/duration.h"
#include "stockade/locks/internal/key_table.h"
#include "stockade/locks/lock_options.h"

namespace stockade {

// A reentrant read-write lock per key: KeyedMutex with readers. Everything in keyed_mutex.h applies here, too. The lock
// of one key has the guarantees of ReentrantSharedMutex, including its table of permitted re-entry: for a key that the
// thread only reads, Lock() aborts, and TryLock() and TryLockFor() return an empty optional at once.
//
//   stockade::KeyedSharedMutex<std::string> by_sku({.name = "sku"});
//   { auto reading = by_sku.LockShared("air-force-one"); ... }
//   { auto writing = by_sku.Lock("air-force-one"); ... }
template <typename Key, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class KeyedSharedMutex {
  using Table = locks_internal::KeyTable<Key, Hash, Eq>;
  using Mode = locks_internal::LockMode;

 public:
  // One hold of one key, for writing or reading. Movable. Release() releases it early; the conversion to bool tells
  // whether it holds the key.
  using Guard = locks_internal::KeyGuard<Table>;

  KeyedSharedMutex() : KeyedSharedMutex(LockOptions{}) {}
  // Aborts with the message of options.Validate() if an option is invalid.
  explicit KeyedSharedMutex(const LockOptions& options) : table_("KeyedSharedMutex", options) {}

  // For writing.
  [[nodiscard]] Guard Lock(const Key& key) { return Guard::Take(table_, key, Mode::kExclusive); }
  [[nodiscard]] std::optional<Guard> TryLock(const Key& key) {
    return TryTake(key, Mode::kExclusive, locks_internal::kNoWait);
  }
  // Waits on the steady clock, and returns an empty optional no earlier than after `wait`. A negative wait does not
  // wait, an infinite one has no limit.
  [[nodiscard]] std::optional<Guard> TryLockFor(const Key& key, Duration wait) {
    return TryTake(key, Mode::kExclusive, locks_internal::DeadlineAfter(absl::ToChronoNanoseconds(wait)));
  }

  // For reading.
  [[nodiscard]] Guard LockShared(const Key& key) { return Guard::Take(table_, key, Mode::kShared); }
  [[nodiscard]] std::optional<Guard> TryLockShared(const Key& key) {
    return TryTake(key, Mode::kShared, locks_internal::kNoWait);
  }
  // Like TryLockFor().
  [[nodiscard]] std::optional<Guard> TryLockSharedFor(const Key& key, Duration wait) {
    return TryTake(key, Mode::kShared, locks_internal::DeadlineAfter(absl::ToChronoNanoseconds(wait)));
  }

  // Acquires each of `keys` once, for writing or for reading, in ascending order, and returns one guard per key in that
  // order. Threads that hold several keys only through one such call each never deadlock. O(n log n).
  [[nodiscard]] std::vector<Guard> LockAll(std::vector<Key> keys) {
    return Guard::TakeAll(table_, std::move(keys), Mode::kExclusive);
  }
  [[nodiscard]] std::vector<Guard> LockAllShared(std::vector<Key> keys) {
    return Guard::TakeAll(table_, std::move(keys), Mode::kShared);
  }

  // The number of keys that are held or waited for. O(1).
  size_t size() const { return table_.size(); }
  // The name in the options. Valid as long as this object.
  std::string_view name() const { return table_.identity().name(); }
  // The number of threads that wait for `key`. May be outdated when it is returned.
  uint64_t waiters(const Key& key) { return table_.Waiters(key); }

 private:
  std::optional<Guard> TryTake(const Key& key, Mode mode, locks_internal::SteadyDeadline deadline) {
    return Guard::TryTake(table_, key, mode, deadline);
  }

  Table table_;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_KEYED_SHARED_MUTEX_H_
