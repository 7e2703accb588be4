#ifndef STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_SCRIPT_H_
#define STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_SCRIPT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "inventory/ledger_state_text.h"
#include "inventory/recording_ledger.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/base/manual_clock.h"

namespace stockade::testing {

// Records of every kind, which can be one after another.
inline std::vector<LedgerRecord> Script(int rounds) {
  using Kind = LedgerRecord::Kind;
  std::vector<LedgerRecord> script = {AddSku("shoe", 10)};
  uint64_t id = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string sku = absl::StrCat("sku-", round);
    const uint64_t sold = ++id;
    const uint64_t cancelled = ++id;
    const uint64_t basket = ++id;
    const uint64_t expired = ++id;
    const uint64_t taken = ++id;
    const uint64_t restocked = ++id;
    script.insert(script.end(), {AddSku(sku, 5), Reserve(sold, sku, 2), ReserveBasket(basket, {{"shoe", 1}, {sku, 2}}),
                                 Reserve(cancelled, "shoe", 3), Settle(Kind::kCommit, sold),
                                 RestockOnce(restocked, "shoe", 4), Settle(Kind::kCancel, cancelled),
                                 Reserve(expired, sku, 1), Take(taken, "shoe", 3), Settle(Kind::kExpire, expired),
                                 RemoveSku(sku, 1), Settle(round % 2 == 0 ? Kind::kCommit : Kind::kCancel, basket)});
  }
  return script;
}

// What a ledger said of some records: `acknowledged` of them are durable, the first ones; of the others it said
// `failure`, and says so of all later.
struct Written {
  size_t acknowledged = 0;
  absl::Status failure = {};
};

// Appends `records`, so many at once, and waits for them.
inline Written Write(SqliteLedger& ledger, std::span<const LedgerRecord> records, size_t at_once) {
  Written written;
  while (!records.empty()) {
    const size_t count = std::min(at_once, records.size());
    std::vector<uint64_t> positions;
    positions.reserve(count);
    for (const LedgerRecord& record : records.first(count)) positions.push_back(ledger.Append(record));
    for (const uint64_t position : positions) {
      const absl::Status status = ledger.AwaitDurable(position);
      if (!written.failure.ok()) {
        EXPECT_EQ(status, written.failure) << position;
      } else if (status.ok()) {
        ++written.acknowledged;
      } else {
        written.failure = status;
        EXPECT_EQ(ledger.Health(), status);
      }
    }
    records = records.subspan(count);
  }
  return written;
}

// The state after the first records of a script, all written at one moment.
class ScriptState {
 public:
  ScriptState(std::span<const LedgerRecord> script, absl::Time at) : script_(script), at_(at) {}

  size_t size() const { return size_; }
  std::string Text() const { return Describe(replayer_.Result().state); }
  // To a `size` that is not below size().
  void GoTo(size_t size) {
    for (; size_ < size; ++size_) replayer_.Apply(script_[size_], at_);
    EXPECT_TRUE(replayer_.Result().never_oversold);
  }

 private:
  const std::span<const LedgerRecord> script_;
  const absl::Time at_;
  Replayer replayer_;
  size_t size_ = 0;
};

// How many of the first records of `script` make `found`: from `low` to `high`; else none. No two make the same.
inline std::optional<size_t> PrefixThatMakes(const LedgerState& found, std::span<const LedgerRecord> script, size_t low,
                                             size_t high, absl::Time at) {
  const std::string text = Describe(found);
  ScriptState state(script, at);
  for (size_t size = low; size <= high; ++size) {
    state.GoTo(size);
    if (state.Text() == text) return size;
  }
  return std::nullopt;
}

// Opens `path` again, and expects a prefix of `script` that has at least `acknowledged` records, and no more than
// `appended`; and that the ledger takes the rest of the script, of which there must be some, and keeps it.
inline void ExpectPrefixAndGoOn(const std::string& path, std::span<const LedgerRecord> script, size_t acknowledged,
                                size_t appended, ManualClock& clock) {
  std::unique_ptr<SqliteLedger> ledger = OpenLedger(path, {.clock = &clock});
  if (ledger == nullptr) return;
  const LedgerState found = ledger->TakeRecovered();
  const std::optional<size_t> size = PrefixThatMakes(found, script, acknowledged, appended, clock.WallNow());
  ASSERT_TRUE(size.has_value()) << "no prefix of " << acknowledged << " to " << appended << " records:\n"
                                << Describe(found);
  ASSERT_EQ(ledger->Append(script[*size]), *size + 1);
  EXPECT_EQ(Write(*ledger, script.subspan(*size + 1), 7).failure, absl::OkStatus());
  ledger.reset();
  ScriptState whole(script, clock.WallNow());
  whole.GoTo(script.size());
  EXPECT_EQ(Describe(Reopened(path)), whole.Text());
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_SCRIPT_H_
