// Whole runs of the program.

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "flash_sale/demo.h"

namespace stockade::testing {
namespace {

TEST(FlashSaleTest, Run_SmallSale_NaiveHalfFailsTheAuditThatStockadePasses) {
  const TempDir dir;
  const RunResult run = RunToEnd(SmallRun(dir.File("run")));
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");

  const auto stockade = ParseAudit(LastLine(run.out));
  ASSERT_TRUE(stockade.has_value());
  EXPECT_EQ(stockade->stock, 200);
  EXPECT_EQ(stockade->held, 0);
  EXPECT_EQ(stockade->sold + stockade->held + stockade->available, 200);
  EXPECT_EQ(stockade->oversold, 0);
  EXPECT_EQ(stockade->duplicates, 0);
  EXPECT_EQ(stockade->loads_per_expiry, "1.00");
  // Ten times as many buyers as units, who come back for what others leave: there is nobody to leave a unit to.
  EXPECT_EQ(stockade->available, 0);

  const std::string naive_prefix = "naive    ";
  const auto naive = ParseAudit(LineOf(run.out, naive_prefix).substr(naive_prefix.size()));
  ASSERT_TRUE(naive.has_value());
  EXPECT_EQ(naive->stock, 200);
  EXPECT_GT(naive->oversold, 0);
  EXPECT_GT(naive->duplicates, 0);
  EXPECT_GT(std::stod(naive->loads_per_expiry), 1.0);
}

TEST(FlashSaleTest, Run_ReportOfBothHalves_HasEachFigure) {
  const TempDir dir;
  const RunResult run = RunToEnd(SmallRun(dir.File("run"), {"--seconds", "1"}));
  for (const char* const row :
       {"queries for the sale's page per expiry", "page view, p50", "page view, p99", "orders accepted",
        "units oversold", "sold-out answers", "  wrong", "orders a second"}) {
    EXPECT_NE(LineOf(run.out, row), "") << row << " is missing in\n" << run.out;
  }
}

TEST(FlashSaleTest, Run_PlainTrace_SellsItsMostViewedProduct) {
  const TempDir dir;
  WriteFile(dir.File("trace"), "7\n8\r\n7\n9");  // The last line may lack its newline.
  const RunResult run = RunToEnd(SmallRun(dir.File("run"), {"--seconds", "1", "--trace", dir.File("trace")}));
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_NE(run.out.find("page views: 4 of "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("on sale: product 7,"), std::string::npos) << run.out;
}

TEST(FlashSaleTest, Run_GzipTrace_IsReadAsPlainOne) {
  const TempDir dir;
  gzFile file = gzopen(dir.File("trace.gz").c_str(), "wb");
  ASSERT_NE(file, nullptr);
  for (int i = 0; i < 3000; ++i) gzprintf(file, "%d\n", i % 3 == 0 ? 42 : i);
  ASSERT_EQ(gzclose(file), Z_OK);
  const RunResult run = RunToEnd(SmallRun(dir.File("run"), {"--seconds", "1", "--trace", dir.File("trace.gz")}));
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_NE(run.out.find("page views: 3000 of "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("on sale: product 42,"), std::string::npos) << run.out;
}

TEST(FlashSaleTest, Run_MoreUnitsThanBuyers_LeavesTheRestAvailable) {
  const TempDir dir;
  const RunResult run =
      RunToEnd(SmallRun(dir.File("run"), {"--seconds", "1", "--stock", "300", "--buyers", "100", "--shards", "3"}));
  const auto audit = ParseAudit(LastLine(run.out));
  ASSERT_TRUE(audit.has_value()) << run.out;
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_EQ(audit->held, 0);
  EXPECT_GE(audit->available, 200);
  EXPECT_GT(audit->sold, 0);
}

}  // namespace
}  // namespace stockade::testing
