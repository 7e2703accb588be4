#include "ledger_metrics.h"

namespace stockade::internal {

std::span<const MetricDef> LedgerMetricDefs() {
  static constexpr MetricDef kDefs[] = {
      {MetricType::kCounter, "stockade_ledger_records_total", "Records made durable."},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "success"},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "refused"},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "error"},
      {MetricType::kSecondsHistogram, "stockade_ledger_commit_seconds",
       "Time of a group commit, from its begin to its end on the disk."},
      {MetricType::kCountHistogram, "stockade_ledger_batch_records", "Records in a group commit."},
      {MetricType::kGauge, "stockade_ledger_queue_records", "Records that wait for a group commit to begin."},
      {MetricType::kGauge, "stockade_ledger_recovery_seconds", "Time that opening the ledger took."},
      {MetricType::kCounter, "stockade_ledger_pruned_records_total", "Records of the journal folded into its start."},
      {MetricType::kGauge, "stockade_ledger_journal_records", "Records in the journal."},
      {MetricType::kGauge, "stockade_ledger_file_bytes", "Size of the file, without its write-ahead log."},
      {MetricType::kSecondsHistogram, "stockade_ledger_checkpoint_seconds",
       "Time of moving the write-ahead log into the file, during which no group commit begins."},
  };
  return kDefs;
}

}  // namespace stockade::internal
