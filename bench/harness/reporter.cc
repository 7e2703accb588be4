#include "harness/reporter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "absl/strings/str_format.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLine = "%-62s%11s  %-8s  %-40s%11s%11s  %-19s  %s\n";

// Null for figures that are not finite numbers.
Json Number(double figure) { return std::isfinite(figure) ? Json(figure) : Json(); }

// Four digits are more than a noisy machine can show; large figures are printed whole, never as 1.2e+06.
std::string Text(const Json& number) {
  if (number.is_null()) return "-";
  const double figure = number;
  return std::abs(figure) >= 1000 ? absl::StrFormat("%.0f", figure) : absl::StrFormat("%.4g", figure);
}

// The median of one of the counters; NaN if there was no run.
double Median(const std::vector<benchmark::UserCounters>& runs, const std::string& counter) {
  std::vector<double> figures;
  for (const benchmark::UserCounters& run : runs) figures.push_back(run.at(counter));
  if (figures.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(figures.begin(), figures.end());
  return (figures[(figures.size() - 1) / 2] + figures[figures.size() / 2]) / 2;
}

Json Holds(const Comparison& row, double ours, double peers) {
  if (row.target == "-") return {};
  const bool is_difference = row.target.starts_with("difference ");
  char bound[3] = "";
  double limit = 0;
  int size = 0;
  const std::string text = is_difference ? row.target.substr(11) : row.target;
  const bool is_read = std::sscanf(text.c_str(), "%2[<>=] %lf%n", bound, &limit, &size) == 2;
  const std::string unit = text.substr(static_cast<size_t>(size));
  const bool is_bound =
      bound == std::string_view("=") || bound == std::string_view(row.better == Better::kLower ? "<=" : ">=");
  if (!is_read || !is_bound || (unit != "" && unit != " " + row.unit)) {
    base_internal::Fatal("bench row '" + row.name + "': its target is malformed or contradicts what is better");
  }
  if (std::isnan(ours) || (unit.empty() && std::isnan(peers))) return {};
  const double figure = is_difference ? ours - peers : unit.empty() ? ours / peers : ours;
  if (bound[0] == '=') return figure == limit;
  return std::isfinite(figure) && (bound[0] == '<' ? figure <= limit : figure >= limit);
}

}  // namespace

Json MakeRow(const Comparison& row, double value, double peer_value) {
  return {{"name", row.name},
          {"value", Number(value)},
          {"unit", row.unit},
          {"peer", row.peer},
          {"peer_value", Number(peer_value)},
          {"better", row.better == Better::kLower ? "lower" : "higher"},
          {"ratio", Number(value / peer_value)},
          {"target", row.target},
          {"holds", Holds(row, value, peer_value)}};
}

std::string NameOf(const Comparison& row, bool is_ours) {
  return base_internal::Concat(row.name, "/", row.peer, is_ours ? "/ours" : "/peer");
}

bool PairReporter::ReportContext(const Context&) {
  rows_ = Json::array();
  GetOutputStream() << absl::StrFormat(kLine, "name", "value", "unit", "peer", "peer's", "ratio", "target", "holds");
  return true;
}

void PairReporter::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const std::string& name = run.run_name.function_name;
    const auto of_same_pair = [&](const auto& other) {
      return std::string_view(other.first).substr(0, other.first.rfind('/')) == name.substr(0, name.rfind('/'));
    };
    if (!runs_.empty() && !of_same_pair(*runs_.begin())) Finalize();
    if (run.run_type == Run::RT_Iteration) runs_[name].push_back(run.counters);
  }
}

void PairReporter::Finalize() {
  for (const auto& [rows, pair] : entries_) {
    const auto& ours = runs_[NameOf(rows[0], true)];
    const auto& peers = runs_[NameOf(rows[0], false)];
    if (ours.empty() && peers.empty()) continue;
    for (const Comparison& row : rows) {
      const std::string& counter = row.counter.empty() ? row.unit : row.counter;
      const Json& made = rows_.emplace_back(MakeRow(row, Median(ours, counter), Median(peers, counter)));
      const char* const holds = made["holds"].is_null() ? "-" : made["holds"] ? "holds" : "short";
      GetOutputStream() << absl::StrFormat(kLine, row.name, Text(made["value"]), row.unit, row.peer,
                                           Text(made["peer_value"]), Text(made["ratio"]), row.target, holds)
                        << std::flush;
    }
  }
  runs_.clear();
}

}  // namespace stockade::bench
