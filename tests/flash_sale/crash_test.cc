// What `--audit` finds after a kill -9, and after somebody changed the ledger.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>

#include <filesystem>
#include <iterator>
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
  Subprocess demo(SmallRun(dir, {"--stock", "2000", "--buyers", "2500"}));
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
    KillInTheSale(dir.File("run"), 10'000 + static_cast<uintmax_t>(i) * 1'777);
    const RunResult audit = RunDemo({"--audit", dir.File("run")});
    SCOPED_TRACE(audit.out + audit.err);
    EXPECT_EQ(audit.status, 0);
    EXPECT_EQ(audit.err, "");
    const auto figures = ParseAudit(LastLine(audit.out));
    ASSERT_TRUE(figures.has_value());
    EXPECT_EQ(figures->stock, 2000);
    EXPECT_GT(figures->sold + figures->held, 0);
    EXPECT_EQ(figures->sold + figures->held + figures->available, 2000);
    EXPECT_EQ(figures->oversold, 0);
    EXPECT_EQ(figures->duplicates, 0);
    EXPECT_EQ(figures->loads_per_expiry, "-");
    EXPECT_EQ(RunDemo({"--audit", dir.File("run")}).out, audit.out) << "an audit changes nothing";
  }
}

TEST(FlashSaleCrashTest, Audit_OfARunUnderWay_IsRefused) {
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run"), {"--seconds", "8"}));
  ASSERT_TRUE(demo.AwaitOutput("stockade: the sale opens"));
  const RunResult audit = RunDemo({"--audit", dir.File("run")});
  EXPECT_EQ(audit.status, 2) << audit.out;
  EXPECT_THAT(audit.err, HasSubstr("locked"));
}

// Ledgers that lost or doubled something: the audit must say so, or it proves nothing.
TEST(FlashSaleAuditTest, Audit_OfAChangedLedger_SaysWhatIsWrong) {
  const TempDir dir;
  const std::string original = dir.File("run");
  ASSERT_EQ(RunToEnd(SmallRun(original, {"--seconds", "1", "--buyers", "300", "--stock", "50"})).status, 0);
  ASSERT_EQ(RunDemo({"--audit", original}).status, 0);

  struct Change {
    const char* sql;       // On the ledger.
    const char* answered;  // At the end of the log of acknowledgements.
    int status;
    const char* said;
  };
  // Ids have gaps, so an order is picked by its place.
  constexpr Change kChanges[] = {
      {"DELETE FROM orders WHERE order_id = (SELECT min(order_id) FROM journal);"
       "DELETE FROM journal WHERE order_id = (SELECT min(order_id) FROM journal)",
       "", 1, " was acknowledged and is not in the ledger"},
      {"UPDATE orders SET state = 'cancelled' WHERE order_id = (SELECT max(order_id) FROM orders WHERE state = 'sold')",
       "", 1, "was acknowledged as sold and is cancelled"},
      {"UPDATE orders SET request_id = 'another' WHERE order_id = (SELECT min(order_id) FROM orders)", "", 1,
       " was acknowledged for request-"},
      {"", "reserved 999999 request-new\n", 1, "order 999999 was acknowledged and is not in the ledger"},
      {"", "reserved 2 request-twice\nreserved 3 request-twice\n", 1, "request-twice was acknowledged twice"},
      {"", "reserved 999999 requ", 0, "duplicates=0"},  // Not written whole: no buyer got an answer.
      {"UPDATE skus SET granted = 49; UPDATE journal SET quantity = 49 WHERE kind = 'add_sku'", "", 1, " oversold=1 "},
      {"UPDATE skus SET granted = 60", "", 1, "the journal stocks 50 units, the table of SKUs 60"},
      {"INSERT INTO journal SELECT (SELECT max(position) + 1 FROM journal), at_us, kind, order_id, sku, quantity "
       "FROM journal WHERE kind = 'commit' LIMIT 1",
       "", 1, " duplicates=1 "},
  };
  for (size_t i = 0; i < std::size(kChanges); ++i) {
    const std::string changed = dir.File("changed" + std::to_string(i));
    std::filesystem::copy(original, changed);
    Execute(changed + "/ledger.db", kChanges[i].sql);
    std::ofstream(changed + "/acknowledged.log", std::ios::app) << kChanges[i].answered;
    const RunResult audit = RunDemo({"--audit", changed});
    SCOPED_TRACE(audit.out + audit.err);
    EXPECT_EQ(audit.status, kChanges[i].status);
    EXPECT_THAT(audit.out + audit.err, HasSubstr(kChanges[i].said));
    EXPECT_TRUE(ParseAudit(LastLine(audit.out)).has_value());
  }
}

}  // namespace
}  // namespace stockade::testing
