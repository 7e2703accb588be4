#include "stockade/cache/internal/cache_metrics.h"

#include <string_view>
#include <utility>

#include "stockade/cache/cache_stats.h"

namespace stockade {

CacheStats CacheStats::Since(const CacheStats& earlier) const {
  CacheStats later = *this;
  for (uint64_t CacheStats::*const count :
       {&CacheStats::hits, &CacheStats::stale, &CacheStats::misses, &CacheStats::coalesced, &CacheStats::negative,
        &CacheStats::loads_succeeded, &CacheStats::loads_not_found, &CacheStats::loads_not_modified,
        &CacheStats::loads_failed, &CacheStats::loads_timed_out, &CacheStats::evicted, &CacheStats::expired,
        &CacheStats::invalidated, &CacheStats::refreshes}) {
    later.*count -= earlier.*count;
  }
  later.load_time -= earlier.load_time;
  later.wait_time -= earlier.wait_time;
  return later;
}

}  // namespace stockade

namespace stockade::cache_internal {
namespace {

constexpr std::string_view kRequests = "stockade_cache_requests_total";
constexpr std::string_view kRequestsHelp =
    "Lookups, by result: a fresh value, a stale value, their own load, the load of another lookup, a cached absence.";
constexpr std::string_view kLoads = "stockade_cache_loads_total";
constexpr std::string_view kLoadsHelp = "Runs of a loader, by result; a batch counts as one run.";
constexpr std::string_view kEvictions = "stockade_cache_evictions_total";
constexpr std::string_view kEvictionsHelp =
    "Entries that left the cache, by cause; fresh entries that were replaced do not count.";
constexpr std::string_view kRefreshes = "stockade_cache_refreshes_total";
constexpr std::string_view kRefreshesHelp = "Background loads, by trigger.";

// In the order of CacheMetric.
constexpr MetricDef kDefs[] = {
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "hit"},
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "stale"},
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "miss"},
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "coalesced"},
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "negative"},
    {MetricType::kCounter, kLoads, kLoadsHelp, "result", "success"},
    {MetricType::kCounter, kLoads, kLoadsHelp, "result", "not_found"},
    {MetricType::kCounter, kLoads, kLoadsHelp, "result", "not_modified"},
    {MetricType::kCounter, kLoads, kLoadsHelp, "result", "error"},
    {MetricType::kCounter, kLoads, kLoadsHelp, "result", "timeout"},
    {MetricType::kSecondsHistogram, "stockade_cache_load_seconds", "Duration of a run of the loader."},
    {MetricType::kSecondsHistogram, "stockade_cache_wait_seconds",
     "Time that a lookup waited for a load on another thread."},
    {MetricType::kGauge, "stockade_cache_flights", "Loads that run or are queued."},
    {MetricType::kGauge, "stockade_cache_waiters", "Lookups that wait for a load on another thread."},
    {MetricType::kGauge, "stockade_cache_entries", "Entries, including cached absences."},
    {MetricType::kGauge, "stockade_cache_weight", "Weight of all entries, in the unit of max_weight."},
    {MetricType::kGauge, "stockade_cache_max_weight",
     "Bound of stockade_cache_weight: LoadingCacheOptions::max_weight, or that of SetMaxWeight()."},
    {MetricType::kCounter, kEvictions, kEvictionsHelp, "cause", "size"},
    {MetricType::kCounter, kEvictions, kEvictionsHelp, "cause", "expired"},
    {MetricType::kCounter, kEvictions, kEvictionsHelp, "cause", "invalidated"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "ahead"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "xfetch"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "stale"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "manual"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "warm_up"},
    {MetricType::kCounter, "stockade_cache_hash_collisions_total",
     "Entries that were stored while at least 64 others had the same hash."},
};
static_assert(std::size(kDefs) == kHashCollisions + 1);

}  // namespace

std::span<const MetricDef> CacheMetricDefs() { return kDefs; }

void ReadCounts(const MetricSet& set, CacheStats& stats) {
  const std::pair<CacheMetric, uint64_t&> counts[] = {
      {kRequestHit, stats.hits},
      {kRequestStale, stats.stale},
      {kRequestMiss, stats.misses},
      {kRequestCoalesced, stats.coalesced},
      {kRequestNegative, stats.negative},
      {kLoadSuccess, stats.loads_succeeded},
      {kLoadNotFound, stats.loads_not_found},
      {kLoadNotModified, stats.loads_not_modified},
      {kLoadError, stats.loads_failed},
      {kLoadTimeout, stats.loads_timed_out},
      {kEvictionSize, stats.evicted},
      {kEvictionExpired, stats.expired},
      {kEvictionInvalidated, stats.invalidated},
  };
  for (const auto& [metric, count] : counts) count = set.CounterValue(metric);
  for (const CacheMetric trigger : {kRefreshAhead, kRefreshXFetch, kRefreshStale, kRefreshManual, kRefreshWarmUp}) {
    stats.refreshes += set.CounterValue(trigger);
  }
  stats.load_time = absl::Seconds(set.ReadHistogram(kLoadSeconds).sum);
  stats.wait_time = absl::Seconds(set.ReadHistogram(kWaitSeconds).sum);
}

}  // namespace stockade::cache_internal
