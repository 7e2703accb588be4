// Every committed query, on a real Prometheus that scrapes the example and a shop of all components under load.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <thread>

#include "dashboards/dashboards.h"
#include "dashboards/prometheus.h"
#include "dashboards/shop_under_load.h"
#include "flash_sale/http.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/needs_program.h"

namespace stockade::testing {
namespace {

// What a slow machine may bring about for a moment, in a run that is shorter than the time for which it must last.
const std::set<std::string> kMayBePending = {"StockadeCacheStampede", "StockadeFleetUnitsInLimbo",
                                             "StockadeLedgerBehind", "StockadeLockWatchdogBehind",
                                             "StockadeTierFillsRefused"};

// What Grafana would send: every variable of a dashboard is set to All, except for the instance.
std::string Filled(std::string expr, const std::string& instance) {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> values = {{"$__rate_interval", "4s"}, {"$__range", "1m"}};
    for (const Dashboard& dashboard : Dashboards()) {
      for (const auto& variable : dashboard.json.at("templating").at("list")) {
        if (variable.contains("allValue"))
          values["$" + variable.at("name").get<std::string>()] = variable.at("allValue");
      }
    }
    return values;
  }();
  std::map<std::string, std::string> values = all;
  values["$instance"] = instance;
  for (const auto& [variable, value] : values) {
    for (size_t at = 0; (at = expr.find(variable, at)) != std::string::npos;) expr.replace(at, variable.size(), value);
  }
  return expr;
}

// Asks until each has an answer of numbers: what there is, comes with the next scrapes. The names of those without, and
// of those that are not valid at all.
std::string WithoutData(const Prometheus& prometheus, std::vector<Query> queries) {
  std::string wrong;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  for (;;) {
    std::erase_if(queries, [&](const Query& query) {
      const Prometheus::Answer answer = prometheus.Ask(Filled(query.expr, ".+"));
      if (!answer.error.empty()) wrong += query.where + ": " + query.expr + ": " + answer.error + "\n";
      return !answer.error.empty() || answer.numbers > 0;
    });
    if (queries.empty() || std::chrono::steady_clock::now() > deadline) break;
  }
  for (const Query& query : queries) wrong += query.where + ": " + query.expr + ": no data\n";
  return wrong;
}

class LiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_PROGRAM("prometheus", "prometheus");
    STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
    STOCKADE_NEEDS_PROGRAM("curl", "curl");
    STOCKADE_NEEDS_REDIS();
    STOCKADE_NEEDS_MARIADB();
  }
};

TEST_F(LiveTest, Queries_OfDashboardsRulesAndAlerts_AreValidAndReturnData) {
  const ShopUnderLoad shop;
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run"), {"--seconds", "3", "--serve"}));
  ASSERT_TRUE(demo.AwaitOutput("metrics: http://")) << demo.err();
  const Prometheus prometheus({shop.port(), PortOf(demo)});

  const RunResult lint = RunToEnd({"promtool", "check", "metrics"}, Scrape(shop.port()));
  EXPECT_EQ(lint.status, 0);
  EXPECT_EQ(lint.out + lint.err, "");

  ASSERT_TRUE(demo.AwaitOutput("stockade: the sale opens")) << demo.err();
  const std::string instance = base_internal::Concat("127.0.0.1:", PortOf(demo));
  Await("a scrape of the example's sale", [&] {
    return prometheus
               .Ask(base_internal::Concat("stockade_inventory_reservations_total{instance=\"", instance, "\"} > 0 or ",
                                          "stockade_inventory_takes_total{instance=\"", instance, "\"} > 0"))
               .samples > 0;
  });
  std::vector<Query> queries = PanelQueries();
  for (const Query& query : VariableQueries()) queries.push_back(query);
  for (const Query& query : RunbookQueries()) {
    // An expression that only says something when something is wrong.
    if (query.expr.find(" > 0") == std::string::npos) queries.push_back(query);
  }
  Await("the evaluation of the rules", [&] {
    for (const auto& rule : prometheus.Rules()) {
      if (rule.at("health") == "unknown") return false;
    }
    return true;
  });
  for (const auto& rule : prometheus.Rules()) {
    EXPECT_EQ(rule.at("health"), "ok") << rule;
    if (rule.at("type") == "recording") queries.push_back({"recording.yml", rule.at("name")});
  }
  EXPECT_EQ(WithoutData(prometheus, queries), "");

  // Of the example each query of what it exports has series; a rate of what has just ended may be no number.
  const std::set<std::string> exported = MetricsIn(Scrape(PortOf(demo)));
  for (const Query& query : PanelQueries()) {
    const std::set<std::string> metrics = MetricsIn(query.expr);
    if (!std::ranges::includes(exported, metrics)) continue;
    Await(query.where + ": " + query.expr, [&] { return prometheus.Ask(Filled(query.expr, instance)).samples > 0; });
  }

  for (const auto& rule : prometheus.Rules()) {
    if (rule.at("type") != "alerting") continue;
    EXPECT_EQ(prometheus.Ask(rule.at("query")).error, "") << rule;
    const bool pending = rule.at("state") == "pending" && kMayBePending.contains(rule.at("name"));
    EXPECT_TRUE(rule.at("state") == "inactive" || pending) << rule;
  }
  demo.Kill(SIGTERM);
}

}  // namespace
}  // namespace stockade::testing
