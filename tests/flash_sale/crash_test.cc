// What `--audit` finds after a kill -9, and after somebody changed the ledger.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "flash_sale/demo.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

// Runs until `bytes` of orders have been acknowledged in the second half's sale, then kills it.
void KillInTheSale(const std::string& dir, uintmax_t bytes) {
  Subprocess demo(SmallRun(dir, {"--stock", "5000", "--buyers", "6000"}));
  ASSERT_TRUE(demo.AwaitOutput("stockade: the sale opens")) << demo.err();
  std::error_code ignored;
  while (std::filesystem::file_size(dir + "/acknowledged.log", ignored) < bytes) std::this_thread::yield();
  demo.Kill(SIGKILL);
  EXPECT_EQ(demo.Wait(), 128 + SIGKILL) << "it was over before it was killed";
}

void Execute(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

TEST(FlashSaleCrashTest, Audit_AfterKillInTheSale_FindsEachAcknowledgedOrderOnce) {
  const int64_t kills = Scaled(2, 20);
  for (int64_t i = 0; i < kills; ++i) {
    const TempDir dir;
    KillInTheSale(dir.File("run"), 20'000 + static_cast<uintmax_t>(i) * 1'777);
    const RunResult audit = RunDemo({"--audit", dir.File("run")});
    SCOPED_TRACE(audit.out + audit.err);
    EXPECT_EQ(audit.status, 0);
    EXPECT_EQ(audit.err, "");
    const auto figures = ParseAudit(LastLine(audit.out));
    ASSERT_TRUE(figures.has_value());
    EXPECT_EQ(figures->stock, 5000);
    EXPECT_GT(figures->sold + figures->held, 0);
    EXPECT_EQ(figures->sold + figures->held + figures->available, 5000);
    EXPECT_EQ(figures->oversold, 0);
    EXPECT_EQ(figures->duplicates, 0);
    EXPECT_EQ(figures->loads_per_expiry, "-");
    EXPECT_EQ(RunDemo({"--audit", dir.File("run")}).out, audit.out) << "an audit changes nothing";
  }
}

TEST(FlashSaleCrashTest, Audit_OfARunUnderWay_IsRefused) {
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run")));
  ASSERT_TRUE(demo.AwaitOutput("stockade: the sale opens"));
  const RunResult audit = RunDemo({"--audit", dir.File("run")});
  EXPECT_EQ(audit.status, 2) << audit.out;
  EXPECT_THAT(audit.err, HasSubstr("locked"));
}

// Each of these is a ledger that lost or doubled something; the audit must say so, or it proves nothing.
class FlashSaleAuditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(RunToEnd(SmallRun(run_, {"--seconds", "1", "--buyers", "300", "--stock", "50"})).status, 0);
    ASSERT_EQ(RunDemo({"--audit", run_}).status, 0);
  }

  void ExpectFault(const std::string& what) {
    const RunResult audit = RunDemo({"--audit", run_});
    EXPECT_EQ(audit.status, 1) << audit.out << audit.err;
    EXPECT_THAT(audit.out + audit.err, HasSubstr(what));
    EXPECT_TRUE(ParseAudit(LastLine(audit.out)).has_value()) << audit.out;
  }

  const TempDir dir_;
  const std::string run_ = dir_.File("run");
  const std::string ledger_ = run_ + "/ledger.db";
};

TEST_F(FlashSaleAuditTest, Audit_OrderLost_SaysWhich) {
  Execute(ledger_,
          "DELETE FROM journal WHERE order_id = (SELECT max(order_id) FROM orders);"
          "DELETE FROM orders WHERE order_id = (SELECT max(order_id) FROM orders);");
  ExpectFault("was acknowledged and is not in the ledger");
}

TEST_F(FlashSaleAuditTest, Audit_SoldOrderTurnedCancelled_SaysWhich) {
  Execute(ledger_,
          "UPDATE orders SET state = 'cancelled' WHERE order_id = (SELECT max(order_id) FROM orders "
          "WHERE state = 'sold')");
  ExpectFault("was acknowledged as sold and is cancelled");
}

TEST_F(FlashSaleAuditTest, Audit_RequestAcknowledgedAsTwoOrders_SaysWhich) {
  std::ofstream(run_ + "/acknowledged.log", std::ios::app) << "reserved 999999 request-0\n";
  ExpectFault("order 999999 was acknowledged and is not in the ledger");
}

TEST_F(FlashSaleAuditTest, Audit_LineNotWrittenWhole_IsNoAcknowledgement) {
  std::ofstream(run_ + "/acknowledged.log", std::ios::app) << "reserved 999999 reque";
  EXPECT_EQ(RunDemo({"--audit", run_}).status, 0);
}

TEST_F(FlashSaleAuditTest, Audit_MoreSoldThanStocked_IsOversold) {
  Execute(ledger_, "UPDATE skus SET granted = 49; UPDATE journal SET quantity = 49 WHERE kind = 'add_sku'");
  ExpectFault(" oversold=1 ");
}

TEST_F(FlashSaleAuditTest, Audit_OrderGrantedTwiceInTheJournal_IsADuplicate) {
  Execute(ledger_,
          "INSERT INTO journal SELECT (SELECT max(position) + 1 FROM journal), at_us, kind, order_id, sku, "
          "quantity FROM journal WHERE kind = 'commit' LIMIT 1");
  ExpectFault(" duplicates=1 ");
}

}  // namespace
}  // namespace stockade::testing
