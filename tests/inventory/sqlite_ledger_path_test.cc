// Names that lead to a ledger in unusual ways, and names of other things than files.

#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "support/forked_child.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::AvailableIn;
using ::stockade::testing::InForkedChild;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::Reopened;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status OpeningError(const std::string& path) { return SqliteLedger::Open(path, {.metrics = nullptr}).status(); }

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& why) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The regular files of a directory with their contents, except locks: those contain the process that opened them last.
std::map<std::string, std::string> RegularFilesIn(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (entry.symlink_status().type() != std::filesystem::file_type::regular || name.ends_with(".lock")) continue;
    files[name] = BytesOf(entry.path().string());
  }
  return files;
}

// The names in a directory, sorted.
std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// A ledger with 6 of 10 shoes left, closed.
void MakeClosedLedger(const std::string& path) {
  const auto ledger = OpenLedger(path);
  ledger->Append(AddSku("shoe", 10));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 4))).ok());
}

// The same, as a killed process leaves it: the records are in the log alone.
void MakeKilledLedger(const std::string& path) {
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  ledger->Append(AddSku("shoe", 10));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 4))).ok());
  for (const std::string suffix : {"", "-wal", ".lock"}) {
    std::filesystem::copy_file(dir.File("orders.db" + suffix), path + suffix);
  }
}

// Runs `body` in a forked child; a failure in it fails the test.
void InChild(const std::function<void()>& body) {
  std::fflush(nullptr);
  const int status = InForkedChild([&] {
    body();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(status, 0) << "in the child; see above";
}

// Whether another process may lock the file as SQLite does for reading.
bool MayBeReadByAnotherProcess(const std::string& path) {
  const int status = InForkedChild([&] {
    constexpr off_t kSharedFirst = 0x40000002;
    constexpr off_t kSharedBytes = 510;
    struct flock lock {};
    lock.l_type = F_RDLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = kSharedFirst;
    lock.l_len = kSharedBytes;
    if (fcntl(open(path.c_str(), O_RDWR | O_CLOEXEC), F_SETLK, &lock) != 0) _exit(1);
  });
  return status == 0;
}

TEST(SqliteLedgerPathTest, Open_ThroughADanglingLink_PutsLockAndLogBesideItsTarget) {
  for (const bool relative : {true, false}) {
    const TempDir dir;
    std::filesystem::create_directory(dir.File("links"));
    const std::string alias = dir.File("links/alias.db");
    std::filesystem::create_symlink(relative ? "../orders.db" : dir.File("orders.db"), alias);
    std::filesystem::create_symlink("alias.db", dir.File("links/alias-of-alias.db"));
    auto ledger = OpenLedger(dir.File("links/alias-of-alias.db"));
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 10))).ok());
    EXPECT_THAT(NamesIn(dir.path()), ElementsAre("links", "orders.db", "orders.db-wal", "orders.db.lock"));
    EXPECT_THAT(NamesIn(dir.File("links")), ElementsAre("alias-of-alias.db", "alias.db"));
    ExpectError(OpeningError(dir.File("orders.db")), absl::StatusCode::kFailedPrecondition, "in use");
    ledger.reset();
    EXPECT_EQ(AvailableIn(Reopened(dir.File("orders.db")), "shoe"), 10);
    EXPECT_EQ(AvailableIn(Reopened(alias), "shoe"), 10);
  }
}

TEST(SqliteLedgerPathTest, Open_ThroughADanglingLink_FindsThatTheLogWasCutOff) {
  const TempDir dir;
  std::filesystem::create_directory(dir.File("links"));
  std::filesystem::create_symlink("../orders.db", dir.File("links/alias.db"));
  const TempDir killed;
  std::filesystem::create_directory(killed.File("links"));
  std::filesystem::create_symlink("../orders.db", killed.File("links/alias.db"));
  const auto ledger = OpenLedger(dir.File("links/alias.db"));
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 10))).ok());
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 4))).ok());
  for (const std::string name : {"orders.db", "orders.db-wal", "orders.db.lock", "links/alias.db.lock"}) {
    if (std::filesystem::exists(dir.File(name))) std::filesystem::copy_file(dir.File(name), killed.File(name));
  }
  const std::string log = killed.File("orders.db-wal");
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 4120);
  ExpectError(OpeningError(killed.File("links/alias.db")), absl::StatusCode::kDataLoss, "position 2 was acknowledged");
}

TEST(SqliteLedgerPathTest, Open_ThroughALinkToNowhere_IsRefusedAndMakesNothing) {
  const TempDir dir;
  std::filesystem::create_symlink("none/orders.db", dir.File("far.db"));
  std::filesystem::create_symlink("loop.db", dir.File("loop.db"));
  ExpectError(OpeningError(dir.File("far.db")), absl::StatusCode::kNotFound, "none/");
  ExpectError(OpeningError(dir.File("loop.db")), absl::StatusCode::kUnavailable, "symbolic links");
  EXPECT_THAT(NamesIn(dir.path()), ElementsAre("far.db", "loop.db"));
}

TEST(SqliteLedgerPathTest, Open_APathThatNamesADirectory_IsInvalidArgumentAndMakesNothing) {
  const TempDir dir;
  std::filesystem::create_directory(dir.File("sub"));
  for (const std::string& path : {std::string("/"), std::string("."), std::string(".."), dir.path() + "/",
                                  dir.File("."), dir.File(".."), dir.File("sub/"), dir.File("sub/..")}) {
    ExpectError(OpeningError(path), absl::StatusCode::kInvalidArgument, "names no file");
    ExpectError(SqliteLedger::Audit(path), absl::StatusCode::kInvalidArgument, "names no file");
  }
  EXPECT_THAT(NamesIn(dir.path()), ElementsAre("sub"));
  EXPECT_THAT(NamesIn(dir.File("sub")), ElementsAre());
}

// A process that opens or audits a file of its own under a second name must not drop its locks on it: closing any
// descriptor of a file drops all POSIX locks that the process holds on that file.
TEST(SqliteLedgerPathTest, OpenAndAudit_BySecondNameOfAnOpenLedger_AreRefusedAndLeaveItLocked) {
  for (const bool renamed : {false, true}) {
    SCOPED_TRACE(renamed ? "renamed" : "hard link");
    const TempDir dir;
    MakeClosedLedger(dir.File("orders.db"));
    auto ledger = OpenLedger(dir.File("orders.db"));
    if (renamed) {
      std::filesystem::rename(dir.File("orders.db"), dir.File("other.db"));
    } else {
      std::filesystem::create_hard_link(dir.File("orders.db"), dir.File("other.db"));
    }
    ASSERT_FALSE(MayBeReadByAnotherProcess(dir.File("other.db")));
    EXPECT_EQ(SqliteLedger::Audit(dir.File("other.db")).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(MayBeReadByAnotherProcess(dir.File("other.db")));
    EXPECT_EQ(OpeningError(dir.File("other.db")).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(MayBeReadByAnotherProcess(dir.File("other.db")));
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(2, "shoe", 6))).ok());
  }
}

// The same for a ledger that this process has made.
TEST(SqliteLedgerPathTest, Audit_BySecondNameOfANewLedger_IsRefusedAndLeavesItLocked) {
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"));
  std::filesystem::create_hard_link(dir.File("orders.db"), dir.File("other.db"));
  EXPECT_EQ(SqliteLedger::Audit(dir.File("other.db")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(MayBeReadByAnotherProcess(dir.File("other.db")));
}

TEST(SqliteLedgerPathTest, Open_AfterTheLedgerWasClosedOrRefused_WorksByAnotherName) {
  const TempDir dir;
  MakeClosedLedger(dir.File("orders.db"));
  std::filesystem::rename(dir.File("orders.db"), dir.File("other.db"));
  EXPECT_EQ(AvailableIn(Reopened(dir.File("other.db")), "shoe"), 6);
  EXPECT_EQ(SqliteLedger::Audit(dir.File("other.db")), absl::OkStatus());
  EXPECT_EQ(AvailableIn(Reopened(dir.File("other.db")), "shoe"), 6);
}

TEST(SqliteLedgerPathTest, OpenAndAudit_WhatIsNoRegularFile_AreRefusedByItsNameAndReturn) {
  const TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("fifo.db").c_str(), 0600), 0);
  std::filesystem::create_directory(dir.File("directory.db"));
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", dir.File("socket.db").c_str());
  ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(descriptor);
  const auto before = NamesIn(dir.path());
  for (const std::string& path :
       {dir.File("fifo.db"), dir.File("directory.db"), dir.File("socket.db"), std::string("/dev/null")}) {
    ExpectError(OpeningError(path), absl::StatusCode::kFailedPrecondition, "'" + path + "' is not a regular file");
    ExpectError(SqliteLedger::Audit(path), absl::StatusCode::kFailedPrecondition,
                "'" + path + "' is not a regular file");
  }
  EXPECT_EQ(NamesIn(dir.path()), before);
  EXPECT_FALSE(std::filesystem::exists("/dev/null.lock"));
}

TEST(SqliteLedgerPathTest, OpenAndAudit_WithAFifoForOneOfItsFiles_AreRefusedByItsNameAndReturn) {
  for (const std::string suffix : {"-wal", "-journal", ".lock"}) {
    SCOPED_TRACE(suffix);
    const TempDir dir;
    MakeKilledLedger(dir.File("orders.db"));
    std::filesystem::remove(dir.File("orders.db" + suffix));
    ASSERT_EQ(mkfifo(dir.File("orders.db" + suffix).c_str(), 0600), 0);
    const auto before = RegularFilesIn(dir.path());
    const std::string why = "orders.db" + suffix + "' is not a regular file";
    ExpectError(OpeningError(dir.File("orders.db")), absl::StatusCode::kFailedPrecondition, why);
    ExpectError(SqliteLedger::Audit(dir.File("orders.db")), absl::StatusCode::kFailedPrecondition, why);
    EXPECT_EQ(RegularFilesIn(dir.path()), before);
  }
}

TEST(SqliteLedgerPathTest, Open_WithALockThatLeadsElsewhere_IsRefusedAndChangesNothing) {
  for (const bool symbolic : {true, false}) {
    for (const std::string to : {"orders.db", "notes.txt"}) {
      SCOPED_TRACE(to + (symbolic ? ", symbolic" : ", hard"));
      const TempDir dir;
      MakeClosedLedger(dir.File("orders.db"));
      std::ofstream(dir.File("notes.txt")) << "milk\n";
      const std::string lock = dir.File("orders.db.lock");
      std::filesystem::remove(lock);
      if (symbolic) {
        std::filesystem::create_symlink(dir.File(to), lock);
      } else {
        std::filesystem::create_hard_link(dir.File(to), lock);
      }
      const auto before = RegularFilesIn(dir.path());
      ExpectError(OpeningError(dir.File("orders.db")), absl::StatusCode::kFailedPrecondition, "orders.db.lock'");
      EXPECT_EQ(RegularFilesIn(dir.path()), before);
      std::filesystem::remove(lock);
      EXPECT_EQ(AvailableIn(Reopened(dir.File("orders.db")), "shoe"), 6);
    }
  }
}

TEST(SqliteLedgerPathTest, Open_WithALockFileOfAnotherProgram_IsRefusedAndLeavesItAlone) {
  const TempDir dir;
  MakeClosedLedger(dir.File("orders.db"));
  const std::string notes(300, 'x');
  std::ofstream(dir.File("orders.db.lock"), std::ios::trunc) << notes;
  ExpectError(OpeningError(dir.File("orders.db")), absl::StatusCode::kDataLoss, "in its lock file is damaged");
  EXPECT_EQ(BytesOf(dir.File("orders.db.lock")), notes);
}

TEST(SqliteLedgerPathTest, OpenAndAudit_InADirectoryThatMayNotBeSearched_ArePermissionDenied) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  std::filesystem::create_directory(dir.File("closed"));
  MakeClosedLedger(dir.File("closed/orders.db"));
  std::filesystem::create_symlink("closed/orders.db", dir.File("alias.db"));
  std::filesystem::permissions(dir.File("closed"), std::filesystem::perms(0644));
  InChild([&] {
    // The superuser may search every directory.
    if (geteuid() == 0) {
      ASSERT_TRUE(setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    }
    for (const std::string name : {"closed/orders.db", "closed/none.db", "alias.db"}) {
      ExpectError(SqliteLedger::Audit(dir.File(name)), absl::StatusCode::kPermissionDenied, "closed/");
      ExpectError(OpeningError(dir.File(name)), absl::StatusCode::kPermissionDenied, "closed/");
    }
  });
  std::filesystem::permissions(dir.File("closed"), std::filesystem::perms(0755));
}

// The owner of the second name would remove the log by that name only. Then the first name would have a log that is
// older than the file, and SQLite would take the newer orders back with it.
TEST(SqliteLedgerPathTest, Open_WithALogThatHasASecondName_IsRefusedUntilItHasOneAgain) {
  const TempDir dir;
  MakeKilledLedger(dir.File("orders.db"));
  for (const std::string suffix : {"", "-wal"}) {
    std::filesystem::create_hard_link(dir.File("orders.db" + suffix), dir.File("other.db" + suffix));
  }
  const auto before = RegularFilesIn(dir.path());
  for (const std::string name : {"other.db", "orders.db"}) {
    const std::string why = name + "-wal' has more than one hard link";
    ExpectError(OpeningError(dir.File(name)), absl::StatusCode::kFailedPrecondition, why);
    ExpectError(SqliteLedger::Audit(dir.File(name)), absl::StatusCode::kFailedPrecondition, why);
  }
  EXPECT_EQ(RegularFilesIn(dir.path()), before);
  std::filesystem::remove(dir.File("other.db-wal"));
  EXPECT_EQ(AvailableIn(Reopened(dir.File("orders.db")), "shoe"), 6);
}

}  // namespace
}  // namespace stockade
