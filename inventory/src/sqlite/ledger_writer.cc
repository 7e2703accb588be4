#include "ledger_writer.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "checksum_vfs.h"
#include "ledger_recovery.h"
#include "ledger_rows.h"
#include "request_fingerprint.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/log.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// 16 MiB: a page that many batches write to is moved into the file once, and a checkpoint takes 10 to 25 ms.
constexpr int64_t kLogPages = 4096;
// A shorter log is not worth a checkpoint, however full the disk is.
constexpr int64_t kLeastLogPages = 64;

// Writes page 1, with what is there already.
constexpr char kTouchPageOne[] = "PRAGMA user_version = 5";
static_assert(kLedgerSchemaVersion == 5);

// To compare with the wall clock.
absl::Time TimeAt(Instant at) { return absl::UnixEpoch() + absl::Nanoseconds(at.nanoseconds()); }

}  // namespace

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

absl::StatusOr<LedgerState> LedgerWriter::Recover() {
  absl::StatusOr<RecoveredLedger> found = opened_->Examine();
  if (!found.ok()) return found.status();
  CrashPoint("open: recovered, before the migration");
  if (absl::Status status = MigrateLedgerFile(database()); !status.ok()) return status;
  // A process that was killed before its fsync may have written what is in the log, so that a power cut could still
  // undo the state that this call is about to return. Or the fsync failed, so that the log only seems to be on the
  // disk. A checkpoint moves all of it into the file, and syncs that.
  CrashPoint("open: recovered, before the checkpoint");
  opened_->keep_log();
  if (absl::Status status = database().RewriteLog(); !status.ok()) return status;
  if (absl::Status status = database().Checkpoint(); !status.ok()) return status;
  CrashPoint("open: log moved into the file");
  if (opened_->files().need != LogNeed::kNone) {
    if (absl::Status status = database().SetLogNeed(LogNeed::kNone); !status.ok()) return status;
  }
  CrashPoint("open: file complete, before the log is emptied");
  // The next log has other salts, so that CheckLog() never takes what a crash has left of this one for its frames.
  const absl::StatusOr<int64_t> busy = database().QueryInt("PRAGMA wal_checkpoint(TRUNCATE)");
  if (!busy.ok()) return busy.status();
  if (*busy != 0) return absl::FailedPreconditionError("another connection is reading it");
  if (opened_->files().fresh) {
    absl::Status status = opened_->mark().Begin(found->session, found->last_position);
    // Otherwise a power cut could leave a mark which says that the ledger is still being made.
    if (status.ok()) status = opened_->mark().Sync();
    if (!status.ok()) return status;
  }
  CrashPoint("open: checkpoint done");
  database().StopAutomaticCheckpoints();
  const RequestFingerprint fingerprint(found->key);
  absl::StatusOr<RecordApplier> applier =
      RecordApplier::Create(database(), std::move(found->balances), fingerprint, std::move(found->requests));
  if (!applier.ok()) return applier.status();
  applier_.emplace(*std::move(applier));
  absl::StatusOr<JournalPruner> pruner = JournalPruner::Create(database(), std::move(found->start), fingerprint);
  if (!pruner.ok()) return pruner.status();
  pruner_.emplace(*std::move(pruner));
  last_row_ = found->last_position;
  journal_records_.store(last_row_ - pruner_->start(), std::memory_order_relaxed);
  ShowFileSize();
  return std::move(found->state);
}

absl::Status LedgerWriter::Start(Instant opened) {
  least_lead_ = options_.clock->WallNow() - TimeAt(options_.clock->Now());
  absl::Status started = queue_.Start(last_row_);
  if (started.ok()) started = StartThread(thread_, [this] { Run(); });
  if (!started.ok()) return started;
  const absl::Duration took = options_.clock->Now() - opened;
  metrics_.AddGauge(kLedgerQueueRecords, [this] { return static_cast<double>(queue_.size()); });
  metrics_.AddGauge(kLedgerRecoverySeconds, [took] { return absl::ToDoubleSeconds(took); });
  metrics_.AddGauge(kLedgerJournalRecords,
                    [this] { return static_cast<double>(journal_records_.load(std::memory_order_relaxed)); });
  metrics_.AddGauge(kLedgerFileBytes,
                    [this] { return static_cast<double>(file_bytes_.load(std::memory_order_relaxed)); });
  if (last_row_ == 0) return started;
  Log(LogSeverity::kInfo, Concat("SqliteLedger '", path_, "': recovered ", journal_records_.load(), " records in ",
                                 absl::FormatDuration(took)));
  return started;
}

void LedgerWriter::Stop() {
  queue_.Close();
  thread_.join();
  queue_.StopNotifying();
  // What a failing commit has left in the log is for Open() to judge.
  const absl::Status health = queue_.Health();
  if (!health.ok() && !absl::IsResourceExhausted(health)) return;
  const absl::Status ended = EndLog();
  database().set_checkpoint_on_close(ended.ok());
  if (ended.ok()) return;
  Log(LogSeverity::kError,
      Concat("SqliteLedger '", path_, "' was closed without moving its log into the file: ", ended.message()));
}

absl::Status LedgerWriter::BeginLog() {
  if (log_begun_) return absl::OkStatus();
  const auto session = static_cast<int64_t>(RequestFingerprint::RandomKey()[0]);
  // A log must be there before the file says so.
  const std::string script =
      Concat("BEGIN IMMEDIATE; UPDATE ledger SET session = ", session, "; ", kTouchPageOne, "; COMMIT");
  absl::Status status = database().Execute(script.c_str());
  if (!status.ok()) return database().RollBackAfter(std::move(status));
  needs_page_one_ = false;
  CrashPoint("writer: log begun");
  log_needed_ = true;
  if (status = database().SetLogNeed(LogNeed::kNeedsLog); !status.ok()) return status;
  CrashPoint("writer: file needs its log");
  if (status = opened_->mark().Begin(session, last_row_); !status.ok()) return status;
  log_begun_ = true;
  return status;
}

absl::Status LedgerWriter::EndLog() {
  if (!log_needed_) return absl::OkStatus();
  if (absl::Status status = database().Checkpoint(); !status.ok()) return status;
  (void)opened_->mark().Sync();  // As in Checkpoint().
  CrashPoint("close: log moved into the file");
  return database().SetLogNeed(LogNeed::kNone);
}

void LedgerWriter::Run() {
  CommitQueue::Batch batch;
  while (queue_.Take(batch)) {
    CrashPoint("writer: batch taken");
    if (!Commit(batch)) continue;
    absl::Status status = Prune(batch.records.size());
    if (status.ok() && IsLogLong()) status = Checkpoint();
    // Without room both are tried again after the next batch.
    if (!status.ok() && !absl::IsResourceExhausted(status)) Fail(status);
    journal_records_.store(last_row_ - pruner_->start(), std::memory_order_relaxed);
  }
}

bool LedgerWriter::IsLogLong() const {
  const int64_t pages = opened_->database().log_pages();
  if (pages < kLeastLogPages || pages >= kLogPages) return pages >= kLogPages;
  struct statvfs disk;
  const bool says = statvfs(path_.c_str(), &disk) == 0 && disk.f_blocks != 0 && disk.f_frsize != 0;
  return says && disk.f_bavail <= static_cast<uint64_t>(pages) * kPageBytes / disk.f_frsize;
}

bool LedgerWriter::Commit(CommitQueue::Batch& batch) {
  const absl::Time wall = options_.clock->WallNow();
  const Instant begin = options_.clock->Now();
  least_lead_ = std::min(least_lead_, wall - TimeAt(begin));
  absl::Status status = BeginLog();
  if (status.ok()) {
    status = applier_->Apply(batch.records, batch.first_row, wall, needs_page_one_ ? kTouchPageOne : nullptr);
  }
  metrics_.Observe(kLedgerCommitSeconds, options_.clock->Now() - begin);
  metrics_.ObserveCount(kLedgerBatchRecords, static_cast<int64_t>(batch.records.size()));
  if (status.ok()) {
    needs_page_one_ = false;
    last_row_ += batch.records.size();
    // The batch is durable, so it cannot be refused, whatever the reason.
    if (const absl::Status marked = opened_->mark().Advance(last_row_); !marked.ok()) {
      Fail(marked);
      return false;
    }
    metrics_.Add(kLedgerCommitSuccesses);
    metrics_.Add(kLedgerRecords, batch.records.size());
    CrashPoint("writer: committed, before the notifications");
    queue_.Written();
    CrashPoint("writer: all notified");
    return true;
  }
  // NotFound: an order was pruned while the return of its units was on the way here.
  if (!absl::IsResourceExhausted(status) && !absl::IsNotFound(status)) {
    Fail(status);
    return false;
  }
  metrics_.Add(kLedgerCommitRefusals);
  // Most pages of the log already have their place in the file. After a checkpoint the log starts again, in its old
  // room.
  if (const absl::Status moved = Checkpoint(); !moved.ok() && !absl::IsResourceExhausted(moved)) {
    Fail(moved);
    return false;
  }
  Log(LogSeverity::kError, Concat("SqliteLedger '", path_, "' has refused a batch: ", status.message()));
  queue_.Refused(batch,
                 absl::ResourceExhaustedError(Concat(
                     "SqliteLedger '", path_, "' has refused a batch, and nothing was written: ", status.message())));
  return false;
}

void LedgerWriter::Fail(const absl::Status& why) {
  metrics_.Add(kLedgerCommitErrors);  // Also if it was a checkpoint that failed: no group commit will succeed any more.
  Log(LogSeverity::kError, Concat("SqliteLedger '", path_, "' has failed: ", why.message()));
  queue_.Failed(absl::UnavailableError(
      Concat("SqliteLedger '", path_, "' has failed and must be opened again: ", why.message())));
}

absl::Status LedgerWriter::Prune(size_t written) {
  const int64_t retention_us = retention_us_.load(std::memory_order_relaxed);
  if (retention_us == INT64_MAX) return absl::OkStatus();
  const absl::Time now = TimeAt(options_.clock->Now()) + least_lead_;
  const int64_t before_us = absl::ToUnixMicros(now - absl::Microseconds(retention_us));
  // Twice as fast as the journal grows, so that it shrinks to what is to be kept.
  for (size_t folded = 0; folded < 2 * written; folded += JournalPruner::kStep) {
    const uint64_t start = pruner_->start();
    const absl::StatusOr<std::vector<uint64_t>> forgotten = pruner_->Step(before_us, last_row_);
    if (!forgotten.ok()) return forgotten.status();
    if (pruner_->start() == start) break;
    applier_->Forget(*forgotten);
    metrics_.Add(kLedgerPruned, pruner_->start() - start);
  }
  return absl::OkStatus();
}

absl::Status LedgerWriter::Checkpoint() {
  const Instant begin = options_.clock->Now();
  CrashPoint("writer: before a checkpoint");
  absl::Status status = database().Checkpoint();
  if (status.ok()) {
    needs_page_one_ = true;
    // Without it the mark lags after a power cut, and that is all.
    (void)opened_->mark().Sync();
  }
  CrashPoint("writer: checkpoint done");
  metrics_.Observe(kLedgerCheckpointSeconds, options_.clock->Now() - begin);
  ShowFileSize();
  return status;
}

void LedgerWriter::ShowFileSize() {
  const absl::StatusOr<int64_t> pages = database().QueryInt("PRAGMA page_count");
  const absl::StatusOr<int64_t> page_bytes = database().QueryInt("PRAGMA page_size");
  if (pages.ok() && page_bytes.ok()) file_bytes_.store(*pages * *page_bytes, std::memory_order_relaxed);
}

}  // namespace stockade::inventory_internal
