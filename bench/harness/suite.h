#ifndef STOCKADE_BENCH_HARNESS_SUITE_H_
#define STOCKADE_BENCH_HARNESS_SUITE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/require.h"
#include "measure/scale.h"
#include "measure/threads.h"

namespace stockade::bench {

enum class Better { kLower, kHigher };

// One row of the table. No two rows of an area have the same name and peer.
struct Comparison {
  std::string name;  // "operation, conditions".
  std::string unit;
  std::string peer;
  Better better = Better::kLower;
  // A bound on our figure divided by the peer's ("<= 0.6"), with the unit on our figure ("<= 2 ns/op"), or on ours
  // minus the peer's ("difference >= -0.5"); "-" for none. It is "<=" if lower is better, ">=" if higher is better, or
  // "=".
  std::string target = "-";
  std::string counter = {};  // The figure that the row shows. Empty: the only one.
};

// What one repetition measured, in the units of the rows: one figure without a name, or several with names.
struct Figures : std::map<std::string, double> {
  using map::map;
  Figures(double figure) : map{{"", figure}} {}
};

// One repetition. All threads of a benchmark run it, each with its own Worker; the figures of thread 0 count.
using Measurement = std::function<Figures(Worker& worker)>;

// The two benchmarks of a pair. Their closures own the objects that they work on.
struct Contestants {
  Measurement ours;
  Measurement peer;
};

// How the figures of one or more rows are measured.
struct Pair {
  size_t threads = 1;
  size_t peer_threads = threads;
  // Builds the objects that both work on. It is called only for pairs that run, so it may be slow.
  std::function<Contestants(const Scale& scale)> prepare;
};

// The rows of one area, in the order in which they were added.
class Suite {
 public:
  struct Entry {
    std::vector<Comparison> rows;
    Pair pair;
  };

  explicit Suite(bool quick) : quick_(quick) {}

  // Whether this is a smoke test, which leaves out what takes long to set up.
  bool quick() const { return quick_; }

  // Adds a row, or rows of one peer that show different figures of the same repetitions. Aborts if a target is
  // malformed, or if there is a row of this name and peer already.
  void Add(Comparison row, Pair pair) { AddRows({std::move(row)}, std::move(pair)); }
  void AddRows(std::vector<Comparison> rows, Pair pair);

  // Notes that rows are missing because their peer is.
  void LeaveOut(std::string_view rows, std::string_view why);

  // Keeps only the rows whose name or peer contains `text`.
  void Filter(std::string_view text);

  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& left_out() const { return left_out_; }  // As lines.

 private:
  const bool quick_;
  std::vector<Entry> entries_;
  std::set<std::string> names_;  // Of the benchmarks.
  std::string left_out_;
};

// How often each benchmark of a pair runs, after one run to warm up. The two take turns, so that other load on the
// machine affects both in the same way.
inline constexpr int kRepetitions = 7;

// Registers the pairs with Google Benchmark. `suite` must outlive their run.
void Register(const Suite& suite, const Scale& scale);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_SUITE_H_
