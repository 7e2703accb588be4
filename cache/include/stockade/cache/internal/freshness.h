#ifndef STOCKADE_CACHE_INTERNAL_FRESHNESS_H_
#define STOCKADE_CACHE_INTERNAL_FRESHNESS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/cache/loading_cache_options.h"

namespace stockade::internal {

// When an entry turns what. Compared with the clock at each call; no entry ever changes state by itself.
// Invariant: expires_at <= revalidate_until, stale_until.
struct EntryTimes {
  Instant expires_at;        // From then on it is not fresh.
  Instant revalidate_until;  // Until then it is the answer all the same, while it is reloaded.
  Instant stale_until;       // Until then it may stand in for a load that failed.
  Instant refresh_at;        // From then on a hit sets off a refresh.
  // From then on a hit may set one off, with a chance of exp(-(expires_at - now) / xfetch_scale).
  Instant xfetch_at = Instant::InfiniteFuture();
  absl::Duration xfetch_scale = {};
  Instant retry_at = Instant::InfinitePast();  // After a failed load: no other one is tried before this.

  // Freshness::Due() may say that it is.
  bool MayBeDue(Instant now) const {
    return now >= retry_at && (now >= refresh_at || now >= xfetch_at || now >= expires_at);
  }
  // Before it is neither over nor due, whatever load fails.
  Instant QuietUntil() const { return std::min({expires_at, refresh_at, xfetch_at}); }
  // From then on nothing can be made of it but a loader's previous().
  Instant OverAt() const { return std::max({expires_at, revalidate_until, stale_until}); }
  bool Over(Instant now) const { return now >= OverAt(); }
};

// What sets off a refresh.
enum class RefreshTrigger { kAhead, kXFetch, kStale, kManual };

// Gives entries their times. Thread-safe.
class STOCKADE_EXPORT Freshness {
 public:
  explicit Freshness(const LoadingCacheOptions& options);

  // Of a value stored at `now`, for `ttl` or else the cache's, whose load took `load_time`. Nothing: not to be stored.
  std::optional<EntryTimes> OfValue(Instant now, std::optional<absl::Duration> ttl, absl::Duration load_time);
  std::optional<EntryTimes> OfAbsence(Instant now, std::optional<absl::Duration> ttl) const;
  std::optional<EntryTimes> OfError(Instant now) const { return OfAbsence(now, error_ttl_); }
  // What a lookup of a value at `now` sets off, if anything.
  std::optional<RefreshTrigger> Due(const EntryTimes& times, Instant now);

 private:
  // Evenly from [0, 1).
  double Draw();

  const absl::Duration ttl_;
  const double jitter_;
  const double refresh_ahead_;
  const double xfetch_beta_;
  const absl::Duration negative_ttl_;
  const absl::Duration error_ttl_;
  const absl::Duration stale_while_revalidate_;
  const absl::Duration stale_if_error_;
  std::atomic<uint64_t> random_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_FRESHNESS_H_
