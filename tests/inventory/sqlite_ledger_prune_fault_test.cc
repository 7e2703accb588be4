// A disk that fails while the journal is pruned: what is forgotten is so as a whole, and its units stay sold.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "inventory/fault_vfs.h"
#include "inventory/platter.h"
#include "inventory/sqlite_ledger_script.h"
#include "stockade/base/manual_clock.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::FaultVfs;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::Platter;
using ::stockade::testing::Replayer;
using ::stockade::testing::Scaled;
using ::stockade::testing::Script;
using ::stockade::testing::TempDir;
using ::stockade::testing::Write;
using ::stockade::testing::Written;
using Call = FaultVfs::Call;

constexpr int kRounds = 250;
constexpr size_t kAtOnce = 50;

// What stays when orders are forgotten: the units of each SKU, and what is held.
std::string UnitsAndHeld(const LedgerState& state) {
  std::map<std::string, std::string> lines;
  for (const LedgerState::Sku& sku : state.skus) {
    lines[sku.sku] = absl::StrCat(" granted ", sku.granted, sku.removed ? " removed" : "");
  }
  std::map<std::string, int64_t> taken;
  std::string held;
  for (const LedgerState::Order& order : state.orders) {
    if (order.state == OrderState::kHeld) absl::StrAppend(&held, " ", order.order_id);
    if (order.state != OrderState::kHeld && order.state != OrderState::kSold) continue;
    for (const OrderLine& line : order.lines) taken[line.sku] += line.quantity;
  }
  for (const LedgerState::Sku& sku : state.skus) {
    absl::StrAppend(&lines[sku.sku], " taken ", taken[sku.sku] + sku.sold_forgotten);
  }
  std::string text = absl::StrCat("held:", held, "\n");
  for (const auto& [sku, line] : lines) absl::StrAppend(&text, sku, line, "\n");
  return text;
}

// Whether `found` is what the first records of `script` make, `low` to `high` of them.
bool IsPrefix(const LedgerState& found, std::span<const LedgerRecord> script, size_t low, size_t high) {
  const std::string text = UnitsAndHeld(found);
  Replayer replayer;
  for (size_t size = 0; size <= high; ++size) {
    if (size > 0) replayer.Apply(script[size - 1], absl::UnixEpoch());
    if (size >= low && UnitsAndHeld(replayer.Result().state) == text) return true;
  }
  return false;
}

// Writes what of `script` a ledger does not have, forgetting what ends, until it fails: how many are durable.
size_t WriteAndForget(SqliteLedger& ledger, std::span<const LedgerRecord> script, size_t from, ManualClock& clock) {
  ledger.SetRetention(absl::ZeroDuration());
  while (from < script.size()) {
    const size_t count = std::min(kAtOnce, script.size() - from);
    const Written written = Write(ledger, script.subspan(from, count), kAtOnce);
    from += written.acknowledged;
    clock.Advance(absl::Seconds(1));
    if (absl::IsResourceExhausted(written.failure)) {
      EXPECT_FALSE(ledger.TakeRefused().empty());
    } else if (!written.failure.ok()) {
      EXPECT_EQ(written.failure.code(), absl::StatusCode::kUnavailable);
      break;
    }
  }
  return from;
}

TEST(SqliteLedgerPruneFaultTest, Prune_WhenTheDiskFailsOrThePowerGoes_KeepsUnitsAndWhatIsHeld) {
  const std::vector<LedgerRecord> script = Script(kRounds);
  size_t writes = 0;
  {
    const TempDir dir;
    ManualClock clock;
    FaultVfs disk(dir.path());
    EXPECT_EQ(WriteAndForget(*OpenLedger(dir.File("orders.db"), {.clock = &clock}), script, 0, clock), script.size());
    writes = disk.changes().size();
    const LedgerState state = OpenLedger(dir.File("orders.db"))->TakeRecovered();
    EXPECT_TRUE(IsPrefix(state, script, script.size(), script.size()));
    EXPECT_FALSE(state.forgotten.empty());
    EXPECT_LT(state.orders.size(), size_t{kRounds} * 5 / 2);
  }
  const int64_t runs = Scaled(24, 200);
  int64_t forgot = 0;
  for (int64_t run = 1; run <= runs; ++run) {
    SCOPED_TRACE(run);
    Platter::Random random(static_cast<uint32_t>(run));
    const TempDir dir;
    const std::string path = dir.File("orders.db");
    ManualClock clock;
    FaultVfs disk(dir.path());
    // In the second half of its life, where it prunes.
    const auto moment = static_cast<int64_t>(writes / 2 + random() % (writes / 2));
    switch (run % 3) {
      case 0: disk.CutPowerAt(moment); break;
      case 1: disk.Fail({.call = Call::kWrite, .nth = moment}); break;
      default: disk.Fail({.call = Call::kWrite, .nth = moment, .code = SQLITE_FULL, .system_errno = ENOSPC}); break;
    }
    const size_t durable = WriteAndForget(*OpenLedger(path, {.clock = &clock}), script, 0, clock);
    disk.Heal();
    if (disk.power_is_off()) disk.CyclePower(static_cast<uint32_t>(random()));
    const auto ledger = OpenLedger(path, {.clock = &clock});
    ASSERT_NE(ledger, nullptr);
    const LedgerState state = ledger->TakeRecovered();
    EXPECT_TRUE(IsPrefix(state, script, durable, std::min(durable + kAtOnce, script.size())));
    forgot += state.forgotten.empty() ? 0 : 1;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(forgot, 0);
}

}  // namespace
}  // namespace stockade
