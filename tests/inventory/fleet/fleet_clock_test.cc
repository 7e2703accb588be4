// Reservations of a fleet expire by the clock of the server, even if it steps.

#include <vector>

#include "inventory/fleet/fleet_faults_test.h"
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

TEST_F(FleetClockTest, OrderThatIsSaidToHaveExpired_IsNeverSold) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 4}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Minutes(30)});
  ASSERT_TRUE(held.ok()) << held.status();
  // Nobody does the upkeep meanwhile.
  Client other;
  other.Run("START TRANSACTION");
  other.Run("SELECT * FROM " + Table("fleet") + " FOR UPDATE");
  clock().Step(absl::Hours(1));
  const OrderState said = shop->StateOf(held->id()).value();
  clock().Step(-absl::Hours(1));
  const absl::Status committed = shop->Commit(held->id());
  EXPECT_EQ(said, OrderState::kExpired);
  EXPECT_TRUE(absl::IsFailedPrecondition(committed)) << committed;
  EXPECT_EQ(shop->StateOf(held->id()).value(), OrderState::kExpired);
  other.Run("COMMIT");
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
