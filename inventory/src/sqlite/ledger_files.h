#ifndef STOCKADE_INVENTORY_LEDGER_FILES_H_
#define STOCKADE_INVENTORY_LEDGER_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "checksum_vfs.h"
#include "file_lock.h"
#include "high_water_mark.h"
#include "ledger_recovery.h"
#include "sqlite_database.h"
#include "stockade/base/clock.h"
#include "write_ahead_log.h"

namespace stockade::inventory_internal {

// What is at a ledger's path, seen before SQLite opens it: SQLite makes and overwrites files that are evidence.
struct LedgerFiles {
  bool fresh = false;    // A ledger is to be made, or its making to be finished.
  bool checked = false;  // Its pages have checksums; else it is no ledger, one of another version, or cannot be read.
  LogNeed need = LogNeed::kNone;
  LogState log = LogState::kMissing;  // If `checked`, and not `fresh`.
  bool log_exists = false;

  // Changes nothing. `path` is from ResolveFilePath(), because SQLite names the log after the file that a link leads
  // to.
  //   FailedPrecondition: an empty file, which is not ours to fill; the log or the rollback journal is not a regular
  //     file; the log has a second hard link; or another program has left a rollback journal.
  //   DataLoss: the file is gone and its log, its mark or a rollback journal is not; the log is damaged; or there is a
  //     rollback journal, which SQLite would play back into the file. A ledger has one only while it is being made.
  static absl::StatusOr<LedgerFiles> Find(const std::string& path, const HighWaterMark& mark);

  // Whether what was recovered is all that was acknowledged, as far as that can be known. `session`: of table ledger.
  absl::Status CheckComplete(const std::string& path, const HighWaterMark& mark, int64_t session,
                             uint64_t last_position) const;
};

// A ledger's files, locked and open.
class OpenedLedger {
 public:
  // NotFound: there is none, and `make` is false; or its directory is missing. Other errors as SqliteLedger::Open() has
  // them.
  static absl::StatusOr<std::unique_ptr<OpenedLedger>> Open(const std::string& path, bool make,
                                                            absl::Duration lock_wait, Clock* clock);
  // Closes them. Unless `keep_log` was called, a log that SQLite has made and that is empty goes.
  ~OpenedLedger();

  OpenedLedger(const OpenedLedger&) = delete;
  OpenedLedger& operator=(const OpenedLedger&) = delete;

  // Makes the tables of a new one; reads and checks everything. Otherwise it changes nothing, nor does closing.
  absl::StatusOr<RecoveredLedger> Examine();

  // From here on files are as the owner leaves them.
  void keep_log() { removes_empty_log_ = false; }

  const LedgerFiles& files() const { return files_; }
  HighWaterMark& mark() { return mark_; }
  SqliteDatabase& database() { return *database_; }

 private:
  OpenedLedger(std::string path, FileLock lock, std::optional<FileClaim> claim, HighWaterMark mark, LedgerFiles files)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        claim_(std::move(claim)),
        mark_(std::move(mark)),
        files_(files) {}

  // Claims the file if there is one. FailedPrecondition: it is not a regular file, or has another claim.
  static absl::StatusOr<std::optional<FileClaim>> Claim(const std::string& path);

  const std::string path_;
  FileLock lock_;
  std::optional<FileClaim> claim_;  // Nothing: SQLite has not made the file yet.
  HighWaterMark mark_;
  const LedgerFiles files_;
  bool removes_empty_log_ = false;
  std::optional<SqliteDatabase> database_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_LEDGER_FILES_H_
