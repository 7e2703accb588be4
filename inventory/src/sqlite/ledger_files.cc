#include "ledger_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "file_lock.h"
#include "ledger_rows.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Of the header of a database file, https://sqlite.org/fileformat2.html#the_database_header.
constexpr std::string_view kDatabaseMagic("SQLite format 3\0", 16);
constexpr int kPageSizeAt = 16;
constexpr int kReservedBytesAt = 20;
constexpr int kUserVersionAt = 60;
constexpr int kApplicationIdAt = 68;
// Of the root of the schema, which follows the header, https://sqlite.org/fileformat2.html#b_tree_pages.
constexpr int kSchemaKindAt = 100;
constexpr int kSchemaCellsAt = 103;
constexpr unsigned char kLeafOfTable = 0x0d;

std::string_view Describe(LogState log) {
  switch (log) {
    case LogState::kMissing: return "is missing";
    case LogState::kEmpty: return "is empty";
    case LogState::kNoHeader: return "has a damaged header";
    case LogState::kReadable: break;
  }
  return "is there";
}

bool IsDatabase(const unsigned char* page) {
  return std::memcmp(page, kDatabaseMagic.data(), kDatabaseMagic.size()) == 0;
}

// By these SQLite reads other pages than a ledger has written.
bool HasLedgerPages(const unsigned char* page) {
  return page[kPageSizeAt] == kPageBytes >> 8 && page[kPageSizeAt + 1] == 0 &&
         page[kReservedBytesAt] == kPageChecksumBytes;
}

// Page 1 as SQLite writes it before a ledger has tables.
bool IsWithoutTables(const unsigned char* page) {
  return IsDatabase(page) && HasLedgerPages(page) && ReadBigEndian(page + kApplicationIdAt) == 0 &&
         ReadBigEndian(page + kUserVersionAt) == 0 && page[kSchemaKindAt] == kLeafOfTable &&
         page[kSchemaCellsAt] == 0 && page[kSchemaCellsAt + 1] == 0;
}

// Of zeros, except for the checksum, which is in another sector than the header.
bool IsZeroPage(const unsigned char* page) {
  return std::all_of(page, page + kPageBytes - kPageChecksumBytes, [](unsigned char byte) { return byte == 0; });
}

// Whether SQLite would play the rollback journal at `path` back into the file: one whose first byte is 0 has ended.
absl::StatusOr<bool> IsHotJournal(const std::string& path) {
  const absl::StatusOr<std::optional<struct stat>> found = FindFileWithOneName(path);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return false;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) return FileError(errno, "open", path);
  const int first = std::fgetc(file.get());
  if (std::ferror(file.get()) != 0) return FileError(errno, "read", path);
  return first != EOF && first != 0;
}

absl::Status CheckMissingDatabase(const std::string& path, const HighWaterMark& mark, LogState log) {
  if (log != LogState::kMissing && log != LogState::kEmpty) {
    return absl::DataLossError(Concat("the file is missing, but its write-ahead log '", path, "-wal' is there"));
  }
  if (mark.kind() == HighWaterMark::Kind::kNone) return absl::OkStatus();
  return absl::DataLossError(Concat("the file is missing; the ledger had acknowledged position ", mark.position(),
                                    ". To begin a new one, remove '", path, ".lock', too"));
}

}  // namespace

absl::StatusOr<LedgerFiles> LedgerFiles::Find(const std::string& path, const HighWaterMark& mark) {
  LedgerFiles files;
  // A ledger that has the log under a second name removes it by that name only, and goes on. Then SQLite would find
  // here a log that is older than the file.
  const absl::StatusOr<std::optional<struct stat>> log_file = FindFileWithOneName(path + "-wal");
  if (!log_file.ok()) return log_file.status();
  files.log_exists = log_file->has_value();
  const std::string journal = path + "-journal";
  const absl::StatusOr<bool> is_hot = IsHotJournal(journal);
  if (!is_hot.ok()) return is_hot.status();
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr && errno != ENOENT) return FileError(errno, "open", path);
  std::array<unsigned char, kPageBytes> page = {};
  const size_t size = file == nullptr ? 0 : std::fread(page.data(), 1, page.size(), file.get());
  if (file != nullptr && std::ferror(file.get()) != 0) return FileError(errno, "read", path);
  const int64_t version = ReadBigEndian(page.data() + kUserVersionAt);
  const bool ours = IsDatabase(page.data()) && ReadBigEndian(page.data() + kApplicationIdAt) == kLedgerApplicationId &&
                    version >= kOldestLedgerSchemaVersion && version <= kLedgerSchemaVersion;
  // Before page 1 has tables, nothing in the file has been acknowledged, and SQLite makes of it what it was before or
  // after a transaction. A power cut may leave zeros in place of what SQLite wrote; then it has left the journal, too.
  const bool is_torn = *is_hot && IsZeroPage(page.data()) && (file == nullptr || std::fgetc(file.get()) == EOF);
  if (mark.kind() == HighWaterMark::Kind::kMaking && (size == 0 || is_torn || IsWithoutTables(page.data()))) {
    // SQLite makes the file before its log, so a log alone is not left by the making of a ledger.
    if (file == nullptr) {
      const absl::StatusOr<LogState> log = CheckLog(path + "-wal");
      if (!log.ok()) return log.status();
      if (*log == LogState::kReadable) return CheckMissingDatabase(path, mark, *log);
    }
    files.fresh = files.checked = true;
    return files;
  }
  if (*is_hot) {
    if (file == nullptr) {
      return absl::DataLossError(Concat("the file is missing, but its rollback journal '", journal, "' is there"));
    }
    if (!ours) {
      return absl::FailedPreconditionError(
          Concat("the file is not a ledger of this version, and SQLite would change it by its rollback journal '",
                 journal, "'"));
    }
    return absl::DataLossError(Concat("there is a rollback journal '", journal,
                                      "', which no ledger leaves; SQLite would undo with it what the file holds"));
  }
  if (file == nullptr) {
    const absl::StatusOr<LogState> log = CheckLog(path + "-wal");
    if (!log.ok()) return log.status();
    if (absl::Status status = CheckMissingDatabase(path, mark, *log); !status.ok()) return status;
    files.fresh = files.checked = true;
    return files;
  }
  if (size == 0) return absl::FailedPreconditionError("the file is empty; remove it to begin a new ledger");
  if (!ours) return files;
  files.checked = true;
  if (size < kPageBytes) return absl::DataLossError("page 1 is truncated");
  if (!HasLedgerPages(page.data())) return absl::DataLossError("page 1 is damaged: unexpected page size");
  // A page 1 that fits neither was torn by a crash while it was written; then the log has it.
  const bool complete = ReadPageChecksum(page.data()) == PageChecksum(page.data(), 1, LogNeed::kNone);
  files.need = complete ? LogNeed::kNone : LogNeed::kNeedsLog;
  const absl::StatusOr<LogState> log = CheckLog(path + "-wal");
  if (!log.ok()) return log.status();
  files.log = *log;
  return files;
}

absl::Status LedgerFiles::CheckComplete(const std::string& path, const HighWaterMark& mark, int64_t session,
                                        uint64_t last_position) const {
  if (mark.kind() == HighWaterMark::Kind::kAcknowledged && last_position < mark.position()) {
    return absl::DataLossError(Concat("position ", mark.position(),
                                      " was acknowledged, but the file and its log end at ", last_position,
                                      ". If an older copy was put back on purpose, remove '", path, ".lock'"));
  }
  if (need == LogNeed::kNone || log == LogState::kReadable || mark.IsExactFor(session)) return absl::OkStatus();
  return absl::DataLossError(Concat("the file was not closed, and its write-ahead log '", path, "-wal' ", Describe(log),
                                    ": acknowledged records may exist only there"));
}

absl::StatusOr<std::unique_ptr<OpenedLedger>> OpenedLedger::Open(const std::string& path, bool make,
                                                                 absl::Duration lock_wait, Clock* clock) {
  // As SQLite resolves it, so that all paths to one name have one lock, one mark and one log. A hard link has its own.
  absl::StatusOr<std::string> resolved = ResolveFilePath(path);
  if (!resolved.ok()) return resolved.status();
  // Before anything is made.
  const absl::StatusOr<std::optional<struct stat>> found = FindRegularFile(*resolved);
  if (!found.ok()) return found.status();
  if (!make && !found->has_value()) return absl::NotFoundError("there is no such file");

  absl::StatusOr<FileLock> lock = FileLock::Acquire(*resolved + ".lock", lock_wait, clock);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<HighWaterMark> mark = HighWaterMark::Read(lock->descriptor());
  if (!mark.ok()) return mark.status();
  lock->WriteOwner();
  absl::StatusOr<std::optional<FileClaim>> claim = Claim(*resolved);
  if (!claim.ok()) return claim.status();
  const absl::StatusOr<LedgerFiles> files = LedgerFiles::Find(*resolved, *mark);
  if (!files.ok()) return files.status();
  if (files->fresh && !make) {
    return absl::NotFoundError("it is empty, because the process that was creating it ended early");
  }
  if (files->fresh && mark->kind() == HighWaterMark::Kind::kNone) {
    if (absl::Status status = mark->WriteMaking(); !status.ok()) return status;
  }
  CrashPoint("open: files found");
  std::unique_ptr<OpenedLedger> opened(
      new OpenedLedger(*std::move(resolved), *std::move(lock), *std::move(claim), *std::move(mark), *files));
  absl::StatusOr<SqliteDatabase> database = SqliteDatabase::Open(opened->path_, lock_wait);
  if (!database.ok()) return database.status();
  // If the file is damaged, it stays as it was found.
  database->set_checkpoint_on_close(false);
  opened->removes_empty_log_ = !files->fresh && !files->log_exists;
  opened->database_.emplace(*std::move(database));
  if (!opened->claim_.has_value()) {
    absl::StatusOr<std::optional<FileClaim>> made = Claim(opened->path_);
    if (!made.ok()) return made.status();
    if (made->has_value()) opened->claim_.emplace(**std::move(made));
  }
  if (files->checked) {
    if (absl::Status status = opened->database_->EnableChecksums(files->need); !status.ok()) return status;
  }
  return opened;
}

absl::StatusOr<std::optional<FileClaim>> OpenedLedger::Claim(const std::string& path) {
  const absl::StatusOr<std::optional<struct stat>> found = FindRegularFile(path);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return std::nullopt;
  absl::StatusOr<FileClaim> claim = FileClaim::Of(**found);
  if (!claim.ok()) return claim.status();
  return std::optional<FileClaim>(*std::move(claim));
}

OpenedLedger::~OpenedLedger() {
  database_.reset();
  const std::string log = path_ + "-wal";
  std::error_code error;
  if (removes_empty_log_ && std::filesystem::is_empty(log, error) && !error) std::filesystem::remove(log, error);
}

absl::StatusOr<RecoveredLedger> OpenedLedger::Examine() {
  if (absl::Status status = PrepareLedgerFile(*database_, files_.fresh); !status.ok()) return status;
  if (!files_.checked) return absl::DataLossError("page 1 is damaged: it is not that of a ledger");
  CrashPoint("open: file prepared");
  absl::StatusOr<RecoveredLedger> found = RecoverLedger(*database_);
  if (!found.ok()) return found.status();
  absl::Status complete = files_.CheckComplete(path_, mark_, found->session, found->last_position);
  if (!complete.ok()) return complete;
  return found;
}

}  // namespace stockade::inventory_internal
