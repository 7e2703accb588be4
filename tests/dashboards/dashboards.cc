#include "dashboards/dashboards.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {
namespace {

constexpr char kDashboards[] = "metrics/grafana/dashboards";

std::set<std::string> Matches(const std::string& text, const std::regex& form) {
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), form), end; at != end; ++at) found.insert(at->str());
  return found;
}

}  // namespace

std::string ReadSource(const std::string& path) {
  std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/" + path);
  if (!in) base_internal::Fatal(base_internal::Concat("cannot read ", path));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STOCKADE_SOURCE_DIR) + "/" + folder)) {
    files.push_back(entry.path().filename());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<nlohmann::json> Dashboard::Panels() const {
  std::vector<nlohmann::json> panels;
  for (const auto& panel : json.at("panels")) {
    if (panel.at("type") != "row") panels.push_back(panel);
  }
  return panels;
}

std::vector<Dashboard> Dashboards() {
  std::vector<Dashboard> all;
  for (const std::string& file : FilesIn(kDashboards)) {
    all.push_back({file, nlohmann::json::parse(ReadSource(std::string(kDashboards) + "/" + file))});
  }
  return all;
}

std::vector<Query> PanelQueries() {
  std::vector<Query> queries;
  for (const Dashboard& dashboard : Dashboards()) {
    for (const auto& panel : dashboard.Panels()) {
      const std::string where = dashboard.file + ": " + panel.at("title").get<std::string>();
      for (const auto& target : panel.at("targets")) queries.push_back({where, target.at("expr")});
    }
  }
  return queries;
}

std::vector<Query> VariableQueries() {
  static const std::regex form(R"(label_values\((.+), (\w+)\))");
  std::vector<Query> queries;
  for (const Dashboard& dashboard : Dashboards()) {
    for (const auto& variable : dashboard.json.at("templating").at("list")) {
      if (variable.at("type") != "query") continue;
      const std::string where = dashboard.file + ": $" + variable.at("name").get<std::string>();
      queries.push_back(
          {where, std::regex_replace(variable.at("query").get<std::string>(), form, "count by ($2) ($1)")});
    }
  }
  return queries;
}

std::vector<Query> RunbookQueries() {
  std::vector<Query> queries;
  std::istringstream in(ReadSource("docs/RUNBOOK.md"));
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = line == "```promql";
    } else if (inside) {
      queries.push_back({"docs/RUNBOOK.md", line});
    }
  }
  return queries;
}

std::map<std::string, std::string> DocumentedMetrics() {
  std::map<std::string, std::string> metrics;
  static const std::regex row(R"(\n\| `(stockade_\w+)` \| (\w+) \|)");
  const std::string text = ReadSource("docs/METRICS.md");
  for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at) metrics[(*at)[1]] = (*at)[2];
  return metrics;
}

std::string NameLabelOf(const std::string& metric) {
  static const std::regex label("`(cache|client|inventory|ledger|lock|service|tier)`");
  static const std::string text = ReadSource("docs/METRICS.md");
  const size_t row = text.find("\n| `" + metric + "` |");
  if (row == std::string::npos) return "";
  const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row - 1);
  std::smatch match;
  return std::regex_search(line, match, label) ? match[1].str() : "";
}

std::set<std::string> MetricsIn(const std::string& expr) {
  static const std::map<std::string, std::string> documented = DocumentedMetrics();
  static const std::regex name(R"([\w:]*stockade_[\w:]+)");
  std::set<std::string> metrics;
  for (std::string found : Matches(expr, name)) {
    if (found.find(':') != std::string::npos) continue;
    for (const std::string suffix : {"_bucket", "_count", "_sum"}) {
      const std::string base = found.substr(0, found.size() - std::min(found.size(), suffix.size()));
      const auto histogram = documented.find(base);
      if (!found.ends_with(suffix) || histogram == documented.end() || histogram->second != "histogram") continue;
      found = base;
      break;
    }
    metrics.insert(found);
  }
  return metrics;
}

std::set<std::string> RecordedIn(const std::string& expr) {
  static const std::regex name(R"(\w+:stockade_\w+:\w+)");
  return Matches(expr, name);
}

std::map<std::string, std::string> Alerts() {
  std::map<std::string, std::string> alerts;
  const std::string begin = "- alert: ";
  const std::string text = ReadSource("metrics/prometheus/rules/alerts.yml");
  for (size_t at = text.find(begin); at != std::string::npos;) {
    const size_t name = at + begin.size();
    at = text.find(begin, name);
    alerts[text.substr(name, text.find('\n', name) - name)] = text.substr(name, at - name);
  }
  return alerts;
}

}  // namespace stockade::testing
