#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/inventory/ledger.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// Options of a SqliteLedger.
struct STOCKADE_EXPORT SqliteLedgerOptions {
  // The value of the metrics label `ledger`. Must not be empty and must be printable UTF-8 without control characters.
  std::string name = "default";

  // How long Open() waits for another owner to close the file, for a restart that overlaps with the previous process.
  // Zero by default, because a second owner is usually a mistake.
  Duration lock_wait = absl::ZeroDuration();

  // The largest number of records in one transaction. Each transaction costs an fsync (0.1 to 10 ms) and some 5 us per
  // record, so that the first of 4096 records waits 20 ms for the others. At that size the fsync is a small part even
  // on a slow disk, and more records would only increase the wait.
  size_t max_batch_records = 4096;

  // The largest number of records that wait for a transaction; Append() blocks while the queue is full. Bounds the
  // memory (some 300 bytes per record, and 50 bytes per line of a basket) if the disk is slower than callers that
  // append without waiting.
  size_t max_queued_records = 65'536;

  // The minimum time for which orders stay in the file after they have ended, or after units of them came back last. An
  // inventory's own retention, and up to a minute more, applies if it is longer. Afterwards the rows of the orders, and
  // journal rows of that age, are deleted, a few with each batch. The orders of this time thus bound the size of the
  // file and the time to open it. Of a deleted order, its units remain in skus, its buyer's units in bought, and 8
  // bytes of its request id and of those of its returns. If infinite, nothing is deleted. A ledger without an inventory
  // does not delete anything either.
  Duration retention = absl::ZeroDuration();

  // Provides wall time for the journal, and time for the metrics and lock_wait. Not null; must outlive the ledger.
  Clock* clock = Clock::System();

  // Null disables metrics. Must exist until Open() has returned.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// A ledger in one SQLite file. A thread of its own writes queued records in group commits: one transaction and one
// fsync (WAL, synchronous=FULL) for all records that arrived during the previous commit.
//
// The file has the tables ledger, skus, orders, order_lines, journal, journal_lines, changes, change_lines, restocks,
// bought and forgotten, with constraints that reject inconsistent rows. The sqlite3 shell can read it after the ledger
// is closed or its process has ended; while it is open, no other program has access. A file that another program has
// written to is rejected as damaged. Times are stored in microseconds, rounded down. The files are `path`, `path`-wal
// while the ledger is open, after a crash and after a close for which the disk had no room, and `path`.lock, which
// remains. The latter records up to where the journal was acknowledged, so that an older copy of `path` is rejected as
// long as it exists. If `path` is a symbolic link, the other files are next to its target, whether the target exists
// already or not. A hard link has its own log and lock, so open a ledger by one name only.
//
// Across all processes, a file has one owner at a time. If the disk is full (or a quota or the maximum file size is
// reached; with a limit RLIMIT_FSIZE the program must ignore SIGXFSZ, which would end it), a record has a name or a
// basket above the limits in ledger.h, or units come back of an order that was deleted meanwhile, the batch is rolled
// back and refused, and the ledger continues: see TakeRefused(). After any other error of a commit (I/O; a record that
// violates a constraint; units taken that were never stocked or whose SKU was removed) the ledger has failed
// permanently and does not write to the file again. Durable records remain durable, and Open() decides about the
// others.
//
// Thread-safe. In a forked child, calls abort and the destructor does nothing. A child that neither calls exec nor
// exits keeps the file locked after its parent has ended.
class STOCKADE_EXPORT SqliteLedger final : public Ledger {
 public:
  // Opens the ledger at `path`, or creates an empty one. Blocks on the disk, for lock_wait, and while it checks the
  // whole file, which is O(journal). The recovered state is durable when it returns.
  //   InvalidArgument: an option is invalid, or the path does not name a file.
  //   NotFound: the directory does not exist. An existing file is never NotFound.
  //   PermissionDenied, Unavailable: the file or its directory cannot be used; the message says why.
  //   ResourceExhausted: the disk is full, the quota or the inodes are used up, or the system gives no thread. Nothing
  //     that was acknowledged is lost: open it again when there is room.
  //   FailedPrecondition: another owner has the file open, or this process has it open under another name; the file is
  //     empty, not a regular file, not a ledger, or of another version; its log or lock has a second hard link.
  //   DataLoss: the file or its log is damaged, missing, older than what was acknowledged, or inconsistent; or there is
  //     a rollback journal (`path`-journal), with which SQLite would change the file. Only `path`.lock has changed.
  // Without memory it throws std::bad_alloc, or the process ends.
  static absl::StatusOr<std::unique_ptr<SqliteLedger>> Open(std::string path, SqliteLedgerOptions options = {});

  // Checks the ledger at `path` as Open() does, and compares each index with its table. Changes only `path`.lock.
  // Blocks like Open(). OK: everything that was acknowledged is there, as far as this can be determined. Errors as for
  // Open(); NotFound if the file does not exist, or is empty because the process that was creating it ended early.
  // Thread-safe.
  static absl::Status Audit(const std::string& path);

  // Commits the queued records, invokes all pending callbacks of NotifyDurable(), and closes the file. No call may be
  // in progress, and these callbacks must not call the ledger.
  ~SqliteLedger() override;

  SqliteLedger(const SqliteLedger&) = delete;
  SqliteLedger& operator=(const SqliteLedger&) = delete;

  // Aborts if called twice.
  LedgerState TakeRecovered() override;

  // O(1) and a mutex; blocks only while max_queued_records are queued. Positions continue those of the file's journal,
  // and equal its column `position` as long as no record was refused.
  uint64_t Append(LedgerRecord record) override;

  // Returns OK at once for a durable record, even if the ledger has failed. Aborts for a position that Append() has not
  // returned yet.
  absl::Status AwaitDurable(uint64_t position) override;

  // Invokes callbacks on one thread, which is neither the caller's nor the committing thread: a slow `done` delays
  // other callbacks, but no commit. Each pending callback uses some 100 bytes, and what `done` holds. O(log n) in their
  // number. Aborts for a position that Append() has not returned yet.
  void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) override;

  // See Ledger. O(records refused); blocks on a short mutex.
  std::vector<LedgerRecord> TakeRefused() override;
  void SetRetention(absl::Duration retention) override;
  absl::Status Health() const override;

 private:
  struct State;
  explicit SqliteLedger(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_H_
