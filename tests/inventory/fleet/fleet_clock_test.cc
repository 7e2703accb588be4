// Reservations of a fleet expire by the clock of the server, even if it steps.

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "inventory/fleet/fleet_faults_test.h"
#include "stockade/base/log.h"
#include "support/server_clock.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::FleetFaultsTest;

// A server of its own, whose clock steps.
class FleetClockTest : public FleetFaultsTest {
 protected:
  static void SetUpTestSuite() {
    clock_ = new testing::ServerClock();
    StartServer({.environment = clock_->environment()});
  }
  static void TearDownTestSuite() {
    FleetFaultsTest::TearDownTestSuite();
    delete clock_;
  }
  static testing::ServerClock& clock() { return *clock_; }

  // More orders than two transactions of the upkeep end.
  static constexpr int kMany = 600;
  // Reserves all of a new SKU "sneaker" for half an hour, and then a "boot" for a little longer.
  void HoldMany(Inventory& shop, const SkuOptions& sneaker, int count = kMany) {
    ASSERT_TRUE(shop.AddSku("sneaker", sneaker).ok());
    ASSERT_TRUE(shop.AddSku("boot", {.stock = 1}).ok());
    std::vector<ReserveRequest> requests;
    for (int i = 0; i < count; ++i) {
      requests.push_back({.sku = "sneaker", .request_id = Concat(i), .buyer = Concat(i), .ttl = absl::Minutes(30)});
    }
    for (const auto& held : shop.ReserveMany(requests)) ASSERT_TRUE(held.ok()) << held.status();
    ASSERT_TRUE(shop.Reserve({.sku = "boot", .request_id = "boot", .ttl = absl::Minutes(31)}).ok());
  }

 private:
  static inline testing::ServerClock* clock_ = nullptr;
};

TEST_F(FleetClockTest, ClockOfTheServerSteps_OrdersExpireByIt) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 4}).ok());
  const auto early = one->Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Minutes(30)});
  const auto late = one->Reserve({.sku = "sneaker", .request_id = "b", .ttl = absl::Hours(3)});
  ASSERT_TRUE(early.ok() && late.ok()) << early.status() << late.status();
  clock().Step(-absl::Hours(1));
  EXPECT_EQ(two->StateOf(early->id()).value(), OrderState::kHeld);
  const auto before = two->Reserve({.sku = "sneaker", .request_id = "c", .ttl = absl::Minutes(30)});
  ASSERT_TRUE(before.ok()) << before.status();
  clock().Step(absl::Hours(2));
  Await("the expiry", [&] { return one->Available("sneaker").value() == 3; });
  EXPECT_EQ(two->StateOf(early->id()).value(), OrderState::kExpired);
  EXPECT_EQ(two->StateOf(before->id()).value(), OrderState::kExpired);
  EXPECT_TRUE(absl::IsFailedPrecondition(one->Commit(early->id())));
  clock().Step(-absl::Hours(1));
  EXPECT_EQ(one->StateOf(early->id()).value(), OrderState::kExpired) << "as it was";
  EXPECT_TRUE(two->Commit(late->id()).ok());
  // And expiry goes on after a step back.
  const auto after = one->Reserve({.sku = "sneaker", .request_id = "d", .ttl = absl::Milliseconds(1)});
  ASSERT_TRUE(after.ok()) << after.status();
  Await("the expiry", [&] { return one->Available("sneaker").value() == 3; });
}

TEST_F(FleetClockTest, Extension_KeepsTheUnitsUntilItsEndAndNoLonger) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 4, .per_buyer_limit = 4}).ok());
  const auto reserve = [&](const std::string& id) {
    return one->Reserve({.sku = "sneaker", .request_id = id, .buyer = "ann", .ttl = absl::Minutes(10)}).value();
  };
  const Reservation held = reserve("a");
  const Reservation other = reserve("b");
  const absl::Time end = two->Extend({.order = held.id(), .ttl = absl::Minutes(30)}).value();
  EXPECT_GE(end, held.expires_at() + absl::Minutes(20));
  EXPECT_GE(one->Extend({.order = held.id(), .ttl = absl::Minutes(1)}).value(), end) << "never shorter";
  const Reservation longest = reserve("c");
  const std::vector<ExtendRequest> requests = {
      {longest.id(), absl::Hours(9)}, {77, absl::Hours(1)}, {longest.id(), absl::InfiniteDuration()}};
  const auto many = two->ExtendMany(requests);
  EXPECT_EQ(many.at(0).value(), longest.expires_at() + absl::Minutes(50)) << "max_hold after it was granted";
  EXPECT_TRUE(absl::IsNotFound(many.at(1).status())) << many.at(1).status();
  EXPECT_EQ(many.at(2).value(), *many.at(0));
  EXPECT_EQ(server().Value(Concat("SELECT GROUP_CONCAT(version ORDER BY order_id) FROM ", Table("orders"),
                                  " WHERE order_id IN (", held.id(), ",", longest.id(), ")")),
            "1,1");
  clock().Step(absl::Minutes(15));
  Await("the expiry of the other one", [&] { return one->Available("sneaker").value() == 2; });
  EXPECT_EQ(RefusalOf(two->Extend({.order = other.id(), .ttl = absl::Minutes(30)}).status()), Refusal::kExpired);
  EXPECT_EQ(two->StateOf(held.id()).value(), OrderState::kHeld);
  EXPECT_EQ(reserve("a").expires_at(), held.expires_at()) << "the first answer";
  clock().Step(absl::Minutes(16));
  Await("the expiry", [&] { return one->Available("sneaker").value() == 3; });
  EXPECT_EQ(RefusalOf(two->Commit(held.id())), Refusal::kExpired);
  EXPECT_TRUE(two->Commit(longest.id()).ok());
  EXPECT_EQ(RefusalOf(two->Extend({.order = longest.id(), .ttl = absl::Hours(1)}).status()), Refusal::kCommitted);
}

// A change by its read: the order was changed after the packet had read it.
TEST_F(FleetClockTest, AnOrderThatIsChangedMeanwhile_IsReadAgain) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 4}).ok());
  for (const bool extends : {true, false}) {
    const auto held = shop->Reserve({.sku = "sneaker", .request_id = Concat(extends)});
    ASSERT_TRUE(held.ok()) << held.status();
    Client other;
    other.Run("START TRANSACTION");
    other.Run(Concat("UPDATE ", Table("orders"), " SET version=version+1 WHERE order_id=", held->id()));
    std::thread calling([&] {
      const absl::Status done =
          extends ? shop->Extend({.order = held->id(), .ttl = absl::Minutes(30)}).status() : shop->Commit(held->id());
      EXPECT_TRUE(done.ok()) << done;
    });
    AwaitLockWait();
    other.Run("COMMIT");
    calling.join();
    EXPECT_EQ(server().Value(Concat("SELECT version FROM ", Table("orders"), " WHERE order_id=", held->id())), "2");
  }
}

// Of the clock that these tests set.
TEST_F(FleetClockTest, ClockOfTheServerSteps_ItsOwnWaitsEnd) {
  clock().Step(absl::Hours(1));
  server().Query("DO SLEEP(0.1)");
}

TEST_F(FleetClockTest, OrderThatIsSaidToHaveExpired_IsNeverSold) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 4}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Minutes(30)});
  ASSERT_TRUE(held.ok()) << held.status();
  const auto other_held = shop->Reserve({.sku = "sneaker", .request_id = "b", .ttl = absl::Minutes(30)});
  ASSERT_TRUE(other_held.ok()) << other_held.status();
  // Nobody does the upkeep meanwhile.
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows(Table("fleet"));
  clock().Step(absl::Hours(1));
  const OrderState said = shop->StateOf(held->id()).value();
  const OrderState found = shop->FindByRequest("b")->state;
  clock().Step(-absl::Hours(1));
  const absl::Status committed = shop->Commit(held->id());
  EXPECT_EQ(said, OrderState::kExpired);
  EXPECT_TRUE(absl::IsFailedPrecondition(committed)) << committed;
  EXPECT_EQ(found, OrderState::kExpired);
  EXPECT_EQ(RefusalOf(shop->Commit(other_held->id())), Refusal::kExpired);
  EXPECT_EQ(shop->StateOf(held->id()).value(), OrderState::kExpired);
  other.Run("COMMIT");
}

TEST_F(FleetClockTest, ProcessesHaveDifferentRetentions_TheLongestOfLiveOnesCounts) {
  FleetInventoryOptions options = Options();
  options.retention = absl::Seconds(1);
  const auto one = Connect(options);
  options.retention = absl::Hours(3);
  auto two = Connect(options);
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 4}).ok());
  const auto is_known = [&](const absl::StatusOr<Order>& order) { return one->StateOf(order->id()).ok(); };
  const auto take = [&](const std::string& id) { return one->Take({.sku = "sneaker", .request_id = id}); };
  const auto first = take("first");
  ASSERT_TRUE(first.ok()) << first.status();
  clock().Step(absl::Hours(2));
  ASSERT_TRUE(two->Available("sneaker").ok());  // It is alive, and says so by its next order.
  ASSERT_TRUE(two->Take({.sku = "sneaker", .request_id = "sign"}).ok());
  const auto second = take("second");
  ASSERT_TRUE(second.ok()) << second.status();
  clock().Step(absl::Hours(2));
  Await("the first order is forgotten", [&] { return !is_known(first); });
  EXPECT_TRUE(is_known(second)) << "it ended two hours ago";
  two.reset();
  clock().Step(absl::Hours(4));
  Await("the second order is forgotten", [&] { return !is_known(second); });
}

// More orders are due than one transaction ends, as after a time without any process.
TEST_F(FleetClockTest, ManyOrdersAreLongOverdue_AllExpireAtOnce) {
  constexpr int kOrders = 700;
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = kOrders}).ok());
  std::vector<ReserveRequest> requests;
  for (int i = 0; i < kOrders; ++i) {
    requests.push_back({.sku = "sneaker", .request_id = Concat(i), .ttl = absl::Minutes(30)});
  }
  for (const auto& held : shop->ReserveMany(requests)) ASSERT_TRUE(held.ok()) << held.status();
  clock().Step(absl::Hours(1));
  const Instant began = Clock::System()->Now();
  Await("the expiry", [&] { return shop->Available("sneaker").value() == kOrders; });
  EXPECT_LT(Clock::System()->Now() - began, absl::Seconds(30));
}

// They cannot end, and come before the others whenever the orders that are due are read.
TEST_F(FleetClockTest, OrdersOfADamagedSkuAreDue_OtherOrdersExpire) {
  tables_are_damaged_ = true;
  std::atomic<int> logged = 0;
  SetLogSink([&](LogSeverity, std::string_view message) { logged += message.find("'sneaker' has 0") != message.npos; });
  const auto shop = Connect();
  HoldMany(*shop, {.stock = kMany});
  server().Query(Concat("CREATE TABLE ", Table("copy"), " AS SELECT * FROM ", Table("stock"), " WHERE held=", kMany));
  server().Query(Concat("DELETE FROM ", Table("stock"), " WHERE held=", kMany));
  clock().Step(absl::Hours(1));
  Await("the expiry", [&] { return shop->Available("boot").value() == 1; });
  // Each is tried again once a minute.
  server().Query(Concat("INSERT INTO ", Table("stock"), " SELECT * FROM ", Table("copy")));
  clock().Step(absl::Minutes(2));
  Await("the expiry", [&] { return shop->Available("sneaker").value() == kMany; });
  SetLogSink({});
  EXPECT_EQ(logged, 1) << "messages";
}

TEST_F(FleetClockTest, RowOfTheFleetIsMissing_IsLogged) {
  tables_are_damaged_ = true;
  std::atomic<int> logged = 0;
  SetLogSink([&](LogSeverity severity, std::string_view message) {
    logged += severity == LogSeverity::kError && message.find("_fleet has no row") != message.npos;
  });
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 2}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(held.ok()) << held.status();
  server().Query(Concat("CREATE TABLE ", Table("copy"), " AS SELECT * FROM ", Table("fleet")));
  server().Query("DELETE FROM " + Table("fleet"));
  Await("the message", [&] { return logged > 0; });
  EXPECT_TRUE(shop->Commit(held->id()).ok());
  EXPECT_TRUE(shop->Reserve({.sku = "sneaker", .request_id = "b"}).ok());
  clock().Step(absl::Hours(1));
  server().Query(Concat("INSERT INTO ", Table("fleet"), " SELECT * FROM ", Table("copy")));
  Await("the expiry", [&] { return shop->Available("sneaker").value() == 1; });
  SetLogSink({});
}

// The transactions of such orders are rolled back.
TEST_F(FleetClockTest, RowsOfBuyersAreMissing_OtherOrdersExpireAndCallsAreServed) {
  tables_are_damaged_ = true;
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 20}).ok());
  // More than the upkeep ends together. Each is tried alone, which takes long on a busy machine.
  HoldMany(*shop, {.stock = kMany, .per_buyer_limit = 1}, 300);
  server().Query("DELETE FROM " + Table("buyers"));
  clock().Step(absl::Hours(1));
  for (int i = 0; i < 20; ++i) {
    const auto held = shop->Reserve({.sku = "lace", .request_id = Concat("lace", i)});
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_TRUE(shop->Commit(held->id()).ok());
  }
  Await("the expiry", [&] { return shop->Available("boot").value() == 1; });
}

TEST_F(FleetClockTest, OrdersOfASkuThatThereIsNot_OthersAreForgotten) {
  tables_are_damaged_ = true;
  FleetInventoryOptions options = Options();
  options.retention = absl::Minutes(1);
  const auto shop = Connect(options);
  for (const char* const sku : {"boot", "sneaker"}) ASSERT_TRUE(shop->AddSku(sku, {.stock = 9}).ok());
  const auto sell = [&](std::vector<OrderLine> lines, const char* id) {
    const auto basket = shop->ReserveBasket({.lines = std::move(lines), .request_id = id});
    ASSERT_TRUE(basket.ok()) << basket.status();
    EXPECT_TRUE(shop->Commit(basket->id()).ok());
  };
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  sell({{"boot", 1}, {"sneaker", 1}}, "b");
  ASSERT_TRUE(shop->Take({.sku = "boot", .request_id = "c"}).ok());
  sell({{"boot", 2}}, "d");
  server().Query("DELETE FROM " + Table("skus") + " WHERE sku='sneaker'");
  clock().Step(absl::Hours(1));
  Await("orders that are forgotten", [&] { return Orders() == 2; });
  EXPECT_EQ(Number("SELECT sold_forgotten FROM " + Table("skus")), 3);
}

TEST_F(FleetClockTest, ForgettingFailsOnce_IsTriedAgainAtOnce) {
  FleetInventoryOptions options = Options();
  options.retention = absl::Minutes(1);
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows(Table("skus"));
  clock().Step(absl::Hours(1));
  server().Query("KILL " + AwaitWaitingConnection("skus"));
  other.Run("COMMIT");
  Await("the order to be forgotten", [&] { return Orders() == 0; });
}

// Their units could not be counted as forgotten.
TEST_F(FleetClockTest, DamagedOrders_AreNotForgotten) {
  tables_are_damaged_ = true;
  FleetInventoryOptions options = Options();
  options.retention = absl::Minutes(1);
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  for (const char* const id : {"a", "b", "c", "d"}) ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = id}).ok());
  const auto basket = shop->ReserveBasket({.lines = {{"sneaker", 1}}, .request_id = "basket"});
  ASSERT_TRUE(basket.ok()) << basket.status();
  ASSERT_TRUE(shop->Commit(basket->id()).ok());
  const auto damage = [&](const char* what, const char* which) {
    server().Query(Concat("UPDATE ", Table("orders"), " SET ", what, " WHERE kind=0 ORDER BY order_id ", which));
  };
  damage("kind=7", "LIMIT 1");
  damage("quantity=-1", "LIMIT 1");
  damage("quantity=0", "DESC LIMIT 1");
  server().Query("DELETE FROM " + Table("order_lines"));
  const auto damaged = server().Query(Concat("SELECT order_id FROM ", Table("orders"), " WHERE kind=7"));
  const absl::Status state = shop->StateOf(std::stoull(damaged.at(0).at(0))).status();
  EXPECT_EQ(RefusalOf(state), Refusal::kUnavailable) << state;
  EXPECT_EQ(shop->Commit(std::stoull(damaged.at(0).at(0))).code(), absl::StatusCode::kUnavailable);
  clock().Step(absl::Hours(1));
  Await("the sound one to be forgotten", [&] { return Orders() == 4; });
  EXPECT_EQ(Number("SELECT sold_forgotten FROM " + Table("skus")), 1);
}

TEST_F(FleetClockTest, JanitorThatIsGone_IsReplaced) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 1}).ok());
  ASSERT_TRUE(shop->Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Milliseconds(1)}).ok());
  // By its clock, which was put back since, it is to be left alone for a year.
  server().Query("UPDATE " + Table("fleet") + " SET janitor=7,janitor_until=janitor_until+31536000000000");
  ASSERT_TRUE(shop->Restock("sneaker", 1).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "b", .ttl = absl::Milliseconds(1)});
  Await("the expiry", [&] { return shop->Available("sneaker").value() == 2; });
}

}  // namespace
}  // namespace stockade
