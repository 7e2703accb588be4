#ifndef STOCKADE_BENCH_HARNESS_REPORT_H_
#define STOCKADE_BENCH_HARNESS_REPORT_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "harness/comparison.h"

namespace stockade::bench {

// A comparison that has run: the medians, and what they say of its target.
struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer;
  double peer_value = 0;
  Better better = Better::kLower;
  std::optional<double> ratio = {};  // value / peer_value; none where that is no finite number.
  std::string target =
      "-";  // As printed: "<= 0.6" of the ratio, "<= 2 ns/op" of the value, "difference >= -1", "-" for none.
  std::optional<bool> holds = {};  // None where no target is stated. A ratio that is no number holds nothing.
};

Row MakeRow(const Comparison& comparison, double value, double peer_value);

std::string TargetText(const Target& target, const std::string& unit);

// The table's columns are as wide as what is known before the first figure is, so that rows can be printed as they
// come. Text that is wider than its column moves the rest of its line, and is never cut.
class TableFormat {
 public:
  explicit TableFormat(std::span<const Comparison> comparisons);

  std::string Header() const;
  std::string Line(const Row& row) const;

 private:
  size_t name_width_;
  size_t unit_width_;
  size_t peer_width_;
  size_t target_width_;
};

// A list of objects with exactly the keys name, value, unit, peer, peer_value, better ("lower" or "higher"), ratio,
// target, holds. Figures that are no finite numbers are null, as are ratio and holds where there is none.
std::string Json(std::span<const Row> rows);

// `text` between quotes, with what JSON does not allow there escaped. Bytes above 0x7f are passed on: UTF-8.
std::string JsonString(const std::string& text);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_REPORT_H_
