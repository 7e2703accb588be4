#include "stockade/base/process_name.h"

#include <errno.h>  // program_invocation_short_name, of glibc and musl.
#include <unistd.h>

#include <string_view>

#include "absl/strings/ascii.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

namespace {

constexpr size_t kMaxProgramName = 64;

}  // namespace

std::string ProgramName() {
  std::string name(std::string_view(program_invocation_short_name).substr(0, kMaxProgramName));
  for (char& c : name) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

std::string ProcessName() { return Concat(ProgramName(), "-", getpid()); }

}  // namespace stockade::base_internal
