#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_WRITER_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_WRITER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "commit_queue.h"
#include "file_lock.h"
#include "journal_pruner.h"
#include "record_applier.h"
#include "sqlite_database.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::internal {

// The one thread that touches the file of a ledger, and what it does there: commit what is queued, prune the journal,
// move the write-ahead log into the file. All that it is given must outlive it.
class LedgerWriter {
 public:
  LedgerWriter(const std::string& path, const SqliteLedgerOptions& options, FileLock lock, SqliteDatabase database,
               CommitQueue& queue, ComponentMetrics& metrics)
      : path_(path),
        options_(options),
        queue_(queue),
        metrics_(metrics),
        lock_(std::move(lock)),
        database_(std::move(database)) {}

  // Before Start(). What is recovered is durable. An error leaves the file as it was found.
  absl::StatusOr<LedgerState> Recover();
  // `opened`: when opening the ledger began. Throws std::system_error where there is no thread to be had.
  void Start(Instant opened);
  // Writes what is queued and ends. Nobody may append meanwhile.
  void Stop();

  // Thread-safe. What ended longer ago may be pruned; infinite: nothing.
  void SetRetention(absl::Duration retention) {
    retention_us_.store(absl::ToInt64Microseconds(retention), std::memory_order_relaxed);
  }

 private:
  void Run();
  // False: the ledger has failed.
  bool Commit(CommitQueue::Batch& batch);
  absl::Status Prune(size_t written);
  absl::Status Checkpoint();
  void Fail(const absl::Status& why);
  void ShowFileSize();

  const std::string& path_;
  const SqliteLedgerOptions& options_;
  CommitQueue& queue_;
  ComponentMetrics& metrics_;

  // Used by Recover(), then by the thread alone. The order matters: statements go before the database, that before the
  // lock.
  FileLock lock_;
  SqliteDatabase database_;
  std::optional<RecordApplier> applier_;
  std::optional<JournalPruner> pruner_;
  uint64_t last_row_ = 0;  // The last position of the journal.

  std::atomic<int64_t> retention_us_{INT64_MAX};
  // For metrics: written by the thread.
  std::atomic<uint64_t> journal_records_{0};
  std::atomic<int64_t> file_bytes_{0};
  std::thread thread_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_WRITER_H_
