#ifndef STOCKADE_CACHE_LOAD_CONTEXT_H_
#define STOCKADE_CACHE_LOAD_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/cache/entry_options.h"

namespace stockade {

// The terms of one run of a loader. Used only by the thread that runs it.
class STOCKADE_EXPORT LoadTerms {
 public:
  LoadTerms(const LoadTerms&) = delete;
  LoadTerms& operator=(const LoadTerms&) = delete;

  // The time by which the load should end, on the cache's clock: load_hard_timeout after its start, or the deadline of
  // the call whose thread runs it, whichever is earlier. InfiniteFuture() if neither is set.
  Instant deadline() const { return deadline_; }

  // The time from now until the deadline; never negative, possibly infinite. Can be passed to a database call as its
  // time-out.
  absl::Duration time_left() const;

  // The stop token of the call whose thread runs the load: stop is requested when that caller gives up. If the load
  // runs on an executor, for other callers as well, stop is never requested.
  const std::stop_token& stop_token() const { return stop_; }

  // The status that a loader returns if the value from previous() is still valid. That value is stored again for
  // another time to live, with its previous tags.
  static absl::Status NotModified();

 protected:
  // `clock` must outlive this object.
  LoadTerms(const Clock* clock, Instant deadline, std::stop_token stop)
      : clock_(clock), deadline_(deadline), stop_(std::move(stop)) {}
  ~LoadTerms() = default;

 private:
  const Clock* const clock_;
  const Instant deadline_;
  const std::stop_token stop_;
};

// The terms of a load, and options for its result.
class LoadContext : public LoadTerms {
 public:
  // For tests of loaders; a cache creates its own. `clock` must outlive the context.
  LoadContext(const Clock* clock, Instant deadline, std::stop_token stop = {})
      : LoadTerms(clock, deadline, std::move(stop)) {}

  // Sets the time to live of the result: for a value it overrides the cache's ttl, for an absence (NotFoundError)
  // negative_ttl. If zero or negative, the waiting calls get the result and it is not stored, nor is another error
  // remembered for error_ttl. Otherwise it has no effect on other errors.
  void set_ttl(Duration ttl) { entry_.ttl = ttl; }
  std::optional<absl::Duration> ttl() const { return entry_.ttl; }

  // Adds a tag to the result, also to an absence or an error, returned or thrown. InvalidateTag() of any of its tags
  // removes the result, from the start of this load on.
  void AddTag(std::string tag) { entry_.tags.push_back(std::move(tag)); }

  // The options that have been set so far.
  const EntryOptions& entry() const { return entry_; }

 private:
  EntryOptions entry_;
};

namespace cache_internal {

// Whether a loader of the cache has ever called previous(). Never reset.
class Asked {
 public:
  void Set() {
    if (!get()) set_.store(true, std::memory_order_relaxed);
  }
  bool get() const { return set_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> set_{false};
};

}  // namespace cache_internal

// The context of a cache's loaders. A loader that does not use previous() can take a LoadContext&.
template <typename Value>
class ValueLoadContext final : public LoadContext {
 public:
  // For tests of loaders, like LoadContext's. `previous` must outlive the context.
  ValueLoadContext(const Clock* clock, Instant deadline, std::stop_token stop, const Value* previous,
                   cache_internal::Asked* asked = nullptr)
      : LoadContext(clock, deadline, std::move(stop)), previous_(previous), asked_(asked) {}

  // The last value of the key, which has expired or is being refreshed, for use in a conditional query. Null if the
  // cache has none: the key was never loaded, was invalidated or evicted, or GetIfPresent() or a failed load found the
  // value permanently expired. After a loader of a cache has called this, expired values stay in the cache for later
  // loaders as far as there is room.
  const Value* previous() const {
    if (asked_ != nullptr) asked_->Set();
    return previous_;
  }

 private:
  const Value* const previous_;
  cache_internal::Asked* const asked_;
};

// The loader of one key. Constructed from a copyable function of (const Key&, LoadContext&), (const Key&,
// ValueLoadContext<Value>&) or (const Key&) that returns an absl::StatusOr<Value> or a type that converts to it. May be
// empty.
template <typename Key, typename Value>
class CacheLoader final : public std::function<absl::StatusOr<Value>(const Key&, ValueLoadContext<Value>&)> {
  using Result = absl::StatusOr<Value>;
  using Function = std::function<Result(const Key&, ValueLoadContext<Value>&)>;

 public:
  // An empty loader.
  CacheLoader() = default;
  // An empty loader.
  CacheLoader(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::function.
  // From a copyable function of (const Key&) or (const Key&, LoadContext&). Empty if `loader` is an empty
  // std::function or a null pointer.
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, CacheLoader>)
  CacheLoader(F&& loader)  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : Function(Adapt(std::forward<F>(loader))) {}

 private:
  template <typename F>
  static Function Adapt(F&& loader) {
    using Stored = std::decay_t<F>;
    constexpr bool kTakesContext = std::is_invocable_r_v<Result, Stored&, const Key&, ValueLoadContext<Value>&>;
    constexpr bool kTakesKey = std::is_invocable_r_v<Result, Stored&, const Key&>;
    static_assert(kTakesContext || kTakesKey,
                  "a loader is a function of (const Key&) or (const Key&, LoadContext&) that returns "
                  "absl::StatusOr<Value>");
    constexpr bool kCopyable = std::is_copy_constructible_v<Stored>;
    static_assert(kCopyable, "a loader must be copyable: capture other objects by std::shared_ptr");
    if constexpr (kTakesContext && kCopyable) {
      return Function(std::forward<F>(loader));
    } else if constexpr (kTakesKey && kCopyable) {
      if (!std::function<Result(const Key&)>(loader)) return {};
      return [load = Stored(std::forward<F>(loader))](const Key& key, ValueLoadContext<Value>&) mutable -> Result {
        return load(key);
      };
    } else {
      return {};
    }
  }
};

namespace cache_internal {
STOCKADE_EXPORT bool IsMarkedNotModified(const absl::Status& status);
inline bool IsNotModified(const absl::Status& status) { return absl::IsAborted(status) && IsMarkedNotModified(status); }
}  // namespace cache_internal

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOAD_CONTEXT_H_
