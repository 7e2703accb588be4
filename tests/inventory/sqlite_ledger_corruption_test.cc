// Files whose bytes have changed, and files that are gone: whatever opens has all that was acknowledged, and what does
// not open is left as it is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "checksum_vfs.h"
#include "file_lock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "high_water_mark.h"
#include "inventory/sqlite_ledger_script.h"
#include "stockade/base/manual_clock.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::Describe;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::PrefixThatMakes;
using ::stockade::testing::Scaled;
using ::stockade::testing::Script;
using ::stockade::testing::ScriptState;
using ::stockade::testing::TempDir;
using ::stockade::testing::Write;
using ::testing::HasSubstr;

constexpr size_t kPage = 4096;
constexpr size_t kLogHeader = 32;
constexpr size_t kFrame = 24 + kPage;

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void Fill(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

// By name, without that of the lock, in which is who opened it last.
std::map<std::string, std::string> FilesIn(const TempDir& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().extension() != ".lock")
      files[entry.path().filename().string()] = ContentsOf(entry.path().string());
  }
  return files;
}

// The files of one ledger: of two thirds of a script, a record a transaction, in two lives. The first was closed; the
// second was killed, or closed as well.
class Written {
 public:
  explicit Written(bool killed) {
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    const std::span<const LedgerRecord> all(script_);
    {
      const auto ledger = OpenLedger(path, {.max_batch_records = 1, .clock = &clock_});
      EXPECT_EQ(Write(*ledger, all.first(appended_ / 2), 1).failure, absl::OkStatus());
    }
    older_ = ContentsOf(path);
    auto ledger = OpenLedger(path, {.max_batch_records = 1, .clock = &clock_});
    EXPECT_EQ(Write(*ledger, all.subspan(appended_ / 2, appended_ - appended_ / 2), 1).failure, absl::OkStatus());
    if (!killed) ledger.reset();
    for (const std::string suffix : {"", "-wal", ".lock"}) {
      if (std::filesystem::exists(path + suffix)) files_[suffix] = ContentsOf(path + suffix);
    }
    ScriptState state(script_, clock_.WallNow());
    state.GoTo(appended_);
    state_ = state.Text();
  }

  // By suffix.
  const std::map<std::string, std::string>& files() const { return files_; }
  // The file after the first life.
  const std::string& older() const { return older_; }
  const std::string& state() const { return state_; }
  size_t records() const { return appended_; }

  void CopyTo(const std::string& path) const {
    for (const auto& [suffix, contents] : files_) Fill(path + suffix, contents);
  }
  // As a power cut leaves the mark in the worst case: not there.
  void CopyWithoutMarkTo(const std::string& path) const {
    CopyTo(path);
    std::filesystem::remove(path + ".lock");
  }

  // How many of the first records make `found`; else none.
  std::optional<size_t> RecordsThatMake(const LedgerState& found) const {
    return PrefixThatMakes(found, script_, 0, appended_, clock_.WallNow());
  }

 private:
  const std::vector<LedgerRecord> script_ = Script(6);
  const size_t appended_ = script_.size() * 2 / 3;
  ManualClock clock_;
  std::map<std::string, std::string> files_;
  std::string older_;
  std::string state_;
};

const Written& Killed() {
  static const Written written(true);
  return written;
}

const Written& Closed() {
  static const Written written(false);
  return written;
}

absl::StatusOr<std::unique_ptr<SqliteLedger>> Open(const std::string& path) {
  return SqliteLedger::Open(path, {.metrics = nullptr});
}

void ExpectDataLoss(const TempDir& dir, const std::string& name, const std::string& text) {
  const auto before = FilesIn(dir);
  const absl::Status status = Open(dir.File(name)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  if (std::filesystem::exists(dir.File(name))) {
    EXPECT_EQ(SqliteLedger::Audit(dir.File(name)), status);
  }
  EXPECT_EQ(FilesIn(dir), before) << "a file was changed";
}

void ExpectWhole(const std::string& path, const Written& written) {
  const auto ledger = Open(path);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_EQ(Describe((*ledger)->TakeRecovered()), written.state());
}

void Change(const std::string& path, const std::function<void(std::string& bytes)>& change) {
  std::string bytes = ContentsOf(path);
  change(bytes);
  Fill(path, bytes);
}

TEST(SqliteLedgerCorruptionTest, Open_Unchanged_HasAll) {
  for (const Written* written : {&Killed(), &Closed()}) {
    const TempDir dir;
    written->CopyTo(dir.File("marked.db"));
    ExpectWhole(dir.File("marked.db"), *written);
    written->CopyWithoutMarkTo(dir.File("orders.db"));
    ExpectWhole(dir.File("orders.db"), *written);
  }
}

TEST(SqliteLedgerCorruptionTest, Audit_Unchanged_IsOkAndChangesNothing) {
  for (const Written* written : {&Killed(), &Closed()}) {
    const TempDir dir;
    written->CopyTo(dir.File("marked.db"));
    written->CopyWithoutMarkTo(dir.File("orders.db"));
    const auto before = FilesIn(dir);
    EXPECT_EQ(SqliteLedger::Audit(dir.File("marked.db")), absl::OkStatus());
    EXPECT_EQ(SqliteLedger::Audit(dir.File("orders.db")), absl::OkStatus());
    EXPECT_EQ(FilesIn(dir), before);
  }
}

TEST(SqliteLedgerCorruptionTest, Audit_OfNoFileOrOneInUse_SaysSo) {
  const TempDir dir;
  EXPECT_EQ(SqliteLedger::Audit("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SqliteLedger::Audit(dir.File("orders.db")).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  const auto ledger = OpenLedger(dir.File("orders.db"));
  EXPECT_EQ(SqliteLedger::Audit(dir.File("orders.db")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SqliteLedgerCorruptionTest, Open_LogWithAFlippedBitInTheMiddle_IsDataLossWithOrWithoutAMark) {
  for (const bool marked : {true, false}) {
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    marked ? Killed().CopyTo(path) : Killed().CopyWithoutMarkTo(path);
    Change(path + "-wal", [](std::string& log) { log[log.size() / 2] ^= 4; });
    ExpectDataLoss(dir, "orders.db", "belongs to a later transaction");
  }
}

TEST(SqliteLedgerCorruptionTest, Open_LogWithAFlippedBitInItsHeader_IsDataLossWithOrWithoutAMark) {
  for (const bool marked : {true, false}) {
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    marked ? Killed().CopyTo(path) : Killed().CopyWithoutMarkTo(path);
    Change(path + "-wal", [](std::string& log) { log[17] ^= 4; });
    ExpectDataLoss(dir, "orders.db", marked ? "was acknowledged" : "has a damaged header");
  }
}

TEST(SqliteLedgerCorruptionTest, Open_LogThatIsCutOff_IsDataLoss) {
  for (const size_t fraction : {2, 3, 1'000}) {
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    Killed().CopyTo(path);
    std::filesystem::resize_file(path + "-wal", Killed().files().at("-wal").size() * (fraction - 1) / fraction);
    ExpectDataLoss(dir, "orders.db", "was acknowledged, but the file and its log end at");
  }
}

TEST(SqliteLedgerCorruptionTest, Open_LogThatIsGone_IsDataLossWithOrWithoutAMark) {
  for (const bool marked : {true, false}) {
    for (const bool emptied : {true, false}) {
      const TempDir dir;
      const std::string path = dir.File("orders.db");
      marked ? Killed().CopyTo(path) : Killed().CopyWithoutMarkTo(path);
      if (emptied) {
        Fill(path + "-wal", "");
      } else {
        std::filesystem::remove(path + "-wal");
      }
      ExpectDataLoss(dir, "orders.db",
                     marked    ? "was acknowledged"
                     : emptied ? "orders.db-wal' is empty"
                               : "is missing");
    }
  }
}

TEST(SqliteLedgerCorruptionTest, Open_ByAnotherHardLinkAfterACrash_IsDataLossThatNamesTheLog) {
  const TempDir dir;
  Killed().CopyTo(dir.File("orders.db"));
  std::filesystem::create_hard_link(dir.File("orders.db"), dir.File("other.db"));
  ExpectDataLoss(dir, "other.db", "other.db-wal' is missing");
  ExpectWhole(dir.File("orders.db"), Killed());
}

TEST(SqliteLedgerCorruptionTest, Open_BySymbolicLinkAfterACrash_FindsTheLog) {
  const TempDir dir;
  Killed().CopyTo(dir.File("orders.db"));
  std::filesystem::create_symlink(dir.File("orders.db"), dir.File("alias.db"));
  ExpectWhole(dir.File("alias.db"), Killed());
}

TEST(SqliteLedgerCorruptionTest, Open_EmptyFile_IsRefusedAndLeftAlone) {
  const TempDir dir;
  Fill(dir.File("orders.db"), "");
  const auto before = FilesIn(dir);
  const absl::Status status = Open(dir.File("orders.db")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is empty; remove it"));
  EXPECT_EQ(FilesIn(dir), before);
  std::filesystem::remove(dir.File("orders.db"));
  EXPECT_TRUE(Open(dir.File("orders.db")).ok());
}

TEST(SqliteLedgerCorruptionTest, Open_FileThatIsGone_IsDataLossUntilItsLogAndMarkAreGone) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  Killed().CopyTo(path);
  std::filesystem::remove(path);
  ExpectDataLoss(dir, "orders.db", "the file is missing, but its write-ahead log");
  std::filesystem::remove(path + "-wal");
  ExpectDataLoss(dir, "orders.db", "To begin a new one, remove '" + path + ".lock'");
  std::filesystem::remove(path + ".lock");
  EXPECT_TRUE(Open(path).ok());
}

TEST(SqliteLedgerCorruptionTest, Open_OlderCopyPutBack_IsDataLossUntilTheMarkIsGone) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  Closed().CopyTo(path);
  Fill(path, Closed().older());
  ExpectDataLoss(dir, "orders.db", "If an older copy was put back on purpose, remove '" + path + ".lock'");
  std::filesystem::remove(path + ".lock");
  EXPECT_TRUE(Open(path).ok());
}

TEST(SqliteLedgerCorruptionTest, Open_MarkWithAFlippedBit_IsDataLossUntilItIsGone) {
  for (const size_t at : {64, 80, 130, 200}) {
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    Killed().CopyTo(path);
    Change(path + ".lock", [at](std::string& mark) { mark[at] ^= 1; });
    ExpectDataLoss(dir, "orders.db", "the acknowledged position");
    std::filesystem::remove(path + ".lock");
    ExpectWhole(path, Killed());
  }
}

// A rollback journal of SQLite that turns any file into `pages`.
std::string JournalWith(const std::string& pages) {
  const auto number = [](uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  constexpr uint32_t kNonce = 12'345;
  const auto count = static_cast<uint32_t>(pages.size() / kPage);
  std::string journal =
      "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + number(count) + number(kNonce) + number(count) + number(512) + number(kPage);
  journal.resize(512);
  for (uint32_t page = 0; page < count; ++page) {
    const std::string bytes = pages.substr(page * kPage, kPage);
    uint32_t checksum = kNonce;
    for (size_t at = kPage - 200; at > 0 && at < kPage; at -= 200) checksum += static_cast<unsigned char>(bytes[at]);
    journal += number(page + 1) + bytes + number(checksum);
  }
  return journal;
}

// That SQLite would play such a journal back is what makes the tests below say anything.
TEST(SqliteLedgerCorruptionTest, RollbackJournalOfTheseTests_IsPlayedBackBySqlite) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  Fill(path, Closed().files().at(""));
  Fill(path + "-journal", JournalWith(Closed().older()));
  EXPECT_GT(PlainSql(path).QueryInt("SELECT count(*) FROM journal"), 0);
  EXPECT_EQ(ContentsOf(path), Closed().older());
}

TEST(SqliteLedgerCorruptionTest, OpenAndAudit_WithALeftoverRollbackJournal_AreDataLossAndChangeNothing) {
  for (const Written* written : {&Closed(), &Killed()}) {
    for (const bool marked : {true, false}) {
      const TempDir dir;
      const std::string path = dir.File("orders.db");
      marked ? written->CopyTo(path) : written->CopyWithoutMarkTo(path);
      Fill(path + "-journal", JournalWith(written->older()));
      ExpectDataLoss(dir, "orders.db", "orders.db-journal'");
      std::filesystem::remove(path + "-journal");
      ExpectWhole(path, *written);
    }
  }
}

TEST(SqliteLedgerCorruptionTest, Open_WithARollbackJournalAndNoFile_IsDataLossAndChangesNothing) {
  const TempDir dir;
  Fill(dir.File("orders.db-journal"), JournalWith(Closed().older()));
  ExpectDataLoss(dir, "orders.db", "the file is missing, but its rollback journal '");
}

// It is that program's to play back.
TEST(SqliteLedgerCorruptionTest, OpenAndAudit_OfAForeignDatabaseWithItsRollbackJournal_ChangeNothing) {
  const TempDir dir;
  const std::string path = dir.File("other.db");
  PlainSql(path).Run("CREATE TABLE orders(id)");
  const std::string older = ContentsOf(path);
  PlainSql(path).Run("INSERT INTO orders VALUES(1)");
  Fill(path + "-journal", JournalWith(older));
  const auto before = FilesIn(dir);
  EXPECT_EQ(Open(path).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SqliteLedger::Audit(path).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FilesIn(dir), before);
}

// A journal without a first byte is one that SQLite does not play back.
TEST(SqliteLedgerCorruptionTest, Open_WithARollbackJournalThatHasEnded_HasAll) {
  for (const std::string& journal : {std::string(), std::string(512, '\0')}) {
    const TempDir dir;
    Closed().CopyTo(dir.File("orders.db"));
    Fill(dir.File("orders.db-journal"), journal);
    EXPECT_EQ(SqliteLedger::Audit(dir.File("orders.db")), absl::OkStatus());
    ExpectWhole(dir.File("orders.db"), Closed());
  }
}

// What the death of a process that was making a ledger leaves in the lock file.
void MarkAsBeingMade(const std::string& path) {
  absl::StatusOr<inventory_internal::FileLock> lock =
      inventory_internal::FileLock::Acquire(path + ".lock", absl::ZeroDuration(), Clock::System());
  ASSERT_TRUE(lock.ok()) << lock.status();
  absl::StatusOr<inventory_internal::HighWaterMark> mark = inventory_internal::HighWaterMark::Read(lock->descriptor());
  ASSERT_TRUE(mark.ok()) << mark.status();
  ASSERT_EQ(mark->WriteMaking(), absl::OkStatus());
}

// The first page of a new ledger, before it has tables.
std::string EmptyDatabase() {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  PlainSql sql(path);
  int reserved = 8;
  EXPECT_EQ(sqlite3_file_control(sql.connection(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved), SQLITE_OK);
  sql.Run("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL");
  std::string page = ContentsOf(path);
  EXPECT_EQ(page.size(), kPage);
  inventory_internal::WritePageChecksum(
      reinterpret_cast<unsigned char*>(page.data()),
      inventory_internal::PageChecksum(reinterpret_cast<const unsigned char*>(page.data()), 1));
  return page;
}

TEST(SqliteLedgerCorruptionTest, OpenAndAudit_OfALedgerThatWasNeverMade_MakeItAndFindNone) {
  const std::string page = EmptyDatabase();
  const std::string torn = page.substr(0, 512) + std::string(kPage - 512, '\0');
  const std::string torn_otherwise = std::string(512, '\0') + page.substr(512);
  for (const std::string& found : {std::string(), std::string(kPage, '\0'), page, torn, torn_otherwise}) {
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    Fill(path, found);
    // SQLite syncs a journal, which says that there was no page, before it writes the page.
    if (!found.empty() && found != page) Fill(path + "-journal", JournalWith(""));
    MarkAsBeingMade(path);
    const auto before = FilesIn(dir);
    const absl::Status audited = SqliteLedger::Audit(path);
    EXPECT_EQ(audited.code(), absl::StatusCode::kNotFound) << audited;
    EXPECT_THAT(std::string(audited.message()), HasSubstr("the process that was creating it ended early"));
    EXPECT_EQ(FilesIn(dir), before);
    const auto ledger = Open(path);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
  }
}

TEST(SqliteLedgerCorruptionTest, OpenAndAudit_OfAnotherFileUnderTheMarkOfALedgerBeingMade_AnswerAsWithoutTheMark) {
  const auto database = [](const std::string& sql) {
    const TempDir dir;
    PlainSql(dir.File("other.db")).Run(sql);
    return ContentsOf(dir.File("other.db"));
  };
  const auto changed = [](const std::function<void(std::string & bytes)>& change) {
    std::string bytes = Closed().files().at("");
    change(bytes);
    return bytes;
  };
  const std::string others[] = {
      "milk\neggs\n",
      std::string(kPage, '\0'),
      std::string(kPage, '\0') + "milk",
      database("CREATE TABLE orders(id)"),
      database("PRAGMA user_version = 3"),
      database("PRAGMA application_id = 7"),
      database("CREATE TABLE orders(id); DROP TABLE orders"),
      // Another version, and damage.
      changed([](std::string& bytes) { bytes[63] = 6; }),
      changed([](std::string& bytes) { bytes.replace(0, 512, 512, '\0'); }),
      changed([](std::string& bytes) { bytes.replace(0, kPage, kPage, '\0'); }),
      changed([](std::string& bytes) { bytes[3] = '\1'; }),
      changed([](std::string& bytes) { bytes[2 * kPage + 77] ^= 1; }),
  };
  for (const std::string& other : others) {
    SCOPED_TRACE(&other - others);
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    Fill(path, other);
    const absl::Status without = Open(path).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(without) || absl::IsDataLoss(without)) << without;
    std::filesystem::remove(path + ".lock");
    MarkAsBeingMade(path);
    const auto before = FilesIn(dir);
    EXPECT_EQ(SqliteLedger::Audit(path), without);
    EXPECT_EQ(Open(path).status(), without);
    EXPECT_EQ(FilesIn(dir), before);
  }
}

// sqlite3's shell moves the log into the file, and removes it.
TEST(SqliteLedgerCorruptionTest, Open_AfterAnotherProgramMovedTheLogIntoTheFile_HasAll) {
  for (const bool marked : {true, false}) {
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    marked ? Killed().CopyTo(path) : Killed().CopyWithoutMarkTo(path);
    EXPECT_GT(PlainSql(path).QueryInt("SELECT count(*) FROM journal"), 0);
    EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
    ExpectWhole(path, Killed());
  }
}

TEST(SqliteLedgerCorruptionTest, Open_AfterAnotherProgramChangedARow_IsDataLossThatNamesThePage) {
  const TempDir dir;
  Closed().CopyTo(dir.File("orders.db"));
  PlainSql(dir.File("orders.db")).Run("UPDATE orders SET buyer = 'mallory' WHERE order_id = 1");
  ExpectDataLoss(dir, "orders.db", "its checksum does not match");
}

TEST(SqliteLedgerCorruptionTest, Open_ClosedFileThatIsCutOff_IsDataLoss) {
  const size_t size = Closed().files().at("").size();
  for (size_t left = 0; left < size; left += 501) {
    SCOPED_TRACE(absl::StrCat(left, " of ", size));
    const TempDir dir;
    Closed().CopyTo(dir.File("orders.db"));
    std::filesystem::resize_file(dir.File("orders.db"), left);
    const auto before = FilesIn(dir);
    EXPECT_FALSE(Open(dir.File("orders.db")).ok());
    EXPECT_EQ(FilesIn(dir), before);
  }
}

// Damage by chance.
class Vandal {
 public:
  explicit Vandal(uint32_t seed) : random_(seed) {}

  // What it has done to one of the files.
  std::string Damage(const std::string& path, bool has_log) {
    const bool log = has_log && random_() % 2 == 0;
    std::string bytes = ContentsOf(log ? path + "-wal" : path);
    const std::string what = DamageBytes(bytes, log ? kLogHeader : 0, log ? kFrame : kPage);
    Fill(log ? path + "-wal" : path, bytes);
    return (log ? "log: " : "file: ") + what;
  }

 private:
  std::string DamageBytes(std::string& bytes, size_t begin, size_t unit) {
    const size_t units = (bytes.size() - begin) / unit;
    const size_t one = begin + random_() % units * unit;
    const size_t other = begin + random_() % units * unit;
    const size_t at = random_() % bytes.size();
    switch (random_() % 8) {
      case 0: bytes.resize(at); return absl::StrCat("cut at ", at);
      case 1:
        std::swap_ranges(bytes.begin() + static_cast<ptrdiff_t>(one),
                         bytes.begin() + static_cast<ptrdiff_t>(one + unit),
                         bytes.begin() + static_cast<ptrdiff_t>(other));
        return absl::StrCat("swapped ", one, " and ", other);
      case 2: bytes.replace(one, unit, bytes, other, unit); return absl::StrCat("copied ", other, " to ", one);
      case 3: {
        const size_t sector = at / 512 * 512;
        bytes.replace(sector, std::min<size_t>(512, bytes.size() - sector), 512, '\0');
        return absl::StrCat("zeros at ", sector);
      }
      default: {
        const auto bit = random_() % 8;
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
        return absl::StrCat("bit ", bit, " at ", at);
      }
    }
  }

  std::mt19937 random_;  // Its first numbers differ for seeds that are close to each other.
};

TEST(SqliteLedgerCorruptionTest, Open_AfterDamageByChance_LosesNothingAcknowledgedSilently) {
  const int64_t trials = Scaled(200, 2'400);
  struct Tally {
    const char* of;
    int64_t damaged = 0;
    int64_t refused = 0;
    int64_t cut_short = 0;
  };
  Tally closed{.of = "closed"};
  Tally killed{.of = "killed"};
  Tally unmarked{.of = "killed, without a mark"};
  for (int64_t trial = 1; trial <= trials; ++trial) {
    const Written& written = trial % 4 == 0 ? Closed() : Killed();
    // With a mark, as after a kill; or without, which is the worst that a power cut makes of it.
    const bool marked = trial % 4 != 1;
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    marked ? written.CopyTo(path) : written.CopyWithoutMarkTo(path);
    const auto whole = FilesIn(dir);
    const std::string damage = Vandal(static_cast<uint32_t>(trial)).Damage(path, written.files().contains("-wal"));
    const auto before = FilesIn(dir);
    if (before == whole) continue;
    Tally& tally = trial % 4 == 0 ? closed : marked ? killed : unmarked;
    ++tally.damaged;
    SCOPED_TRACE(absl::StrCat("trial ", trial, marked ? ", " : ", without a mark, ", damage));
    const auto ledger = Open(path);
    if (!ledger.ok()) {
      ++tally.refused;
      EXPECT_EQ(FilesIn(dir), before) << "a file was changed";
      continue;
    }
    const LedgerState found = (*ledger)->TakeRecovered();
    if (marked) {
      EXPECT_EQ(Describe(found), written.state());
      continue;
    }
    // What docs/INVENTORY.md says cannot be known: the end of the log.
    const std::optional<size_t> records = written.RecordsThatMake(found);
    ASSERT_TRUE(records.has_value()) << Describe(found);
    if (*records < written.records()) ++tally.cut_short;
    if (!damage.starts_with("log: ")) {
      EXPECT_EQ(*records, written.records());
    }
    if (damage.starts_with("log: cut")) continue;
    // A swap is damage at two places.
    EXPECT_GE(*records + (damage.starts_with("log: swapped") ? 3 : 2), written.records());
  }
  for (const Tally& tally : {closed, killed, unmarked}) {
    std::cout << tally.of << ": " << tally.refused << " of " << tally.damaged << " damaged ledgers refused, "
              << tally.cut_short << " opened without the end of the log\n";
  }
  // Each byte of a closed file counts. Of a killed one, pages that are in the log do not count in the file, nor does an
  // earlier version of a page in the log.
  EXPECT_EQ(closed.refused, closed.damaged);
}

}  // namespace
}  // namespace stockade
