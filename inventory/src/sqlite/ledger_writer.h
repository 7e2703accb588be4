#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_WRITER_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "commit_queue.h"
#include "journal_pruner.h"
#include "ledger_files.h"
#include "record_applier.h"
#include "stockade/inventory/sqlite_ledger.h"
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

// The one thread that touches the file of a ledger, and what it does there: commit what is queued, prune the journal,
// move the write-ahead log into the file. All that it is given must outlive it.
class LedgerWriter {
 public:
  LedgerWriter(const std::string& path, const SqliteLedgerOptions& options, std::unique_ptr<OpenedLedger> opened,
               CommitQueue& queue, ComponentMetrics& metrics)
      : path_(path), options_(options), queue_(queue), metrics_(metrics), opened_(std::move(opened)) {}

  // Before Start(). What is recovered is durable. An error leaves the file as it was found.
  absl::StatusOr<LedgerState> Recover();
  // `opened`: when opening the ledger began. ResourceExhausted: the system gives no thread.
  absl::Status Start(Instant opened);
  // Writes what is queued and ends. Nobody may append meanwhile.
  void Stop();

  // Thread-safe. What ended, or came back, longer ago may be pruned; infinite: nothing.
  void SetRetention(absl::Duration retention) {
    retention_us_.store(absl::ToInt64Microseconds(retention), std::memory_order_relaxed);
  }

 private:
  void Run();
  // False: the ledger has failed.
  bool Commit(CommitQueue::Batch& batch);
  // Before the first batch: from now on the file is not complete without its log, and says so on the disk.
  absl::Status BeginLog();
  // After the last batch: the file is complete, and says so.
  absl::Status EndLog();
  absl::Status Prune(size_t written);
  absl::Status Checkpoint();
  // Whether it is time for that: also if the disk has less room than the log has, as the file may need as much.
  bool IsLogLong() const;
  void Fail(const absl::Status& why);
  void ShowFileSize();

  const std::string& path_;
  const SqliteLedgerOptions& options_;
  CommitQueue& queue_;
  ComponentMetrics& metrics_;

  SqliteDatabase& database() { return opened_->database(); }

  // Used by Recover(), then by the thread alone. The order matters: statements go before the database.
  std::unique_ptr<OpenedLedger> opened_;
  std::optional<RecordApplier> applier_;
  std::optional<JournalPruner> pruner_;
  uint64_t last_row_ = 0;  // The last position of the journal.
  // The least that the wall clock was ahead of the other clock when a row got its time. Rows are pruned by this,
  // because the wall clock may be set, and what the inventory remembers does not go by it: none seems older than it is.
  absl::Duration least_lead_ = absl::InfiniteDuration();
  bool log_needed_ = false;  // Page 1 of the file may say that it needs its log.
  bool log_begun_ = false;
  // The next transaction begins a generation of the log. Each must have page 1: see ChecksumVfs::SetLogNeed(). It also
  // makes the file say that it is complete when sqlite3's shell moves the log into it.
  bool needs_page_one_ = true;

  std::atomic<int64_t> retention_us_{INT64_MAX};
  // For metrics: written by the thread.
  std::atomic<uint64_t> journal_records_{0};
  std::atomic<int64_t> file_bytes_{0};
  std::thread thread_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_WRITER_H_
