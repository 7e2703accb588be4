#include "harness/options.h"

#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/strings.h"

namespace stockade::bench {

absl::StatusOr<BenchOptions> ParseBenchOptions(std::span<const char* const> args) {
  BenchOptions options;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (arg == "--quick") {
      options.quick = true;
    } else if (arg == "--list") {
      options.list = true;
    } else if (arg == "--help") {
      options.help = true;
    } else if (arg == "--json" || arg == "--filter") {
      if (i + 1 == args.size() || std::string_view(args[i + 1]).empty()) {
        return absl::InvalidArgumentError(base_internal::Concat(arg, " needs a value"));
      }
      (arg == "--json" ? options.json_file : options.filter) = args[++i];
    } else {
      return absl::InvalidArgumentError(base_internal::Concat("unknown option '", arg, "'; try --help"));
    }
  }
  return options;
}

std::string BenchUsage(const std::string& program) {
  return base_internal::Concat("usage: ", program,
                               " [--json FILE] [--quick] [--filter TEXT] [--list]\n"
                               "  --json FILE    also write the rows to FILE\n"
                               "  --quick        a smoke test: tiny runs with meaningless figures\n"
                               "  --filter TEXT  run only rows whose name or peer contains TEXT\n"
                               "  --list         list the rows without running them\n");
}

}  // namespace stockade::bench
