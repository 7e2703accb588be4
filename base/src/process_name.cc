#include "stockade/base/process_name.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

namespace {

constexpr size_t kMaxProgramName = 64;
constexpr std::string_view kDeleted = " (deleted)";  // As Linux says it of a file that was replaced.

}  // namespace

std::string ProgramName() {
  // The name that it was called by may be another one, or "exe".
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  std::string_view file(path, static_cast<size_t>(std::max<ssize_t>(size, 0)));  // Empty without /proc.
  if (file.ends_with(kDeleted)) file.remove_suffix(kDeleted.size());
  std::string name(file.substr(file.rfind('/') + 1).substr(0, kMaxProgramName));
  for (char& c : name) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

std::string ProcessName() { return Concat(ProgramName(), "-", getpid()); }

}  // namespace stockade::base_internal
