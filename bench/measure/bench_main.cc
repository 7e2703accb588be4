#include "measure/bench_main.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "harness/reporter.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

using base_internal::Concat;

constexpr int kNoRow = 3;  // `run` knows it.

constexpr char kUsage[] =
    " [--json FILE] [--quick] [--filter TEXT] [--list] [--benchmark_...]\n"
    "  --json FILE      also write the rows to FILE\n"
    "  --quick          a smoke test: tiny runs with meaningless figures\n"
    "  --filter TEXT    run only rows whose name or peer contains TEXT\n"
    "  --list           list the rows without running them\n"
    "  --benchmark_...  the options of Google Benchmark\n";

}  // namespace

int BenchMain(int argc, const char* const* argv, const std::function<void(Suite&)>& add_rows) {
  std::vector<std::string> args(argv, argv + argc);
  const std::string program = std::filesystem::path(args[0]).filename().string();
  const auto complain = [&](std::string_view what, int status = 2) {
    std::fputs(Concat(program, ": ", what, "\n").c_str(), stderr);
    return status;
  };
  std::map<std::string, std::string> options;
  std::vector<char*> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& option = args[i];
    if (option == "--quick" || option == "--list" || option == "--help") {
      options[option] = "yes";
    } else if (option == "--json" || option == "--filter") {
      if (i + 1 == args.size() || args[i + 1].empty()) return complain(option + " needs a value");
      options[option] = args[++i];
    } else {
      rest.push_back(args[i].data());
    }
  }
  if (options.contains("--help")) return std::printf("usage: %s%s", program.c_str(), kUsage), 0;
  int left = static_cast<int>(rest.size());
  benchmark::Initialize(&left, rest.data());
  if (left > 1) return complain(Concat("unknown option '", rest[1], "'; try --help"));

  std::thread([] {}).join();  // libstdc++ leaves atomics out in a process that has never had a second thread.
  Suite suite(options.contains("--quick"));
  add_rows(suite);
  suite.Filter(options["--filter"]);
  if (suite.entries().empty()) return complain(Concat("no row has '", options["--filter"], "' in it"), kNoRow);
  if (options.contains("--list")) {
    for (const Suite::Entry& entry : suite.entries()) {
      for (const Comparison& row : entry.rows) {
        std::printf("%s [%s, %s is better] against %s, target %s\n", row.name.c_str(), row.unit.c_str(),
                    row.better == Better::kLower ? "lower" : "higher", row.peer.c_str(), row.target.c_str());
      }
    }
    return 0;
  }

  const std::filesystem::path file = options["--json"];
  const std::string part = file.string() + ".part";  // A run that is interrupted leaves the last whole file.
  std::error_code error;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream json(file.empty() ? "/dev/null" : part);
  if (!json.good()) return complain("cannot write " + file.string());
  const Scale scale = suite.quick() ? Scale{.quick = true, .span = absl::Milliseconds(2)} : Scale{};
  Register(suite, scale);
  PairReporter reporter(suite.entries());
  const bool is_selected = benchmark::RunSpecifiedBenchmarks(&reporter) > 0;
  benchmark::ClearRegisteredBenchmarks();
  if (reporter.rows().is_null()) {
    if (!file.empty()) std::filesystem::remove(part, error);
    return is_selected ? 0 : kNoRow;  // --benchmark_list_tests selects, but runs nothing.
  }
  std::fputs(suite.left_out().c_str(), stdout);
  if (file.empty()) return 0;
  json << reporter.rows().dump(1) << std::endl;
  if (json.good()) std::filesystem::rename(part, file, error);
  return json.good() && !error ? 0 : complain("cannot write " + file.string());
}

}  // namespace stockade::bench
