#include "ledger_metrics.h"

namespace stockade::internal {

std::span<const MetricDef> LedgerMetricDefs() {
  static constexpr MetricDef kDefs[] = {
      {MetricType::kCounter, "stockade_ledger_records_total", "Records made durable."},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "success"},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "error"},
      {MetricType::kSecondsHistogram, "stockade_ledger_commit_seconds",
       "Time of a group commit, from its begin to its end on the disk."},
      {MetricType::kCountHistogram, "stockade_ledger_batch_records", "Records in a group commit."},
      {MetricType::kGauge, "stockade_ledger_queue_records", "Records that wait for a group commit to begin."},
      {MetricType::kGauge, "stockade_ledger_recovery_seconds", "Time that opening the ledger took."},
  };
  return kDefs;
}

}  // namespace stockade::internal
