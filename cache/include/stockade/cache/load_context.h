#ifndef STOCKADE_CACHE_LOAD_CONTEXT_H_
#define STOCKADE_CACHE_LOAD_CONTEXT_H_

#include <atomic>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
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

  // The time to live of the value that this load returns, in place of the cache's. Zero or negative: the value is
  // handed to the calls that wait, and not stored. An absence keeps to the cache's negative_ttl.
  void set_ttl(absl::Duration ttl) { entry_.ttl = ttl; }
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

namespace internal {
STOCKADE_EXPORT bool IsNotModified(const absl::Status& status);
}  // namespace internal

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOAD_CONTEXT_H_
