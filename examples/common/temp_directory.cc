#include "common/temp_directory.h"

#include <errno.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace examples {

absl::StatusOr<TempDirectory> TempDirectory::Create(std::string_view name) {
  const char* const base = getenv("TMPDIR");
  std::string path = absl::StrCat(base != nullptr && *base != '\0' ? base : "/tmp", "/", std::string(name), "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot create ", path, ": ", std::strerror(errno)));
  }
  return TempDirectory(std::move(path));
}

TempDirectory::~TempDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace examples
