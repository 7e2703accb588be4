#include "harness/suite.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "harness/options.h"
#include "harness/stats.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr int kBadInput = 2;
constexpr int kNoRow = 3;  // `run` knows it.

int Complain(const std::string& program, std::string_view what, int status = kBadInput) {
  std::fputs(base_internal::Concat(program, ": ", what, "\n").c_str(), stderr);
  return status;
}

// Written beside the file and renamed at the end, so that a run that is broken off leaves the last whole one.
std::string PartOf(const std::string& file) { return file + ".part"; }

bool OpenPart(const std::string& file, std::ofstream& out) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error || std::filesystem::is_directory(file, error)) return false;
  out.open(PartOf(file), std::ios::trunc);
  return out.good();
}

bool FinishPart(const std::string& file, std::ofstream& out, std::span<const Row> rows) {
  out << Json(rows);
  out.close();
  std::error_code error;
  if (out.good()) std::filesystem::rename(PartOf(file), file, error);
  return out.good() && !error;
}

void List(const Suite& suite) {
  for (const Comparison& row : suite.comparisons()) {
    std::printf("%s [%s, %s is better] against %s, target %s\n", row.name.c_str(), row.unit.c_str(),
                row.better == Better::kLower ? "lower" : "higher", row.peer.c_str(),
                TargetText(row.target, row.unit).c_str());
  }
}

void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

void Suite::Add(Comparison comparison) {
  using Bound = Target::Bound;
  const Bound wrong = comparison.better == Better::kLower ? Bound::kAtLeast : Bound::kAtMost;
  if (comparison.target.of != Target::Of::kNothing && comparison.target.bound == wrong) {
    base_internal::Fatal(
        base_internal::Concat("bench row '", comparison.name, "': its target's bound contradicts what is better"));
  }
  for (const Comparison& other : comparisons_) {
    if (other.name == comparison.name && other.peer == comparison.peer) {
      base_internal::Fatal(
          base_internal::Concat("bench row '", other.name, "' against '", other.peer, "' is defined twice"));
    }
  }
  comparisons_.push_back(std::move(comparison));
}

void Suite::LeaveOut(std::string_view rows, std::string_view why) {
  left_out_.push_back(base_internal::Concat("left out: ", rows, ": ", why));
}

void Suite::Filter(const std::string& text) {
  std::erase_if(comparisons_, [&](const Comparison& row) {
    return row.name.find(text) == std::string::npos && row.peer.find(text) == std::string::npos;
  });
}

Row RunComparison(const Comparison& comparison, const Scale& scale) {
  const Contestants contestants = comparison.prepare(scale);
  contestants.ours();
  contestants.peer();
  std::vector<double> ours;
  std::vector<double> peers;
  for (int i = 0; i < kRepetitions; ++i) {
    ours.push_back(contestants.ours());
    peers.push_back(contestants.peer());
  }
  return MakeRow(comparison, Median(std::move(ours)), Median(std::move(peers)));
}

int BenchMain(int argc, const char* const* argv, const std::function<void(Suite&)>& add_rows) {
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  const absl::StatusOr<BenchOptions> options = ParseBenchOptions(std::span(argv + 1, static_cast<size_t>(argc) - 1));
  if (!options.ok()) return Complain(program, std::string(options.status().message()));
  if (options->help) {
    std::fputs(BenchUsage(program).c_str(), stdout);
    return 0;
  }

  Suite suite(options->quick);
  add_rows(suite);
  suite.Filter(options->filter);
  if (suite.comparisons().empty()) {
    return Complain(program, base_internal::Concat("no row has '", options->filter, "' in it"), kNoRow);
  }
  if (options->list) {
    List(suite);
    return 0;
  }

  std::ofstream json;
  if (!options->json_file.empty() && !OpenPart(options->json_file, json)) {
    return Complain(program, base_internal::Concat("cannot write ", options->json_file));
  }
  const Scale scale = options->quick ? Scale{.quick = true, .span = absl::Milliseconds(2)} : Scale{};
  const TableFormat table(suite.comparisons());
  PrintLine(table.Header());
  std::vector<Row> rows;
  for (const Comparison& comparison : suite.comparisons()) {
    rows.push_back(RunComparison(comparison, scale));
    PrintLine(table.Line(rows.back()));
  }
  for (const std::string& line : suite.left_out()) PrintLine(line);
  if (!options->json_file.empty() && !FinishPart(options->json_file, json, rows)) {
    return Complain(program, base_internal::Concat("cannot write ", options->json_file));
  }
  return 0;
}

void Require(const absl::Status& status, std::string_view what) {
  if (!status.ok()) base_internal::Fatal(base_internal::Concat("bench: ", what, ": ", status.ToString()));
}

}  // namespace stockade::bench
