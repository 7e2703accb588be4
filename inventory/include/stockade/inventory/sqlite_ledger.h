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
#include "stockade/base/export.h"
#include "stockade/inventory/ledger.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// What a SqliteLedger is opened with.
struct STOCKADE_EXPORT SqliteLedgerOptions {
  // The value of the label `ledger` in metrics. Not empty, and printable UTF-8: no control characters.
  std::string name = "default";

  // How long Open() waits for another owner of the file to let go: for a restart that overlaps its predecessor. None by
  // default, because two owners are a mistake more often than a hand-over.
  absl::Duration lock_wait = absl::ZeroDuration();

  // Records in one transaction, at the most. A transaction costs an fsync (0.1 to 10 ms) whatever it holds, so it
  // should hold many; and some 5 us a record, so that the first of 4096 waits 20 ms for the others. By then the fsync
  // is a small part even on a slow disk, and more records would only add to the wait.
  size_t max_batch_records = 4096;

  // Records that wait for a transaction, at the most; Append() blocks while there are as many. Bounds the memory (some
  // 300 bytes a record, 50 a line of a basket) when the disk is slower than those who append without awaiting.
  size_t max_queued_records = 65'536;

  // How long orders stay in the file after they ended, at the least; an inventory's own retention, where that is
  // longer. Then their rows go, and those of the journal as old as they: a few with each batch, so that the file and
  // the time to open it are bounded by the orders of this time. What stays of an order: its units in skus, its buyer's
  // in bought, and 8 bytes of its request id. Infinite: everything stays. A ledger that no inventory uses keeps
  // everything, too.
  absl::Duration retention = absl::ZeroDuration();

  // Wall time for the journal, time for the metrics and for lock_wait. Not null; must outlive the ledger.
  Clock* clock = Clock::System();

  // Null: no metrics. Must not go away while Open() runs.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// A ledger in one SQLite file. A thread of its own applies what is queued in group commits: one transaction, one fsync
// (WAL, synchronous=FULL) for all records that came while the last one ran.
//
// The file is plain to read: tables skus, orders, order_lines, journal, journal_lines, bought and forgotten, whose
// constraints refuse what cannot be. sqlite3's shell reads it once the ledger is closed or its process is gone; while
// it is open, nobody else gets in. A file that another program has written to is refused as damaged. Times are kept in
// microseconds, rounded down. Files: `path`, `path`-wal while open and after a crash, and `path`.lock, which stays: it
// says how far the journal was acknowledged, so that an older copy of `path` is refused as long as it is there. Where
// `path` is a symbolic link, they are beside what it leads to.
//
// One ledger owns a file at a time, over all processes. Where the disk is full (or the quota used up, or the file as
// long as it may get), or a record has a name or a basket above the limits in ledger.h, the batch is rolled back and
// refused, and the ledger goes on: see TakeRefused(). On any other
// error at a commit (I/O; a record that breaks a constraint; units taken that were never stocked or are of a SKU that
// was removed) the ledger has failed for good, without touching the file again: what was durable stays so, and Open()
// decides about the rest.
//
// Thread-safe. In a forked child calls abort, and the destructor does nothing; a child that neither execs nor exits
// keeps the file locked beyond its parent.
class STOCKADE_EXPORT SqliteLedger final : public Ledger {
 public:
  // Opens the ledger at `path`, or makes an empty one. Blocks: on the disk, on lock_wait, and for a check of the whole
  // file, O(journal). What it recovers is durable when it returns.
  //   InvalidArgument: Validate()'s text, or a path that names no file.
  //   NotFound, PermissionDenied, Unavailable: the file or its directory cannot be used, and why.
  //   FailedPrecondition: somebody else has the file open; or it is empty, no ledger, or one of another version.
  //   DataLoss: the file or its log is damaged, missing, older than what was acknowledged, or does not add up. Nothing
  //     has changed but `path`.lock.
  static absl::StatusOr<std::unique_ptr<SqliteLedger>> Open(std::string path, SqliteLedgerOptions options = {});

  // Checks the ledger at `path` as Open() does, and each index against its table, and changes nothing but `path`.lock.
  // Blocks as Open(). OK: all is there that was acknowledged, as far as that can be known. Errors as Open() has them;
  // NotFound: there is no such file. Thread-safe.
  static absl::Status Audit(const std::string& path);

  // Commits what is queued, calls back all that is outstanding of NotifyDurable(), then closes the file. Nobody may be
  // inside a call, nor may what is called back call.
  ~SqliteLedger() override;

  SqliteLedger(const SqliteLedger&) = delete;
  SqliteLedger& operator=(const SqliteLedger&) = delete;

  // Aborts when called again.
  LedgerState TakeRecovered() override;

  // O(1) and a mutex; blocks only while max_queued_records are queued. Positions go on where the file's journal ends,
  // and are its column `position` as long as nothing was refused.
  uint64_t Append(LedgerRecord record) override;

  // OK at once for what is durable, whether the ledger has failed or not. Aborts on a position that Append() has not
  // returned yet.
  absl::Status AwaitDurable(uint64_t position) override;

  // Calls back on one thread, which is neither the caller's nor the one that commits: a slow `done` delays those behind
  // it, and no commit. Some 100 bytes for each that is outstanding, and what `done` holds. O(log n) of those. Aborts on
  // a position that Append() has not returned yet.
  void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) override;

  // As Ledger has it. O(records refused); blocks on a short mutex.
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
