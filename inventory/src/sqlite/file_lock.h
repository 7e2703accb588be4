#ifndef STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_
#define STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"

namespace stockade::inventory_internal {

// "cannot <action> '<path>': ", and what `error`, an errno, means: NotFound, PermissionDenied, ResourceExhausted (no
// space, no inode, or no quota), or Unavailable for every other one.
absl::Status FileError(int error, std::string_view action, const std::string& path);

// The absolute path of the file that `path` leads to, without symbolic links. The file need not exist, but its
// directory must: a link to a file that is still to be made leads to the place where SQLite would make it. Opens
// nothing. InvalidArgument: the path ends with "/", "." or "..". Other errors as of FileError().
absl::StatusOr<std::string> ResolveFilePath(std::string path);

// The state of the regular file at `path`; nothing if there is no file. Opens nothing: opening a FIFO may block, and
// closing a descriptor drops the locks that this process holds on the file. FailedPrecondition: `path` is something
// else, or a symbolic link. Other errors as of FileError().
absl::StatusOr<std::optional<struct stat>> FindRegularFile(const std::string& path);
// The same; FailedPrecondition also if the file has a second hard link.
absl::StatusOr<std::optional<struct stat>> FindFileWithOneName(const std::string& path);

// An exclusive flock(2) on a file of its own. Unlike SQLite's fcntl locks it refuses a second owner in this process
// too, and no close() elsewhere drops it. The kernel lets go of it when the process, and every forked child that has
// not called exec, is gone. The file stays: removing it would let two owners lock two files of one name.
class FileLock {
 public:
  // Makes the file if there is none. Waits for at most `wait`, looking every 20 ms. FailedPrecondition: somebody else
  // has it, with their process id; or it is no regular file, a symbolic link, or has a second hard link. Changes no
  // byte of it.
  static absl::StatusOr<FileLock> Acquire(const std::string& path, absl::Duration wait, Clock* clock);

  FileLock(FileLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // Puts this process's id into its first line, for the message of those that find it locked. Call it only after the
  // rest of the file was found in order: a file that something else has written must stay as it is.
  void WriteOwner();

  // Of the file, whose first line is the owner's process id; the rest is the owner's to use from byte 64 on.
  int descriptor() const { return descriptor_; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;  // -1: moved from.
};

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

#endif  // STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_
