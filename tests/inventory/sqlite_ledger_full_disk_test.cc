// A full disk: what there is no room for is refused, is never there, and takes once there is room.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/fault_vfs.h"
#include "inventory/mount_namespace.h"
#include "inventory/sqlite_ledger_script.h"
#include "stockade/base/manual_clock.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::Describe;
using ::stockade::testing::ExpectPrefixAndGoOn;
using ::stockade::testing::FaultVfs;
using ::stockade::testing::InMountNamespace;
using ::stockade::testing::MountSmallDisk;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::Reopened;
using ::stockade::testing::Scaled;
using ::stockade::testing::Script;
using ::stockade::testing::ScriptState;
using ::stockade::testing::TempDir;
using ::stockade::testing::Write;
using ::stockade::testing::Written;
using ::testing::HasSubstr;
using Call = FaultVfs::Call;
using Reach = FaultVfs::Reach;

// All but what differs in no two records of a script.
std::string Describe(const LedgerRecord& record) {
  std::string text = absl::StrCat(static_cast<int>(record.kind), " ", record.order_id, " ", record.request_id);
  for (const OrderLine& line : record.lines) absl::StrAppend(&text, " + ", line.quantity, " ", line.sku);
  return text;
}

void ExpectSame(std::span<const LedgerRecord> found, std::span<const LedgerRecord> expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(Describe(found[i]), Describe(expected[i])) << i;
}

// Appends `records`, so many at once, and those that were refused again, until all are durable. Calls
// `between(acknowledged)` after each refusal, before the ledger takes records again.
void WriteAll(SqliteLedger& ledger, std::span<const LedgerRecord> records, size_t at_once,
              const std::function<void(size_t acknowledged)>& between) {
  size_t acknowledged = 0;
  int refusals = 0;
  while (acknowledged < records.size() && !::testing::Test::HasFailure()) {
    const std::span<const LedgerRecord> group =
        records.subspan(acknowledged, std::min(at_once, records.size() - acknowledged));
    const Written written = Write(ledger, group, at_once);
    acknowledged += written.acknowledged;
    if (written.failure.ok()) continue;
    ASSERT_EQ(written.failure.code(), absl::StatusCode::kResourceExhausted) << written.failure;
    EXPECT_THAT(std::string(written.failure.message()), HasSubstr("orders.db"));
    ASSERT_LT(++refusals, 100);
    // So is what comes later.
    std::vector<LedgerRecord> refused(group.begin() + static_cast<ptrdiff_t>(written.acknowledged), group.end());
    refused.push_back(records.back());
    const uint64_t later = ledger.Append(records.back());
    EXPECT_EQ(ledger.AwaitDurable(later), written.failure);
    between(acknowledged);
    ExpectSame(ledger.TakeRefused(), refused);
    EXPECT_TRUE(ledger.TakeRefused().empty());
    EXPECT_EQ(ledger.Health(), absl::OkStatus());
    EXPECT_EQ(ledger.AwaitDurable(later), written.failure);
  }
}

// Of a ledger with the whole script.
void ExpectWhole(const std::string& path, std::span<const LedgerRecord> script, const ManualClock& clock) {
  ScriptState whole(script, clock.WallNow());
  whole.GoTo(script.size());
  EXPECT_EQ(Describe(Reopened(path)), whole.Text());
}

TEST(SqliteLedgerFullDiskTest, Append_WithoutRoom_IsRefusedUntilThereIsRoom) {
  const std::vector<LedgerRecord> script = Script(4);
  for (const size_t at_once : {1, 3, 20}) {
    SCOPED_TRACE(at_once);
    const TempDir dir;
    ManualClock clock;
    FaultVfs disk(dir.path());
    auto ledger = OpenLedger(dir.File("orders.db"), {.max_batch_records = 8, .clock = &clock});
    int refusals = 0;
    disk.SetCapacity(disk.used());
    WriteAll(*ledger, script, at_once, [&](size_t) {
      // In vain twice out of three times: no room, and too little room.
      const int64_t room[] = {0, 2'000, 60'000};
      disk.SetCapacity(disk.used() + room[refusals % 3]);
      ++refusals;
    });
    EXPECT_GE(refusals, 3);
    disk.SetCapacity(std::nullopt);
    ledger.reset();
    ExpectWhole(dir.File("orders.db"), script, clock);
    ASSERT_FALSE(HasFailure());
  }
}

// A write of `script` that meets `fault` on the way; what a process that is killed then leaves is looked at, too.
// False: the fault has not happened, because there were not so many calls.
bool RefuseOnce(const FaultVfs::Fault& fault, std::span<const LedgerRecord> script, size_t at_once) {
  const TempDir dir;
  const TempDir killed;
  ManualClock clock;
  FaultVfs disk(dir.path());
  auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
  disk.Fail(fault);
  WriteAll(*ledger, script, at_once, [&](size_t acknowledged) {
    for (const std::string name : {"orders.db", "orders.db-wal"}) {
      std::filesystem::copy(dir.File(name), killed.File(name));
    }
    ExpectPrefixAndGoOn(killed.File("orders.db"), script, acknowledged, acknowledged, clock);
    disk.Heal();
  });
  ledger.reset();
  ExpectWhole(dir.File("orders.db"), script, clock);
  return disk.failed();
}

// The same, with a power cut right after the refusal.
void RefuseAndCutPower(const FaultVfs::Fault& fault, std::span<const LedgerRecord> script, size_t at_once) {
  const TempDir dir;
  ManualClock clock;
  FaultVfs disk(dir.path());
  auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
  disk.Fail(fault);
  const size_t acknowledged = Write(*ledger, script.first(script.size() - 1), at_once).acknowledged;
  disk.CutPowerAt(1);
  ledger.reset();
  disk.CyclePower(static_cast<uint32_t>(fault.nth));
  disk.Heal();
  ExpectPrefixAndGoOn(dir.File("orders.db"), script, acknowledged, acknowledged, clock);
}

// Each write in turn says that the disk is full.
void RefuseEach(FaultVfs::Fault fault, size_t at_once) {
  const std::vector<LedgerRecord> script = Script(static_cast<int>(Scaled(1, 3)));
  for (fault.nth = 1;; ++fault.nth) {
    SCOPED_TRACE(absl::StrCat("write ", fault.nth, ", code ", fault.code, ", errno ", fault.system_errno, ", ", at_once,
                              " at once"));
    if (!RefuseOnce(fault, script, at_once)) break;
    RefuseAndCutPower(fault, script, at_once);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(fault.nth, static_cast<int64_t>(12 / at_once));
}

TEST(SqliteLedgerFullDiskTest, Write_ThatFindsNoRoom_IsRefusedAndNeverThere) {
  const FaultVfs::Fault full{.call = Call::kWrite, .code = SQLITE_FULL, .system_errno = ENOSPC};
  RefuseEach(full, 5);
  FaultVfs::Fault full_halfway = full;
  full_halfway.reach = Reach::kPart;
  for (const size_t at_once : {1, 5}) RefuseEach(full_halfway, at_once);
}

TEST(SqliteLedgerFullDiskTest, Write_BeyondAQuotaOrALimit_IsRefusedAndNeverThere) {
  for (const int system_errno : {EDQUOT, EFBIG}) {
    RefuseEach({.call = Call::kWrite, .system_errno = system_errno, .reach = Reach::kPart}, 3);
  }
}

// Once it was full: an I/O error is still one, and a sync that finds no room is not known to have done nothing.
TEST(SqliteLedgerFullDiskTest, OtherErrors_AfterARefusal_CloseTheLedger) {
  const std::vector<LedgerRecord> script = Script(2);
  const FaultVfs::Fault others[] = {
      {.call = Call::kWrite, .nth = 2},
      {.call = Call::kSync, .code = SQLITE_IOERR_FSYNC},
      {.call = Call::kSync, .code = SQLITE_IOERR_FSYNC, .system_errno = ENOSPC},
      {.call = Call::kSync, .code = SQLITE_IOERR_FSYNC, .system_errno = EDQUOT},
  };
  for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
    for (const FaultVfs::Fault& other : others) {
      SCOPED_TRACE(absl::StrCat(code, ", then ", other.code, ", errno ", other.system_errno));
      const TempDir dir;
      ManualClock clock;
      FaultVfs disk(dir.path());
      auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
      disk.Fail({.call = Call::kWrite, .nth = 9, .code = code, .system_errno = EDQUOT});
      Written written = Write(*ledger, script, 1);
      const size_t first = written.acknowledged;
      EXPECT_EQ(written.failure.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(ledger->TakeRefused().size(), script.size() - first);
      disk.Fail(other);
      written = Write(*ledger, std::span(script).subspan(first, 3), 1);
      EXPECT_EQ(written.failure.code(), absl::StatusCode::kUnavailable) << written.failure;
      EXPECT_TRUE(ledger->TakeRefused().empty());
      ledger.reset();
      disk.Heal();
      ExpectPrefixAndGoOn(dir.File("orders.db"), script, first + written.acknowledged, first + 3, clock);
      ASSERT_FALSE(HasFailure());
    }
  }
}

// What is in the log is durable, whether there is room for it in the file or not.
TEST(SqliteLedgerFullDiskTest, Checkpoint_WithoutRoom_LosesNothingAndIsMadeUpFor) {
  const std::vector<LedgerRecord> script = Script(250);
  const TempDir dir;
  ManualClock clock;
  FaultVfs disk(dir.path());
  auto ledger = OpenLedger(dir.File("orders.db"), {.max_batch_records = 1, .clock = &clock});
  // The first batch writes to the file, too.
  EXPECT_EQ(Write(*ledger, std::span(script).first(1), 1).failure, absl::OkStatus());
  disk.Fail({.call = Call::kWrite, .for_good = true, .suffix = "orders.db", .code = SQLITE_FULL});
  EXPECT_EQ(Write(*ledger, std::span(script).subspan(1, script.size() - 2), 100).failure, absl::OkStatus());
  EXPECT_TRUE(disk.failed());
  const auto size = std::filesystem::file_size(dir.File("orders.db"));
  disk.Heal();
  EXPECT_EQ(Write(*ledger, std::span(script).last(1), 1).failure, absl::OkStatus());
  while (std::filesystem::file_size(dir.File("orders.db")) == size) std::this_thread::yield();
  ledger.reset();
  ExpectWhole(dir.File("orders.db"), script, clock);
}

// To close, and to open: with no room, with too little, with enough.
// The first batch after an opening makes the file say that it needs its log, which a close takes back.
TEST(SqliteLedgerFullDiskTest, Close_AfterTheFirstBatchFoundNoRoomInTheFile_OpensAgain) {
  const std::vector<LedgerRecord> script = Script(4);
  const TempDir dir;
  ManualClock clock;
  FaultVfs disk(dir.path());
  OpenLedger(dir.File("orders.db"), {.clock = &clock}).reset();
  auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
  disk.Fail({.call = Call::kWrite, .suffix = "orders.db", .code = SQLITE_FULL, .system_errno = ENOSPC});
  EXPECT_EQ(ledger->AwaitDurable(ledger->Append(script[0])).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(disk.failed());
  disk.Heal();
  ledger.reset();
  const auto reopened = SqliteLedger::Open(dir.File("orders.db"), {.clock = &clock});
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  EXPECT_TRUE((*reopened)->TakeRecovered().skus.empty());
}

TEST(SqliteLedgerFullDiskTest, Open_WithoutRoom_SaysSoAndWorksOnceThereIsRoom) {
  const std::vector<LedgerRecord> script = Script(3);
  for (const bool fresh : {true, false}) {
    int refused = 0;
    for (int64_t room = 0;; room += 1'500) {
      SCOPED_TRACE(absl::StrCat(fresh ? "new file, " : "old file, ", room, " bytes"));
      const TempDir dir;
      const std::string path = dir.File("orders.db");
      ManualClock clock;
      FaultVfs disk(dir.path());
      size_t acknowledged = 0;
      if (!fresh) {
        const auto ledger = OpenLedger(path, {.clock = &clock});
        acknowledged = Write(*ledger, std::span(script).first(script.size() - 1), 4).acknowledged;
        disk.SetCapacity(disk.used());
      }
      disk.SetCapacity(disk.used() + room);
      const absl::Status opened = SqliteLedger::Open(path, {.clock = &clock, .metrics = nullptr}).status();
      if (!opened.ok()) {
        ++refused;
        EXPECT_EQ(opened.code(), absl::StatusCode::kResourceExhausted) << opened;
        EXPECT_THAT(std::string(opened.message()), HasSubstr(path));
      }
      disk.SetCapacity(std::nullopt);
      ExpectPrefixAndGoOn(path, script, acknowledged, acknowledged, clock);
      ASSERT_FALSE(HasFailure());
      if (opened.ok()) break;
    }
    EXPECT_GE(refused, fresh ? 5 : 0);
  }
}

// The same on a real file system, which is filled up, and from which something else is removed.
TEST(SqliteLedgerFullDiskTest, Append_OnARealFileSystemWithoutRoom_IsRefusedUntilThereIsRoom) {
  const TempDir dir;
  const bool ran = InMountNamespace([&] {
    ASSERT_TRUE(MountSmallDisk(dir.path(), 409'600));
    const std::string ballast = dir.File("ballast");
    std::ofstream(ballast) << std::string(204'800, 'x');
    const std::vector<LedgerRecord> script = Script(6);
    ManualClock clock;
    auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
    int refusals = 0;
    WriteAll(*ledger, script, 4, [&](size_t) {
      if (++refusals == 2) std::filesystem::remove(ballast);
    });
    EXPECT_GE(refusals, 2);
    ledger.reset();
    ExpectWhole(dir.File("orders.db"), script, clock);
  });
  if (!ran) GTEST_SKIP() << "mounts need root, or user namespaces";
}

// A log that took all the room would leave none for the file that it is to be moved into.
TEST(SqliteLedgerFullDiskTest, Append_OnASmallDisk_TheLogLeavesRoomForTheFile) {
  const TempDir dir;
  const bool ran = InMountNamespace([&] {
    ASSERT_TRUE(MountSmallDisk(dir.path(), 2 << 20));
    const std::string path = dir.File("orders.db");
    std::vector<LedgerRecord> records = {stockade::testing::AddSku("sneaker", 10'000)};
    for (uint64_t id = 1; id <= 600; ++id) records.push_back(stockade::testing::Take(id, "sneaker", 1));
    ManualClock clock;
    auto ledger = OpenLedger(path, {.clock = &clock});
    const Written written = Write(*ledger, records, 1);
    EXPECT_EQ(written.failure, absl::OkStatus());
    EXPECT_EQ(written.acknowledged, records.size());
    ledger.reset();
    EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
    EXPECT_EQ(Reopened(path).orders.size(), 600);
  });
  if (!ran) GTEST_SKIP() << "mounts need root, or user namespaces";
}

}  // namespace
}  // namespace stockade
