#include "file_lock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <set>
#include <string_view>

#include "absl/status/status.h"
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

struct Claims {
  Mutex mutex;
  std::set<std::pair<dev_t, ino_t>> files STOCKADE_GUARDED_BY(mutex);
};

Claims& AllClaims() {
  static auto* const claims = new Claims();  // Ledgers may outlive main().
  return *claims;
}

}  // namespace

absl::Status FileError(int error, std::string_view action, const std::string& path) {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (error == ENOENT || error == ENOTDIR) code = absl::StatusCode::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = absl::StatusCode::kPermissionDenied;
  if (error == ENOSPC || error == EDQUOT) code = absl::StatusCode::kResourceExhausted;
  return absl::Status(code, absl::ErrnoToStatus(error, Concat("cannot ", action, " '", path, "'")).message());
}

absl::StatusOr<std::string> ResolveFilePath(std::string path) {
  constexpr int kMaxLinks = 40;  // As Linux has it.
  for (int links = 0; links <= kMaxLinks; ++links) {
    const size_t name_begin = path.rfind('/') + 1;  // 0 if there is no slash.
    const std::string name = path.substr(name_begin);
    if (name.empty() || name == "." || name == "..") {
      return absl::InvalidArgumentError(Concat("'", path, "' names no file"));
    }
    const std::string parent = name_begin == 0 ? "./" : path.substr(0, name_begin);
    const std::unique_ptr<char, void (*)(void*)> directory(realpath(parent.c_str(), nullptr), free);
    if (directory == nullptr) return FileError(errno, "find", parent);
    const std::string prefix = std::string_view(directory.get()) == "/" ? "/" : Concat(directory.get(), "/");
    path = prefix + name;
    std::array<char, PATH_MAX> target;
    const ssize_t size = readlink(path.c_str(), target.data(), target.size());
    // No link, or nothing yet.
    if (size < 0 && (errno == EINVAL || errno == ENOENT)) return path;
    if (size < 0) return FileError(errno, "find", path);
    const std::string_view leads_to(target.data(), static_cast<size_t>(size));
    path = leads_to.starts_with('/') ? std::string(leads_to) : Concat(prefix, leads_to);
  }
  return FileError(ELOOP, "find", path);
}

absl::StatusOr<std::optional<struct stat>> FindRegularFile(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) == 0) {
    if (S_ISREG(found.st_mode)) return found;
    return absl::FailedPreconditionError(Concat("'", path, "' is not a regular file"));
  }
  if (errno == ENOENT) return std::nullopt;
  return FileError(errno, "find", path);
}

absl::StatusOr<std::optional<struct stat>> FindFileWithOneName(const std::string& path) {
  absl::StatusOr<std::optional<struct stat>> found = FindRegularFile(path);
  if (!found.ok() || !found->has_value() || (*found)->st_nlink <= 1) return found;
  return absl::FailedPreconditionError(Concat("'", path, "' has more than one hard link"));
}

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

absl::StatusOr<FileClaim> FileClaim::Of(const struct stat& file) {
  const Id id(file.st_dev, file.st_ino);
  const MutexLock lock(AllClaims().mutex);
  if (AllClaims().files.insert(id).second) return FileClaim(id);
  return absl::FailedPreconditionError("in use: this process has the file open under another name");
}

FileClaim::~FileClaim() {
  if (!file_.has_value()) return;
  [this] {
    const MutexLock lock(AllClaims().mutex);
    AllClaims().files.erase(*file_);
  }();
}

}  // namespace stockade::inventory_internal
