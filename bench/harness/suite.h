#ifndef STOCKADE_BENCH_HARNESS_SUITE_H_
#define STOCKADE_BENCH_HARNESS_SUITE_H_

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "harness/comparison.h"
#include "harness/report.h"

namespace stockade::bench {

// The rows of one area, in the order in which they were added.
class Suite {
 public:
  explicit Suite(bool quick = false) : quick_(quick) {}

  // Whether it is for a smoke test, which can do without what takes long to set up.
  bool quick() const { return quick_; }

  // Aborts where the target's bound contradicts what is better, or a row of this name and peer is there already.
  void Add(Comparison comparison);

  // Notes that rows are missing here, because their peer is.
  void LeaveOut(std::string_view rows, std::string_view why);

  // Keeps only the rows whose name or peer contains `text`.
  void Filter(const std::string& text);

  std::span<const Comparison> comparisons() const { return comparisons_; }
  std::span<const std::string> left_out() const { return left_out_; }

 private:
  const bool quick_;
  std::vector<Comparison> comparisons_;
  std::vector<std::string> left_out_;
};

// Both contestants once to warm up, then kRepetitions times each, in turn, so that what the machine does meanwhile
// strikes both alike.
inline constexpr int kRepetitions = 7;
Row RunComparison(const Comparison& comparison, const Scale& scale);

// The status for the exit of an area's program: 0 when every row has run, whatever the rows say; with one line on
// standard error, 2 where the options are wrong or FILE cannot be written, and 3 where the filter leaves no row.
int BenchMain(int argc, const char* const* argv, const std::function<void(Suite&)>& add_rows);

// For what a measurement takes for granted: aborts with the status and `what`.
void Require(const absl::Status& status, std::string_view what);

template <typename T>
T Require(absl::StatusOr<T> result, std::string_view what) {
  Require(result.status(), what);
  return *std::move(result);
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_SUITE_H_
