#ifndef STOCKADE_BENCH_HARNESS_OPTIONS_H_
#define STOCKADE_BENCH_HARNESS_OPTIONS_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace stockade::bench {

struct BenchOptions {
  std::string json_file;  // --json FILE; empty: no JSON is written.
  std::string filter;     // --filter TEXT: only rows whose name or peer contains it.
  bool quick = false;     // --quick: a smoke test.
  bool list = false;      // --list: name the rows and run none.
  bool help = false;      // --help
};

// `args` without the program's name. InvalidArgument: one line for the user.
absl::StatusOr<BenchOptions> ParseBenchOptions(std::span<const char* const> args);

std::string BenchUsage(const std::string& program);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_OPTIONS_H_
