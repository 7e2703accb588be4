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

namespace internal {
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore;
}  // namespace internal

// One load of several keys: what a batch loader is told, and where it puts what it has found. A key for which it says
// nothing has no value (NotFoundError) where the loader returns OK, and else the error that it returns.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class BatchLoad final : public LoadTerms {
 public:
  // What was said about one key.
  using Result = absl::StatusOr<internal::Pinned<Value>>;

  // For tests of loaders; a cache makes its own. `clock` must outlive the batch.
  BatchLoad(const Clock* clock, Instant deadline, std::stop_token stop, std::span<const Key> keys)
      : LoadTerms(clock, deadline, std::move(stop)) {
    for (const Key& key : keys) items_.try_emplace(key);
  }

  // The value of `key`. The last word about a key counts. False, and nothing done, where the key was not asked for.
  bool Add(const Key& key, Value value, const EntryOptions& entry = {}) {
    const auto found = items_.find(key);
    if (found == items_.end()) return false;
    found->second.result = internal::Pinned<Value>::Make(std::move(value));
    found->second.entry = entry;
    return true;
  }

  // The key's load failed, with an error of its own, NotFoundError or NotModified(). `why` is not OK (else it becomes
  // an InternalError). `entry`: of a remembered absence, or of the value that is still good.
  bool Fail(const Key& key, const absl::Status& why, const EntryOptions& entry = {}) {
    const auto found = items_.find(key);
    if (found == items_.end()) return false;
    found->second.result = why.ok() ? absl::InternalError("a batch loader failed a key with an OK status") : why;
    found->second.entry = entry;
    return true;
  }

  // As ValueLoadContext::previous().
  const Value* previous(const Key& key) const {
    if (asked_ != nullptr) asked_->Set();
    const auto found = items_.find(key);
    return found == items_.end() ? nullptr : found->second.previous.get();
  }

  // What was said about `key`; null: nothing.
  const Result* Find(const Key& key) const {
    const auto found = items_.find(key);
    return found == items_.end() || !found->second.result.has_value() ? nullptr : &*found->second.result;
  }

 private:
  friend class internal::CacheCore<Key, Value, Hash, Eq>;

  struct Item {
    internal::Pinned<Value> previous;
    std::optional<Result> result;
    EntryOptions entry;
  };

  std::unordered_map<Key, Item, Hash, Eq> items_;
  internal::Asked* asked_ = nullptr;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_BATCH_LOAD_H_
