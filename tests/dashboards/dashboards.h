#ifndef STOCKADE_TESTS_DASHBOARDS_DASHBOARDS_H_
#define STOCKADE_TESTS_DASHBOARDS_DASHBOARDS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace stockade::testing {

// Below the repository's root. Aborts where it cannot be read.
std::string ReadSource(const std::string& path);
// Of the files in a folder below the repository's root, by name.
std::vector<std::string> FilesIn(const std::string& folder);

struct Dashboard {
  std::string file;
  nlohmann::json json;

  // All but the rows.
  std::vector<nlohmann::json> Panels() const;
};

// Those of metrics/grafana/dashboards. Aborts where one is no JSON.
std::vector<Dashboard> Dashboards();

struct Query {
  std::string where;  // "cache.json: Hit ratio"
  std::string expr;   // With its variables.
};

// Of all panels of all dashboards.
std::vector<Query> PanelQueries();
// For each variable of a dashboard the PromQL query that returns one sample per value that Grafana would list.
std::vector<Query> VariableQueries();
// Of the ```promql blocks of docs/RUNBOOK.md.
std::vector<Query> RunbookQueries();

// The metrics of docs/METRICS.md, which another test compares with what is exported: name and type.
std::map<std::string, std::string> DocumentedMetrics();
// The label of a documented metric that holds the name of the component that exports it, such as "cache".
std::string NameLabelOf(const std::string& metric);
// The metrics that an expression reads; of a histogram's series the histogram.
std::set<std::string> MetricsIn(const std::string& expr);
// The recorded series that an expression reads or a file names.
std::set<std::string> RecordedIn(const std::string& expr);

// The alerts of metrics/prometheus/rules/alerts.yml: name and text, up to the next one.
std::map<std::string, std::string> Alerts();

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_DASHBOARDS_DASHBOARDS_H_
