// Dashboards, rules, alerts and the runbook name what there is, and all that there is.

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "dashboards/dashboards.h"
#include "support/needs_program.h"
#include "support/subprocess.h"

namespace stockade::testing {
namespace {

const std::string kPrometheus = std::string(STOCKADE_SOURCE_DIR) + "/metrics/prometheus";

// Every expression that is committed, rules by the file.
std::vector<Query> AllQueries() {
  std::vector<Query> queries = PanelQueries();
  for (const Query& query : RunbookQueries()) queries.push_back(query);
  for (const std::string& file : FilesIn("metrics/prometheus/rules")) {
    queries.push_back({file, ReadSource("metrics/prometheus/rules/" + file)});
  }
  for (const Dashboard& dashboard : Dashboards()) {
    for (const auto& variable : dashboard.json.at("templating").at("list")) {
      const std::string query = variable.at("query");
      if (query.find("__name__") == std::string::npos) queries.push_back({dashboard.file, query});
    }
  }
  return queries;
}

TEST(DashboardCatalogueTest, ExportedMetrics_AreAllOnADashboard) {
  std::set<std::string> shown;
  for (const Query& query : PanelQueries()) shown.merge(MetricsIn(query.expr));
  const auto documented = DocumentedMetrics();
  EXPECT_GT(documented.size(), 60u);
  for (const auto& [name, type] : documented) EXPECT_TRUE(shown.contains(name)) << name << " is on no dashboard";
}

TEST(DashboardCatalogueTest, Queries_NameMetricsAndRulesThatThereAre) {
  const auto documented = DocumentedMetrics();
  const std::string rules = ReadSource("metrics/prometheus/rules/recording.yml");
  for (const auto& [where, expr] : AllQueries()) {
    for (const std::string& name : MetricsIn(expr)) EXPECT_TRUE(documented.contains(name)) << where << ": " << name;
    for (const std::string& name : RecordedIn(expr)) {
      EXPECT_NE(rules.find("- record: " + name + "\n"), std::string::npos) << where << ": " << name;
    }
  }
}

TEST(DashboardCatalogueTest, Provisioning_NamesWhatTheReadmeMounts) {
  EXPECT_EQ(FilesIn("metrics/grafana/provisioning/datasources"), std::vector<std::string>{"prometheus.yaml"});
  EXPECT_EQ(FilesIn("metrics/grafana/provisioning/dashboards"), std::vector<std::string>{"stockade.yaml"});
  static const std::regex path(R"(\n +path: (\S+)\n)");
  const std::string provider = ReadSource("metrics/grafana/provisioning/dashboards/stockade.yaml");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(provider, match, path));
  const std::string readme = ReadSource("metrics/grafana/README.md");
  EXPECT_NE(readme.find("/metrics/grafana/dashboards:" + match[1].str() + ":"), std::string::npos);
  EXPECT_NE(readme.find("/metrics/grafana/provisioning:/etc/grafana/provisioning:"), std::string::npos);
  EXPECT_NE(ReadSource("metrics/grafana/provisioning/datasources/prometheus.yaml").find("timeInterval: 15s"),
            std::string::npos);
  EXPECT_NE(ReadSource("metrics/prometheus/prometheus.yml").find("scrape_interval: 15s"), std::string::npos);
}

TEST(AlertsTest, EachAlert_HasSeveritySummaryAndARunbook) {
  const std::string runbook = ReadSource("docs/RUNBOOK.md");
  const auto alerts = Alerts();
  EXPECT_GE(alerts.size(), 8u);
  static const std::regex form(
      R"(\n +severity: (critical|warning)\n +annotations:\n +summary: .+\n +description: >-\n[^]+\n +runbook_url: docs/RUNBOOK\.md#(\w+)\n)");
  for (const auto& [name, text] : alerts) {
    std::smatch match;
    ASSERT_TRUE(std::regex_search(text, match, form)) << name;
    std::string anchor = name;
    for (char& letter : anchor) letter = static_cast<char>(std::tolower(letter));
    EXPECT_EQ(match[2], anchor) << name;
    EXPECT_NE(runbook.find("\n## " + name + "\n"), std::string::npos) << name;
  }
  static const std::regex heading(R"(\n## (\w+)\n)");
  for (std::sregex_iterator at(runbook.begin(), runbook.end(), heading), end; at != end; ++at) {
    EXPECT_TRUE(alerts.contains((*at)[1])) << "of no alert: " << (*at)[1];
  }
}

// Titles stand in the runbook as *Title*.
TEST(AlertsTest, Runbook_NamesPanelsThatThereAre) {
  std::set<std::string> titles;
  for (const Dashboard& dashboard : Dashboards()) {
    for (const auto& panel : dashboard.json.at("panels")) titles.insert(panel.at("title"));
    titles.insert(dashboard.json.at("title"));
  }
  static const std::regex named(R"([^*]\*([A-Z][^*\n]+)\*[^*]|row "([^"]+)\"|"(Stockade / [\w ]+)\")");
  const std::string runbook = ReadSource("docs/RUNBOOK.md");
  int found = 0;
  for (std::sregex_iterator at(runbook.begin(), runbook.end(), named), end; at != end; ++at, ++found) {
    const std::string title = (*at)[1].str() + (*at)[2].str() + (*at)[3].str();
    EXPECT_TRUE(titles.contains(title)) << title;
  }
  EXPECT_GT(found, 20);
}

TEST(AlertsTest, EachAlert_IsTestedToFireAndToStayQuiet) {
  std::string tests;
  for (const std::string& file : FilesIn("metrics/prometheus/tests")) {
    tests += ReadSource("metrics/prometheus/tests/" + file);
  }
  for (const auto& [name, text] : Alerts()) {
    const std::string asked = "alertname: " + name + "\n        exp_alerts:";
    EXPECT_NE(tests.find(asked + "\n"), std::string::npos) << name << " never fires";
    EXPECT_NE(tests.find(asked + " []\n"), std::string::npos) << name << " never stays quiet";
  }
}

TEST(AlertsTest, Promtool_AcceptsRulesAndConfigAndPassesTheirTests) {
  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  std::vector<std::string> tests = {"promtool", "test", "rules"};
  for (const std::string& file : FilesIn("metrics/prometheus/tests")) tests.push_back(kPrometheus + "/tests/" + file);
  for (const auto& command :
       {std::vector<std::string>{"promtool", "check", "config", kPrometheus + "/prometheus.yml"},
        {"promtool", "check", "rules", kPrometheus + "/rules/recording.yml", kPrometheus + "/rules/alerts.yml"},
        tests}) {
    const RunResult result = RunToEnd(command);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
  }
}

}  // namespace
}  // namespace stockade::testing
