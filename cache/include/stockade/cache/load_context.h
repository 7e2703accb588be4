#ifndef STOCKADE_CACHE_LOAD_CONTEXT_H_
#define STOCKADE_CACHE_LOAD_CONTEXT_H_

#include <optional>

#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"

namespace stockade {

// What a loader is told of its load, and what it may say about the result beside the value. Belongs to one run of the
// loader and is used by its thread only.
class LoadContext {
 public:
  // For tests of loaders; a cache makes its own. `clock` must outlive the context.
  LoadContext(const Clock* clock, Instant deadline) : clock_(clock), deadline_(deadline) {}

  LoadContext(const LoadContext&) = delete;
  LoadContext& operator=(const LoadContext&) = delete;

  // When the load ought to be over, on the cache's clock: load_timeout after its start, or the deadline of the call
  // whose thread runs it, whichever is first. InfiniteFuture() where neither is set. Soft: a loader that stays longer
  // is neither stopped nor refused.
  Instant deadline() const { return deadline_; }

  // The time until the deadline, at this call; never negative, possibly infinite. What a database call takes.
  absl::Duration time_left() const;

  // The time to live of the value that this load returns, in place of the cache's. Zero or negative: the value is
  // handed to the calls that wait, and not stored. An absence keeps to the cache's negative_ttl.
  void set_ttl(absl::Duration ttl) { ttl_ = ttl; }
  std::optional<absl::Duration> ttl() const { return ttl_; }

 private:
  const Clock* const clock_;
  const Instant deadline_;
  std::optional<absl::Duration> ttl_;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOAD_CONTEXT_H_
