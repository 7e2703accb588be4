#ifndef STOCKADE_BENCH_HARNESS_REPORTER_H_
#define STOCKADE_BENCH_HARNESS_REPORTER_H_

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

#include "harness/suite.h"
#include "nlohmann/json.hpp"

namespace stockade::bench {

// The names of a pair's benchmarks, which differ in their ends only.
std::string NameOf(const Comparison& row, bool is_ours);

// A comparison that has run: an object with exactly the keys name, value, unit, peer, peer_value, better ("lower" or
// "higher"), ratio, target and holds. The last is null without a target. A figure whose benchmark did not run is NaN;
// it is null, and so is what depends on it. Aborts if the target is malformed.
nlohmann::ordered_json MakeRow(const Comparison& row, double value, double peer_value);

// Pairs the medians of our benchmarks with those of their peers, and prints one line per row.
class PairReporter : public benchmark::BenchmarkReporter {
 public:
  explicit PairReporter(const std::vector<Suite::Entry>& entries) : entries_(entries) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;  // Of the pair that has run last.

  const nlohmann::ordered_json& rows() const { return rows_; }  // A list, or null if no benchmark has run.

 private:
  const std::vector<Suite::Entry>& entries_;
  std::map<std::string, std::vector<benchmark::UserCounters>> runs_;  // Of the current pair, by the benchmark's name.
  nlohmann::ordered_json rows_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_REPORTER_H_
