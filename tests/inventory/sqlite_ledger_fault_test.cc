// A disk that fails: each write and each sync in turn.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/fault_vfs.h"
#include "inventory/platter.h"
#include "inventory/sqlite_ledger_script.h"
#include "stockade/base/manual_clock.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::Describe;
using ::stockade::testing::ExpectPrefixAndGoOn;
using ::stockade::testing::FaultVfs;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::Platter;
using ::stockade::testing::Reopened;
using ::stockade::testing::Scaled;
using ::stockade::testing::Script;
using ::stockade::testing::TempDir;
using ::stockade::testing::Write;
using ::stockade::testing::Written;
using ::testing::HasSubstr;
using Call = FaultVfs::Call;
using Reach = FaultVfs::Reach;

// The fault of a run, and how many records a transaction may have.
struct Run {
  FaultVfs::Fault fault;
  size_t batch;
};

// Writes the script except its last record, with `run.fault` from the first record on; closes, and opens again when the
// disk is whole. False: the fault has not happened, because there were not enough calls.
bool FailOnce(const Run& run) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  const std::vector<LedgerRecord> script = Script(static_cast<int>(Scaled(1, 3)));
  const std::span<const LedgerRecord> appended(script.data(), script.size() - 1);
  ManualClock clock;
  FaultVfs disk(dir.path());
  auto ledger = OpenLedger(path, {.max_batch_records = run.batch, .clock = &clock});
  disk.Fail(run.fault);
  const Written written = Write(*ledger, appended, run.batch);
  const bool failed = disk.failed();
  EXPECT_EQ(written.failure.ok(), !failed);
  if (failed) {
    EXPECT_LT(written.acknowledged, appended.size());
    EXPECT_EQ(written.failure.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(written.failure.message()), HasSubstr("orders.db"));
    EXPECT_THAT(std::string(written.failure.message()), HasSubstr("disk I/O error"));
    // No further change, neither then nor when it is closed.
    const size_t changes = disk.changes().size();
    disk.Heal();
    ledger->Append(script.back());
    ledger.reset();
    EXPECT_EQ(disk.changes().size(), changes);
  }
  ledger.reset();
  disk.Heal();
  ExpectPrefixAndGoOn(path, script, written.acknowledged, appended.size(), clock);
  return failed;
}

// For each n the n-th call, until there are no more.
void FailEach(Run run) {
  for (run.fault.nth = 1;; ++run.fault.nth) {
    SCOPED_TRACE(absl::StrCat("call ", run.fault.nth, ", up to ", run.batch, " records at once"));
    if (!FailOnce(run)) break;
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  // As many as there are batches, at least.
  EXPECT_GT(run.fault.nth, static_cast<int64_t>(12 / run.batch));
}

TEST(SqliteLedgerFaultTest, Write_ThatFails_ClosesTheLedgerAndLosesNothingAcknowledged) {
  for (const Reach reach : {Reach::kNothing, Reach::kPart}) {
    for (const size_t batch : {1, 5}) FailEach({.fault = {.call = Call::kWrite, .reach = reach}, .batch = batch});
  }
}

TEST(SqliteLedgerFaultTest, Write_ThatFailsThoughItReachedTheFile_IsDecidedWhenOpenedAgain) {
  for (const size_t batch : {1, 5}) FailEach({.fault = {.call = Call::kWrite, .reach = Reach::kAll}, .batch = batch});
}

TEST(SqliteLedgerFaultTest, Write_WhenAllFailFromThenOn_ClosesTheLedgerAndLosesNothingAcknowledged) {
  FailEach({.fault = {.call = Call::kWrite, .for_good = true}, .batch = 5});
}

TEST(SqliteLedgerFaultTest, Sync_ThatFails_ClosesTheLedgerAndLosesNothingAcknowledged) {
  for (const Reach reach : {Reach::kNothing, Reach::kPart, Reach::kAll}) {
    for (const size_t batch : {1, 5}) {
      FailEach({.fault = {.call = Call::kSync, .code = SQLITE_IOERR_FSYNC, .reach = reach}, .batch = batch});
    }
  }
}

// After a failed sync the kernel shows data that is not on the disk. If a ledger recovers such data, it must have
// brought the data to the disk itself before it reports it.
TEST(SqliteLedgerFaultTest, Open_AfterAFailedSync_SaysNothingThatAPowerCutCouldTakeBack) {
  const std::vector<LedgerRecord> script = Script(2);
  const std::span<const LedgerRecord> appended(script.data(), script.size() - 1);
  for (uint32_t nth = 1; nth <= 20; ++nth) {
    SCOPED_TRACE(nth);
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    ManualClock clock;
    FaultVfs disk(dir.path());
    {
      const auto ledger = OpenLedger(path, {.max_batch_records = 1, .clock = &clock});
      disk.Fail({.call = Call::kSync, .nth = nth, .code = SQLITE_IOERR_FSYNC});
      Write(*ledger, appended, 1);
      EXPECT_TRUE(disk.failed());
    }
    disk.Heal();
    auto ledger = OpenLedger(path, {.clock = &clock});
    ASSERT_NE(ledger, nullptr);
    const std::string told = Describe(ledger->TakeRecovered());
    disk.CutPowerAt(1);
    ledger.reset();
    disk.CyclePower(nth);
    EXPECT_EQ(Describe(Reopened(path)), told);
    ASSERT_FALSE(HasFailure());
  }
}

// The same, cut while it recovers.
TEST(SqliteLedgerFaultTest, PowerCut_WhileOpenedAfterAFailedSync_KeepsEveryAcknowledgedRecord) {
  const std::vector<LedgerRecord> script = Script(2);
  const std::span<const LedgerRecord> appended(script.data(), script.size() - 1);
  const int64_t cuts = Scaled(60, 1'000);
  for (int64_t cut = 1; cut <= cuts; ++cut) {
    SCOPED_TRACE(cut);
    Platter::Random random(static_cast<uint32_t>(cut));
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    ManualClock clock;
    FaultVfs disk(dir.path());
    size_t acknowledged = 0;
    {
      const auto ledger = OpenLedger(path, {.max_batch_records = 2, .clock = &clock});
      disk.Fail({.call = Call::kSync,
                 .nth = static_cast<int64_t>(2 + random() % 10),
                 .code = SQLITE_IOERR_FSYNC,
                 .reach = Reach::kPart});
      acknowledged = Write(*ledger, appended, 2).acknowledged;
      EXPECT_TRUE(disk.failed());
    }
    disk.Heal();
    disk.CutPowerAt(static_cast<int64_t>(1 + random() % 30));
    (void)SqliteLedger::Open(path, {.clock = &clock, .metrics = nullptr});
    disk.CyclePower(random());
    ExpectPrefixAndGoOn(path, script, acknowledged, appended.size(), clock);
    ASSERT_FALSE(HasFailure());
  }
}

// Each call of an Open() that makes a ledger, or recovers one, and of the close.
TEST(SqliteLedgerFaultTest, Open_WhenACallFails_SaysSoOrIsWholeAndWorksLater) {
  const std::vector<LedgerRecord> script = Script(2);
  const std::span<const LedgerRecord> appended(script.data(), script.size() - 1);
  constexpr Call kCalls[] = {Call::kOpen, Call::kWrite, Call::kSync, Call::kTruncate, Call::kRemove};
  constexpr int kCodes[] = {SQLITE_CANTOPEN, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE,
                            SQLITE_IOERR_DELETE};
  int refused = 0;
  for (const bool fresh : {true, false}) {
    for (size_t c = 0; c < std::size(kCalls); ++c) {
      for (int64_t nth = 1;; ++nth) {
        SCOPED_TRACE(absl::StrCat(fresh ? "new file" : "old file", ", call ", c, ", nth ", nth));
        const TempDir dir;
        const std::string path = dir.File("orders.db");
        ManualClock clock;
        FaultVfs disk(dir.path());
        size_t acknowledged = 0;
        if (!fresh) {
          auto ledger = OpenLedger(path, {.clock = &clock});
          acknowledged = Write(*ledger, appended, 5).acknowledged;
          // As a killed process leaves it: all in the log.
          disk.Fail({.call = Call::kWrite, .suffix = ".db"});
          ledger.reset();
        }
        disk.Fail({.call = kCalls[c], .nth = nth, .for_good = nth % 2 == 0, .code = kCodes[c]});
        {
          const auto opened = SqliteLedger::Open(path, {.clock = &clock, .metrics = nullptr});
          if (!opened.ok()) {
            ++refused;
            EXPECT_EQ(opened.status().code(), absl::StatusCode::kUnavailable) << opened.status();
            EXPECT_THAT(std::string(opened.status().message()), HasSubstr(path));
            EXPECT_TRUE(disk.failed());
          }
        }
        const bool failed = disk.failed();
        disk.Heal();
        ExpectPrefixAndGoOn(path, script, acknowledged, acknowledged, clock);
        ASSERT_FALSE(HasFailure());
        if (!failed) break;
      }
    }
  }
  EXPECT_GT(refused, 10);
}

double FailuresIn(const MetricsRegistry& registry) {
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name != "stockade_ledger_commits_total") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const auto& label : metric.label) {
        if (label.name == "result" && label.value == "error") return metric.counter.value;
      }
    }
  }
  return -1;
}

// What the checkpoint was to move is in the log, and durable. The alert on failures goes by the metric.
TEST(SqliteLedgerFaultTest, Checkpoint_ThatFails_ClosesTheLedgerAndLosesNothingAcknowledged) {
  const FaultVfs::Fault faults[] = {
      {.call = Call::kWrite, .suffix = "orders.db"},
      {.call = Call::kWrite, .nth = 9, .suffix = "orders.db", .reach = Reach::kPart},
      {.call = Call::kSync, .suffix = "orders.db", .code = SQLITE_IOERR_FSYNC},
      {.call = Call::kSync, .suffix = "orders.db", .code = SQLITE_IOERR_FSYNC, .reach = Reach::kPart},
  };
  const std::vector<LedgerRecord> script = Script(250);
  const std::span<const LedgerRecord> appended(script.data(), script.size() - 1);
  for (const FaultVfs::Fault& fault : faults) {
    SCOPED_TRACE(absl::StrCat(fault.code, ", nth ", fault.nth));
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    ManualClock clock;
    FaultVfs disk(dir.path());
    MetricsRegistry registry;
    auto ledger = SqliteLedger::Open(path, {.max_batch_records = 1, .clock = &clock, .metrics = &registry}).value();
    // The first batch writes to the file, too.
    Written written = Write(*ledger, appended.first(10), 10);
    disk.Fail(fault);
    const size_t before = written.acknowledged;
    written = Write(*ledger, appended.subspan(before), 10);
    written.acknowledged += before;
    EXPECT_EQ(FailuresIn(registry), 1);
    EXPECT_TRUE(disk.failed());
    EXPECT_GT(written.acknowledged, appended.size() / 4);
    EXPECT_EQ(written.failure.code(), absl::StatusCode::kUnavailable);
    ledger.reset();
    disk.CutPowerAt(20);
    (void)SqliteLedger::Open(path, {.clock = &clock, .metrics = nullptr});
    disk.CyclePower(static_cast<uint32_t>(fault.nth));
    disk.Heal();
    ExpectPrefixAndGoOn(path, script, written.acknowledged, appended.size(), clock);
    ASSERT_FALSE(HasFailure());
  }
}

// The disk of these tests offers no memory maps, so they show nothing about a ledger that used some.
TEST(SqliteLedgerFaultTest, MemoryMaps_ByDefault_AreOff) {
  const TempDir dir;
  EXPECT_LE(PlainSql(dir.File("any.db")).QueryInt("PRAGMA mmap_size"), 0);
}

}  // namespace
}  // namespace stockade
