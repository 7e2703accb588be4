#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_METRICS_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_METRICS_H_

#include <cstddef>
#include <span>

#include "stockade/metrics/metric_set.h"

namespace stockade::internal {

// Indices of LedgerMetricDefs().
enum LedgerMetric : size_t {
  kLedgerRecords,
  kLedgerCommitSuccesses,
  kLedgerCommitErrors,
  kLedgerCommitSeconds,
  kLedgerBatchRecords,
  kLedgerQueueRecords,
  kLedgerRecoverySeconds,
};

std::span<const MetricDef> LedgerMetricDefs();

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_METRICS_H_
