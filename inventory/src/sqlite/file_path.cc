#include "file_path.h"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <memory>

#include "stockade/base/strings.h"

namespace stockade::inventory_internal {

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

}  // namespace stockade::inventory_internal
