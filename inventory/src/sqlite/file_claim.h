#ifndef STOCKADE_INVENTORY_SQLITE_FILE_CLAIM_H_
#define STOCKADE_INVENTORY_SQLITE_FILE_CLAIM_H_

#include <sys/stat.h>

#include <optional>
#include <utility>

#include "absl/status/statusor.h"

namespace stockade::inventory_internal {

// The right of one ledger of this process to open a file, by whatever name it found the file. SQLite locks a file with
// POSIX locks, and the kernel drops all of them as soon as the process closes any descriptor of the file. So a ledger
// must not even read the header of a file that another ledger of this process has open under a second name: a hard
// link, or its new name after it was renamed. Thread-safe.
class FileClaim {
 public:
  // FailedPrecondition: another claim of this process has the file.
  static absl::StatusOr<FileClaim> Of(const struct stat& file);

  FileClaim(FileClaim&& other) noexcept : file_(std::exchange(other.file_, std::nullopt)) {}
  FileClaim& operator=(FileClaim&&) = delete;
  ~FileClaim();

 private:
  using Id = std::pair<dev_t, ino_t>;

  explicit FileClaim(Id file) : file_(file) {}

  std::optional<Id> file_;  // Nothing: moved from.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_FILE_CLAIM_H_
