#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/base/manual_clock.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::HasSubstr;

absl::Status WhyNot(const std::string& path, SqliteLedgerOptions options = {}) {
  options.metrics = nullptr;
  return SqliteLedger::Open(path, std::move(options)).status();
}

void ExpectRefused(const absl::Status& status, absl::StatusCode code, const std::string& path, const std::string& why) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A closed ledger with two orders of one SKU.
void MakeSmallLedger(const std::string& path) {
  const auto ledger = OpenLedger(path);
  ledger->Append(AddSku("shoe", 10));
  ledger->Append(Take(1, "shoe", 4));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(2, "shoe", 4))).ok());
}

TEST(SqliteLedgerOpenTest, Open_WhileOpenInThisProcess_NamesFileAndOwner) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  auto first = OpenLedger(path);
  ExpectRefused(WhyNot(path), absl::StatusCode::kFailedPrecondition, path, absl::StrCat("process ", getpid()));
  EXPECT_TRUE(first->AwaitDurable(first->Append(AddSku("shoe", 1))).ok());
  first.reset();
  EXPECT_NE(OpenLedger(path), nullptr);
}

TEST(SqliteLedgerOpenTest, Open_WithANameThatAScrapeCannotCarry_IsRefused) {
  EXPECT_EQ(WhyNot("unused.db", {.name = "caf\xe9"}),
            absl::InvalidArgumentError("SqliteLedger: name 'caf\\xe9' is not printable UTF-8"));
}

TEST(SqliteLedgerOpenTest, Open_ByAnotherName_IsRefusedToo) {
  const TempDir dir;
  const auto first = OpenLedger(dir.File("orders.db"));
  std::filesystem::create_symlink(dir.File("orders.db"), dir.File("alias.db"));
  ExpectRefused(WhyNot(dir.File("alias.db")), absl::StatusCode::kFailedPrecondition, "alias.db", "in use");
}

TEST(SqliteLedgerOpenTest, Open_WithLockWait_GetsTheFileWhenTheOwnerCloses) {
  const TempDir dir;
  ManualClock clock;
  auto first = OpenLedger(dir.File("orders.db"));
  std::thread second(
      [&] { EXPECT_NE(OpenLedger(dir.File("orders.db"), {.lock_wait = absl::Seconds(5), .clock = &clock}), nullptr); });
  clock.AwaitWaiters(1);
  first.reset();
  clock.Advance(absl::Seconds(1));
  second.join();
}

TEST(SqliteLedgerOpenTest, Open_WithLockWaitOver_IsRefused) {
  const TempDir dir;
  ManualClock clock;
  const auto first = OpenLedger(dir.File("orders.db"));
  absl::Status status;
  std::thread second(
      [&] { status = WhyNot(dir.File("orders.db"), {.lock_wait = absl::Milliseconds(30), .clock = &clock}); });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Milliseconds(30));
  second.join();
  ExpectRefused(status, absl::StatusCode::kFailedPrecondition, "orders.db", "in use");
}

TEST(SqliteLedgerOpenTest, PlainSql_WhileOpen_IsLockedOut_AndReadsAfterwards) {
  const TempDir dir;
  auto ledger = OpenLedger(dir.File("orders.db"));
  EXPECT_EQ(PlainSql(dir.File("orders.db")).TryRun("SELECT * FROM orders"), SQLITE_BUSY);
  ledger.reset();
  EXPECT_EQ(PlainSql(dir.File("orders.db")).TryRun("SELECT * FROM orders"), SQLITE_OK);
}

TEST(SqliteLedgerOpenTest, Open_WhileReadByPlainSql_IsRefused) {
  const TempDir dir;
  MakeSmallLedger(dir.File("orders.db"));
  PlainSql reader(dir.File("orders.db"));
  reader.Run("BEGIN; SELECT * FROM orders");
  ExpectRefused(WhyNot(dir.File("orders.db")), absl::StatusCode::kFailedPrecondition, "orders.db", "locked");
}

TEST(SqliteLedgerOpenTest, Open_TextFile_IsRefusedAndLeftAlone) {
  const TempDir dir;
  std::ofstream(dir.File("notes.txt")) << "milk\neggs\n";
  ExpectRefused(WhyNot(dir.File("notes.txt")), absl::StatusCode::kFailedPrecondition, "notes.txt", "not a database");
  EXPECT_EQ(Contents(dir.File("notes.txt")), "milk\neggs\n");
}

TEST(SqliteLedgerOpenTest, Open_ForeignDatabase_IsRefusedAndLeftAlone) {
  const TempDir dir;
  PlainSql(dir.File("other.db")).Run("CREATE TABLE orders(id)");
  const std::string before = Contents(dir.File("other.db"));
  ExpectRefused(WhyNot(dir.File("other.db")), absl::StatusCode::kFailedPrecondition, "other.db", "another application");
  EXPECT_EQ(Contents(dir.File("other.db")), before);
}

TEST(SqliteLedgerOpenTest, Open_AnotherVersion_IsRefusedByNumberAndLeftAlone) {
  for (const std::string version : {"1", "2", "3", "6"}) {
    const TempDir dir;
    MakeSmallLedger(dir.File("orders.db"));
    PlainSql(dir.File("orders.db")).Run("PRAGMA user_version = " + version);
    const std::string before = Contents(dir.File("orders.db"));
    ExpectRefused(WhyNot(dir.File("orders.db")), absl::StatusCode::kFailedPrecondition, "orders.db",
                  "schema version " + version);
    EXPECT_EQ(Contents(dir.File("orders.db")), before);
  }
}

TEST(SqliteLedgerOpenTest, Open_UnusableDirectory_NamesThePath) {
  const TempDir dir;
  ExpectRefused(WhyNot(dir.File("none/orders.db")), absl::StatusCode::kNotFound, "none/orders.db", "No such file");
  if (!std::filesystem::exists("/sys/kernel")) GTEST_SKIP() << "no sysfs, where root too makes no files";
  ExpectRefused(WhyNot("/sys/orders.db"), absl::StatusCode::kPermissionDenied, "/sys/orders.db", "cannot open");
}

TEST(SqliteLedgerOpenTest, Open_BadOptionsOrPath_IsInvalidArgument) {
  const TempDir dir;
  for (const std::string& path : {std::string(), std::string(":memory:"), std::string("a\0b", 3)}) {
    EXPECT_EQ(WhyNot(path).code(), absl::StatusCode::kInvalidArgument);
  }
  const std::string path = dir.File("orders.db");
  EXPECT_EQ(WhyNot(path, {.name = ""}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WhyNot(path, {.lock_wait = -absl::Seconds(1)}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WhyNot(path, {.max_batch_records = 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WhyNot(path, {.max_queued_records = 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WhyNot(path, {.clock = nullptr}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SqliteLedgerOpenTest, Open_DamagedPages_IsDataLoss) {
  const TempDir dir;
  MakeSmallLedger(dir.File("orders.db"));
  std::fstream file(dir.File("orders.db"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(4096);
  file << std::string(4096, '\x5a');
  file.close();
  EXPECT_EQ(WhyNot(dir.File("orders.db")).code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteLedgerOpenTest, Files_WhileOpen_AreClosedByExec) {
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 1))).ok());
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!target.starts_with(dir.File("orders.db"))) continue;
    ++files;
    EXPECT_NE(fcntl(std::stoi(entry.path().filename().string()), F_GETFD) & FD_CLOEXEC, 0) << target;
  }
  EXPECT_EQ(files, 3);  // The file, its log, its lock.
}

TEST(SqliteLedgerOpenTest, Destructor_InForkedChild_LeavesTheParentsLedgerLocked) {
  const TempDir dir;
  auto ledger = OpenLedger(dir.File("orders.db"));
  const pid_t child = fork();
  if (child == 0) {
    ledger.reset();
    _exit(0);
  }
  int exit_status = -1;
  ASSERT_EQ(waitpid(child, &exit_status, 0), child);
  EXPECT_EQ(exit_status, 0);
  ExpectRefused(WhyNot(dir.File("orders.db")), absl::StatusCode::kFailedPrecondition, "orders.db", "in use");
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 1))).ok());
}

TEST(SqliteLedgerOpenDeathTest, Append_InForkedChild_AbortsWithThePath) {
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  EXPECT_DEATH(ledger->Append(AddSku("shoe", 1)), "SqliteLedger '.*orders.db' used in a forked child");
}

}  // namespace
}  // namespace stockade
