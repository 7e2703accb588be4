#ifndef STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_
#define STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"

namespace stockade::internal {

// An exclusive flock(2) on a file of its own. Unlike SQLite's fcntl locks it refuses a second owner in this process
// too, and no close() elsewhere drops it. The kernel lets go of it when the process, and every forked child that has
// not called exec, is gone. The file stays: removing it would let two owners lock two files of one name.
class FileLock {
 public:
  // Waits for at most `wait`, looking every 20 ms. FailedPrecondition: somebody else has it, with their process id.
  static absl::StatusOr<FileLock> Acquire(const std::string& path, absl::Duration wait, Clock* clock);

  FileLock(FileLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // Of the file, whose first line is the owner's process id; the rest is the owner's to use from byte 64 on.
  int descriptor() const { return descriptor_; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;  // -1: moved from.
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_SQLITE_FILE_LOCK_H_
