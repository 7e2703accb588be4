// Files and file systems that cannot be written, for root neither.

#include <grp.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/mount_namespace.h"
#include "inventory/sqlite_ledger_support.h"
#include "support/forked_child.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::AvailableIn;
using ::stockade::testing::InForkedChild;
using ::stockade::testing::InMountNamespace;
using ::stockade::testing::MakeReadOnly;
using ::stockade::testing::MakeWritable;
using ::stockade::testing::MountSmallDisk;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::Reopened;
using ::stockade::testing::Restock;
using ::stockade::testing::SetReadOnly;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::HasSubstr;

constexpr int64_t kDiskBytes = int64_t{4} * 1024 * 1024;
constexpr char kNoMounts[] = "mounts need root, or user namespaces";

std::map<std::string, std::string> FilesIn(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

// A ledger with 6 of 10 shoes left. `killed`: as a killed process leaves it, with the last order in the log.
void MakeLedger(const std::string& path, bool killed) {
  {
    const auto ledger = OpenLedger(path);
    ASSERT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 10))).ok());
    ASSERT_TRUE(ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 4))).ok());
    if (killed) {
      std::filesystem::copy(path, path + ".kept");
      std::filesystem::copy(path + "-wal", path + "-wal.kept");
    }
  }
  if (!killed) return;
  std::filesystem::rename(path + ".kept", path);
  std::filesystem::rename(path + "-wal.kept", path + "-wal");
}

void ExpectPermissionDenied(const std::string& path) {
  const absl::Status status = SqliteLedger::Open(path, {.metrics = nullptr}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

void ExpectWorks(const std::string& path) {
  const auto ledger = OpenLedger(path);
  ASSERT_NE(ledger, nullptr);
  EXPECT_EQ(AvailableIn(ledger->TakeRecovered(), "shoe"), 6);
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(2, "shoe", 6))).ok());
}

TEST(SqliteLedgerReadOnlyTest, Open_OnAReadOnlyFileSystem_IsRefusedByPathAndWorksOnceItIsWritable) {
  const TempDir dir;
  const bool ran = InMountNamespace([&] {
    for (const bool killed : {false, true}) {
      SCOPED_TRACE(killed);
      ASSERT_TRUE(MountSmallDisk(dir.path(), kDiskBytes));
      const std::string path = dir.File("orders.db");
      MakeLedger(path, killed);
      ASSERT_TRUE(SetReadOnly(dir.path(), true));
      const auto before = FilesIn(dir.path());
      ExpectPermissionDenied(path);
      ExpectPermissionDenied(dir.File("new.db"));
      EXPECT_EQ(FilesIn(dir.path()), before);
      ASSERT_TRUE(SetReadOnly(dir.path(), false));
      ExpectWorks(path);
    }
  });
  if (!ran) GTEST_SKIP() << kNoMounts;
}

TEST(SqliteLedgerReadOnlyTest, Open_OfAReadOnlyFile_IsRefusedByPathAndWorksOnceItIsWritable) {
  const TempDir dir;
  const bool ran = InMountNamespace([&] {
    for (const bool killed : {false, true}) {
      for (const std::string suffix : {"", "-wal", ".lock"}) {
        if (suffix == "-wal" && !killed) continue;
        SCOPED_TRACE(absl::StrCat(killed ? "killed" : "closed", ", ", suffix));
        ASSERT_TRUE(MountSmallDisk(dir.path(), kDiskBytes));
        const std::string path = dir.File("orders.db");
        MakeLedger(path, killed);
        ASSERT_TRUE(MakeReadOnly(path + suffix));
        auto before = FilesIn(dir.path());
        ExpectPermissionDenied(path);
        auto after = FilesIn(dir.path());
        // It has the process id of its last holder.
        before.erase("orders.db.lock");
        after.erase("orders.db.lock");
        EXPECT_EQ(after, before);
        ASSERT_TRUE(MakeWritable(path + suffix));
        ExpectWorks(path);
      }
    }
  });
  if (!ran) GTEST_SKIP() << kNoMounts;
}

// Runs `body` in a forked child as a user that may not write everywhere. False: nothing is run, because this user
// cannot become another one.
bool AsNobody(const std::function<void()>& body) {
  std::fflush(nullptr);
  constexpr int kNot = 77;
  const int status = InForkedChild([&] {
    if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) _exit(kNot);
    body();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNot) return false;
  EXPECT_EQ(status, 0) << "in the child; see above";
  return true;
}

// A ledger makes its log when it is opened. A killed one has left its log, so that it needs to make no file.
TEST(SqliteLedgerReadOnlyTest, Open_InAReadOnlyDirectory_WorksOnlyIfAllItsFilesAreThere) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0777));
  const bool ran = AsNobody([&] {
    for (const bool killed : {false, true}) {
      SCOPED_TRACE(killed ? "killed" : "closed");
      const std::string home = dir.File(killed ? "killed" : "closed");
      const std::string path = home + "/orders.db";
      std::filesystem::create_directory(home);
      MakeLedger(path, killed);
      std::filesystem::permissions(home, std::filesystem::perms(0555));
      if (!killed) {
        auto before = FilesIn(home);
        ExpectPermissionDenied(path);
        ExpectPermissionDenied(home + "/new.db");
        auto after = FilesIn(home);
        before.erase("orders.db.lock");
        after.erase("orders.db.lock");
        EXPECT_EQ(after, before);
        std::filesystem::permissions(home, std::filesystem::perms(0755));
        ExpectWorks(path);
        continue;
      }
      ExpectWorks(path);
      // It could not remove its log, and finds it again.
      EXPECT_TRUE(std::filesystem::exists(path + "-wal"));
      EXPECT_EQ(SqliteLedger::Audit(path), absl::OkStatus());
      {
        const auto ledger = OpenLedger(path);
        ASSERT_NE(ledger, nullptr);
        EXPECT_EQ(AvailableIn(ledger->TakeRecovered(), "shoe"), 0);
        EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Restock("shoe", 3))).ok());
      }
      EXPECT_EQ(AvailableIn(Reopened(path), "shoe"), 3);
      std::filesystem::permissions(home, std::filesystem::perms(0755));
      EXPECT_EQ(AvailableIn(Reopened(path), "shoe"), 3);
    }
  });
  if (!ran) GTEST_SKIP() << "needs root, or another user than root";
}

TEST(SqliteLedgerReadOnlyTest, Open_WithoutAnInodeForTheLog_SaysSoAndWorksOnceThereIsOne) {
  const TempDir dir;
  const bool ran = InMountNamespace([&] {
    // The directory, the file, its lock and one more.
    ASSERT_EQ(mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=4194304,nr_inodes=4"), 0);
    const std::string path = dir.File("orders.db");
    MakeLedger(path, false);
    std::ofstream(dir.File("ballast")) << "x";
    const auto before = FilesIn(dir.path());
    for (const absl::Status& status :
         {SqliteLedger::Open(path, {.metrics = nullptr}).status(), SqliteLedger::Audit(path)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    }
    std::filesystem::remove(path + ".lock");
    std::ofstream(dir.File("more ballast")) << "x";
    // Then for the lock.
    const absl::Status status = SqliteLedger::Open(path, {.metrics = nullptr}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    std::filesystem::remove(dir.File("more ballast"));
    std::filesystem::remove(dir.File("ballast"));
    ExpectWorks(path);
  });
  if (!ran) GTEST_SKIP() << kNoMounts;
}

}  // namespace
}  // namespace stockade
