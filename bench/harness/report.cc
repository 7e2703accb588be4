#include "harness/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr size_t kFigureWidth = 11;

std::string Printf(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Four digits are more than a noisy machine can vouch for; large figures are printed whole, never as 1.2e+06.
std::string Figure(double value) { return Printf(std::abs(value) >= 1000 ? "%.0f" : "%.4g", value); }

std::string_view BoundText(Target::Bound bound) {
  switch (bound) {
    case Target::Bound::kAtMost: return "<=";
    case Target::Bound::kAtLeast: return ">=";
    case Target::Bound::kExactly: break;
  }
  return "=";
}

bool Meets(const Target& target, double figure) {
  switch (target.bound) {
    case Target::Bound::kAtMost: return figure <= target.limit;
    case Target::Bound::kAtLeast: return figure >= target.limit;
    case Target::Bound::kExactly: break;
  }
  return figure == target.limit;
}

std::string Left(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

std::string Right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string JsonNumber(double value) { return std::isfinite(value) ? Printf("%.9g", value) : "null"; }

}  // namespace

std::string TargetText(const Target& target, const std::string& unit) {
  if (target.of == Target::Of::kNothing) return "-";
  std::string text = base_internal::Concat(BoundText(target.bound), " ", Printf("%.6g", target.limit));
  if (target.of == Target::Of::kDifference) return "difference " + text;
  if (target.of == Target::Of::kValue) text += " " + unit;
  return text;
}

Row MakeRow(const Comparison& comparison, double value, double peer_value) {
  Row row{.name = comparison.name,
          .value = value,
          .unit = comparison.unit,
          .peer = comparison.peer,
          .peer_value = peer_value,
          .better = comparison.better,
          .target = TargetText(comparison.target, comparison.unit)};
  if (const double ratio = value / peer_value; std::isfinite(ratio)) row.ratio = ratio;
  switch (comparison.target.of) {
    case Target::Of::kNothing: break;
    case Target::Of::kRatio: row.holds = row.ratio.has_value() && Meets(comparison.target, *row.ratio); break;
    case Target::Of::kValue: row.holds = Meets(comparison.target, value); break;
    case Target::Of::kDifference: row.holds = Meets(comparison.target, value - peer_value); break;
  }
  return row;
}

TableFormat::TableFormat(std::span<const Comparison> comparisons)
    : name_width_(4), unit_width_(4), peer_width_(4), target_width_(6) {
  for (const Comparison& comparison : comparisons) {
    name_width_ = std::max(name_width_, comparison.name.size());
    unit_width_ = std::max(unit_width_, comparison.unit.size());
    peer_width_ = std::max(peer_width_, comparison.peer.size());
    target_width_ = std::max(target_width_, TargetText(comparison.target, comparison.unit).size());
  }
}

std::string TableFormat::Header() const {
  return base_internal::Concat(Left("name", name_width_), Right("value", kFigureWidth), "  ", Left("unit", unit_width_),
                               "  ", Left("peer", peer_width_), Right("peer's", kFigureWidth),
                               Right("ratio", kFigureWidth), "  ", Left("target", target_width_), "  holds");
}

std::string TableFormat::Line(const Row& row) const {
  const std::string ratio = row.ratio.has_value() ? Figure(*row.ratio) : "-";
  const std::string holds = !row.holds.has_value() ? "-" : *row.holds ? "holds" : "short";
  return base_internal::Concat(Left(row.name, name_width_), Right(Figure(row.value), kFigureWidth), "  ",
                               Left(row.unit, unit_width_), "  ", Left(row.peer, peer_width_),
                               Right(Figure(row.peer_value), kFigureWidth), Right(ratio, kFigureWidth), "  ",
                               Left(row.target, target_width_), "  ", holds);
}

std::string JsonString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string Json(std::span<const Row> rows) {
  std::string json = "[";
  for (const Row& row : rows) {
    json += json.size() == 1 ? "\n" : ",\n";
    json +=
        base_internal::Concat("  {\"name\": ", JsonString(row.name), ", \"value\": ", JsonNumber(row.value),
                              ", \"unit\": ", JsonString(row.unit), ", \"peer\": ", JsonString(row.peer),
                              ", \"peer_value\": ", JsonNumber(row.peer_value),
                              ", \"better\": ", std::string(row.better == Better::kLower ? "\"lower\"" : "\"higher\""),
                              ", \"ratio\": ", row.ratio.has_value() ? JsonNumber(*row.ratio) : std::string("null"),
                              ", \"target\": ", JsonString(row.target), ", \"holds\": ",
                              std::string(!row.holds.has_value() ? "null"
                                          : *row.holds           ? "true"
                                                                 : "false"),
                              "}");
  }
  return json + (rows.empty() ? "]\n" : "\n]\n");
}

}  // namespace stockade::bench
