// The ledger in a file against the one in memory: whatever is written to both, both tell the same.

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "inventory/ledger_state_text.h"
#include "inventory/recording_ledger.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/base/manual_clock.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::AvailableIn;
using ::stockade::testing::Describe;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::RemoveSku;
using ::stockade::testing::Replay;
using ::stockade::testing::Reserve;
using ::stockade::testing::ReserveBasket;
using ::stockade::testing::Restock;
using ::stockade::testing::RestockOnce;
using ::stockade::testing::Scaled;
using ::stockade::testing::Settle;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using Kind = LedgerRecord::Kind;

// Makes up records that can be, one after another.
class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  LedgerRecord Next(const LedgerState& state) {
    std::vector<std::string> live;
    std::vector<std::string> stocked;
    std::vector<uint64_t> held;
    for (const LedgerState::Sku& sku : state.skus) {
      if (!sku.removed) live.push_back(sku.sku);
      if (AvailableIn(state, sku.sku) > 0) stocked.push_back(sku.sku);
    }
    for (const LedgerState::Order& order : state.orders) {
      if (order.state == OrderState::kHeld) held.push_back(order.order_id);
    }
    const uint32_t what = random_() % 16;
    if (live.size() < 2 || what == 0) return AddSku(absl::StrCat("sku-", state.skus.size()), Up(20) - 1);
    const std::string& sku = live[random_() % live.size()];
    if (what == 1) return RemoveSku(sku, AvailableIn(state, sku));
    if (what == 2) {
      last_id_ += 1;
      return RestockOnce(last_id_, sku, Up(9));
    }
    if (what == 3 || stocked.empty()) return Restock(sku, Up(9));
    constexpr Kind kEnds[] = {Kind::kCommit, Kind::kCancel, Kind::kExpire};
    if (what < 9 && !held.empty()) return Settle(kEnds[random_() % 3], held[random_() % held.size()]);
    std::shuffle(stocked.begin(), stocked.end(), random_);
    last_id_ += random_() % 4 == 0 ? 3 : 1;
    const uint64_t id = last_id_;
    const auto some = [&](const std::string& of) { return Up(std::min<int64_t>(3, AvailableIn(state, of))); };
    if (what == 9) return Take(id, stocked[0], some(stocked[0]));
    if (what < 12) return Reserve(id, stocked[0], some(stocked[0]));
    OrderLines lines;
    for (const std::string& of : stocked) {
      if (lines.size() < 3) lines.push_back({of, some(of)});
    }
    return ReserveBasket(id, std::move(lines));
  }

  bool OneIn(uint32_t n) { return random_() % n == 0; }

 private:
  int64_t Up(int64_t to) { return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(to)); }

  std::minstd_rand random_;
  uint64_t last_id_ = 0;
};

TEST(SqliteLedgerModelTest, Reopen_AfterRandomRecords_TellsWhatTheModelTells) {
  const int64_t rounds = Scaled(5, 100);
  for (uint32_t seed = 1; seed <= rounds; ++seed) {
    SCOPED_TRACE(seed);
    const TempDir dir;
    ManualClock clock;
    Generator generator(seed);
    std::vector<LedgerRecord> journal;
    std::vector<absl::Time> written_at;
    auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
    for (int step = 0; step < 200; ++step) {
      journal.push_back(generator.Next(Replay(journal, written_at).state));
      written_at.push_back(clock.WallNow());
      const uint64_t position = ledger->Append(journal.back());
      ASSERT_EQ(position, journal.size());
      if (generator.OneIn(8)) {
        ASSERT_TRUE(ledger->AwaitDurable(position).ok()) << ledger->Health();
        clock.Advance(absl::Seconds(1));
      }
      if (!generator.OneIn(40)) continue;
      ledger.reset();
      ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
      ASSERT_NE(ledger, nullptr);
      const testing::Replayed model = Replay(journal, written_at);
      EXPECT_TRUE(model.never_oversold);
      ASSERT_EQ(Describe(ledger->TakeRecovered()), Describe(model.state));
    }
  }
}

TEST(SqliteLedgerModelTest, Model_OfRecordsThatCannotBe_SaysSo) {
  const std::vector<LedgerRecord> right = {
      AddSku("shoe", 5),     AddSku("hat", 2),         ReserveBasket(1, {{"shoe", 2}, {"hat", 1}}),
      Reserve(2, "shoe", 1), Settle(Kind::kCancel, 2), RemoveSku("hat", 1)};
  EXPECT_TRUE(Replay(right).never_oversold);
  const LedgerRecord wrong[] = {
      Take(3, "shoe", 4),
      Take(3, "hat", 1),
      Take(1, "shoe", 1),
      ReserveBasket(3, {{"shoe", 3}, {"hat", 1}}),
      ReserveBasket(3, {{"shoe", 4}}),
      ReserveBasket(3, {{"shoe", 1}, {"shoe", 1}}),
      ReserveBasket(3, {}),
      Settle(Kind::kExpire, 2),
      AddSku("hat", 1),
      Restock("hat", 1),
      RemoveSku("hat", 0),
      RemoveSku("shoe", 2),
  };
  for (size_t i = 0; i < std::size(wrong); ++i) {
    std::vector<LedgerRecord> journal = right;
    journal.push_back(wrong[i]);
    EXPECT_FALSE(Replay(journal).never_oversold) << i;
    const TempDir dir;
    const auto ledger = OpenLedger(dir.File("orders.db"));
    for (const LedgerRecord& record : journal) ledger->Append(record);
    EXPECT_EQ(ledger->AwaitDurable(journal.size()).code(), absl::StatusCode::kUnavailable) << i;
  }
}

}  // namespace
}  // namespace stockade
