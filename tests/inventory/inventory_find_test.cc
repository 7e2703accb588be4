// Looking orders up: Inventory::Find() in one process.
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/executor.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"

namespace stockade {
namespace {

using testing::RecordingDisk;
using testing::RecordingLedger;

class InventoryFindTest : public ::testing::Test {
 protected:
  InventoryFindTest() {
    Open();
    for (const char* const sku : {"sneaker", "boot"}) {
      EXPECT_TRUE(shop_->AddSku(sku, {.stock = 9, .per_buyer_limit = 5}).ok());
    }
  }
  void Open() {
    shop_.reset();
    shop_ = Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk_),
                               .clock = &clock_,
                               .metrics = nullptr,
                               .retention = absl::Hours(1)})
                .value();
  }
  Reservation Reserve(const std::string& id) {
    return shop_->Reserve({.sku = "sneaker", .quantity = 2, .request_id = id, .buyer = "ann"}).value();
  }
  // By both ids.
  OrderInfo Find(const Order& order) {
    const OrderInfo found = shop_->Find(order.id()).value();
    EXPECT_EQ(found, shop_->FindByRequest(order.request_id()).value());
    return found;
  }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryFindTest, Order_IsFoundByItsIdAndItsRequest) {
  const Reservation held = Reserve("a");
  EXPECT_EQ(Find(held), (OrderInfo{.id = held.id(),
                                   .state = OrderState::kHeld,
                                   .lines = {{"sneaker", 2}},
                                   .request_id = "a",
                                   .buyer = "ann",
                                   .expires_at = held.expires_at()}));
  const absl::Time later = shop_->Extend({.order = held.id(), .ttl = absl::Minutes(20)}).value();
  EXPECT_EQ(Find(held).expires_at, later);
  ASSERT_TRUE(shop_->Commit(held.id()).ok());
  EXPECT_EQ(Find(held).state, OrderState::kSold);
  EXPECT_EQ(Find(held).expires_at, absl::InfiniteFuture());
  const Order taken = shop_->Take({.sku = "boot", .request_id = "b", .buyer = "bob"}).value();
  EXPECT_EQ(Find(taken).lines, (std::vector<OrderInfoLine>{{"boot", 1}}));
  const BasketReservation basket =
      shop_->ReserveBasket({.lines = {{"sneaker", 1}, {"boot", 2}}, .request_id = "c", .buyer = "eve"}).value();
  ASSERT_TRUE(shop_->Cancel(basket.id()).ok());
  const OrderInfo found = shop_->Find(basket.id()).value();
  EXPECT_EQ(found.lines, (std::vector<OrderInfoLine>{{"boot", 2}, {"sneaker", 1}}));
  EXPECT_EQ(found.state, OrderState::kCancelled);
  Open();
  EXPECT_EQ(shop_->Find(basket.id()).value(), found) << "after a restart";
}

TEST_F(InventoryFindTest, OrderOfAnotherBuyer_IsNotFound) {
  const Reservation held = Reserve("a");
  EXPECT_TRUE(shop_->Find({.order = held.id(), .buyer = "ann"}).ok());
  EXPECT_TRUE(shop_->Find({.request_id = "a", .buyer = "ann"}).ok());
  EXPECT_TRUE(absl::IsNotFound(shop_->Find({.order = held.id(), .buyer = ""}).status())) << "nobody's";
  // Nothing is said of the ids of others, either.
  ASSERT_TRUE(shop_->Restock({.sku = "boot", .quantity = 1, .request_id = "more"}).ok());
  EXPECT_EQ(shop_->Find({.request_id = "more", .buyer = "bob"}).status(),
            absl::NotFoundError("Inventory 'default': there is no order of request id 'more'"));
  EXPECT_EQ(shop_->Find({.order = held.id(), .buyer = "bob"}).status(),
            absl::NotFoundError("Inventory 'default': there is no order " + OrderIdText(held.id())));
  EXPECT_EQ(shop_->Find({.request_id = "a", .buyer = "bob"}).status(),
            absl::NotFoundError("Inventory 'default': there is no order of request id 'a'"));
}

TEST_F(InventoryFindTest, UnknownRestockedAndForgottenIds_AreNotFound) {
  EXPECT_TRUE(absl::IsNotFound(shop_->Find(OrderId{77}).status()));
  EXPECT_TRUE(absl::IsNotFound(shop_->FindByRequest("unknown").status()));
  EXPECT_EQ(RefusalOf(shop_->FindByRequest("unknown").status()), Refusal::kNone);
  ASSERT_TRUE(shop_->Restock({.sku = "boot", .quantity = 1, .request_id = "more"}).ok());
  const absl::Status restock = shop_->FindByRequest("more").status();
  EXPECT_TRUE(absl::IsNotFound(restock)) << restock;
  EXPECT_NE(restock.message().find("is that of a restock"), std::string_view::npos) << restock;
  const Order taken = shop_->Take({.sku = "boot", .request_id = "b", .buyer = "bob"}).value();
  clock_.Advance(absl::Hours(1));
  const absl::Status forgotten = shop_->FindByRequest("b").status();
  EXPECT_TRUE(absl::IsNotFound(forgotten)) << forgotten;
  EXPECT_EQ(RefusalOf(forgotten), Refusal::kRequestForgotten);
  EXPECT_TRUE(absl::IsNotFound(shop_->Find(taken.id()).status()));
}

TEST_F(InventoryFindTest, InvalidRequests_SayWhatIsWrong) {
  const auto refusal = [&](const FindRequest& request) { return RefusalOf(shop_->Find(request).status()); };
  EXPECT_EQ(refusal({}), Refusal::kInvalid);
  EXPECT_EQ(refusal({.order = 1, .request_id = "a"}), Refusal::kInvalid);
  EXPECT_EQ(refusal({.request_id = std::string(kMaxRequestIdBytes, 'x')}), Refusal::kNone) << "not found";
  EXPECT_EQ(refusal({.request_id = std::string(kMaxRequestIdBytes + 1, 'x')}), Refusal::kInvalid);
  EXPECT_EQ(refusal({.order = 1, .buyer = std::string(kMaxBuyerBytes, 'x')}), Refusal::kNone) << "not found";
  EXPECT_EQ(refusal({.order = 1, .buyer = std::string(kMaxBuyerBytes + 1, 'x')}), Refusal::kInvalid);
}

// Its expiry is written down first, like that of any other call that tells of it.
TEST_F(InventoryFindTest, ReservationThatIsDue_HasExpiredForGood) {
  const Reservation held = Reserve("a");
  clock_.Advance(absl::Minutes(10));
  EXPECT_EQ(Find(held).state, OrderState::kExpired);
  EXPECT_EQ(disk_->Journal().back().kind, LedgerRecord::Kind::kExpire);
  disk_->Crash();
  Open();
  EXPECT_EQ(Find(held).state, OrderState::kExpired);
  EXPECT_EQ(shop_->Available("sneaker").value(), 9);
}

TEST_F(InventoryFindTest, Answer_WaitsUntilItIsDurable) {
  const Reservation held = Reserve("a");
  disk_->HoldUp(true);
  clock_.Advance(absl::Minutes(10));
  InlineExecutor executor;
  std::vector<OrderState> states;
  for (const FindRequest& request : {FindRequest{.order = held.id()}, FindRequest{.request_id = "a"}}) {
    shop_->FindAsync(request, executor, [&](const auto& found) { states.push_back(found->state); });
  }
  EXPECT_EQ(states, std::vector<OrderState>());
  disk_->HoldUp(false);
  EXPECT_EQ(states, (std::vector<OrderState>{OrderState::kExpired, OrderState::kExpired}));
}

TEST_F(InventoryFindTest, LedgerFails_TheAnswerIsUnavailable) {
  const Reservation held = Reserve("a");
  {
    const std::lock_guard lock(disk_->mutex);
    disk_->fail_at = disk_->durable + 1;
  }
  EXPECT_EQ(RefusalOf(shop_->Commit(held.id())), Refusal::kUnavailable);
  EXPECT_EQ(RefusalOf(shop_->Find(held.id()).status()), Refusal::kUnavailable) << "perhaps it is sold";
  EXPECT_EQ(RefusalOf(shop_->FindByRequest("a").status()), Refusal::kUnavailable);
}

TEST_F(InventoryFindTest, FindAsync_AnswersOnTheExecutor) {
  const Reservation held = Reserve("a");
  InlineExecutor executor;
  std::promise<absl::StatusOr<OrderInfo>> answered;
  shop_->FindAsync({.request_id = "a"}, executor,
                   [&](absl::StatusOr<OrderInfo> found) { answered.set_value(std::move(found)); });
  EXPECT_EQ(answered.get_future().get().value(), shop_->Find(held.id()).value());
}

}  // namespace
}  // namespace stockade
