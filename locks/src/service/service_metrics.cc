#include "service_metrics.h"

namespace stockade::locks_internal {

std::span<const MetricDef> ServiceMetricDefs() {
  static constexpr std::string_view kAcquisitions = "stockade_lock_service_acquisitions_total";
  static constexpr std::string_view kAcquisitionsHelp =
      "Calls to acquire a lock of a service, including re-entries, by result.";
  static constexpr std::string_view kRenewals = "stockade_lock_service_renewals_total";
  static constexpr std::string_view kRenewalsHelp =
      "Renewals of holds by the watchdog, by result; lost: the engine no longer has the hold; error: the renewal is "
      "retried.";
  static constexpr std::string_view kLost = "stockade_lock_service_lost_total";
  static constexpr std::string_view kLostHelp =
      "Holds lost before their release, by reason; expired: the lease ended on this machine's clock; gone: the engine "
      "no longer had the hold.";
  static constexpr MetricDef kDefs[] = {
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "acquired"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "busy"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "unavailable"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "cancelled"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "refused"},
      {MetricType::kSecondsHistogram, "stockade_lock_service_wait_seconds",
       "Time from the call to the acquisition, for successful acquisitions."},
      {MetricType::kSecondsHistogram, "stockade_lock_service_hold_seconds",
       "Time from an owner's first acquisition to its last release, or to the loss."},
      {MetricType::kGauge, "stockade_lock_service_held",
       "Current holds of an owner on a lock; its reads and its writes are counted apart."},
      {MetricType::kGauge, "stockade_lock_service_waiters",
       "Acquisitions that wait for other owners to release a lock."},
      {MetricType::kCounter, kRenewals, kRenewalsHelp, "result", "renewed"},
      {MetricType::kCounter, kRenewals, kRenewalsHelp, "result", "lost"},
      {MetricType::kCounter, kRenewals, kRenewalsHelp, "result", "error"},
      {MetricType::kSecondsHistogram, "stockade_lock_service_renewal_delay_seconds",
       "Delay between the time at which a renewal was due and the time at which the watchdog sent it, including "
       "retries."},
      {MetricType::kCounter, kLost, kLostHelp, "reason", "expired"},
      {MetricType::kCounter, kLost, kLostHelp, "reason", "gone"},
      {MetricType::kCounter, "stockade_lock_service_round_trips_total",
       "Requests to the engine; releases and renewals that are sent together count once."},
      {MetricType::kCounter, "stockade_lock_service_engine_errors_total",
       "Tries, renewals and releases that failed: the engine did not answer, or answered with an error."},
  };
  return kDefs;
}

}  // namespace stockade::locks_internal
