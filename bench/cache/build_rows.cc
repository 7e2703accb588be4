// What a small program with the cache costs before it runs: the time to compile it, and its size. Measured once per
// row, independently of the number of repetitions.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

#include "cache/rows.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr char kMapPeer[] = "unordered_map and mutex";
constexpr int kCompilations = 3;  // The fastest counts.

struct Program {
  const char* source;
  const char* executable;
};
constexpr Program kOurs = {STOCKADE_BENCH_HELLO_SOURCE, STOCKADE_BENCH_HELLO};
constexpr Program kMap = {STOCKADE_BENCH_HELLO_MAP_SOURCE, STOCKADE_BENCH_HELLO_MAP};

// The processor time, without that of the kernel, of all processes that this one has waited for.
double ChildrenSeconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

double SecondsToCompile(const Program& program) {
  const std::string command =
      base_internal::Concat("'", STOCKADE_BENCH_CXX, "' -std=c++20 -O2 '@", STOCKADE_BENCH_HELLO_FLAGS, "' -c '",
                            program.source, "' -o /dev/null");
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCompilations; ++i) {
    const double before = ChildrenSeconds();
    if (std::system(command.c_str()) != 0) base_internal::Fatal("bench: this failed: " + command);
    best = std::min(best, ChildrenSeconds() - before);
  }
  return best;
}

double Kib(const Program& program) {
  return static_cast<double>(std::filesystem::file_size(program.executable)) / 1024;
}

void AddRow(Suite& suite, const std::string& name, const std::string& unit, double (*figure)(const Program&)) {
  suite.Add({.name = name, .unit = unit, .peer = kMapPeer}, {.prepare = [=](const Scale&) -> Contestants {
              return {[ours = figure(kOurs)](Worker&) { return ours; }, [map = figure(kMap)](Worker&) { return map; }};
            }});
}

}  // namespace

void AddBuildRows(Suite& suite) {
  if (suite.quick()) return suite.LeaveOut("hello-world programs", "a smoke test does not compile them");
  AddRow(suite, "hello-world program, compiling, -O2", "s", SecondsToCompile);
  AddRow(suite, "hello-world program, size, stripped", "KiB", Kib);
}

}  // namespace stockade::bench
