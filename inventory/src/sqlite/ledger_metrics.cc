#include "ledger_metrics.h"

namespace stockade::inventory_internal {

std::span<const MetricDef> LedgerMetricDefs() {
  static constexpr MetricDef kDefs[] = {
      {MetricType::kCounter, "stockade_ledger_records_total", "Records made durable."},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "success"},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "refused"},
      {MetricType::kCounter, "stockade_ledger_commits_total", "Group commits, by result.", "result", "error"},
      {MetricType::kSecondsHistogram, "stockade_ledger_commit_seconds",
       "Duration of a group commit, until it is on disk."},
      {MetricType::kCountHistogram, "stockade_ledger_batch_records", "Records in a group commit."},
      {MetricType::kGauge, "stockade_ledger_queue_records", "Records that wait for a group commit."},
      {MetricType::kGauge, "stockade_ledger_recovery_seconds", "Time that it took to open the ledger."},
      {MetricType::kCounter, "stockade_ledger_pruned_records_total",
       "Journal records that were pruned, with their effects merged into the start of the journal."},
      {MetricType::kGauge, "stockade_ledger_journal_records", "Records in the journal."},
      {MetricType::kGauge, "stockade_ledger_file_bytes", "Size of the file, without its write-ahead log."},
      {MetricType::kSecondsHistogram, "stockade_ledger_checkpoint_seconds",
       "Duration of a checkpoint, which moves the write-ahead log into the file; no group commit begins meanwhile."},
  };
  return kDefs;
}

}  // namespace stockade::inventory_internal
