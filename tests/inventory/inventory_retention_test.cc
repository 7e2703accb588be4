// How long an order is remembered, and what remains of it.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"

namespace stockade {
namespace {

using testing::RecordingDisk;
using testing::RecordingLedger;

constexpr absl::Duration kRetention = absl::Hours(2);

class InventoryRetentionTest : public ::testing::Test {
 protected:
  InventoryRetentionTest() {
    disk_->clock = &clock_;
    Open();
    EXPECT_TRUE(shop_->AddSku("sneaker", {.stock = 100'000, .shards = 2, .per_buyer_limit = 3}).ok());
  }

  void Open() {
    shop_.reset();
    shop_ = Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk_),
                               .clock = &clock_,
                               .metrics = nullptr,
                               .stripes = 1,
                               .retention = kRetention})
                .value();
  }
  absl::StatusOr<Order> Take(const std::string& id, const std::string& buyer = "ann") {
    return shop_->Take({.sku = "sneaker", .request_id = id, .buyer = buyer});
  }
  void ExpectForgotten(const std::string& id, OrderId order) {
    EXPECT_EQ(RefusalOf(Take(id).status()), Refusal::kRequestForgotten);
    EXPECT_EQ(Take(id).status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(shop_->StateOf(order).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(shop_->Commit(order).code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(shop_->Cancel(order).code(), absl::StatusCode::kNotFound);
  }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryRetentionTest, Repeat_UntilRetentionEnds_GetsTheFirstAnswer_AfterItARefusal) {
  const Order first = Take("a").value();
  clock_.Advance(kRetention - absl::Nanoseconds(1));
  EXPECT_EQ(Take("a").value(), first);
  EXPECT_EQ(shop_->StateOf(first.id()).value(), OrderState::kSold);
  clock_.Advance(absl::Nanoseconds(1));
  ExpectForgotten("a", first.id());
  EXPECT_EQ(shop_->Figures("sneaker").value().sold, 1);
  // It is out of the book by now, and refused as before.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Take("b" + std::to_string(i), "buyer" + std::to_string(i)).ok());
  ExpectForgotten("a", first.id());
  EXPECT_EQ(shop_->Figures("sneaker").value().sold, 5);
}

TEST_F(InventoryRetentionTest, Retention_CountsFromTheEndOfAReservation) {
  const auto reserve = [&](const std::string& id) {
    return shop_->Reserve({.sku = "sneaker", .request_id = id, .buyer = "ann", .ttl = absl::InfiniteDuration()})
        .value();
  };
  const Reservation held = reserve("a");
  clock_.Advance(10 * kRetention);
  EXPECT_EQ(reserve("a"), held);
  EXPECT_TRUE(shop_->Commit(held.id()).ok());
  clock_.Advance(kRetention - absl::Nanoseconds(1));
  EXPECT_TRUE(shop_->Commit(held.id()).ok());
  clock_.Advance(absl::Nanoseconds(1));
  ExpectForgotten("a", held.id());
}

TEST_F(InventoryRetentionTest, Restart_RetentionRunsOn) {
  const Order first = Take("a").value();
  clock_.Advance(kRetention / 2);
  const Order second = Take("b").value();
  Open();
  EXPECT_EQ(Take("a").value(), first);
  clock_.Advance(kRetention / 2);
  Open();
  ExpectForgotten("a", first.id());
  EXPECT_EQ(Take("b").value(), second);
  EXPECT_EQ(shop_->Figures("sneaker").value().sold, 2);
  EXPECT_EQ(shop_->Take({.sku = "sneaker", .request_id = "c", .buyer = "bob"})->id(), second.id() + 1);
}

TEST_F(InventoryRetentionTest, BuyerLimit_CountsForgottenOrders) {
  ASSERT_TRUE(Take("a").ok());
  ASSERT_TRUE(Take("b").ok());
  clock_.Advance(kRetention);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Take("x" + std::to_string(i), "buyer" + std::to_string(i)).ok());
  ASSERT_TRUE(Take("c").ok());
  EXPECT_EQ(RefusalOf(Take("d").status()), Refusal::kBuyerLimit);
  Open();
  EXPECT_EQ(RefusalOf(Take("d").status()), Refusal::kBuyerLimit);
}

TEST_F(InventoryRetentionTest, ExpiredAndCancelled_AreForgottenToo) {
  const OrderId expired = shop_->Reserve({.sku = "sneaker", .request_id = "a", .buyer = "ann"})->id();
  const OrderId cancelled = shop_->Reserve({.sku = "sneaker", .request_id = "b", .buyer = "ann"})->id();
  EXPECT_TRUE(shop_->Cancel(cancelled).ok());
  clock_.Advance(absl::Minutes(10));
  while (shop_->Figures("sneaker").value().held != 0) std::this_thread::yield();
  clock_.Advance(kRetention);
  for (const OrderId order : {expired, cancelled}) {
    EXPECT_EQ(shop_->StateOf(order).status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(RefusalOf(Take("a").status()), Refusal::kRequestForgotten);
  EXPECT_EQ(shop_->Available("sneaker").value(), 100'000);
}

// Orders are forgotten past one that runs on, whose id still leads to it, and so do those after it.
TEST_F(InventoryRetentionTest, OrderThatIsHeldForEver_IsNotInTheWayOfOthers) {
  const auto reserve = [&](const std::string& id) {
    return shop_->Reserve({.sku = "sneaker", .request_id = id, .buyer = id, .ttl = absl::InfiniteDuration()})->id();
  };
  const OrderId before = Take("before", "x").value().id();
  const OrderId held = reserve("held");
  std::vector<OrderId> sold;
  for (int i = 0; i < 100; ++i) sold.push_back(Take(std::to_string(i), std::to_string(i)).value().id());
  clock_.Advance(kRetention);
  std::vector<OrderId> later;
  for (int i = 100; i < 200; ++i) later.push_back(Take(std::to_string(i), std::to_string(i)).value().id());
  EXPECT_EQ(shop_->StateOf(before).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(shop_->StateOf(held).value(), OrderState::kHeld);
  for (const OrderId id : sold) EXPECT_EQ(shop_->StateOf(id).status().code(), absl::StatusCode::kNotFound);
  for (const OrderId id : later) EXPECT_EQ(shop_->StateOf(id).value(), OrderState::kSold);
  EXPECT_EQ(shop_->StateOf(later.back() + 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(shop_->Commit(held).ok());
  Open();
  EXPECT_EQ(shop_->StateOf(held).value(), OrderState::kSold);
  EXPECT_EQ(shop_->StateOf(later.front()).value(), OrderState::kSold);
  EXPECT_GT(reserve("new"), later.back());
  EXPECT_EQ(RefusalOf(Take("before", "x").status()), Refusal::kRequestForgotten);
}

}  // namespace
}  // namespace stockade
