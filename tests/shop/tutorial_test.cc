#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/needs_program.h"
#include "support/subprocess.h"
#include "support/temp_dir.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using Lines = std::vector<std::string>;

Lines LinesOf(std::istream& in) {
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Lines LinesOf(const std::string& text) {
  std::istringstream in(text);
  return LinesOf(in);
}

Lines Document(const std::string& path) {
  std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/" + path);
  return LinesOf(in);
}

// What the tutorial shows below each "$ command".
struct Shown {
  std::string command;
  Lines lines;
};

std::vector<Shown> Consoles() {
  std::vector<Shown> consoles;
  bool inside = false;
  for (const std::string& line : Document("docs/TUTORIAL.md")) {
    if (line == "```console" || line == "```") {
      inside = line == "```console";
    } else if (inside && line.starts_with("$ ")) {
      consoles.push_back({line.substr(2), {}});
    } else if (inside) {
      consoles.back().lines.push_back(line);
    }
  }
  return consoles;
}

// What is shown below the commands that are `command`, one after another.
std::vector<Lines> ShownBelow(const std::string& command) {
  std::vector<Lines> shown;
  for (const Shown& console : Consoles()) {
    if (console.command == command && !console.lines.empty()) shown.push_back(console.lines);
  }
  return shown;
}

// Without what varies from run to run: figures with a ~ and those of a log line, directories, the width of columns.
std::string Lasting(const std::string& line) {
  static const std::regex about(R"(~[\d.]+)");
  static const std::regex directory(R"(/tmp/shop[-\w]*)");
  static const std::regex figure(R"(\d+(\.\d+)?)");
  static const std::regex spaces(R"( +)");
  std::string lasting = std::regex_replace(line, about, "~N");
  lasting = std::regex_replace(lasting, directory, "DIR");
  if (line.starts_with("stockade ")) lasting = std::regex_replace(lasting, figure, "N");
  return std::regex_replace(lasting, spaces, " ");
}

Lines Lasting(const Lines& lines, bool log) {
  Lines lasting;
  for (const std::string& line : lines) {
    if (line.starts_with("stockade ") == log) lasting.push_back(Lasting(line));
  }
  return lasting;
}

std::string Step(int number) { return std::string(SHOP_STEPS) + "/step" + std::to_string(number); }

// The program's output is what is shown, and what is shown of its log is in it.
void ExpectAsShown(const RunResult& run, const Lines& shown) {
  SCOPED_TRACE(run.err);
  EXPECT_EQ(Lasting(LinesOf(run.out), false), Lasting(shown, false));
  EXPECT_THAT(Lasting(shown, true), IsSubsetOf(Lasting(LinesOf(run.err), true)));
}

RunResult ExpectAsShown(int step) {
  SCOPED_TRACE("step " + std::to_string(step));
  const RunResult run = RunToEnd({Step(step)});
  const std::vector<Lines> shown = ShownBelow("./run tutorial " + std::to_string(step));
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(shown.size(), 1u);
  if (shown.size() == 1) ExpectAsShown(run, shown[0]);
  return run;
}

// The figures with a ~ in front, without decimals.
std::vector<int> Varying(const std::string& text) {
  static const std::regex about(R"(~(\d+)(?![\d.]))");
  std::vector<int> figures;
  for (std::sregex_iterator it(text.begin(), text.end(), about), end; it != end; ++it) {
    figures.push_back(std::stoi((*it)[1]));
  }
  return figures;
}

// The varying figures of a step that shows a race. On a busy machine not every run has one: run until one `shows` it.
std::vector<int> UntilShown(int step, const std::function<bool(const std::vector<int>&)>& shows) {
  std::vector<int> figures;
  for (int run = 0; run < 50 && !::testing::Test::HasFailure(); ++run) {
    figures = Varying(ExpectAsShown(step).out);
    if (shows(figures)) break;
  }
  return figures;
}

TEST(ShopTest, NaiveLookup_Expired_IsAStampede) {
  const auto stampede = [](int figure) { return figure > 1 && figure <= 100; };
  const std::vector<int> queries =
      UntilShown(1, [&](const std::vector<int>& figures) { return std::ranges::all_of(figures, stampede); });
  EXPECT_THAT(queries, ::testing::AllOf(::testing::SizeIs(2), ::testing::Each(::testing::Truly(stampede))));
}

TEST(ShopTest, CacheSteps_EachHardship_CostWhatIsShown) {
  for (const int step : {2, 3, 4}) ExpectAsShown(step);
}

TEST(ShopTest, NaiveStock_OfTen_IsOversold) {
  const auto oversold = [](const std::vector<int>& figures) { return figures.size() == 2 && figures[0] > 10; };
  EXPECT_THAT(UntilShown(5, oversold), ::testing::Truly(oversold));
}

TEST(ShopTest, Inventory_OfTen_SellsTen) { ExpectAsShown(6); }

TEST(ShopTest, Ledger_KilledAndStartedAgain_HasWhatWasAcknowledged) {
  const TempDir dir;
  std::vector<Lines> shown = ShownBelow("./run tutorial 7 /tmp/shop");
  ASSERT_EQ(shown.size(), 2u);
  const RunResult killed = RunToEnd({Step(7), dir.path()});
  EXPECT_EQ(killed.status, 128 + SIGKILL);
  ASSERT_EQ(shown[0].back(), "Killed");  // Says the shell.
  shown[0].pop_back();
  ExpectAsShown(killed, shown[0]);

  RunResult again = RunToEnd({Step(7), dir.path()});
  EXPECT_EQ(again.status, 0);
  again.err = std::regex_replace(again.err, std::regex(dir.path()), "/tmp/shop");
  ExpectAsShown(again, shown[1]);
}

TEST(ShopTest, Ledger_WithoutADirectory_IsRefused) {
  const RunResult run = RunToEnd({Step(7)});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.err, "usage: step7 DIRECTORY\n");
}

TEST(ShopTest, Metrics_UnderLoad_AreServedUntilInterrupted) {
  STOCKADE_NEEDS_PROGRAM("curl", "curl");
  Subprocess shop({Step(8), "0"});
  ASSERT_TRUE(shop.AwaitOutput("until Ctrl-C\n"));
  const std::string url = shop.out().substr(0, shop.out().find(','));
  const std::vector<Lines> shown = ShownBelow("./run tutorial 8");
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_THAT(shown[0], ::testing::ElementsAre("http://127.0.0.1:9464/metrics, until Ctrl-C"));
  EXPECT_TRUE(std::regex_match(url, std::regex(R"(http://127\.0\.0\.1:\d+/metrics)"))) << url;

  // Of the series that are shown, as many as there are, in their order; what they count varies.
  const auto series = [](const Lines& lines) {
    Lines names;
    for (const std::string& line : lines) names.push_back(line.substr(0, line.find(' ')));
    return names;
  };
  const std::vector<Shown> consoles = Consoles();
  const auto curl = std::ranges::find_if(consoles, [](const Shown& c) { return c.command.starts_with("curl "); });
  ASSERT_NE(curl, consoles.end());
  const std::string command = std::regex_replace(curl->command, std::regex(R"(http\S+)"), url);
  const RunResult scraped = RunToEnd({"sh", "-c", command});
  EXPECT_EQ(series(LinesOf(scraped.out)), series(curl->lines)) << scraped.err;

  shop.Kill(SIGINT);
  EXPECT_EQ(shop.Wait(), 0) << shop.err();
}

TEST(ShopTest, Fleet_PausedAndKilled_SellsEachPairOnce) {
  STOCKADE_NEEDS_PROGRAM("redis-server", "redis-server");
  STOCKADE_NEEDS_PROGRAM("mariadb-install-db", "mariadb-server");
  ExpectAsShown(9);
}

// Only the strict cache shows no old price.
TEST(ShopTest, Equal_PriceChanges_OldPricesAreAsShown) {
  STOCKADE_NEEDS_PROGRAM("redis-server", "redis-server");
  STOCKADE_NEEDS_PROGRAM("mariadb-install-db", "mariadb-server");
  ExpectAsShown(10);
}

// The map's shop is slow; on Stockade's, Redis stands still, and then nothing is left over.
TEST(ShopTest, EventLoop_RedisStandsStill_EachRequestIsAnswered) {
  STOCKADE_NEEDS_PROGRAM("redis-server", "redis-server");
  ExpectAsShown(11);
}

TEST(ShopTest, EventLoop_OptionsAndServers_AreChecked) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--connections", "0"},
                                                {"--seconds", "x"},
                                                {"--serve", "65536"},
                                                {"--port", "1"},
                                                {"--serve"}}) {
    std::vector<std::string> argv = {Step(11)};
    argv.insert(argv.end(), wrong.begin(), wrong.end());
    const RunResult run = RunToEnd(argv);
    EXPECT_EQ(run.status, 2) << wrong[0];
    EXPECT_THAT(run.err, HasSubstr("step11: ")) << wrong[0];
    EXPECT_THAT(run.err, HasSubstr("\nusage: step11 [--connections N] [--seconds N] [--serve PORT]\n")) << wrong[0];
  }
  const TempDir dir;
  const RunResult run = RunToEnd({"env", "PATH=" + dir.path(), Step(11)});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("step11 needs redis-server: "));
}

TEST(ShopTest, EventLoop_Serve_AnswersWithItsMetrics) {
  STOCKADE_NEEDS_PROGRAM("redis-server", "redis-server");
  STOCKADE_NEEDS_PROGRAM("curl", "curl");
  Subprocess shop({Step(11), "--serve", "0"});
  ASSERT_TRUE(shop.AwaitOutput("until Ctrl-C\n"));
  const std::string line = shop.out();
  const std::string page = line.substr(0, line.find(','));
  const std::string metrics = std::regex_replace(line, std::regex(R"([\s\S]*metrics at (\S+),[\s\S]*)"), "$1");
  const std::string orders = page.substr(0, page.find("/products")) + "/orders?sku=shoe-1&user=ann&request=";
  const auto curl = [](const std::vector<std::string>& more) {
    std::vector<std::string> argv = {"curl", "-s", "-i"};
    argv.insert(argv.end(), more.begin(), more.end());
    std::string answer;
    // On a busy machine the shop may not answer in time, and says that the request may be sent again.
    do answer = RunToEnd(argv).out;
    while (answer.starts_with("HTTP/1.1 504 "));
    return answer;
  };
  EXPECT_THAT(curl({page}), HasSubstr("shoe-1 of brand-0: 100\n"));
  const std::string first = curl({"-X", "POST", orders + "1"});
  EXPECT_THAT(first, HasSubstr("HTTP/1.1 201 Created"));
  // The same request is the same order.
  const auto order = [](const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); };
  EXPECT_EQ(order(curl({"-X", "POST", orders + "1"})), order(first));
  EXPECT_NE(order(curl({"-X", "POST", orders + "2"})), order(first));
  EXPECT_THAT(curl({"-X", "POST", orders}), HasSubstr("HTTP/1.1 400 "));  // No id of the request.
  EXPECT_THAT(curl({"-X", "POST", std::regex_replace(orders, std::regex("shoe-1"), "boot") + "3"}), HasSubstr(" 404 "));
  EXPECT_THAT(curl({"-X", "POST", std::regex_replace(orders, std::regex("ann"), "") + "4"}),
              HasSubstr("there is no user"));
  EXPECT_THAT(curl({page + "00"}), HasSubstr(" 404 "));
  const std::string scraped = curl({metrics});
  EXPECT_THAT(scraped, HasSubstr("shop_http_answers_total{status=\"201\"} 3"));
  EXPECT_THAT(scraped, HasSubstr("shop_loop_lag_seconds_count"));
  EXPECT_THAT(scraped, HasSubstr("stockade_inventory_sold_units{inventory=\"shop\"} 2"));
  shop.Kill(SIGINT);
  EXPECT_EQ(shop.Wait(), 0) << shop.err();
}

TEST(ShopTest, Fleet_WithoutItsServers_SaysWhatItNeeds) {
  const TempDir dir;
  for (const int step : {9, 10}) {
    const RunResult run = RunToEnd({"env", "PATH=" + dir.path(), Step(step)});
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr("step" + std::to_string(step) + " needs redis-server and MariaDB: "));
  }
}

TEST(TutorialTest, CMakeBlock_IsTheOwnProjects) {
  const Lines tutorial = Document("docs/TUTORIAL.md");
  const Lines project = Document("examples/shop/own_project/CMakeLists.txt");
  const auto block = std::ranges::find(tutorial, "```cmake");
  ASSERT_NE(block, tutorial.end());
  EXPECT_EQ(Lines(block + 1, std::find(block, tutorial.end(), "```")), project);
}

}  // namespace
}  // namespace stockade::testing
