#include "lock_metrics.h"

#include <string>

#include "absl/time/time.h"

namespace stockade::locks_internal {
namespace {

constexpr std::string_view kAcquisitionsName = "stockade_lock_acquisitions_total";
constexpr std::string_view kAcquisitionsHelp = "Outermost acquisitions of a lock; re-entries do not count.";
constexpr std::string_view kContendedName = "stockade_lock_contended_acquisitions_total";
constexpr std::string_view kContendedHelp =
    "Acquisitions, of those in stockade_lock_acquisitions_total, that found the lock taken or revoked its bias.";

// In the order of kTable; the counters of a pair in the order of LockMode.
enum Metric : size_t {
  kAcquisitions = 0,
  kContended = 2,
  kRevocations = 4,
  kWait,
  kHold,
  kWaiters,
};

constexpr MetricDef kTable[] = {
    {MetricType::kCounter, kAcquisitionsName, kAcquisitionsHelp, "mode", "exclusive"},
    {MetricType::kCounter, kAcquisitionsName, kAcquisitionsHelp, "mode", "shared"},
    {MetricType::kCounter, kContendedName, kContendedHelp, "mode", "exclusive"},
    {MetricType::kCounter, kContendedName, kContendedHelp, "mode", "shared"},
    {MetricType::kCounter, "stockade_lock_revocations_total",
     "Times that a thread revoked the bias of a lock, to wait for threads that hold it without a change of its word; "
     "up to 20 us each."},
    {MetricType::kSecondsHistogram, "stockade_lock_wait_seconds",
     "Duration of contended acquisitions; uncontended ones and waits that timed out do not count."},
    {MetricType::kSecondsHistogram, "stockade_lock_hold_seconds",
     "Time from the outermost acquisition of a lock to its release; a sample of 1 in 256 acquisitions per thread."},
    {MetricType::kGauge, "stockade_lock_waiters", "Threads that wait for a lock."},
};

size_t Of(Metric pair, LockMode mode) { return pair + static_cast<size_t>(mode); }

}  // namespace

LockMetrics::LockMetrics(MetricsRegistry* registry, std::string_view lock_name)
    : metrics_(registry, kTable, {{"lock", std::string(lock_name)}}) {
  metrics_.AddGauge(kWaiters, [this] { return static_cast<double>(waiters_.load(std::memory_order_relaxed)); });
}

void LockMetrics::Waited(LockMode mode, std::chrono::steady_clock::duration wait) {
  metrics_.Add(Of(kContended, mode));
  metrics_.Observe(kWait, absl::FromChrono(wait));
}

void LockMetrics::CalledBack() { metrics_.Add(kRevocations); }

void LockMetrics::Held(std::chrono::steady_clock::duration span) { metrics_.Observe(kHold, absl::FromChrono(span)); }

}  // namespace stockade::locks_internal
