#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_METRICS_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_METRICS_H_

#include <cstddef>
#include <span>

#include "stockade/metrics/metric_set.h"

namespace stockade::inventory_internal {

// Indices of LedgerMetricDefs().
enum LedgerMetric : size_t {
  kLedgerRecords,
  kLedgerCommitSuccesses,
  kLedgerCommitRefusals,
  kLedgerCommitErrors,
  kLedgerCommitSeconds,
  kLedgerBatchRecords,
  kLedgerQueueRecords,
  kLedgerRecoverySeconds,
  kLedgerPruned,
  kLedgerJournalRecords,
  kLedgerFileBytes,
  kLedgerCheckpointSeconds,
};

std::span<const MetricDef> LedgerMetricDefs();

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_METRICS_H_
