#include "tier_metrics.h"

#include <iterator>
#include <string_view>

namespace stockade::cache_internal {
namespace {

constexpr std::string_view kRequests = "stockade_cache_tier_requests_total";
constexpr std::string_view kRequestsHelp =
    "Keys that were asked for in Redis, by answer: a fresh value, the lease to load it, a lease of another loader, "
    "none because Redis could not be asked.";
constexpr std::string_view kFills = "stockade_cache_tier_fills_total";
constexpr std::string_view kFillsHelp =
    "Values that were sent to Redis, by result: stored, too large or without a TTL, refused because the lease was lost "
    "or voided, not answered.";
constexpr std::string_view kRoundTrip = "stockade_cache_tier_round_trip_seconds";
constexpr std::string_view kRoundTripHelp = "Time of a call to Redis, by kind; a batch of keys is one call.";
constexpr std::string_view kInvalidations = "stockade_cache_tier_invalidations_total";
constexpr std::string_view kInvalidationsHelp =
    "Invalidations by origin: those of this process that Redis has accepted, and those of all processes that were read "
    "from the journal.";

// In the order of TierCacheMetric.
constexpr MetricDef kCacheDefs[] = {
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "hit"},
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "granted"},
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "busy"},
    {MetricType::kCounter, kRequests, kRequestsHelp, "result", "away"},
    {MetricType::kCounter, "stockade_cache_tier_undecodable_total",
     "Values in Redis that the codec refused, so that they were loaded again."},
    {MetricType::kCounter, kFills, kFillsHelp, "result", "stored"},
    {MetricType::kCounter, kFills, kFillsHelp, "result", "unstored"},
    {MetricType::kCounter, kFills, kFillsHelp, "result", "refused"},
    {MetricType::kCounter, kFills, kFillsHelp, "result", "away"},
    {MetricType::kSecondsHistogram, kRoundTrip, kRoundTripHelp, "call", "ask"},
    {MetricType::kSecondsHistogram, kRoundTrip, kRoundTripHelp, "call", "fill"},
    {MetricType::kGauge, "stockade_cache_tier_leases", "Leases that are held for loads."},
    {MetricType::kCounter, "stockade_cache_tier_leases_lost_total",
     "Leases that could not be renewed because they had lapsed or had been voided by an invalidation."},
    {MetricType::kCounter, "stockade_cache_tier_leases_returned_total",
     "Questions without an answer, after which a lease that may have been granted was given back."},
    {MetricType::kCounter, kInvalidations, kInvalidationsHelp, "origin", "own"},
    {MetricType::kCounter, kInvalidations, kInvalidationsHelp, "origin", "journal"},
    {MetricType::kSecondsHistogram, "stockade_cache_tier_invalidation_seconds",
     "Time from an invalidation's request until Redis accepted it."},
    {MetricType::kGauge, "stockade_cache_tier_invalidations_pending", "Invalidations that Redis has not accepted yet."},
    {MetricType::kCounter, "stockade_cache_tier_invalidations_dropped_total",
     "Invalidations that were still pending when their cache was destroyed."},
};
static_assert(std::size(kCacheDefs) == kTierInvalidationsDropped + 1);

constexpr std::string_view kHeartbeats = "stockade_cache_tier_heartbeats_total";
constexpr std::string_view kHeartbeatsHelp =
    "Heartbeats, by result: refused are those that fail until the options or the rights of the user are changed.";
constexpr std::string_view kMessages = "stockade_cache_tier_messages_total";
constexpr std::string_view kMessagesHelp =
    "Messages of Redis that took effect, by kind: invalidations before the heartbeat that confirms them, and ends of "
    "loads of other processes that a call had waited for.";

// In the order of TierMetric.
constexpr MetricDef kTierDefs[] = {
    {MetricType::kCounter, kHeartbeats, kHeartbeatsHelp, "result", "ok"},
    {MetricType::kCounter, kHeartbeats, kHeartbeatsHelp, "result", "error"},
    {MetricType::kCounter, kHeartbeats, kHeartbeatsHelp, "result", "refused"},
    {MetricType::kSecondsHistogram, "stockade_cache_tier_heartbeat_seconds",
     "Duration of a heartbeat that succeeded, with the work of its invalidations."},
    {MetricType::kGauge, "stockade_cache_tier_trusted",
     "1 while the caches may serve values from memory because the journal was read within max_staleness."},
    {MetricType::kGauge, "stockade_cache_tier_away", "1 while Redis is not asked because it does not answer."},
    {MetricType::kCounter, "stockade_cache_tier_reigns_total",
     "New reigns that the process has seen, the first one included: a failover, a restart or a lost state of Redis."},
    {MetricType::kCounter, "stockade_cache_tier_gaps_total",
     "Times that the journal no longer had all that the process had missed, so that it dropped its values."},
    {MetricType::kCounter, "stockade_cache_tier_tags_dropped_total",
     "Times that Redis had 100,000 invalidated tags or 10 MB of them, which this process replaced by an invalidation "
     "of all."},
    {MetricType::kGauge, "stockade_cache_tier_subscribed",
     "1 while messages of Redis arrive. Otherwise invalidations and ends of loads are found by polling."},
    {MetricType::kCounter, kMessages, kMessagesHelp, "kind", "invalidation"},
    {MetricType::kCounter, kMessages, kMessagesHelp, "kind", "lease"},
};
static_assert(std::size(kTierDefs) == kTierLeaseMessages + 1);

}  // namespace

std::span<const MetricDef> TierCacheMetricDefs() { return kCacheDefs; }
std::span<const MetricDef> TierMetricDefs() { return kTierDefs; }

}  // namespace stockade::cache_internal
