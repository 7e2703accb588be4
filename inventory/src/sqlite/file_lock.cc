#include "file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "file_path.h"
#include "stockade/base/mutex.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

constexpr absl::Duration kRetryPeriod = absl::Milliseconds(20);

// "process 4711", as far as the owner could write it down.
std::string OwnerIn(int descriptor) {
  char text[32];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  std::string_view pid(text, size > 0 ? static_cast<size_t>(size) : 0);
  pid = pid.substr(0, pid.find('\n'));
  return pid.empty() ? "another owner" : Concat("process ", pid);
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path, absl::Duration wait, Clock* clock) {
  // A second name may be that of a ledger, perhaps of one that this process has open.
  if (absl::Status found = FindFileWithOneName(path).status(); !found.ok()) return found;
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0644);
  if (descriptor < 0) return FileError(errno, "open", path);
  FileLock lock(descriptor);
  const Instant deadline = clock->Now() + wait;
  Mutex mutex;
  CondVar never;
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return FileError(errno, "lock", path);
    const Instant now = clock->Now();
    if (now >= deadline) {
      return absl::FailedPreconditionError(Concat("in use by ", OwnerIn(descriptor), ", which holds '", path, "'"));
    }
    const MutexLock own(mutex);
    never.WaitUntil(*clock, mutex, std::min(deadline, now + kRetryPeriod));
  }
  return lock;
}

void FileLock::WriteOwner() {
  const std::string pid = Concat(getpid(), "\n");
  // Only for the message above; on a full disk it does without. What is behind the line stays.
  (void)!pwrite(descriptor_, pid.data(), pid.size(), 0);
}

FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  // Explicit, because a forked child may still have a copy of the descriptor.
  flock(descriptor_, LOCK_UN);
  close(descriptor_);
}

}  // namespace stockade::inventory_internal
