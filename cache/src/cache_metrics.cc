#include "stockade/cache/internal/cache_metrics.h"

#include <string_view>

namespace stockade::internal {
namespace {

constexpr std::string_view kRequests = "stockade_cache_requests_total";
constexpr std::string_view kRequestsHelp =
    "Lookups, by what answered them: a fresh value, a stale one, a load of their own, a load of another, an absence.";
constexpr std::string_view kLoads = "stockade_cache_loads_total";
constexpr std::string_view kLoadsHelp = "Runs of a loader, a batch being one, by what came of them.";
constexpr std::string_view kEvictions = "stockade_cache_evictions_total";
constexpr std::string_view kEvictionsHelp = "Entries that left, but for fresh ones that were replaced, by cause.";
constexpr std::string_view kRefreshes = "stockade_cache_refreshes_total";
constexpr std::string_view kRefreshesHelp = "Loads that no lookup waited for at first, by what set them off.";

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
    {MetricType::kSecondsHistogram, "stockade_cache_load_seconds", "Time that runs of the loader took."},
    {MetricType::kSecondsHistogram, "stockade_cache_wait_seconds",
     "Time that lookups waited for a load on another thread."},
    {MetricType::kGauge, "stockade_cache_flights", "Loads that run or are about to."},
    {MetricType::kGauge, "stockade_cache_waiters", "Lookups that wait for a load on another thread."},
    {MetricType::kGauge, "stockade_cache_entries", "Entries, remembered absences included."},
    {MetricType::kGauge, "stockade_cache_weight", "Weight of all entries, in the unit of the cache's bound."},
    {MetricType::kCounter, kEvictions, kEvictionsHelp, "cause", "size"},
    {MetricType::kCounter, kEvictions, kEvictionsHelp, "cause", "expired"},
    {MetricType::kCounter, kEvictions, kEvictionsHelp, "cause", "invalidated"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "ahead"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "xfetch"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "stale"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "manual"},
    {MetricType::kCounter, kRefreshes, kRefreshesHelp, "trigger", "warm_up"},
};
static_assert(std::size(kDefs) == kRefreshWarmUp + 1);

}  // namespace

std::span<const MetricDef> CacheMetricDefs() { return kDefs; }

}  // namespace stockade::internal
