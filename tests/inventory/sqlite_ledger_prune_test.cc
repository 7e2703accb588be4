// What a ledger forgets, and what an inventory still knows by it after a restart.

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "request_fingerprint.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::MakePrunedLedger;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::PlainSql;
using ::stockade::testing::RemoveSku;
using ::stockade::testing::Reopened;
using ::stockade::testing::Restock;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;

constexpr absl::Duration kRetention = absl::Minutes(1);
constexpr absl::Duration kPruned = absl::Minutes(2);  // A record may be a minute late.

std::unique_ptr<Inventory> OpenShop(const std::string& path, ManualClock& clock,
                                    absl::Duration kept = absl::ZeroDuration()) {
  auto ledger = SqliteLedger::Open(path, {.retention = kept, .clock = &clock, .metrics = nullptr}).value();
  return Inventory::Create({.ledger = std::move(ledger), .clock = &clock, .metrics = nullptr, .retention = kRetention})
      .value();
}

// Sells `count` units of "filler", so that there is a journal to prune.
void SellFillers(Inventory& shop, const std::string& prefix, int count) {
  std::vector<TakeRequest> requests;
  requests.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) requests.push_back({.sku = "filler", .request_id = absl::StrCat(prefix, i)});
  for (const absl::StatusOr<Order>& order : shop.TakeMany(requests)) ASSERT_TRUE(order.ok()) << order.status();
}

std::string FiguresOf(const Inventory& shop, const std::string& sku) {
  const StockFigures at = shop.Figures(sku).value();
  return absl::StrCat(at.granted, " = ", at.available, " + ", at.held, " + ", at.sold);
}

TEST(SqliteLedgerPruneTest, Restart_AfterPruning_KnowsAllThatMatters) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  ManualClock clock;
  OrderId last = 0;
  {
    const auto shop = OpenShop(path, clock);
    ASSERT_TRUE(shop->AddSku("filler", {.stock = 1'000'000}).ok());
    ASSERT_TRUE(shop->AddSku("shoe", {.stock = 20, .per_buyer_limit = 5}).ok());
    ASSERT_TRUE(shop->AddSku("gone", {.stock = 10}).ok());
    ASSERT_TRUE(shop->Take({.sku = "shoe", .quantity = 2, .request_id = "taken", .buyer = "ann"}).ok());
    ASSERT_TRUE(shop->Restock({.sku = "shoe", .quantity = 4, .request_id = "restocked"}).ok());
    const auto basket = shop->ReserveBasket(
        {.lines = {{"shoe", 1}, {"gone", 2}}, .request_id = "basket", .buyer = "ann", .ttl = absl::InfiniteDuration()});
    ASSERT_TRUE(shop->Commit(basket->id()).ok());
    const auto late = shop->Reserve({.sku = "gone", .quantity = 3, .request_id = "late", .ttl = absl::Hours(1)});
    ASSERT_TRUE(shop->RemoveSku("gone").ok());
    ASSERT_TRUE(shop->Cancel(late->id()).ok());
    ASSERT_TRUE(shop->Reserve({.sku = "shoe", .request_id = "held", .buyer = "ann", .ttl = absl::Hours(1)}).ok());
    SellFillers(*shop, "first-", 1'100);
    clock.Advance(kPruned);
    clock.Advance(absl::Seconds(1));
    SellFillers(*shop, "second-", 1'100);
    last = shop->Take({.sku = "filler", .request_id = "last"})->id();
    ASSERT_TRUE(shop->Restock({.sku = "shoe", .quantity = 1, .request_id = "restocked of late"}).ok());
  }
  {
    PlainSql sql(path);
    EXPECT_EQ(sql.QueryInt("SELECT journal_start FROM ledger"), 1'024);
    EXPECT_EQ(sql.QueryInt("SELECT min(position) FROM journal"), 1'025);
    EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM orders WHERE request_id IN ('taken', 'basket', 'late')"), 0);
    EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM order_lines"), 0);
    EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM restocks"), 1);
    EXPECT_EQ(sql.QueryInt("SELECT units FROM bought WHERE sku = 'shoe' AND buyer = 'ann'"), 3);
    EXPECT_EQ(sql.QueryInt("SELECT sold_forgotten FROM skus WHERE sku = 'gone'"), 2);
  }
  const auto shop = OpenShop(path, clock);
  EXPECT_EQ(FiguresOf(*shop, "shoe"), "25 = 21 + 1 + 3");
  EXPECT_EQ(RefusalOf(shop->Restock({.sku = "shoe", .quantity = 4, .request_id = "restocked"})),
            Refusal::kRequestForgotten);
  EXPECT_TRUE(shop->Restock({.sku = "shoe", .quantity = 1, .request_id = "restocked of late"}).ok());
  EXPECT_EQ(FiguresOf(*shop, "shoe"), "25 = 21 + 1 + 3");
  EXPECT_EQ(FiguresOf(*shop, "gone"), "2 = 0 + 0 + 2");
  EXPECT_EQ(FiguresOf(*shop, "filler"), "1000000 = 997799 + 0 + 2201");
  for (const char* request : {"taken", "first-0", "first-1000"}) {
    EXPECT_EQ(RefusalOf(shop->Take({.sku = "filler", .request_id = request}).status()), Refusal::kRequestForgotten)
        << request;
  }
  // 3 bought and 1 held: one more is within the limit.
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "shoe", .quantity = 2, .request_id = "more", .buyer = "ann"}).status()),
            Refusal::kBuyerLimit);
  EXPECT_TRUE(shop->Take({.sku = "shoe", .request_id = "more", .buyer = "ann"}).ok());
  const auto held = shop->Reserve({.sku = "shoe", .request_id = "held", .buyer = "ann", .ttl = absl::Hours(1)});
  EXPECT_TRUE(shop->Commit(held.value().id()).ok());
  EXPECT_GT(shop->Take({.sku = "filler", .request_id = "new"})->id(), last);
}

// Of the file, what is in use. How large it ever was depends on how records fell into batches.
int64_t BytesInUse(const std::string& path) {
  PlainSql sql(path);
  return (sql.QueryInt("PRAGMA page_count") - sql.QueryInt("PRAGMA freelist_count")) * sql.QueryInt("PRAGMA page_size");
}

TEST(SqliteLedgerPruneTest, Journal_WhileSellingGoesOn_IsBounded) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  ManualClock clock;
  auto shop = OpenShop(path, clock);
  ASSERT_TRUE(shop->AddSku("filler", {.stock = 1'000'000}).ok());
  int64_t settled = 0;
  for (int round = 0; round < 12; ++round) {
    SellFillers(*shop, absl::StrCat(round, "-"), 2'000);
    clock.Advance(kPruned / 2);
    shop = nullptr;
    if (round == 5) settled = BytesInUse(path);
    // Those of the retention and of one batch, and what is too little for a step.
    EXPECT_LE(PlainSql(path).QueryInt("SELECT count(*) FROM journal"), 4 * 2'000 + 1'024) << round;
    EXPECT_LE(PlainSql(path).QueryInt("SELECT count(*) FROM orders"), 4 * 2'000 + 1'024) << round;
    shop = OpenShop(path, clock);
  }
  shop = nullptr;
  // But for 8 bytes of each of the 12,000 ids since, and a step of 1,024 rows that either look came before. The records
  // of the orders since would be 3 MB.
  EXPECT_LE(BytesInUse(path), settled + 12'000 * 16 + 1'024 * 256);
  EXPECT_LE(static_cast<int64_t>(std::filesystem::file_size(path)), 2 * settled);
  EXPECT_EQ(FiguresOf(*OpenShop(path, clock), "filler"), "1000000 = 976000 + 0 + 24000");
}

// Restocks laces `count` times, so that there is a journal to prune, then removes the shoes where `remove_shoes` is not
// negative, so many of them; and prunes.
void RestockLaces(const std::string& path, ManualClock& clock, int count, int64_t remove_shoes) {
  const auto ledger = OpenLedger(path, {.clock = &clock});
  ASSERT_NE(ledger, nullptr);
  ledger->SetRetention(absl::ZeroDuration());
  for (int i = 0; i < count; ++i) ledger->Append(Restock("lace", 1));
  if (remove_shoes >= 0) ledger->Append(RemoveSku("shoe", remove_shoes));
  ASSERT_TRUE(ledger->AwaitDurable(ledger->Append(Restock("lace", 1))).ok());
  clock.Advance(absl::Seconds(1));
  ASSERT_TRUE(ledger->AwaitDurable(ledger->Append(Restock("lace", 1))).ok());
}

TEST(SqliteLedgerPruneTest, Restart_WhileTheRemovalOfASkuWithALimitIsPruned_IsOk) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  MakePrunedLedger(path);
  ManualClock clock;
  clock.Advance(absl::Seconds(2));
  // Removed at 2,062, and the journal begins after 2,048: orders end in what is forgotten whose buyers nobody needs.
  RestockLaces(path, clock, 960, 910);
  EXPECT_EQ(PlainSql(path).QueryInt("SELECT journal_start FROM ledger"), 2'048);
  EXPECT_EQ(PlainSql(path).QueryInt("SELECT sold_forgotten FROM skus WHERE sku = 'shoe'"), 1'091);
  EXPECT_EQ(Reopened(path).bought.size(), 1'015u);
  RestockLaces(path, clock, 1'100, -1);
  EXPECT_EQ(PlainSql(path).QueryInt("SELECT journal_start FROM ledger"), 3'072);
  EXPECT_EQ(Reopened(path).bought.size(), 0u);
}

TEST(SqliteLedgerPruneTest, Options_CanKeepMoreThanTheInventoryNeeds) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  ManualClock clock;
  auto shop = OpenShop(path, clock, absl::Hours(1));
  ASSERT_TRUE(shop->AddSku("filler", {.stock = 1'000'000}).ok());
  SellFillers(*shop, "a-", 1'100);
  clock.Advance(absl::Minutes(59));
  SellFillers(*shop, "b-", 1'100);
  shop = nullptr;
  EXPECT_EQ(PlainSql(path).QueryInt("SELECT count(*) FROM journal"), 2'201);
  clock.Advance(absl::Minutes(2));
  shop = OpenShop(path, clock, absl::Hours(1));
  SellFillers(*shop, "c-", 1);
  shop = nullptr;
  EXPECT_EQ(PlainSql(path).QueryInt("SELECT count(*) FROM journal"), 2'202 - 1'024);
}

TEST(SqliteLedgerPruneTest, Ledger_ThatNoInventoryUses_KeepsEverything) {
  const TempDir dir;
  ManualClock clock;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
    ledger->Append(AddSku("shoe", 10'000));
    for (uint64_t id = 1; id <= 2'000; ++id) {
      const uint64_t position = ledger->Append(Take(id, "shoe", 1));
      if (id % 500 != 0) continue;
      EXPECT_TRUE(ledger->AwaitDurable(position).ok());
      clock.Advance(absl::Hours(1000));
    }
  }
  EXPECT_EQ(PlainSql(dir.File("orders.db")).QueryInt("SELECT count(*) FROM journal"), 2'001);
}

// The first of the vectors in SipHash's paper, and of its reference implementation.
TEST(RequestFingerprintTest, Fingerprint_OfTheVectors_IsSipHash24) {
  const inventory_internal::RequestFingerprint fingerprint({0x0706050403020100, 0x0f0e0d0c0b0a0908});
  std::string text;
  EXPECT_EQ(fingerprint(text), 0x726fdb47dd0e0e31);
  for (char next = 0; next < 15; ++next) text.push_back(next);
  EXPECT_EQ(fingerprint(text), 0xa129ca6149be45e5);
}

}  // namespace
}  // namespace stockade
