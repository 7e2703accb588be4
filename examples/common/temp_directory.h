#ifndef STOCKADE_EXAMPLES_COMMON_TEMP_DIRECTORY_H_
#define STOCKADE_EXAMPLES_COMMON_TEMP_DIRECTORY_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace examples {

// A new directory in $TMPDIR, or in /tmp, that only this user can read. Removed, with its contents, with the object.
class TempDirectory {
 public:
  // The name begins with `name`. Unavailable: it cannot be created; the message names the path and the reason.
  static absl::StatusOr<TempDirectory> Create(std::string_view name);
  ~TempDirectory();
  TempDirectory(TempDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempDirectory& operator=(TempDirectory&&) = delete;

  // Absolute.
  const std::string& path() const { return path_; }
  // The same as a part of a URL: percent-encoded, except for the slashes.
  std::string url_path() const;

 private:
  explicit TempDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;  // Empty: moved from.
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_TEMP_DIRECTORY_H_
