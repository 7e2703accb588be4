#ifndef STOCKADE_CACHE_CACHE_STATS_H_
#define STOCKADE_CACHE_CACHE_STATS_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/cache/cache_tier.h"

namespace stockade {

// Counts since the start, and the present state of a cache. The counts are those of the metrics (docs/METRICS.md):
// caches of one name in one registry share them, and without a registry they are zero.
struct STOCKADE_EXPORT CacheStats {
  // Lookups, each in one of these.
  uint64_t hits = 0;       // Answered with a fresh value.
  uint64_t stale = 0;      // With an expired value.
  uint64_t misses = 0;     // By their own load, or with nothing.
  uint64_t coalesced = 0;  // By the load of another lookup or of a refresh.
  uint64_t negative = 0;   // With a cached absence or error.
  // Runs of a loader, by result. A batch is one run.
  uint64_t loads_succeeded = 0;
  uint64_t loads_not_found = 0;
  uint64_t loads_not_modified = 0;
  uint64_t loads_failed = 0;
  uint64_t loads_timed_out = 0;
  absl::Duration load_time = absl::ZeroDuration();  // Of all runs together.
  absl::Duration wait_time = absl::ZeroDuration();  // Of all lookups that waited for the load of another thread.
  // Entries that left; fresh ones that were replaced do not count.
  uint64_t evicted = 0;
  uint64_t expired = 0;
  uint64_t invalidated = 0;
  uint64_t refreshes = 0;  // Loads in the background, for all reasons.
  // Now.
  int64_t entries = 0;
  int64_t weight = 0;
  int64_t max_weight = 0;
  int64_t flights = 0;  // Loads that run or are queued.
  int64_t waiters = 0;  // Lookups that wait for the load of another thread.
  // Of a cache with a tier that counts.
  std::optional<TierCacheStats> tier = std::nullopt;

  // All lookups.
  uint64_t requests() const { return hits + stale + misses + coalesced + negative; }
  // The fraction of the lookups that needed no load: hits, stale and negative. 1 without lookups.
  double hit_ratio() const {
    const uint64_t all = requests();
    return all == 0 ? 1 : static_cast<double>(hits + stale + negative) / static_cast<double>(all);
  }
  // The counts since `earlier`, with the present state and the present `tier`.
  CacheStats Since(const CacheStats& earlier) const;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_STATS_H_
