#ifndef STOCKADE_LOCKS_INTERNAL_KEY_TABLE_H_
#define STOCKADE_LOCKS_INTERNAL_KEY_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stockade/base/mutex.h"
#include "stockade/locks/internal/lock_core.h"

namespace stockade::locks_internal {

// The locks of a keyed mutex: a separate lock for each key that is held or waited for. Only the search for a key's lock
// is divided into shards. A shard's mutex is never held while a thread waits for a key.
//
// Invariants: an entry is in its shard exactly while users > 0. `users` counts the threads that got the entry from
// Find() and have not called Drop() yet. A thread that holds or waits thus keeps the entry alive, and nodes never move.
template <typename Key, typename Hash, typename Eq>
class KeyTable {
 public:
  struct Entry {
    explicit Entry(LockIdentity& identity) : core(identity) {}

    LockCore core;
    uint64_t users = 0;  // Guarded by the shard's mutex.
  };
  using Node = std::pair<const Key, Entry>;

  KeyTable(std::string_view kind, const LockOptions& options) : state_(std::make_unique<State>(kind, options)) {}
  // Aborts if an entry exists.
  ~KeyTable() {
    if (identity().InForkedChild()) {
      (void)state_.release();  // Other threads may have been modifying it when the process forked.
    } else if (size() > 0) {
      identity().Die("destroyed while a key is held or waited for");
    }
  }

  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  LockIdentity& identity() const { return state_->identity; }

  // Returns the key's entry, and creates it if it does not exist. The caller is one of its users until it calls Drop().
  // O(1).
  Node* Find(const Key& key) {
    identity().CheckNotForked();
    Shard& shard = ShardOf(key);
    const MutexLock lock(shard.mutex);
    auto [found, added] = shard.nodes.try_emplace(key, identity());
    ++found->second.users;
    return &*found;
  }

  void Drop(Node* node) {
    Shard& shard = ShardOf(node->first);
    const MutexLock lock(shard.mutex);
    if (--node->second.users > 0) return;
    shard.nodes.erase(shard.nodes.find(node->first));
    // Frees the buckets after a peak of many keys.
    if (shard.nodes.empty() && shard.nodes.bucket_count() > kBucketsKept) Nodes().swap(shard.nodes);
  }

  // The number of threads that wait for `key`.
  uint64_t Waiters(const Key& key) {
    identity().CheckNotForked();
    Shard& shard = ShardOf(key);
    const MutexLock lock(shard.mutex);
    const auto found = shard.nodes.find(key);
    return found == shard.nodes.end() ? 0 : found->second.core.waiters();
  }

  // The number of entries, which are the keys that are held or waited for. O(shards).
  size_t size() const {
    identity().CheckNotForked();
    size_t sum = 0;
    for (Shard& shard : state_->shards) {
      const MutexLock lock(shard.mutex);
      sum += shard.nodes.size();
    }
    return sum;
  }

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kBucketsKept = 1024;  // For a shard without keys.
  using Nodes = std::unordered_map<Key, Entry, Hash, Eq>;

  struct alignas(64) Shard {
    Mutex mutex;
    Nodes nodes STOCKADE_GUARDED_BY(mutex);
  };
  struct State {
    State(std::string_view kind, const LockOptions& options) : identity(kind, options) {}

    LockIdentity identity;
    Hash hash;
    std::array<Shard, kShards> shards;
  };

  // Fibonacci hashing: std::hash of an integer is the integer itself, and the map within the shard uses its low bits.
  Shard& ShardOf(const Key& key) {
    const uint64_t mixed = static_cast<uint64_t>(state_->hash(key)) * 0x9E3779B97F4A7C15u;
    return state_->shards[mixed >> 60];
  }

  std::unique_ptr<State> state_;
};

// One hold of one key, released at destruction. Movable, also to another thread, but the thread that acquired it must
// release it (aborts). Must not outlive its table.
template <typename Table>
class [[nodiscard]] KeyGuard {
 public:
  // Holds nothing.
  KeyGuard() = default;
  KeyGuard(KeyGuard&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), node_(other.node_), mode_(other.mode_) {}
  KeyGuard& operator=(KeyGuard&& other) noexcept {
    if (this != &other) {
      Release();
      table_ = std::exchange(other.table_, nullptr);
      node_ = other.node_;
      mode_ = other.mode_;
    }
    return *this;
  }
  // Does nothing in a forked child.
  ~KeyGuard() {
    if (table_ != nullptr && !table_->identity().InForkedChild()) Release();
  }

  // Releases the key now, if this holds one.
  void Release() {
    if (table_ == nullptr) return;
    Table* const table = std::exchange(table_, nullptr);
    if (mode_ == LockMode::kShared) {
      core().UnlockShared();
    } else {
      core().Unlock();
    }
    table->Drop(node_);
  }

  bool holds() const { return table_ != nullptr; }
  explicit operator bool() const { return holds(); }

  // Waits without a limit.
  static KeyGuard Take(Table& table, const auto& key, LockMode mode) {
    KeyGuard guard(table, table.Find(key), mode);
    if (mode == LockMode::kShared) {
      guard.core().LockShared();
    } else {
      guard.core().Lock();
    }
    return guard;
  }
  // Returns an empty optional if `deadline` passes first. A deadline of kNoWait does not wait.
  static std::optional<KeyGuard> TryTake(Table& table, const auto& key, LockMode mode, SteadyDeadline deadline) {
    KeyGuard guard(table, table.Find(key), mode);
    if (guard.TryAcquire(deadline)) return guard;
    guard.table_ = nullptr;
    table.Drop(guard.node_);
    return std::nullopt;
  }
  // Acquires each key once, in ascending order.
  template <typename Key>
  static std::vector<KeyGuard> TakeAll(Table& table, std::vector<Key> keys, LockMode mode) {
    std::sort(keys.begin(), keys.end());
    std::vector<KeyGuard> guards;
    guards.reserve(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i == 0 || keys[i - 1] < keys[i]) guards.push_back(Take(table, keys[i], mode));
    }
    return guards;
  }

 private:
  KeyGuard(Table& table, typename Table::Node* node, LockMode mode) : table_(&table), node_(node), mode_(mode) {}

  LockCore& core() { return node_->second.core; }

  bool TryAcquire(SteadyDeadline deadline) {
    if (mode_ == LockMode::kShared) {
      return deadline == kNoWait ? core().TryLockShared() : core().TryLockSharedUntil(deadline);
    }
    return deadline == kNoWait ? core().TryLock() : core().TryLockUntil(deadline);
  }

  Table* table_ = nullptr;  // Null: holds nothing, and the other members are meaningless.
  typename Table::Node* node_ = nullptr;
  LockMode mode_ = LockMode::kExclusive;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_INTERNAL_KEY_TABLE_H_
