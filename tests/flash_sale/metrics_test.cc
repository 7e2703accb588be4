// The metrics page while the program runs, and while it stays up.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "flash_sale/demo.h"
#include "flash_sale/http.h"
#include "support/needs_program.h"

namespace stockade::testing {
namespace {

void ExpectSeriesOfAllParts(const std::string& page) {
  for (const char* const prefix : {"\nstockade_lock_", "\nstockade_cache_", "\nstockade_inventory_"}) {
    EXPECT_NE(page.find(prefix), std::string::npos) << "no series begins with" << prefix;
  }
}

TEST(FlashSaleMetricsTest, Scrape_InBothHalves_HasSeriesThatPromtoolAccepts) {
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run")));
  ASSERT_TRUE(demo.AwaitOutput("naive: the sale opens")) << demo.err();
  ExpectSeriesOfAllParts(Scrape(PortOf(demo)));
  ASSERT_TRUE(demo.AwaitOutput("stockade: the sale opens")) << demo.err();
  const std::string page = Scrape(PortOf(demo));
  ExpectSeriesOfAllParts(page);

  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  const RunResult check = RunToEnd({"promtool", "check", "metrics"}, page);
  EXPECT_EQ(check.status, 0);
  EXPECT_EQ(check.out + check.err, "");
}

TEST(FlashSaleMetricsTest, Serve_AfterTheAudit_AnswersUntilATermSignal) {
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run"), {"--seconds", "1", "--serve"}));
  ASSERT_TRUE(demo.AwaitOutput("\naudit: ")) << demo.out() << demo.err();
  ExpectSeriesOfAllParts(Scrape(PortOf(demo)));
  demo.Kill(SIGTERM);
  EXPECT_EQ(demo.Wait(), 0) << demo.err();
  EXPECT_TRUE(ParseAudit(LastLine(demo.out())).has_value()) << demo.out();
}

}  // namespace
}  // namespace stockade::testing
