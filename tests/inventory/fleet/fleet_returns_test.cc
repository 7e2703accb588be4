// Units that come back after the sale: Inventory::Return() of a fleet.

#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "inventory/fleet/fleet_faults_test.h"
#include "stockade/base/executor.h"
#include "stockade/base/manual_clock.h"
#include "support/await.h"
#include "support/exported.h"
#include "support/run_threads.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::FleetFaultsTest;
using ::testing::HasSubstr;
using Disposition = ReturnRequest::Disposition;
using Lines = std::vector<ReturnedLine>;

class FleetReturnsTest : public FleetFaultsTest {
 protected:
  static constexpr absl::Duration kLease = absl::Seconds(2);

  std::unique_ptr<Inventory> Leased() {
    FleetInventoryOptions options = Options();
    options.refusal_lease = kLease;
    options.clock = &clock_;
    options.metrics = &registry_;
    return Connect(options);
  }
  static absl::StatusOr<Lines> Return(Inventory& shop, OrderId order, const std::string& id,
                                      std::vector<OrderLine> lines = {},
                                      Disposition disposition = Disposition::kToStock) {
    return shop.Return({.order = order, .lines = std::move(lines), .request_id = id, .disposition = disposition});
  }
  static std::string UnitsOf(Inventory& shop, const std::string& sku) {
    const StockFigures at = shop.Figures(sku).value();
    return Concat(at.granted, " = ", at.available, " + ", at.held, " + ", at.sold);
  }
  // Four sneakers and two laces, to ann.
  static OrderId SellBasket(Inventory& shop, const std::string& id) {
    const auto held = shop.ReserveBasket({.lines = {{"sneaker", 4}, {"lace", 2}}, .request_id = id, .buyer = "ann"});
    EXPECT_TRUE(held.ok() && shop.Commit(held->id()).ok()) << held.status();
    return held->id();
  }

  ManualClock clock_;
  MetricsRegistry registry_;
};

TEST_F(FleetReturnsTest, AnyProcess_TakesBackOnce_AndFreesTheLimit) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 10, .shards = 3, .per_buyer_limit = 4}).ok());
  ASSERT_TRUE(one->AddSku("lace", {.stock = 10}).ok());
  const OrderId order = SellBasket(*one, "basket");
  EXPECT_EQ(RefusalOf(one->Take({"sneaker", 1, "more", "ann"}).status()), Refusal::kBuyerLimit);
  const Lines first = Return(*two, order, "a", {{"sneaker", 3}}).value();
  EXPECT_EQ(first, (Lines{{"sneaker", 3, true}}));
  EXPECT_EQ(UnitsOf(*one, "sneaker"), "10 = 9 + 0 + 1");
  EXPECT_EQ(two->Find(order)->lines, (std::vector<OrderInfoLine>{{"lace", 2, 0}, {"sneaker", 4, 3}}));
  EXPECT_TRUE(one->Take({"sneaker", 3, "more", "ann"}).ok());
  for (Inventory* const shop : {one.get(), two.get()}) {
    EXPECT_EQ(Return(*shop, order, "a", {{"sneaker", 3}}).value(), first);
    for (const absl::Status& status :
         {Return(*shop, order, "a").status(), Return(*shop, order, "a", {{"sneaker", 2}}).status(),
          Return(*shop, order, "a", {{"sneaker", 3}}, Disposition::kWriteOff).status(),
          Return(*shop, order + 1, "a", {{"sneaker", 3}}).status(), Return(*shop, order, "basket").status(),
          shop->Take({"lace", 1, "a", "ann"}).status(), shop->Restock({.sku = "lace", .request_id = "a"})}) {
      EXPECT_EQ(RefusalOf(status), Refusal::kRequestMismatch) << status;
    }
    const absl::Status found = shop->FindByRequest("a").status();
    EXPECT_TRUE(absl::IsNotFound(found));
    EXPECT_THAT(std::string(found.message()), HasSubstr("is that of a return"));
  }
  EXPECT_EQ(Return(*one, order, "rest").value(), (Lines{{"lace", 2, true}, {"sneaker", 1, true}}));
  EXPECT_EQ(Return(*two, order, "rest").value(), (Lines{{"lace", 2, true}, {"sneaker", 1, true}}));
  EXPECT_EQ(RefusalOf(Return(*one, order, "c").status()), Refusal::kTooMany);
  EXPECT_EQ(RefusalOf(two->Commit(order)), Refusal::kReturned);
  EXPECT_EQ(RefusalOf(two->Cancel(order)), Refusal::kReturned);
  EXPECT_EQ(RefusalOf(two->Extend({.order = order}).status()), Refusal::kReturned);
  EXPECT_EQ(UnitsOf(*one, "sneaker"), "10 = 7 + 0 + 3");
  EXPECT_EQ(UnitsOf(*one, "lace"), "10 = 10 + 0 + 0");
}

TEST_F(FleetReturnsTest, WrittenOffUnitsAndThoseOfARemovedSku_AreWithdrawn) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 10, .shards = 3, .per_buyer_limit = 4}).ok());
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 10}).ok());
  const OrderId order = SellBasket(*shop, "basket");
  EXPECT_EQ(Return(*shop, order, "a", {{"sneaker", 2}, {"lace", 1}}, Disposition::kWriteOff).value(),
            (Lines{{"lace", 1, false}, {"sneaker", 2, false}}));
  EXPECT_EQ(UnitsOf(*shop, "sneaker"), "8 = 6 + 0 + 2");
  EXPECT_TRUE(shop->Take({"sneaker", 2, "more", "ann"}).ok());
  ASSERT_TRUE(shop->RemoveSku("sneaker").ok());
  const Lines rest = {{"lace", 1, true}, {"sneaker", 2, false}};
  EXPECT_EQ(Return(*shop, order, "b").value(), rest);
  EXPECT_EQ(UnitsOf(*shop, "sneaker"), "2 = 0 + 0 + 2");
  EXPECT_EQ(UnitsOf(*shop, "lace"), "9 = 9 + 0 + 0");
  EXPECT_EQ(Return(*shop, order, "b").value(), rest);
}

TEST_F(FleetReturnsTest, Refusals_NameWhatIsWrong) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 10}).ok());
  const auto held = shop->Reserve({.sku = "lace", .request_id = "held"});
  const auto brief = shop->Reserve({.sku = "lace", .request_id = "brief", .ttl = absl::Microseconds(1)});
  ASSERT_TRUE(held.ok() && brief.ok());
  EXPECT_EQ(RefusalOf(Return(*shop, held->id(), "r").status()), Refusal::kWrongState);
  EXPECT_EQ(RefusalOf(Return(*shop, brief->id(), "r").status()), Refusal::kExpired);
  EXPECT_EQ(server().Value(Concat("SELECT state FROM ", Table("orders"), " WHERE order_id=", brief->id())), "3");
  ASSERT_TRUE(shop->Commit(held->id()).ok());
  EXPECT_EQ(RefusalOf(Return(*shop, held->id(), "r", {{"lace", 2}}).status()), Refusal::kTooMany);
  EXPECT_EQ(RefusalOf(Return(*shop, held->id(), "r", {{"hat", 1}}).status()), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(Return(*shop, held->id(), "r", {{"lace", 0}}).status()), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(Return(*shop, held->id(), "").status()), Refusal::kInvalid);
  EXPECT_TRUE(absl::IsNotFound(Return(*shop, 77, "r").status()));
  ASSERT_TRUE(shop->Restock({.sku = "lace", .request_id = "more"}).ok());
  EXPECT_EQ(RefusalOf(Return(*shop, held->id(), "more").status()), Refusal::kRequestMismatch);
  EXPECT_TRUE(Return(*shop, held->id(), "r").ok()) << "a refused id may be used";
}

// Baskets of as many lines as there may be.
TEST_F(FleetReturnsTest, LargeOrder_ComesBackAsAWhole) {
  const auto shop = Connect();
  std::vector<OrderLine> lines;
  for (size_t i = 0; i < kMaxBasketLines; ++i) lines.push_back({Concat("sku", 1000 + i), 1});
  for (const OrderLine& line : lines) ASSERT_TRUE(shop->AddSku(line.sku, {.stock = 1}).ok());
  const auto basket = shop->ReserveBasket({.lines = lines, .request_id = "a"});
  ASSERT_TRUE(basket.ok()) << basket.status();
  ASSERT_TRUE(shop->Commit(basket->id()).ok());
  lines.pop_back();
  const auto most = Return(*shop, basket->id(), "b", lines);
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->size(), kMaxBasketLines - 1);
  EXPECT_EQ(Return(*shop, basket->id(), "b", lines).value(), *most);
  EXPECT_EQ(Return(*shop, basket->id(), "c")->size(), 1u);
  EXPECT_EQ(shop->Available("sku1999").value(), 1);
}

// Until then other processes may say that it is sold out. A repeat waits for the same.
TEST_F(FleetReturnsTest, SkuIsSoldOut_ReturnAnswersWhenItsUnitsAreForSale) {
  const auto shop = Leased();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 1}).ok());
  const OrderId order = shop->Take({"sneaker", 1, "a", ""})->id();
  const auto refused = [&] {
    EXPECT_EQ(RefusalOf(shop->Take({"sneaker", 1, "nobody", ""}).status()), Refusal::kSoldOut);
    return testing::Exported(registry_, Concat("stockade_inventory_fleet_leased_skus{inventory=\"", fleet(), "\"}"));
  };
  Await("the latch", [&] { return refused() == 1; });
  InlineExecutor executor;
  std::promise<absl::StatusOr<Lines>> first, again;
  const ReturnRequest request{.order = order, .request_id = "r"};
  const auto column = [&](const std::string& of) {
    return server().Value(Concat("SELECT ", of, " FROM ", Table("skus")));
  };
  shop->ReturnAsync(request, executor, [&](auto answer) { first.set_value(std::move(answer)); });
  Await("its packet", [&] { return column("limbo") == "1"; });
  shop->ReturnAsync(request, executor, [&](auto answer) { again.set_value(std::move(answer)); });
  EXPECT_EQ(UnitsOf(*shop, "sneaker"), "1 = 0 + 1 + 0") << "not for sale, and not sold";
  std::future<absl::StatusOr<Lines>> answers[] = {first.get_future(), again.get_future()};
  clock_.Advance(kLease * 1.1 - absl::Milliseconds(1));
  for (auto& answer : answers) EXPECT_NE(answer.wait_for(std::chrono::milliseconds(20)), std::future_status::ready);
  clock_.Advance(absl::Milliseconds(1));
  for (auto& answer : answers) EXPECT_EQ(answer.get().value(), (Lines{{"sneaker", 1, true}}));
  EXPECT_EQ(column("mode"), "0");
  EXPECT_TRUE(shop->Take({"sneaker", 1, "b", ""}).ok());
}

// What waits for its units is answered by the destructor.
TEST_F(FleetReturnsTest, InventoryEnds_WaitingReturnIsAnswered) {
  auto shop = Leased();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 1}).ok());
  const OrderId order = shop->Take({"sneaker", 1, "a", ""})->id();
  EXPECT_EQ(RefusalOf(shop->Take({"sneaker", 1, "nobody", ""}).status()), Refusal::kSoldOut);
  Await("the latch", [&] { return server().Value("SELECT mode FROM " + Table("skus")) == "1"; });
  InlineExecutor executor;
  std::promise<absl::StatusOr<Lines>> returned;
  shop->ReturnAsync({.order = order, .request_id = "r"}, executor,
                    [&](auto answer) { returned.set_value(std::move(answer)); });
  Await("its packet", [&] { return server().Value("SELECT limbo FROM " + Table("skus")) == "1"; });
  shop.reset();
  EXPECT_TRUE(returned.get_future().get().ok());
}

TEST_F(FleetReturnsTest, OrderIsKeptFromItsLastReturnOn_AndForgottenWithIt) {
  FleetInventoryOptions options = Options();
  options.retention = absl::Seconds(2);
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 10, .per_buyer_limit = 9}).ok());
  const OrderId order = shop->Take({"lace", 5, "a", "ann"})->id();
  const std::string at = Concat("SELECT at FROM ", Table("orders"), " WHERE order_id=", order);
  const std::string sold_at = server().Value(at);
  ASSERT_TRUE(Return(*shop, order, "r1", {{"lace", 1}}).ok());
  EXPECT_GT(std::stoll(server().Value(at)), std::stoll(sold_at));
  EXPECT_TRUE(Return(*shop, order, "r2", {{"lace", 2}}).ok());
  Await("the order to be forgotten",
        [&] { return server().Value(Concat("SELECT COUNT(*) FROM ", Table("orders"))) == "0"; });
  EXPECT_EQ(server().Value("SELECT COUNT(*) FROM " + Table("changes")), "0");
  EXPECT_EQ(server().Value("SELECT sold_forgotten FROM " + Table("skus")), "2");
  EXPECT_EQ(UnitsOf(*shop, "lace"), "10 = 8 + 0 + 2");
  for (const char* const id : {"r1", "r2"}) {
    EXPECT_EQ(RefusalOf(Return(*shop, order, id, {{"lace", 1}}).status()), Refusal::kRequestForgotten) << id;
    EXPECT_EQ(RefusalOf(shop->FindByRequest(id).status()), Refusal::kRequestForgotten) << id;
  }
  EXPECT_TRUE(absl::IsNotFound(Return(*shop, order, "r3").status()));
  EXPECT_TRUE(shop->Take({"lace", 7, "b", "ann"}).ok()) << "two of nine are the buyer's";
}

// Each unit comes back once, by one of the processes.
TEST_F(FleetReturnsTest, ProcessesRaceForOneOrder_EachUnitComesBackOnce) {
  const std::unique_ptr<Inventory> shops[] = {Connect(), Connect(), Connect()};
  ASSERT_TRUE(shops[0]->AddSku("lace", {.stock = 3, .shards = 3}).ok());
  for (int round = 0; round < 20; ++round) {
    const OrderId order = shops[0]->Take({"lace", 3, Concat(round), ""})->id();
    std::atomic<int> returned = 0;
    testing::RunThreads(6, [&](int thread) {
      const auto answer = Return(*shops[thread % 3], order, Concat(round, "-", thread), {{"lace", 1}});
      returned += answer.ok();
      EXPECT_TRUE(answer.ok() || RefusalOf(answer.status()) == Refusal::kTooMany) << answer.status();
    });
    EXPECT_EQ(returned, 3);
    EXPECT_EQ(UnitsOf(*shops[1], "lace"), "3 = 3 + 0 + 0");
  }
}

TEST_F(FleetReturnsTest, ConnectionIsCutAnywhere_TheSameRequestShowsTheOutcome) {
  const auto owner = Connect();
  ASSERT_TRUE(owner->AddSku("lace", {.stock = 100}).ok());
  const auto shop = Connect(ByProxy());
  for (int64_t bytes = 0; bytes < 4'000; bytes += 131) {
    const OrderId order = owner->Take({"lace", 2, Concat("t", bytes), ""})->id();
    ASSERT_TRUE(shop->Find(order).ok());
    bytes % 2 == 0 ? proxy().CutRequestAfter(static_cast<uint64_t>(bytes))
                   : proxy().CutReplyAfter(static_cast<uint64_t>(bytes));
    const auto cut = Return(*shop, order, Concat("r", bytes), {{"lace", 1}});
    proxy().CancelCut();
    if (!cut.ok()) EXPECT_EQ(RefusalOf(cut.status()), Refusal::kUnavailable) << cut.status();
    EXPECT_EQ(Return(*owner, order, Concat("r", bytes), {{"lace", 1}}).value(), (Lines{{"lace", 1, true}}));
    EXPECT_EQ(owner->Find(order)->lines[0], (OrderInfoLine{"lace", 2, 1}));
    ASSERT_TRUE(Return(*owner, order, Concat("s", bytes)).ok());
  }
  EXPECT_EQ(UnitsOf(*owner, "lace"), "100 = 100 + 0 + 0");
}

TEST_F(FleetReturnsTest, RowsOfChangesAreDamaged_NothingComesBack) {
  tables_are_damaged_ = true;
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 10}).ok());
  const OrderId order = shop->Take({"lace", 3, "a", ""})->id();
  ASSERT_TRUE(Return(*shop, order, "r", {{"lace", 1}}).ok());
  for (const char* const damage : {"quantity=4", "quantity=-1", "quantity=9223372036854775807"}) {
    server().Query(Concat("UPDATE ", Table("changes"), " SET ", damage));
    for (const absl::Status& status :
         {Return(*shop, order, "s", {{"lace", 1}}).status(), shop->Find(order).status(), shop->Commit(order)}) {
      EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << damage << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("the ledger is damaged")) << damage;
    }
  }
}

}  // namespace
}  // namespace stockade
