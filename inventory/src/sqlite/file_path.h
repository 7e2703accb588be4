#ifndef STOCKADE_INVENTORY_SQLITE_FILE_PATH_H_
#define STOCKADE_INVENTORY_SQLITE_FILE_PATH_H_

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_FILE_PATH_H_
