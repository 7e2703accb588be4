#ifndef STOCKADE_CACHE_INTERNAL_FRESHNESS_H_
#define STOCKADE_CACHE_INTERNAL_FRESHNESS_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "stockade/base/instant.h"
#include "stockade/cache/loading_cache_options.h"

namespace stockade::internal {

// When an entry turns what. Compared with the clock at each call; no entry ever changes state by itself.
// Invariant: expires_at <= stale_until.
struct EntryTimes {
  Instant expires_at;                          // From then on it is not fresh.
  Instant stale_until;                         // Until then it may stand in for a load that failed.
  Instant refresh_at;                          // From then on a hit sets off a refresh.
  Instant retry_at = Instant::InfinitePast();  // After a failed load: no other one is tried before this.
};

// Gives entries their times. Thread-safe.
class Freshness {
 public:
  explicit Freshness(const LoadingCacheOptions& options);

  // Of a value stored at `now`, for `ttl` or else the cache's. Nothing: not to be stored.
  std::optional<EntryTimes> OfValue(Instant now, std::optional<absl::Duration> ttl);
  std::optional<EntryTimes> OfAbsence(Instant now) const;

 private:
  // Evenly from [0, 1).
  double Draw();

  const absl::Duration ttl_;
  const double jitter_;
  const double refresh_ahead_;
  const absl::Duration negative_ttl_;
  const absl::Duration stale_if_error_;
  std::atomic<uint64_t> random_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_FRESHNESS_H_
