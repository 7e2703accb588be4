// A power cut at any moment, with whatever a disk then leaves of what was not synced.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/fault_vfs.h"
#include "inventory/platter.h"
#include "inventory/sqlite_ledger_script.h"
#include "stockade/base/manual_clock.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::Describe;
using ::stockade::testing::ExpectPrefixAndGoOn;
using ::stockade::testing::FaultVfs;
using ::stockade::testing::Platter;
using ::stockade::testing::PrefixThatMakes;
using ::stockade::testing::Scaled;
using ::stockade::testing::Script;
using ::stockade::testing::TempDir;
using ::stockade::testing::Write;

// A ledger on a disk of its own, which writes a script except its last record, and loses power on the way.
class PowerCut {
 public:
  PowerCut(int rounds, size_t at_once) : script_(Script(rounds)), at_once_(at_once), disk_(dir_.path()) {}

  FaultVfs& disk() { return disk_; }
  std::span<const LedgerRecord> appended() const { return std::span(script_).first(script_.size() - 1); }
  // The number of records that were reported as durable.
  size_t told() const { return told_; }

  // Opens, writes the records that have not been written, and closes, while the power lasts. Once opened, it must be
  // right.
  void Run() {
    const absl::StatusOr<std::unique_ptr<SqliteLedger>> ledger = Open();
    if (!ledger.ok()) {
      EXPECT_TRUE(disk_.power_is_off()) << ledger.status();
      return;
    }
    const LedgerState found = (*ledger)->TakeRecovered();
    const std::optional<size_t> size = PrefixThatMakes(found, script_, told_, appended().size(), clock_.WallNow());
    ASSERT_TRUE(size.has_value()) << "no prefix of at least " << told_ << " records:\n" << Describe(found);
    told_ = *size + Write(**ledger, appended().subspan(*size), at_once_).acknowledged;
  }

  // Whether, once the power is back, it opens with all records that were reported as durable, and maybe more.
  bool HasAllThatWasTold() {
    absl::StatusOr<std::unique_ptr<SqliteLedger>> ledger = Open();
    if (!ledger.ok()) return false;
    return PrefixThatMakes((*ledger)->TakeRecovered(), script_, told_, appended().size(), clock_.WallNow()).has_value();
  }

  // Looks whether everything is right, and whether it goes on.
  void Check() { ExpectPrefixAndGoOn(path_, script_, told_, appended().size(), clock_); }

 private:
  absl::StatusOr<std::unique_ptr<SqliteLedger>> Open() {
    return SqliteLedger::Open(path_, {.max_batch_records = at_once_, .clock = &clock_, .metrics = nullptr});
  }

  const std::vector<LedgerRecord> script_;
  const size_t at_once_;
  const TempDir dir_;
  const std::string path_ = dir_.File("orders.db");
  ManualClock clock_;
  FaultVfs disk_;
  size_t told_ = 0;
};

// The changes from making the file to having closed it.
std::vector<FaultVfs::Change> ChangesOf(int rounds, size_t at_once) {
  PowerCut run(rounds, at_once);
  run.Run();
  EXPECT_EQ(run.told(), run.appended().size());
  return run.disk().changes();
}

// Cuts the power at each change in turn of a whole life: making the file, writing, closing.
void CutEverywhere(int rounds, size_t at_once) {
  const size_t changes = ChangesOf(rounds, at_once).size();
  const int64_t seeds = Scaled(2, 12);
  // Not at each, under a sanitizer.
  for (size_t at = 1; at <= changes; at += testing::kSanitized ? 7 : 1) {
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      SCOPED_TRACE(absl::StrCat("change ", at, " of ", changes, ", seed ", seed));
      PowerCut run(rounds, at_once);
      run.disk().CutPowerAt(static_cast<int64_t>(at));
      run.Run();
      run.disk().CyclePower(static_cast<uint32_t>(static_cast<int64_t>(at) * 1'000 + seed));
      run.Check();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  }
}

TEST(SqliteLedgerPowerTest, Cut_AtEachChange_KeepsEveryAcknowledgedRecord) { CutEverywhere(1, 1); }

TEST(SqliteLedgerPowerTest, Cut_AtEachChangeOfBatches_KeepsEveryAcknowledgedRecord) { CutEverywhere(2, 6); }

// Cut while it recovers from a cut, and while it goes on from there, again and again.
TEST(SqliteLedgerPowerTest, Cut_DuringRecoveryAndAfterIt_TakesNothingBackThatWasTold) {
  const int64_t lives = Scaled(40, 400);
  for (int64_t life = 1; life <= lives; ++life) {
    SCOPED_TRACE(life);
    PowerCut run(4, 2);
    Platter::Random random(static_cast<uint32_t>(life));
    run.disk().CutPowerAt(static_cast<int64_t>(60 + random() % 100));
    for (int cut = 0; cut < 6; ++cut) {
      run.Run();
      run.disk().CyclePower(random());
      // A recovery is some 20 changes.
      run.disk().CutPowerAt(static_cast<int64_t>(1 + random() % 40));
      ASSERT_FALSE(HasFailure());
    }
    run.disk().CyclePower(random());
    run.Check();
    ASSERT_FALSE(HasFailure());
  }
}

// Between batches the log is moved into the file: that, with what leads to it and what follows.
TEST(SqliteLedgerPowerTest, Cut_AtACheckpoint_KeepsEveryAcknowledgedRecord) {
  constexpr int kRounds = 250;
  const std::vector<FaultVfs::Change> changes = ChangesOf(kRounds, 1);
  std::vector<size_t> moments;
  // Before the first is the making of the file, at the end its closing.
  for (size_t at = 200; at + 200 < changes.size(); ++at) {
    if (changes[at].file == "orders.db") moments.push_back(at);
  }
  ASSERT_FALSE(moments.empty()) << changes.size();
  const int64_t cuts = Scaled(10, 60);
  for (int64_t cut = 1; cut <= cuts; ++cut) {
    SCOPED_TRACE(cut);
    Platter::Random random(static_cast<uint32_t>(cut));
    PowerCut run(kRounds, 1);
    run.disk().CutPowerAt(static_cast<int64_t>(moments[random() % moments.size()] + random() % 12));
    run.Run();
    EXPECT_GT(run.told(), 0u);
    run.disk().CyclePower(random());
    run.Check();
    ASSERT_FALSE(HasFailure());
  }
}

// That these tests would see it: a disk that syncs nothing loses what it has acknowledged.
TEST(SqliteLedgerPowerTest, Cut_OfADiskThatLies_LosesAcknowledgedRecords) {
  int lost = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    PowerCut run(2, 3);
    run.disk().SetLyingSync(true);
    run.disk().CutPowerAt(75 + seed);  // After the making of the file.
    run.Run();
    ASSERT_GT(run.told(), 0u);
    run.disk().CyclePower(seed);
    lost += run.HasAllThatWasTold() ? 0 : 1;
  }
  EXPECT_GT(lost, 5);
}

}  // namespace
}  // namespace stockade
