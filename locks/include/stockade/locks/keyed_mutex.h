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
#include "stockade/locks/key_table.h"
#include "stockade/locks/lock_options.h"

namespace stockade {

// A reentrant mutex for each key there is: keys never wait for one another, as they would where locks are striped by
// hash. A key costs memory only while somebody holds it or waits for it.
//
//   stockade::KeyedMutex<std::string> by_sku({.name = "sku"});
//   auto guard = by_sku.Lock("air-force-one");
//
// Threads: every call is safe from any thread; a Guard is released by the thread that took it. Lock(), LockAll() and
// TryLockFor() block. Each call is O(1) and takes the mutex of one of 16 shards for the look-up, never while it waits.
// One key's lock promises what ReentrantMutex promises: ordering, fairness (per key), re-entry, 2^24 nested holds.
// All keys count under the one name of the options.
//
// Aborts with the name of the options: a Guard released by another thread; destruction while a key is held or waited
// for; a thread that ends while it holds a key; any call in a forked child, where destructors do nothing.
//
// Key: copyable; Hash and Eq as for std::unordered_map, default constructible and not throwing. LockAll() wants <.
template <typename Key, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class KeyedMutex {
  using Table = internal::KeyTable<Key, Hash, Eq>;

 public:
  // One hold of one key; movable; Release() lets go early; converts to bool: does it hold.
  using Guard = internal::KeyGuard<Table>;

  KeyedMutex() : KeyedMutex(LockOptions{}) {}
  // Aborts with the text of options.Validate().
  explicit KeyedMutex(const LockOptions& options) : table_("KeyedMutex", options) {}

  // Blocks until `key` is held.
  [[nodiscard]] Guard Lock(const Key& key) { return Guard::Take(table_, key, internal::LockMode::kExclusive); }

  // Empty where another thread holds `key`. Does not block.
  [[nodiscard]] std::optional<Guard> TryLock(const Key& key) { return TryTake(key, internal::kNoWait); }

  // Waits on the steady clock; empty no earlier than `wait`. A negative wait is none, an infinite one is for ever.
  [[nodiscard]] std::optional<Guard> TryLockFor(const Key& key, absl::Duration wait) {
    return TryTake(key, internal::DeadlineAfter(absl::ToChronoNanoseconds(wait)));
  }

  // Holds each of `keys` once, taken in ascending order: threads that hold several keys only through one LockAll() each
  // never deadlock. One guard a key, in that order. O(n log n).
  [[nodiscard]] std::vector<Guard> LockAll(std::vector<Key> keys) {
    return Guard::TakeAll(table_, std::move(keys), internal::LockMode::kExclusive);
  }

  // Keys that somebody holds or waits for now. O(1).
  size_t size() const { return table_.size(); }
  // As in the options. Valid as long as this object.
  std::string_view name() const { return table_.identity().name(); }
  // How many threads wait for `key` now: a look, out of date when it is returned.
  uint64_t waiters(const Key& key) { return table_.Waiters(key); }

 private:
  std::optional<Guard> TryTake(const Key& key, internal::SteadyDeadline deadline) {
    return Guard::TryTake(table_, key, internal::LockMode::kExclusive, deadline);
  }

  Table table_;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_KEYED_MUTEX_H_
