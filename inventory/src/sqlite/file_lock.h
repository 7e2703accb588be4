#ifndef STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_
#define STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"

namespace stockade::inventory_internal {

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

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_
