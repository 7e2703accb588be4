#include "stockade/inventory/sqlite_ledger.h"

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "durable_notifier.h"
#include "file_lock.h"
#include "ledger_metrics.h"
#include "ledger_recovery.h"
#include "ledger_schema.h"
#include "record_applier.h"
#include "sqlite_database.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade {

absl::Status SqliteLedgerOptions::Validate() const {
  if (name.empty()) return absl::InvalidArgumentError("SqliteLedger: name is empty");
  if (lock_wait < absl::ZeroDuration()) return absl::InvalidArgumentError("SqliteLedger: lock_wait is negative");
  if (max_batch_records < 1) return absl::InvalidArgumentError("SqliteLedger: max_batch_records is 0");
  if (max_queued_records < 1) return absl::InvalidArgumentError("SqliteLedger: max_queued_records is 0");
  if (clock == nullptr) return absl::InvalidArgumentError("SqliteLedger: clock is null");
  return absl::OkStatus();
}

// Positions: 1 ... durable ... flight_end ... appended. Those up to `durable` are on the disk, those up to `flight_end`
// are with the writer thread, those up to `appended` are in `queue`, in this order and without a gap; but in a failed
// ledger `queue` is empty, `durable` stands still, and `appended` only counts.
struct SqliteLedger::State {
  State(std::string path_in, SqliteLedgerOptions options_in, internal::FileLock lock_in,
        internal::SqliteDatabase database_in)
      : path(std::move(path_in)),
        options(std::move(options_in)),
        lock(std::move(lock_in)),
        database(std::move(database_in)),
        metrics(options.metrics, internal::LedgerMetricDefs(), {{"ledger", options.name}}) {}

  absl::Status Recover();
  void StartWriter(absl::Duration recovery);
  void RunWriter();
  absl::Status Commit(const std::vector<LedgerRecord>& batch, uint64_t first_position);
  // Aborts unless Append() has returned `position`. With `mutex` held.
  void CheckAppended(std::string_view call, uint64_t position) const;
  // Of the waiters for `position`.
  std::condition_variable& DurableFor(uint64_t position) {
    return durable_changed[position <= flight_end ? flight % 2 : (flight + 1) % 2];
  }

  const internal::ForkGuard fork_guard;
  const std::string path;
  const SqliteLedgerOptions options;
  // Used by Open(), then by the writer alone. The order matters: statements go before the database, that before the
  // lock.
  internal::FileLock lock;
  internal::SqliteDatabase database;
  std::optional<internal::RecordApplier> applier;

  std::mutex mutex;               // Guards what follows.
  std::condition_variable work;   // There is something to write, or `closing`. For the writer.
  std::condition_variable space;  // The queue has got shorter, or the ledger has failed.
  // Waiters of batch n wait on n % 2, so that the end of a batch wakes those of that batch; waiters of batches after
  // the next one wait with the next one's, and move on when woken.
  std::condition_variable durable_changed[2];
  std::optional<LedgerState> recovered;  // Until taken.
  std::deque<LedgerRecord> queue;
  uint64_t flight = 0;  // Batches begun.
  uint64_t durable = 0;
  uint64_t flight_end = 0;
  uint64_t appended = 0;
  absl::Status failure;  // Once not OK it stays.
  bool closing = false;

  internal::DurableNotifier notifier;  // Is told under `mutex`, so that it knows whatever anybody knows.
  std::thread writer;
  internal::ComponentMetrics metrics;  // Last: its gauges see the rest.
};

absl::Status SqliteLedger::State::Recover() {
  // Whatever is wrong with it, the file stays as it was found.
  database.set_checkpoint_on_close(false);
  absl::Status status = internal::PrepareLedgerFile(database);
  if (!status.ok()) return status;
  absl::StatusOr<internal::RecoveredLedger> found = internal::RecoverLedger(database);
  if (!found.ok()) return found.status();
  // What was in the log may have been written by a process that was killed before its fsync, so that a power cut could
  // still undo what the caller is about to be told. A checkpoint moves all of it into the file, and syncs that.
  const absl::StatusOr<int64_t> busy = database.QueryInt("PRAGMA wal_checkpoint(TRUNCATE)");
  if (!busy.ok()) return busy.status();
  if (*busy != 0) return absl::FailedPreconditionError("somebody else reads it");
  absl::StatusOr<internal::RecordApplier> created = internal::RecordApplier::Create(database, std::move(found->book));
  if (!created.ok()) return created.status();
  applier.emplace(*std::move(created));
  recovered = std::move(found->state);
  durable = flight_end = appended = found->last_position;
  notifier.Reach(durable);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SqliteLedger>> SqliteLedger::Open(std::string path, SqliteLedgerOptions options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (path.empty() || path == ":memory:" || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(internal::Concat("SqliteLedger: '", path, "' names no file"));
  }
  const auto failed = [&path](const absl::Status& why) {
    return absl::Status(why.code(), internal::Concat("SqliteLedger '", path, "': ", why.message()));
  };
  const Instant begin = options.clock->Now();
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).string();
  if (error) return failed(absl::UnavailableError(error.message()));

  absl::StatusOr<internal::FileLock> lock =
      internal::FileLock::Acquire(absolute + ".lock", options.lock_wait, options.clock);
  if (!lock.ok()) return failed(lock.status());
  absl::StatusOr<internal::SqliteDatabase> database = internal::SqliteDatabase::Open(absolute, options.lock_wait);
  if (!database.ok()) return failed(database.status());
  auto state = std::make_unique<State>(path, std::move(options), *std::move(lock), *std::move(database));
  if (absl::Status status = state->Recover(); !status.ok()) return failed(status);
  try {
    state->StartWriter(state->options.clock->Now() - begin);
  } catch (const std::system_error& thrown) {
    return failed(absl::ResourceExhaustedError(internal::Concat("cannot start a thread: ", thrown.what())));
  }
  return std::unique_ptr<SqliteLedger>(new SqliteLedger(std::move(state)));
}

void SqliteLedger::State::StartWriter(absl::Duration recovery) {
  notifier.Start();
  writer = std::thread([this] { RunWriter(); });
  metrics.AddGauge(internal::kLedgerQueueRecords, [this] {
    std::lock_guard own(mutex);
    return static_cast<double>(queue.size());
  });
  metrics.AddGauge(internal::kLedgerRecoverySeconds, [recovery] { return absl::ToDoubleSeconds(recovery); });
}

SqliteLedger::SqliteLedger(std::unique_ptr<State> state) : state_(std::move(state)) {}

SqliteLedger::~SqliteLedger() {
  if (state_->fork_guard.InForkedChild()) {
    // Closing would go through SQLite's mutexes, which another thread may have held at the fork.
    (void)state_.release();
    return;
  }
  {
    std::lock_guard own(state_->mutex);
    state_->closing = true;
  }
  state_->work.notify_one();
  state_->writer.join();
  state_->notifier.Stop();
  // What a failing commit has left in the log is for Open() to judge.
  state_->database.set_checkpoint_on_close(state_->failure.ok());
}

void SqliteLedger::State::RunWriter() {
  std::vector<LedgerRecord> batch;
  std::unique_lock own(mutex);
  while (true) {
    work.wait(own, [this] { return !queue.empty() || closing; });
    if (queue.empty()) return;
    const uint64_t first_position = flight_end + 1;
    batch.clear();
    while (!queue.empty() && batch.size() < options.max_batch_records) {
      batch.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    flight_end += batch.size();
    ++flight;
    own.unlock();
    space.notify_all();
    const absl::Status status = Commit(batch, first_position);
    own.lock();
    if (status.ok()) {
      durable = flight_end;
      notifier.Reach(durable);
      durable_changed[flight % 2].notify_all();
      continue;
    }
    failure = absl::UnavailableError(
        internal::Concat("SqliteLedger '", path, "' has failed and must be opened again: ", status.message()));
    queue.clear();
    notifier.Fail(failure);
    for (std::condition_variable& changed : durable_changed) changed.notify_all();
    space.notify_all();
  }
}

absl::Status SqliteLedger::State::Commit(const std::vector<LedgerRecord>& batch, uint64_t first_position) {
  const Instant begin = options.clock->Now();
  absl::Status status = applier->Apply(batch, first_position, options.clock->WallNow());
  metrics.Observe(internal::kLedgerCommitSeconds, options.clock->Now() - begin);
  metrics.ObserveCount(internal::kLedgerBatchRecords, static_cast<int64_t>(batch.size()));
  if (status.ok()) {
    metrics.Add(internal::kLedgerCommitSuccesses);
    metrics.Add(internal::kLedgerRecords, batch.size());
  } else {
    metrics.Add(internal::kLedgerCommitErrors);
    internal::Log(LogSeverity::kError, internal::Concat("SqliteLedger '", path, "' has failed: ", status.message()));
  }
  return status;
}

LedgerState SqliteLedger::TakeRecovered() {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  std::lock_guard own(state_->mutex);
  if (!state_->recovered.has_value()) {
    internal::Fatal(internal::Concat("SqliteLedger '", state_->path, "': TakeRecovered() called again"));
  }
  return *std::exchange(state_->recovered, std::nullopt);
}

uint64_t SqliteLedger::Append(LedgerRecord record) {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  State& state = *state_;
  std::unique_lock own(state.mutex);
  state.space.wait(own, [&] { return state.queue.size() < state.options.max_queued_records || !state.failure.ok(); });
  const uint64_t position = ++state.appended;
  if (!state.failure.ok()) return position;
  state.queue.push_back(std::move(record));
  // The writer looks at the queue before it sleeps, so it sleeps only on an empty one.
  const bool was_empty = state.queue.size() == 1;
  own.unlock();
  if (was_empty) state.work.notify_one();
  return position;
}

void SqliteLedger::State::CheckAppended(std::string_view call, uint64_t position) const {
  if (position <= appended) return;
  internal::Fatal(
      internal::Concat("SqliteLedger '", path, "': ", call, "(", position, "), but only ", appended, " were appended"));
}

absl::Status SqliteLedger::AwaitDurable(uint64_t position) {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  State& state = *state_;
  std::unique_lock own(state.mutex);
  state.CheckAppended("AwaitDurable", position);
  while (true) {
    if (position <= state.durable) return absl::OkStatus();
    if (!state.failure.ok()) return state.failure;
    state.DurableFor(position).wait(own);
  }
}

void SqliteLedger::NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  {
    std::lock_guard own(state_->mutex);
    state_->CheckAppended("NotifyDurable", position);
  }
  state_->notifier.Notify(position, std::move(done));
}

absl::Status SqliteLedger::Health() const {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  std::lock_guard own(state_->mutex);
  return state_->failure;
}

}  // namespace stockade
