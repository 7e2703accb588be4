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

// The terms on which a loader runs. Belongs to one run and is used by its thread only.
class STOCKADE_EXPORT LoadTerms {
 public:
  LoadTerms(const LoadTerms&) = delete;
  LoadTerms& operator=(const LoadTerms&) = delete;

  // When the load ought to be over, on the cache's clock: load_hard_timeout after its start, or the deadline of the
  // call whose thread runs it, whichever is first. InfiniteFuture() where neither is set.
  Instant deadline() const { return deadline_; }

  // The time until the deadline, at this call; never negative, possibly infinite. What a database call takes.
  absl::Duration time_left() const;

  // That of the call whose thread runs the load: asked to stop when its caller gives up. One that can never be asked
  // where the load runs for others as well, on an executor.
  const std::stop_token& stop_token() const { return stop_; }

  // What a loader returns to say that the value it was given as previous() is still good: it is stored anew, for
  // another time to live, with the tags it had.
  static absl::Status NotModified();

 protected:
  // `clock` must outlive it.
  LoadTerms(const Clock* clock, Instant deadline, std::stop_token stop)
      : clock_(clock), deadline_(deadline), stop_(std::move(stop)) {}
  ~LoadTerms() = default;

 private:
  const Clock* const clock_;
  const Instant deadline_;
  const std::stop_token stop_;
};

// What a loader is told of its load, and what it may say about the result beside the value.
class LoadContext : public LoadTerms {
 public:
  // For tests of loaders; a cache makes its own. `clock` must outlive the context.
  LoadContext(const Clock* clock, Instant deadline, std::stop_token stop = {})
      : LoadTerms(clock, deadline, std::move(stop)) {}

  // The time to live of what this load returns: of a value in place of the cache's ttl, of an absence (NotFoundError)
  // in place of its negative_ttl. Zero or negative: the result is handed to the calls that wait, and not stored.
  void set_ttl(Duration ttl) { entry_.ttl = ttl; }
  std::optional<absl::Duration> ttl() const { return entry_.ttl; }

  // What the result depends on, an absence too: InvalidateTag() of one of them, from the start of this load on, takes
  // it away.
  void AddTag(std::string tag) { entry_.tags.push_back(std::move(tag)); }

  // What was said of the result so far.
  const EntryOptions& entry() const { return entry_; }

 private:
  EntryOptions entry_;
};

namespace internal {

// Whether a loader of a cache has asked for a previous value. Once it has, it stays so.
class Asked {
 public:
  void Set() {
    if (!get()) set_.store(true, std::memory_order_relaxed);
  }
  bool get() const { return set_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> set_{false};
};

}  // namespace internal

// The context that the loaders of a cache are given. One that has no use for previous() can take a LoadContext&.
template <typename Value>
class ValueLoadContext final : public LoadContext {
 public:
  // For tests of loaders, as LoadContext's. `previous` must outlive the context.
  ValueLoadContext(const Clock* clock, Instant deadline, std::stop_token stop, const Value* previous,
                   internal::Asked* asked = nullptr)
      : LoadContext(clock, deadline, std::move(stop)), previous_(previous), asked_(asked) {}

  // The key's last value, expired or about to be refreshed: what a conditional query compares with. Null where the
  // cache has none: never loaded, invalidated, evicted, or found expired for good by GetIfPresent() or a failed load.
  // Once a loader of a cache has called this, expired values stay in it for the next ones, as far as there is room.
  const Value* previous() const {
    if (asked_ != nullptr) asked_->Set();
    return previous_;
  }

 private:
  const Value* const previous_;
  internal::Asked* const asked_;
};

// What loads one key. Made of any copyable function of (const Key&, LoadContext&), (const Key&,
// ValueLoadContext<Value>&) or (const Key&) that returns an absl::StatusOr<Value> or what converts to it. May be empty.
template <typename Key, typename Value>
class CacheLoader final : public std::function<absl::StatusOr<Value>(const Key&, ValueLoadContext<Value>&)> {
  using Result = absl::StatusOr<Value>;
  using Function = std::function<Result(const Key&, ValueLoadContext<Value>&)>;

 public:
  // No loader.
  CacheLoader() = default;
  // No loader.
  CacheLoader(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::function.
  // From a copyable function of (const Key&) or (const Key&, LoadContext&). No loader if `function` is an empty
  // std::function or a null pointer.
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, CacheLoader>)
  CacheLoader(F&& function)  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : Function(Adapt(std::forward<F>(function))) {}

 private:
  template <typename F>
  static Function Adapt(F&& function) {
    using Stored = std::decay_t<F>;
    constexpr bool kTakesContext = std::is_invocable_r_v<Result, Stored&, const Key&, ValueLoadContext<Value>&>;
    constexpr bool kTakesKey = std::is_invocable_r_v<Result, Stored&, const Key&>;
    static_assert(kTakesContext || kTakesKey,
                  "a loader is a function of (const Key&) or (const Key&, LoadContext&) that returns "
                  "absl::StatusOr<Value>");
    constexpr bool kCopyable = std::is_copy_constructible_v<Stored>;
    static_assert(kCopyable, "a loader has to be copyable: share what is not");
    if constexpr (kTakesContext && kCopyable) {
      return Function(std::forward<F>(function));
    } else if constexpr (kTakesKey && kCopyable) {
      if (!std::function<Result(const Key&)>(function)) return {};
      return [load = Stored(std::forward<F>(function))](const Key& key, ValueLoadContext<Value>&) mutable -> Result {
        return load(key);
      };
    } else {
      return {};
    }
  }
};

namespace internal {
STOCKADE_EXPORT bool IsNotModified(const absl::Status& status);
}  // namespace internal

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOAD_CONTEXT_H_
