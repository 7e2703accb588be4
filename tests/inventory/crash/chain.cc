#include "inventory/crash/chain.h"

#include <signal.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "inventory/crash/audit.h"

namespace stockade::testing {

Ended Chain::RunToDeath(const Death& death, absl::Duration retention) {
  return Run({.ledger = path(), .world = world_, .threads = threads_, .retention = retention}, death);
}

Ended Chain::RunToEnd(uint32_t requests, const Death& death, absl::Duration retention) {
  return Run({.ledger = path(), .world = world_, .threads = threads_, .retention = retention, .requests = requests},
             death);
}

Ended Chain::Run(const Round& like, const Death& death) {
  Round round = like;
  round.number = next_round_++;
  round.former = witness_.answered();
  witness_.BeginRound(round);
  const Ended ended = RunRound(round, death, [this](std::string_view line) { witness_.Hear(line); });
  if (!std::filesystem::exists(path())) return ended;  // It died before it had made one.
  PlainSql sql(path());
  LeaveAsFound(sql);
  // One that died before its first commit holds nothing at all.
  if (sql.QueryInt("SELECT count(*) FROM sqlite_schema") == 0) return ended;
  ExpectAuditHolds(sql);
  witness_.Inspect(ContentsOf(sql));
  return ended;
}

int64_t Chain::Count(const std::string& query) const {
  PlainSql sql(path());
  LeaveAsFound(sql);
  return sql.QueryInt(query);
}

void ExpectKilled(const Ended& ended) {
  EXPECT_EQ(ended.status, 128 + SIGKILL);
  EXPECT_FALSE(ended.hung);
}

}  // namespace stockade::testing
