#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::Scaled;
using ::stockade::testing::TempDir;

using Acknowledged = std::map<uint64_t, uint64_t>;  // Position to order id.

// Runs the helper until it has acknowledged `lines` records, kills it, and adds all that it did acknowledge.
void RunAndKill(const std::string& path, uint64_t first_id, uint64_t lines, Acknowledged& acknowledged) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const std::string id = std::to_string(first_id);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl(STOCKADE_LEDGER_CRASH_HELPER, "helper", path.c_str(), id.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  uint64_t seen = 0;
  bool killed = false;
  char buffer[512];
  ssize_t size;
  while ((size = read(ends[0], buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(size));
    seen += static_cast<uint64_t>(std::count(buffer, buffer + size, '\n'));
    if (seen >= lines && !killed) {
      kill(child, SIGKILL);
      killed = true;
    }
  }
  close(ends[0]);
  int exit_status = 0;
  ASSERT_EQ(waitpid(child, &exit_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(exit_status)) << "the helper ended by itself: " << exit_status;
  std::istringstream rows(text);
  uint64_t position;
  uint64_t order_id;
  while (rows >> position >> order_id) EXPECT_TRUE(acknowledged.emplace(position, order_id).second) << position;
}

void ExpectAllThereOnce(const std::string& path, const Acknowledged& acknowledged) {
  const LedgerState state = OpenLedger(path)->TakeRecovered();
  PlainSql sql(path);
  Acknowledged journal;
  for (const PlainSql::Row& row : sql.Query("SELECT position, order_id FROM journal WHERE order_id IS NOT NULL")) {
    journal[std::stoull(row[0])] = std::stoull(row[1]);
  }
  for (const auto& [position, order_id] : acknowledged) {
    ASSERT_TRUE(journal.contains(position)) << "lost: " << position;
    ASSERT_EQ(journal[position], order_id);
  }
  EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM (SELECT 1 FROM journal WHERE order_id IS NOT NULL "
                         "GROUP BY order_id, kind IN ('reserve', 'take', 'reserve_basket') HAVING count(*) > 1)"),
            0);
  EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM orders"), static_cast<int64_t>(state.orders.size()));
  EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM journal WHERE kind IN ('reserve', 'take', 'reserve_basket')"),
            static_cast<int64_t>(state.orders.size()));
}

TEST(SqliteLedgerCrashTest, KillNine_AtRandomMoments_KeepsEveryAcknowledgedRecordOnce) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  Acknowledged acknowledged;
  const int64_t rounds = Scaled(5, 50);
  std::minstd_rand random(20261121);
  for (int64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const uint64_t lines = 1 + random() % 1500;
    RunAndKill(path, 1 + static_cast<uint64_t>(round) * 1'000'000, lines, acknowledged);
    ASSERT_FALSE(HasFatalFailure());
    ExpectAllThereOnce(path, acknowledged);
    ASSERT_FALSE(HasFailure());
  }
  PlainSql sql(path);
  for (const char* kind : {"reserve_basket", "remove_sku", "cancel"}) {
    EXPECT_GT(sql.QueryInt(absl::StrCat("SELECT count(*) FROM journal WHERE kind = '", kind, "'")), 0) << kind;
  }
}

TEST(SqliteLedgerCrashTest, PlainSql_AfterKillNine_ReadsWhatWasAcknowledged) {
  const TempDir dir;
  Acknowledged acknowledged;
  RunAndKill(dir.File("orders.db"), 1, 100, acknowledged);
  PlainSql sql(dir.File("orders.db"));
  EXPECT_GE(sql.QueryInt("SELECT max(position) FROM journal"), static_cast<int64_t>(acknowledged.rbegin()->first));
  EXPECT_GE(acknowledged.size(), 100u);
}

}  // namespace
}  // namespace stockade
