// Reservations that last longer: Inventory::Extend() in one process.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "inventory/scarce_ledger.h"
#include "inventory/sqlite_ledger_support.h"
#include "stockade/base/executor.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"

namespace stockade {
namespace {

using ::testing::HasSubstr;
using testing::OpenLedger;
using testing::PlainSql;
using testing::RecordingDisk;
using testing::RecordingLedger;
using testing::ScarceDisk;
using testing::ScarceLedger;
using testing::TempDir;

class InventoryExtendTest : public ::testing::Test {
 protected:
  InventoryExtendTest() {
    Open(std::make_unique<RecordingLedger>(disk_));
    EXPECT_TRUE(shop_->AddSku("sneaker", {.stock = 5, .shards = 2, .per_buyer_limit = 4}).ok());
  }

  // One stripe: all orders share what is due next.
  void Open(std::unique_ptr<Ledger> ledger) {
    shop_.reset();
    shop_ =
        Inventory::Create({.ledger = std::move(ledger), .clock = &clock_, .metrics = nullptr, .stripes = 1}).value();
  }
  Reservation Reserve(const std::string& id, absl::Duration ttl = absl::Minutes(10)) {
    return shop_->Reserve({.sku = "sneaker", .quantity = 2, .request_id = id, .buyer = "ann", .ttl = ttl}).value();
  }
  absl::StatusOr<absl::Time> Extend(OrderId order, absl::Duration ttl) {
    return shop_->Extend({.order = order, .ttl = ttl});
  }
  OrderState StateOf(OrderId order) { return shop_->StateOf(order).value(); }
  void AwaitAvailable(int64_t units) {
    while (shop_->Available("sneaker").value() != units) std::this_thread::yield();
  }
  size_t Records(LedgerRecord::Kind kind) {
    const std::vector<LedgerRecord> journal = disk_->Journal();
    return static_cast<size_t>(std::ranges::count(journal, kind, &LedgerRecord::kind));
  }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryExtendTest, Extension_KeepsTheUnitsUntilItsEndAndNoLonger) {
  const Reservation held = Reserve("a");
  const Reservation other = Reserve("b");
  clock_.Advance(absl::Minutes(9));
  const absl::Time end = clock_.WallNow() + absl::Minutes(20);
  EXPECT_EQ(Extend(held.id(), absl::Minutes(20)).value(), end);
  clock_.Advance(absl::Minutes(1));
  AwaitAvailable(3);  // The other one's, which was due at the same moment.
  EXPECT_EQ(StateOf(other.id()), OrderState::kExpired);
  clock_.Advance(absl::Minutes(19) - absl::Nanoseconds(1));
  EXPECT_EQ(StateOf(held.id()), OrderState::kHeld);
  EXPECT_EQ(shop_->Available("sneaker").value(), 3);
  // A repeat of the request gets the first answer, and needs the first ttl.
  const Reservation again = Reserve("a");
  EXPECT_EQ(again.expires_at(), held.expires_at());
  EXPECT_EQ(again.state(), OrderState::kHeld);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(StateOf(held.id()), OrderState::kExpired);
  EXPECT_EQ(RefusalOf(shop_->Commit(held.id())), Refusal::kExpired);
  AwaitAvailable(5);
}

TEST_F(InventoryExtendTest, Extension_IsSoldInItsTime) {
  const Reservation held = Reserve("a");
  EXPECT_TRUE(Extend(held.id(), absl::Minutes(30)).ok());
  clock_.Advance(absl::Minutes(29));
  EXPECT_TRUE(shop_->Commit(held.id()).ok());
  clock_.Advance(absl::Hours(2));
  EXPECT_EQ(StateOf(held.id()), OrderState::kSold);
  EXPECT_EQ(shop_->Figures("sneaker")->sold, 2);
  EXPECT_EQ(RefusalOf(shop_->Take({"sneaker", 3, "c", "ann"}).status()), Refusal::kBuyerLimit);
}

TEST_F(InventoryExtendTest, Answer_IsNeverEarlierAndNeverBeyondTheLongestHold) {
  const Reservation held = Reserve("a");
  const absl::Time granted = clock_.WallNow();
  EXPECT_EQ(Extend(held.id(), absl::Minutes(10)).value(), held.expires_at());
  EXPECT_EQ(Extend(held.id(), absl::Minutes(1)).value(), held.expires_at()) << "shorter";
  EXPECT_EQ(Records(LedgerRecord::Kind::kExtend), 0u) << "nothing has changed";
  EXPECT_EQ(Extend(held.id(), absl::Microseconds(600'000'001)).value(), held.expires_at() + absl::Microseconds(1));
  EXPECT_EQ(Extend(held.id(), absl::Minutes(59)).value(), granted + absl::Minutes(59));
  EXPECT_EQ(Extend(held.id(), absl::Minutes(61)).value(), granted + absl::Hours(1)) << "max_hold";
  EXPECT_EQ(Extend(held.id(), absl::InfiniteDuration()).value(), granted + absl::Hours(1));
  EXPECT_EQ(Records(LedgerRecord::Kind::kExtend), 3u);
  // A longer time of its own stays, and so does an endless one.
  const Reservation longer = Reserve("b", absl::Hours(3));
  EXPECT_EQ(Extend(longer.id(), absl::Hours(4)).value(), longer.expires_at());
  ASSERT_TRUE(shop_->AddSku("boot", {.stock = 1}).ok());
  const auto forever = shop_->Reserve({.sku = "boot", .request_id = "c", .ttl = absl::InfiniteDuration()});
  EXPECT_EQ(Extend(forever->id(), absl::Minutes(1)).value(), absl::InfiniteFuture());
}

TEST_F(InventoryExtendTest, Refusals_NameTheStateAndTheValue) {
  const Reservation sold = Reserve("a");
  ASSERT_TRUE(shop_->Commit(sold.id()).ok());
  const Reservation cancelled = Reserve("b");
  ASSERT_TRUE(shop_->Cancel(cancelled.id()).ok());
  const Reservation expired = Reserve("c", absl::Minutes(1));
  clock_.Advance(absl::Minutes(1));
  for (const auto& [id, refusal, text] : {std::tuple(sold.id(), Refusal::kCommitted, "it is sold"),
                                          {cancelled.id(), Refusal::kCancelled, "it was cancelled"},
                                          {expired.id(), Refusal::kExpired, "it has expired"}}) {
    const absl::Status refused = Extend(id, absl::Minutes(5)).status();
    EXPECT_EQ(RefusalOf(refused), refusal);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("order ", id, " cannot be extended: ", text)));
  }
  EXPECT_EQ(Extend(1'000'000, absl::Minutes(5)).status().code(), absl::StatusCode::kNotFound);
  for (const absl::Duration ttl : {absl::ZeroDuration(), absl::Nanoseconds(999), -absl::Seconds(1)}) {
    const absl::Status refused = Extend(sold.id(), ttl).status();
    EXPECT_EQ(RefusalOf(refused), Refusal::kInvalid) << ttl;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("has a ttl below a microsecond"));
  }
  for (const absl::Duration hold : {absl::Hours(24 * 36'500) + absl::Nanoseconds(1), -absl::Nanoseconds(1)}) {
    EXPECT_THAT(std::string(InventoryOptions{.max_hold = hold}.Validate().message()), HasSubstr("max_hold is "));
  }
  EXPECT_TRUE((InventoryOptions{.max_hold = absl::ZeroDuration()}).Validate().ok());
}

TEST_F(InventoryExtendTest, Forms_AnswerAlike) {
  const Reservation a = Reserve("a");
  const Reservation b = Reserve("b");
  const absl::Time end = clock_.WallNow() + absl::Minutes(30);
  const std::vector<ExtendRequest> requests = {{a.id(), absl::Minutes(30)},
                                               {77'777, absl::Minutes(1)},
                                               {b.id(), absl::Minutes(30)},
                                               {a.id(), absl::Minutes(20)}};
  const auto many = shop_->ExtendMany(requests);
  ASSERT_EQ(many.size(), 4u);
  EXPECT_EQ(many[0].value(), end);
  EXPECT_EQ(many[1].status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(many[2].value(), end);
  EXPECT_EQ(many[3].value(), end);
  InlineExecutor executor;
  absl::StatusOr<absl::Time> later;
  shop_->ExtendAsync({.order = a.id(), .ttl = absl::Minutes(40)}, executor,
                     [&](absl::StatusOr<absl::Time> answer) { later = std::move(answer); });
  AwaitAvailable(1);
  EXPECT_TRUE(shop_->Restock("sneaker", 1).ok());  // Durable after the extension, whose answer is there then.
  shop_.reset();
  EXPECT_EQ(later.value(), end + absl::Minutes(10));
}

// Many extensions leave places behind at which nothing is due any more.
TEST_F(InventoryExtendTest, ManyExtensions_EachOrderExpiresAtItsOwnEnd) {
  ASSERT_TRUE(shop_->AddSku("boot", {.stock = 500}).ok());
  std::vector<OrderId> orders;
  for (int i = 0; i < 500; ++i) {
    orders.push_back(
        shop_->Reserve({.sku = "boot", .request_id = absl::StrCat(i), .ttl = absl::Seconds(60 + i)})->id());
  }
  for (int round = 1; round <= 20; ++round) {
    for (size_t i = 0; i < orders.size(); i += 2) {
      ASSERT_TRUE(Extend(orders[i], absl::Seconds(600 + 10 * round + static_cast<int>(i))).ok());
    }
  }
  clock_.Advance(absl::Seconds(60 + 499));
  while (shop_->Available("boot").value() != 250) std::this_thread::yield();
  for (size_t i = 0; i < orders.size(); ++i) {
    EXPECT_EQ(StateOf(orders[i]), i % 2 == 0 ? OrderState::kHeld : OrderState::kExpired) << i;
  }
  clock_.Advance(absl::Seconds(800 - 60 - 499));
  while (shop_->Available("boot").value() != 251) std::this_thread::yield();
  EXPECT_EQ(StateOf(orders[0]), OrderState::kExpired);
  EXPECT_EQ(StateOf(orders[2]), OrderState::kHeld);
}

// One of both takes effect, and the units are counted once.
TEST_F(InventoryExtendTest, ExtensionsRaceWithEnds_UnitsAreCountedOnce) {
  ASSERT_TRUE(shop_->AddSku("boot", {.stock = 100}).ok());
  for (int round = 0; round < 50; ++round) {
    const auto held = shop_->Reserve({.sku = "boot", .request_id = absl::StrCat(round), .ttl = absl::Milliseconds(1)});
    ASSERT_TRUE(held.ok()) << held.status();
    testing::RunThreads(4, [&](int thread) {
      if (thread == 0) clock_.Advance(absl::Milliseconds(1));
      if (thread == 1) (void)Extend(held->id(), absl::Milliseconds(5));
      if (thread == 2) (void)shop_->Commit(held->id());
      if (thread == 3) (void)shop_->Cancel(held->id());
    });
    clock_.Advance(absl::Milliseconds(10));
    const StockFigures at = shop_->Figures("boot").value();
    EXPECT_EQ(at.available + at.held + at.sold, 100);
  }
  clock_.Advance(absl::Hours(1));
  while (shop_->Figures("boot")->held != 0) std::this_thread::yield();
}

TEST_F(InventoryExtendTest, Recovery_KeepsTheNewEnd) {
  const Reservation held = Reserve("a");
  const absl::Time end = Extend(held.id(), absl::Minutes(30)).value();
  Open(std::make_unique<RecordingLedger>(disk_));
  clock_.Advance(absl::Minutes(30) - absl::Nanoseconds(1));
  EXPECT_EQ(StateOf(held.id()), OrderState::kHeld);
  EXPECT_EQ(Extend(held.id(), absl::Minutes(1)).value(), end + absl::Minutes(1)) << "in whole microseconds";
  EXPECT_EQ(Reserve("a").expires_at(), held.expires_at());
  clock_.Advance(absl::Minutes(1) + absl::Nanoseconds(1));
  EXPECT_EQ(StateOf(held.id()), OrderState::kExpired);
}

// As if nobody had called: the record before it may be refused with it.
TEST(InventoryExtendScarceTest, RefusedExtension_EndsWhenItDidBefore) {
  ManualClock clock;
  const auto disk = std::make_shared<ScarceDisk>();
  const auto shop =
      Inventory::Create({.ledger = std::make_unique<ScarceLedger>(disk, 1), .clock = &clock, .metrics = nullptr})
          .value();
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 10}).ok());
  const auto held = shop->Reserve({.sku = "shoe", .quantity = 2, .request_id = "a", .ttl = absl::Minutes(10)});
  const auto kept = shop->Reserve({.sku = "shoe", .quantity = 1, .request_id = "b", .ttl = absl::Minutes(10)});
  ASSERT_TRUE(shop->Extend({.order = kept->id(), .ttl = absl::Minutes(20)}).ok());
  disk->full = true;
  for (const OrderId order : {held->id(), kept->id(), kept->id()}) {
    const absl::Status refused = shop->Extend({.order = order, .ttl = absl::Minutes(40)}).status();
    EXPECT_EQ(RefusalOf(refused), Refusal::kUnavailable);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("nothing has changed"));
  }
  disk->full = false;
  clock.Advance(absl::Minutes(10));
  while (shop->Available("shoe").value() != 9) std::this_thread::yield();
  EXPECT_EQ(shop->StateOf(kept->id()).value(), OrderState::kHeld);
  clock.Advance(absl::Minutes(10));
  while (shop->Available("shoe").value() != 10) std::this_thread::yield();
}

class InventoryExtendFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<Inventory> Open() {
    return Inventory::Create({.ledger = OpenLedger(path(), {.clock = &clock_}), .clock = &clock_, .metrics = nullptr})
        .value();
  }
  std::string path() const { return dir_.File("orders.db"); }

  const TempDir dir_;
  ManualClock clock_;
};

TEST_F(InventoryExtendFileTest, Extension_IsInTheFileAndAfterRecovery) {
  OrderId one = 0;
  OrderId basket = 0;
  {
    const auto shop = Open();
    ASSERT_TRUE(shop->AddSku("shoe", {.stock = 10}).ok());
    ASSERT_TRUE(shop->AddSku("lace", {.stock = 10}).ok());
    one = shop->Reserve({.sku = "shoe", .request_id = "a"})->id();
    basket = shop->ReserveBasket({.lines = {{"shoe", 1}, {"lace", 2}}, .request_id = "b"})->id();
    EXPECT_TRUE(shop->Extend({.order = one, .ttl = absl::Minutes(15)}).ok());
    EXPECT_TRUE(shop->Extend({.order = one, .ttl = absl::Minutes(20)}).ok());
    EXPECT_TRUE(shop->Extend({.order = basket, .ttl = absl::Minutes(30)}).ok());
    EXPECT_TRUE(shop->RemoveSku("lace").ok());
    EXPECT_TRUE(shop->Extend({.order = basket, .ttl = absl::Minutes(40)}).ok());
  }
  EXPECT_EQ(SqliteLedger::Audit(path()), absl::OkStatus());
  EXPECT_EQ(PlainSql(path()).Query("SELECT extended_us / 60000000 FROM orders ORDER BY position"),
            (std::vector<PlainSql::Row>{{"10"}, {"30"}}));
  {
    const auto shop = Open();
    clock_.Advance(absl::Minutes(20) - absl::Microseconds(1));
    EXPECT_EQ(shop->StateOf(one).value(), OrderState::kHeld);
    clock_.Advance(absl::Microseconds(1));
    EXPECT_EQ(shop->StateOf(one).value(), OrderState::kExpired);
    EXPECT_TRUE(shop->Commit(basket).ok());
  }
  EXPECT_EQ(SqliteLedger::Audit(path()), absl::OkStatus());
}

}  // namespace
}  // namespace stockade
