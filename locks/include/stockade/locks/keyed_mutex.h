#ifndef STOCKADE_LOCKS_KEYED_MUTEX_H_
#define STOCKADE_LOCKS_KEYED_MUTEX_H_

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

// A reentrant mutex per key. Threads with different keys never wait for each other, as they could with locks that are
// striped by hash. A key uses memory only while it is held or waited for.
//
//   stockade::KeyedMutex<std::string> by_sku({.name = "sku"});
//   auto guard = by_sku.Lock("air-force-one");
//
// Thread-safe; the thread that acquired a Guard must release it. Lock(), LockAll() and TryLockFor() block. Each call is
// O(1) and locks the mutex of one of 16 shards for the look-up, but never while it waits. The lock of one key has the
// guarantees of ReentrantMutex: memory order, fairness (per key), re-entry, 2^24 nested holds. All keys share the
// metrics under the name in the options.
//
// Aborts, with the name in the options, if another thread releases a Guard, if it is destroyed while a key is held or
// waited for, if a thread ends while it holds a key, and on any call in a forked child, where destructors do nothing.
//
// Key must be copyable. Hash and Eq are those of std::unordered_map, default constructible and non-throwing. LockAll()
// needs operator<.
template <typename Key, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class KeyedMutex {
  using Table = locks_internal::KeyTable<Key, Hash, Eq>;

 public:
  // One hold of one key. Movable. Release() releases it early; the conversion to bool tells whether it holds the key.
  using Guard = locks_internal::KeyGuard<Table>;

  KeyedMutex() : KeyedMutex(LockOptions{}) {}
  // Aborts with the message of options.Validate() if an option is invalid.
  explicit KeyedMutex(const LockOptions& options) : table_("KeyedMutex", options) {}

  // Blocks until `key` is acquired.
  [[nodiscard]] Guard Lock(const Key& key) { return Guard::Take(table_, key, locks_internal::LockMode::kExclusive); }

  // Returns an empty optional if another thread holds `key`. Does not block.
  [[nodiscard]] std::optional<Guard> TryLock(const Key& key) { return TryTake(key, locks_internal::kNoWait); }

  // Waits on the steady clock, and returns an empty optional no earlier than after `wait`. A negative wait does not
  // wait, an infinite one has no limit.
  [[nodiscard]] std::optional<Guard> TryLockFor(const Key& key, Duration wait) {
    return TryTake(key, locks_internal::DeadlineAfter(absl::ToChronoNanoseconds(wait)));
  }

  // Acquires each of `keys` once, in ascending order, and returns one guard per key in that order. Threads that hold
  // several keys only through one LockAll() each never deadlock. O(n log n).
  [[nodiscard]] std::vector<Guard> LockAll(std::vector<Key> keys) {
    return Guard::TakeAll(table_, std::move(keys), locks_internal::LockMode::kExclusive);
  }

  // The number of keys that are held or waited for. O(1).
  size_t size() const { return table_.size(); }
  // The name in the options. Valid as long as this object.
  std::string_view name() const { return table_.identity().name(); }
  // The number of threads that wait for `key`. May be outdated when it is returned.
  uint64_t waiters(const Key& key) { return table_.Waiters(key); }

 private:
  std::optional<Guard> TryTake(const Key& key, locks_internal::SteadyDeadline deadline) {
    return Guard::TryTake(table_, key, locks_internal::LockMode::kExclusive, deadline);
  }

  Table table_;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_KEYED_MUTEX_H_
