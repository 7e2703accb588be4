#include "service_metrics.h"

namespace stockade::internal {

std::span<const MetricDef> ServiceMetricDefs() {
  static constexpr std::string_view kAcquisitions = "stockade_lock_service_acquisitions_total";
  static constexpr std::string_view kAcquisitionsHelp =
      "Calls to acquire a lock of a service, re-entries included, by what their callers were told.";
  static constexpr std::string_view kRenewals = "stockade_lock_service_renewals_total";
  static constexpr std::string_view kRenewalsHelp =
      "Renewals of holds by the watchdog; lost: the engine has no such hold any more; error: tried again.";
  static constexpr std::string_view kLost = "stockade_lock_service_lost_total";
  static constexpr std::string_view kLostHelp =
      "Holds lost before their release; expired: their time was over here; gone: the engine had them no more.";
  static constexpr MetricDef kDefs[] = {
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "acquired"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "busy"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "unavailable"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "cancelled"},
      {MetricType::kCounter, kAcquisitions, kAcquisitionsHelp, "result", "refused"},
      {MetricType::kSecondsHistogram, "stockade_lock_service_wait_seconds",
       "Time from the call to the lock, of acquisitions that got it."},
      {MetricType::kSecondsHistogram, "stockade_lock_service_hold_seconds",
       "Time from the first acquisition of an owner to its last release, or to the loss."},
      {MetricType::kGauge, "stockade_lock_service_held", "Holds: owners that have a lock now, each lock of theirs."},
      {MetricType::kGauge, "stockade_lock_service_waiters", "Acquisitions that wait for others to release a lock."},
      {MetricType::kCounter, kRenewals, kRenewalsHelp, "result", "renewed"},
      {MetricType::kCounter, kRenewals, kRenewalsHelp, "result", "lost"},
      {MetricType::kCounter, kRenewals, kRenewalsHelp, "result", "error"},
      {MetricType::kSecondsHistogram, "stockade_lock_service_renewal_delay_seconds",
       "How long after it was due the watchdog sent a renewal; its retries too."},
      {MetricType::kCounter, kLost, kLostHelp, "reason", "expired"},
      {MetricType::kCounter, kLost, kLostHelp, "reason", "gone"},
      {MetricType::kCounter, "stockade_lock_service_round_trips_total",
       "Times that the engine was asked; what is asked together counts once."},
      {MetricType::kCounter, "stockade_lock_service_engine_errors_total",
       "Tries, renewals and releases that the engine failed to answer."},
  };
  return kDefs;
}

}  // namespace stockade::internal
