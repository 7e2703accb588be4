// The rules of grafana/dashboard-linter, and what every dashboard of ours has besides. That the queries are PromQL is
// what live_test.cc finds out.

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "dashboards/dashboards.h"

namespace stockade::testing {
namespace {

using nlohmann::json;

const json* VariableOf(const Dashboard& dashboard, const std::string& name) {
  for (const json& variable : dashboard.json.at("templating").at("list")) {
    if (variable.at("name") == name) return &variable;
  }
  return nullptr;
}

bool IsTemplated(const json& datasource) {
  return datasource.at("type") == "prometheus" && datasource.at("uid") == "${datasource}";
}

// template-datasource-rule, uneditable-dashboard; the schema, and links from each to all.
TEST(DashboardLintTest, Dashboard_IsReadOnlyTaggedAndTakesItsDataSource) {
  std::set<std::string> uids, titles;
  for (const Dashboard& dashboard : Dashboards()) {
    SCOPED_TRACE(dashboard.file);
    const json& all = dashboard.json;
    EXPECT_EQ(all.at("uid").get<std::string>() + ".json", "stockade-" + dashboard.file);
    EXPECT_TRUE(uids.insert(all.at("uid")).second);
    EXPECT_TRUE(titles.insert(all.at("title")).second);
    EXPECT_FALSE(all.at("description").get<std::string>().empty());
    EXPECT_EQ(all.at("tags"), json({"stockade"}));
    EXPECT_EQ(all.at("schemaVersion"), 39);
    EXPECT_EQ(all.at("editable"), false);
    EXPECT_FALSE(all.contains("id")) << "an id is of one Grafana";
    ASSERT_EQ(all.at("links").size(), 1u);
    EXPECT_EQ(all.at("links")[0].at("type"), "dashboards");
    EXPECT_EQ(all.at("links")[0].at("tags"), json({"stockade"}));
    EXPECT_EQ(all.at("links")[0].at("includeVars"), true);
    EXPECT_EQ(all.at("links")[0].at("keepTime"), true);
    const json* const datasource = VariableOf(dashboard, "datasource");
    ASSERT_NE(datasource, nullptr);
    EXPECT_EQ(datasource->at("type"), "datasource");
    EXPECT_EQ(datasource->at("query"), "prometheus");
    EXPECT_EQ(datasource->at("label"), "Data source");
  }
  EXPECT_EQ(uids.size(), 7u);
}

// template-job-rule, template-instance-rule, template-label-promql-rule, template-on-time-change-reload-rule.
TEST(DashboardLintTest, Variables_AreOfManyValuesAndReadAgainWithTheTime) {
  static const std::regex form(R"(label_values\(.+, (\w+)\))");
  for (const Dashboard& dashboard : Dashboards()) {
    for (const std::string name : {"job", "instance"}) {
      EXPECT_NE(VariableOf(dashboard, name), nullptr) << dashboard.file << ": " << name;
    }
    for (const json& variable : dashboard.json.at("templating").at("list")) {
      if (variable.at("type") == "datasource") continue;
      const std::string name = variable.at("name");
      SCOPED_TRACE(dashboard.file + ": $" + name);
      EXPECT_EQ(variable.at("type"), "query");
      EXPECT_TRUE(IsTemplated(variable.at("datasource")));
      std::string title = name;
      title[0] = static_cast<char>(std::toupper(title[0]));
      EXPECT_EQ(variable.at("label"), title);
      EXPECT_EQ(variable.at("multi"), true);
      EXPECT_EQ(variable.at("includeAll"), true);
      EXPECT_EQ(variable.at("allValue"), ".+");
      EXPECT_EQ(variable.at("refresh"), 2) << "on time range change";
      std::smatch match;
      const std::string query = variable.at("query");
      ASSERT_TRUE(std::regex_match(query, match, form)) << query;
      EXPECT_EQ(match[1], name);
      EXPECT_EQ(variable.at("definition"), query);
    }
  }
}

// panel-datasource-rule, panel-title-description-rule, panel-units-rule, panel-no-targets-rule.
TEST(DashboardLintTest, Panels_HaveTitleDescriptionUnitLegendAndQueries) {
  // Of Grafana's units, those that we use: a wrong one is shown as text.
  static const std::set<std::string> units = {"none", "short", "percentunit", "s", "bytes", "ops", "reqps"};
  for (const Dashboard& dashboard : Dashboards()) {
    std::set<int> ids;
    std::set<std::string> titles;
    for (const json& panel : dashboard.json.at("panels")) {
      const std::string title = panel.at("title");
      SCOPED_TRACE(dashboard.file + ": " + title);
      EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second);
      EXPECT_FALSE(title.empty());
      EXPECT_TRUE(titles.insert(title).second) << "twice";
      const json& place = panel.at("gridPos");
      EXPECT_LE(place.at("x").get<int>() + place.at("w").get<int>(), 24);
      if (panel.at("type") == "row") continue;
      EXPECT_TRUE(panel.at("type") == "timeseries" || panel.at("type") == "stat");
      EXPECT_TRUE(panel.at("description").get<std::string>().ends_with("."));
      EXPECT_TRUE(IsTemplated(panel.at("datasource")));
      EXPECT_TRUE(units.contains(panel.at("fieldConfig").at("defaults").at("unit")));
      EXPECT_FALSE(panel.at("targets").empty());
      std::set<std::string> legends, refs;
      for (const json& target : panel.at("targets")) {
        EXPECT_TRUE(IsTemplated(target.at("datasource")));
        EXPECT_TRUE(refs.insert(target.at("refId")).second);
        EXPECT_TRUE(legends.insert(target.at("legendFormat")).second) << "lines that look alike";
        EXPECT_NE(target.at("legendFormat"), "");
      }
    }
  }
}

// target-job-rule, target-instance-rule.
TEST(DashboardLintTest, Queries_AskForTheChosenJobsAndInstances) {
  static const std::regex selector(R"(stockade_\w+(\{[^}]*\})?)");
  for (const auto& [where, expr] : PanelQueries()) {
    for (std::sregex_iterator at(expr.begin(), expr.end(), selector), end; at != end; ++at) {
      EXPECT_NE(at->str().find(R"(job=~"$job")"), std::string::npos) << where << ": " << at->str();
      EXPECT_NE(at->str().find(R"(instance=~"$instance")"), std::string::npos) << where << ": " << at->str();
    }
  }
}

// A dashboard can be narrowed to one component: its name is a variable, which every query on that kind applies.
TEST(DashboardLintTest, Queries_AskForTheChosenNames) {
  static const std::regex selector(R"(stockade_\w+\{[^}]*\})");
  for (const Dashboard& dashboard : Dashboards()) {
    std::set<std::string> applied;
    for (const json& panel : dashboard.Panels()) {
      for (const json& target : panel.at("targets")) {
        const std::string expr = target.at("expr");
        for (std::sregex_iterator at(expr.begin(), expr.end(), selector), end; at != end; ++at) {
          SCOPED_TRACE(dashboard.file + ": " + at->str());
          const std::string label = NameLabelOf(*MetricsIn(at->str()).begin());
          ASSERT_NE(label, "");
          EXPECT_NE(at->str().find(label + "=~\"$" + label + "\""), std::string::npos);
          EXPECT_NE(VariableOf(dashboard, label), nullptr);
          applied.insert(label);
        }
      }
    }
    for (const std::string label : {"cache", "client", "inventory", "ledger", "lock", "service", "tier"}) {
      EXPECT_EQ(VariableOf(dashboard, label) != nullptr, applied.contains(label)) << dashboard.file << ": $" << label;
    }
  }
}

// A weight says nothing without its bound.
TEST(DashboardLintTest, Weights_AreShownBesideTheirBound) {
  for (const Dashboard& dashboard : Dashboards()) {
    for (const json& panel : dashboard.Panels()) {
      std::set<std::string> metrics;
      for (const json& target : panel.at("targets")) metrics.merge(MetricsIn(target.at("expr")));
      EXPECT_EQ(metrics.contains("stockade_cache_weight"), metrics.contains("stockade_cache_max_weight"))
          << dashboard.file << ": " << panel.at("title");
    }
  }
}

// target-rate-interval-rule, target-counter-agg-rule; and that a legend names labels that the query keeps.
TEST(DashboardLintTest, Queries_OfCounters_AreRatesOverTheIntervalOfRates) {
  static const std::regex selector(R"((\w+)?\(?(stockade_\w+)\{[^}]*\}(\[([^\]]*)\])?)");
  const auto documented = DocumentedMetrics();
  for (const auto& [where, expr] : PanelQueries()) {
    for (std::sregex_iterator at(expr.begin(), expr.end(), selector), end; at != end; ++at) {
      const std::string function = (*at)[1], name = (*at)[2], range = (*at)[4];
      SCOPED_TRACE(where + ": " + at->str());
      const auto type = documented.find(name);
      const bool counts = type == documented.end() || type->second == "counter";  // Or of a histogram.
      if (!counts) {
        EXPECT_EQ(range, "");
      } else if (function == "rate") {
        EXPECT_EQ(range, "$__rate_interval");
      } else {
        EXPECT_EQ(function, "increase");
        EXPECT_TRUE(range == "$__rate_interval" || range == "$__range");
      }
    }
  }
}

TEST(DashboardLintTest, Legends_NameLabelsThatTheQueryKeeps) {
  static const std::regex label(R"(\{\{(\w+)\}\})");
  for (const Dashboard& dashboard : Dashboards()) {
    for (const json& panel : dashboard.Panels()) {
      for (const json& target : panel.at("targets")) {
        const std::string legend = target.at("legendFormat"), expr = target.at("expr");
        for (std::sregex_iterator at(legend.begin(), legend.end(), label), end; at != end; ++at) {
          const std::regex kept("by \\(([^)]*\\b)?" + (*at)[1].str() + "\\b");
          EXPECT_TRUE(std::regex_search(expr, kept)) << dashboard.file << ": " << legend << " of " << expr;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stockade::testing
