#ifndef STOCKADE_CACHE_BATCH_LOAD_H_
#define STOCKADE_CACHE_BATCH_LOAD_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/cache/internal/pinned.h"
#include "stockade/cache/load_context.h"

namespace stockade {

namespace cache_internal {
template <typename Key, typename Value, typename Hash, typename Eq>
class TypedCache;
}  // namespace cache_internal

// One load of several keys: the terms for a batch loader, and the place for its results. A key without a result has no
// value (NotFoundError) if the loader returns OK; otherwise it gets the error that the loader returned.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class BatchLoad final : public LoadTerms {
 public:
  // The result for one key.
  using Result = absl::StatusOr<cache_internal::PinnedOf<Value>>;

  // For tests of loaders; a cache creates its own. `clock` must outlive the batch.
  BatchLoad(const Clock* clock, Instant deadline, std::stop_token stop, std::span<const Key> keys)
      : LoadTerms(clock, deadline, std::move(stop)) {
    for (const Key& key : keys) items_.try_emplace(key);
  }

  // Sets the value of `key`. The last result of a key counts. Returns false, and has no effect, if the key was not
  // requested.
  bool Add(const Key& key, Value value, const EntryOptions& entry = {}) {
    const auto found = items_.find(key);
    if (found == items_.end()) return false;
    found->second.result = cache_internal::MakeBox<Key, Value>(found->first, std::move(value));
    found->second.entry = entry;
    return true;
  }

  // Sets the load of `key` to failed, with an error of its own, NotFoundError or NotModified(). `why` must not be OK
  // (otherwise it becomes an InternalError). `entry` applies to a cached absence, or to the value that is still valid.
  bool Fail(const Key& key, const absl::Status& why, const EntryOptions& entry = {}) {
    const auto found = items_.find(key);
    if (found == items_.end()) return false;
    found->second.result = why.ok() ? absl::InternalError("a batch loader failed a key with an OK status") : why;
    found->second.entry = entry;
    return true;
  }

  // See ValueLoadContext::previous().
  const Value* previous(const Key& key) const {
    if (asked_ != nullptr) asked_->Set();
    const auto found = items_.find(key);
    return found == items_.end() ? nullptr : found->second.previous;
  }

  // The result for `key`, or null if there is none yet.
  const Result* Find(const Key& key) const {
    const auto found = items_.find(key);
    return found == items_.end() || !found->second.result.has_value() ? nullptr : &*found->second.result;
  }

 private:
  friend class cache_internal::TypedCache<Key, Value, Hash, Eq>;

  struct Item {
    const Value* previous = nullptr;
    std::optional<Result> result;
    EntryOptions entry;
  };

  std::unordered_map<Key, Item, Hash, Eq> items_;
  cache_internal::Asked* asked_ = nullptr;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_BATCH_LOAD_H_
