// What is written: the rows of all tables, after a script of every call, are those of the commit that wrote
// fixtures/ledger_4.db. A change of them on purpose raises the version of the schema.
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/ledger_state_text.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/await.h"

namespace stockade {
namespace {

using ::stockade::testing::Await;
using ::stockade::testing::Describe;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::Reopened;
using ::stockade::testing::TempDir;

constexpr absl::Duration kTtl = absl::Minutes(10);
constexpr absl::Duration kKept = absl::Hours(1);

// Every call that writes, one after another, so that one seed makes one journal.
class Script {
 public:
  explicit Script(const std::string& path)
      : inventory_({.name = "rows",
                    .ledger = OpenLedger(path, {.clock = &clock_}),
                    .clock = &clock_,
                    .metrics = nullptr,
                    .stripes = 1,
                    .retention = kKept}) {}

  // Two phases: what the first one wrote is folded, as far as it can be.
  void Run(int calls) {
    Add();
    for (int i = 0; i < calls; ++i) Step(i);
    clock_.Advance(2 * kKept);
    Restock();
    for (int i = 0; i < 100; ++i) Step(i);
  }

 private:
  uint64_t Draw(uint64_t below) {
    seed_ = seed_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    return (seed_ >> 33) % below;
  }
  std::string Sku() { return absl::StrCat("sku-", Draw(skus_)); }
  std::string NewId() { return absl::StrCat("request ", ++requests_); }
  std::string Buyer() { return Draw(3) == 0 ? "\xff\n'" : absl::StrCat("buyer ", Draw(9)); }

  void Add() {
    const int64_t limit = skus_ % 2 == 0 ? 0 : 7;
    const auto stock = static_cast<int64_t>(Draw(40));
    EXPECT_TRUE(
        inventory_.AddSku(absl::StrCat("sku-", skus_++), {.stock = stock, .shards = 1, .per_buyer_limit = limit}).ok());
  }
  // Without a request id, and to every SKU, so that each one has units again.
  void Restock() {
    for (uint64_t i = 0; i < skus_; ++i) (void)inventory_.Restock(absl::StrCat("sku-", i), 9);
  }
  void Reserve(int64_t quantity, absl::Duration ttl) {
    const auto held =
        inventory_.Reserve({.sku = Sku(), .quantity = quantity, .request_id = NewId(), .buyer = Buyer(), .ttl = ttl});
    if (held.ok()) (ttl == kTtl ? held_ : forever_).push_back(held->id());
  }
  void ReserveBasket(int64_t quantity) {
    const auto held = inventory_.ReserveBasket(
        {.lines = {{Sku(), 1}, {Sku(), quantity}}, .request_id = NewId(), .buyer = Buyer(), .ttl = kTtl});
    if (held.ok()) held_.push_back(held->id());
  }
  void End(std::vector<OrderId>& among, bool gives_back) {
    if (among.empty()) return;
    const OrderId id = std::exchange(among[Draw(among.size())], among.back());
    among.pop_back();
    EXPECT_TRUE((gives_back ? inventory_.Cancel(id) : inventory_.Commit(id)).ok());
  }
  // By the reaper, in the order of their deadlines. Meanwhile nobody else writes.
  void Expire() {
    while (!forever_.empty()) End(forever_, Draw(2) == 0);
    clock_.Advance(kTtl);
    Await("the reaper", [&] {
      int64_t held = 0;
      for (uint64_t i = 0; i < skus_; ++i) held += inventory_.Figures(absl::StrCat("sku-", i))->held;
      return held == 0;
    });
    // Refused once the expiry is durable: its row has the time at which it is written, which the next step changes.
    for (const OrderId id : held_) EXPECT_EQ(inventory_.Commit(id).code(), absl::StatusCode::kFailedPrecondition);
    held_.clear();
  }
  // A step takes less than a second: 500 of them less than kTtl.
  void Step(int number) {
    if (number % 500 == 499) return Expire();
    clock_.Advance(absl::Milliseconds(Draw(1'000)) + absl::Nanoseconds(Draw(1'000)));
    const auto quantity = static_cast<int64_t>(1 + Draw(3));
    switch (Draw(16)) {
      case 0: return Draw(8) == 0 ? Add() : Draw(8) == 0 ? (void)inventory_.RemoveSku(Sku()) : Restock();
      case 1: return (void)inventory_.Restock({.sku = Sku(), .quantity = quantity, .request_id = NewId()});
      case 2:
      case 3: return End(held_, true);
      case 4:
      case 5:
      case 6: return End(held_, false);
      case 7: return End(forever_, Draw(2) == 0);
      case 8:
      case 9:
        return (void)inventory_.Take({.sku = Sku(), .quantity = quantity, .request_id = NewId(), .buyer = Buyer()});
      case 10:
      case 11: return ReserveBasket(quantity);
      default: return Reserve(quantity, Draw(4) == 0 ? absl::InfiniteDuration() : kTtl);
    }
  }

  ManualClock clock_;
  uint64_t seed_ = 63;
  uint64_t skus_ = 0;
  int requests_ = 0;
  std::vector<OrderId> held_;
  std::vector<OrderId> forever_;
  Inventory inventory_;
};

// FNV-1a of all rows of each table, without what is random.
std::string Digests(const std::string& path) {
  PlainSql sql(path);
  std::string text;
  for (const std::string select : {
           "journal_start, last_forgotten_id FROM ledger",
           "* FROM skus ORDER BY sku",
           // Those that version 4 has: the script extends nothing.
           "order_id, request_id, sku, quantity, buyer, state, reserved, expires_at_us, ttl_us, created_at_us, "
           "settled_at_us, position FROM orders ORDER BY position",
           "* FROM order_lines ORDER BY order_id, line",
           "* FROM journal ORDER BY position",
           "* FROM journal_lines ORDER BY position, line",
           "* FROM restocks ORDER BY position",
           "* FROM bought ORDER BY sku, buyer",
           "journal_start, length(fingerprints) FROM forgotten ORDER BY journal_start",
       }) {
    const std::vector<PlainSql::Row> rows = sql.Query(absl::StrCat("SELECT ", select));
    uint64_t digest = 14'695'981'039'346'656'037U;
    for (const PlainSql::Row& row : rows) {
      for (const std::string& value : row) {
        for (const char byte : value + '|') digest = (digest ^ static_cast<unsigned char>(byte)) * 1'099'511'628'211U;
      }
    }
    absl::StrAppend(&text, select.substr(select.find("FROM")), ": ", rows.size(), " rows, ", absl::Hex(digest), "\n");
  }
  return text;
}

TEST(SqliteLedgerRowsTest, AScriptOfAllCalls_WritesTheRowsThatItAlwaysDid) {
  const TempDir dir;
  { Script(dir.File("orders.db")).Run(6'000); }
  EXPECT_EQ(Digests(dir.File("orders.db")),
            "FROM ledger: 1 rows, e726dbf9edfe6104\n"
            "FROM skus ORDER BY sku: 58 rows, d0fa87fa8ebdc978\n"
            "FROM orders ORDER BY position: 99 rows, dee58d9fc87c4a88\n"
            "FROM order_lines ORDER BY order_id, line: 17 rows, 6aa59bc199a3ebfd\n"
            "FROM journal ORDER BY position: 1028 rows, dcc975ee36b375a1\n"
            "FROM journal_lines ORDER BY position, line: 34 rows, e38c3a20ded72e60\n"
            "FROM restocks ORDER BY position: 18 rows, aad13ebb4cf0da8d\n"
            "FROM bought ORDER BY sku, buyer: 106 rows, 7864eafe13034f5a\n"
            "FROM forgotten ORDER BY journal_start: 6 rows, 36a92c78e65255b7\n");
}

TEST(SqliteLedgerRowsTest, AFileOfAnEarlierCommit_HasTheRowsOfTheScriptAndOpens) {
  const TempDir dir;
  const std::string path = dir.File("ledger_4.db");
  for (const std::string name : {"ledger_4.db", "ledger_4.db.lock"}) {
    std::filesystem::copy_file(std::filesystem::path(STOCKADE_INVENTORY_FIXTURES) / name, dir.File(name));
  }
  { Script(dir.File("now.db")).Run(1'500); }
  EXPECT_EQ(Digests(path), Digests(dir.File("now.db")));
  EXPECT_EQ(SqliteLedger::Audit(path), absl::OkStatus());
  EXPECT_EQ(PlainSql(path).Query("PRAGMA user_version"), std::vector<PlainSql::Row>{{"4"}})
      << "an audit writes nothing";
  EXPECT_EQ(Describe(Reopened(path)), Describe(Reopened(dir.File("now.db"))));
  EXPECT_EQ(PlainSql(path).Query("PRAGMA user_version"), std::vector<PlainSql::Row>{{"5"}});
  EXPECT_EQ(SqliteLedger::Audit(path), absl::OkStatus());
  EXPECT_EQ(Digests(path), Digests(dir.File("now.db")));
  Inventory shop({.name = "shop", .ledger = OpenLedger(path), .metrics = nullptr});
  EXPECT_TRUE(shop.AddSku("new", {.stock = 1}).ok());
  const auto held = shop.Reserve({.sku = "new", .request_id = "new"});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(shop.Extend({.order = held->id(), .ttl = absl::Hours(2)}).value(), held->expires_at() + absl::Minutes(50));
}

}  // namespace
}  // namespace stockade
