#include "common/temp_directory.h"

#include <errno.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace examples {

absl::StatusOr<TempDirectory> TempDirectory::Create(std::string_view name) {
  const char* const base = getenv("TMPDIR");
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::absolute(base != nullptr && *base != '\0' ? base : "/tmp", error);
  std::string path = absl::StrCat((folder / name).lexically_normal().string(), "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot create ", path, ": ", std::strerror(errno)));
  }
  return TempDirectory(std::move(path));
}

std::string TempDirectory::url_path() const {
  std::string encoded;
  for (const char byte : path_) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(byte)) || absl::StrContains("-._~/", std::string(1, byte))) {
      encoded += byte;
    } else {
      absl::StrAppend(&encoded, "%", absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
    }
  }
  return encoded;
}

TempDirectory::~TempDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace examples
