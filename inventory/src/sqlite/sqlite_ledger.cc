#include "stockade/inventory/sqlite_ledger.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "commit_queue.h"
#include "ledger_files.h"
#include "ledger_writer.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/log.h"
#include "stockade/base/mutex.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

absl::Status CheckPath(const std::string& path) {
  if (!path.empty() && path != ":memory:" && path.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(base_internal::Concat("SqliteLedger: '", path, "' names no file"));
}

absl::Status Named(const std::string& path, const absl::Status& why) {
  return absl::Status(why.code(), base_internal::Concat("SqliteLedger '", path, "': ", why.message()));
}

}  // namespace

absl::Status SqliteLedgerOptions::Validate() const {
  if (absl::Status valid = base_internal::CheckName("SqliteLedger: name", name); !valid.ok()) return valid;
  if (lock_wait < absl::ZeroDuration()) return absl::InvalidArgumentError("SqliteLedger: lock_wait is negative");
  if (max_batch_records < 1) return absl::InvalidArgumentError("SqliteLedger: max_batch_records is 0");
  if (max_queued_records < 1) return absl::InvalidArgumentError("SqliteLedger: max_queued_records is 0");
  if (retention < absl::ZeroDuration()) return absl::InvalidArgumentError("SqliteLedger: retention is negative");
  if (clock == nullptr) return absl::InvalidArgumentError("SqliteLedger: clock is null");
  return absl::OkStatus();
}

struct SqliteLedger::State {
  State(std::string path_in, SqliteLedgerOptions options_in, std::unique_ptr<inventory_internal::OpenedLedger> opened)
      : path(std::move(path_in)),
        options(std::move(options_in)),
        queue(base_internal::Concat("SqliteLedger '", path, "'"), options.max_batch_records,
              options.max_queued_records),
        writer(path, options, std::move(opened), queue, metrics),
        metrics(options.metrics, inventory_internal::LedgerMetricDefs(), {{"ledger", options.name}}) {}

  const base_internal::ForkGuard fork_guard;
  const std::string path;
  const SqliteLedgerOptions options;
  inventory_internal::CommitQueue queue;
  inventory_internal::LedgerWriter writer;
  base_internal::Mutex mutex;
  std::optional<LedgerState> recovered STOCKADE_GUARDED_BY(mutex);  // Until taken.
  metrics_internal::ComponentMetrics metrics;                       // Last: its gauges see the rest.
};

absl::StatusOr<std::unique_ptr<SqliteLedger>> SqliteLedger::Open(std::string path, SqliteLedgerOptions options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (absl::Status valid = CheckPath(path); !valid.ok()) return valid;
  const auto failed = [&path](const absl::Status& why) { return Named(path, why); };
  const Instant begin = options.clock->Now();
  absl::StatusOr<std::unique_ptr<inventory_internal::OpenedLedger>> opened =
      inventory_internal::OpenedLedger::Open(path, true, options.lock_wait, options.clock);
  if (!opened.ok()) return failed(opened.status());
  auto state = std::make_unique<State>(path, std::move(options), *std::move(opened));
  absl::StatusOr<LedgerState> recovered = state->writer.Recover();
  if (!recovered.ok()) return failed(recovered.status());
  {
    const base_internal::MutexLock own(state->mutex);
    state->recovered = *std::move(recovered);
  }
  if (absl::Status started = state->writer.Start(begin); !started.ok()) return failed(started);
  return std::unique_ptr<SqliteLedger>(new SqliteLedger(std::move(state)));
}

absl::Status SqliteLedger::Audit(const std::string& path) {
  if (absl::Status valid = CheckPath(path); !valid.ok()) return valid;
  const absl::StatusOr<std::unique_ptr<inventory_internal::OpenedLedger>> opened =
      inventory_internal::OpenedLedger::Open(path, false, absl::ZeroDuration(), Clock::System());
  if (!opened.ok()) return Named(path, opened.status());
  if (absl::Status found = (*opened)->Examine().status(); !found.ok()) return Named(path, found);
  // Beyond what opening checks: that each index has what its table has.
  const absl::StatusOr<std::string> verdict = (*opened)->database().QueryText("PRAGMA integrity_check(1)");
  if (!verdict.ok()) return Named(path, verdict.status());
  if (*verdict == "ok") return absl::OkStatus();
  return Named(path, absl::DataLossError(base_internal::Concat("integrity_check: ", *verdict)));
}

SqliteLedger::SqliteLedger(std::unique_ptr<State> state) : state_(std::move(state)) {}

SqliteLedger::~SqliteLedger() {
  if (state_->fork_guard.InForkedChild()) {
    // Closing would go through SQLite's mutexes, which another thread may have held at the fork.
    (void)state_.release();
    return;
  }
  state_->writer.Stop();
}

LedgerState SqliteLedger::TakeRecovered() {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  const base_internal::MutexLock own(state_->mutex);
  if (!state_->recovered.has_value()) {
    base_internal::Fatal(base_internal::Concat("SqliteLedger '", state_->path, "': TakeRecovered() called again"));
  }
  return *std::exchange(state_->recovered, std::nullopt);
}

uint64_t SqliteLedger::Append(LedgerRecord record) {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  return state_->queue.Append(std::move(record));
}

absl::Status SqliteLedger::AwaitDurable(uint64_t position) {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  return state_->queue.AwaitDurable(position);
}

void SqliteLedger::NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  if (!done) {
    base_internal::Fatal(
        base_internal::Concat("SqliteLedger '", state_->path, "': NotifyDurable() was called without a callback"));
  }
  state_->queue.NotifyDurable(position, std::move(done));
}

std::vector<LedgerRecord> SqliteLedger::TakeRefused() {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  return state_->queue.TakeRefused();
}

void SqliteLedger::SetRetention(absl::Duration retention) {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  state_->writer.SetRetention(std::max<absl::Duration>(retention, state_->options.retention));
}

absl::Status SqliteLedger::Health() const {
  state_->fork_guard.Check("SqliteLedger", state_->path);
  return state_->queue.Health();
}

}  // namespace stockade
