// What a request, a commit and a cancel are answered after a restart is what they were answered before it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/crash/audit.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/temp_dir.h"

namespace stockade::testing {
namespace {

class RestartTest : public ::testing::Test {
 protected:
  void Restart() {
    shop_.reset();
    shop_ = Inventory::Create({.ledger = OpenLedger(path_, {.clock = &clock_}), .clock = &clock_, .metrics = nullptr})
                .value();
  }

  void TearDown() override {
    shop_.reset();
    PlainSql sql(path_);
    ExpectAuditHolds(sql);
  }

  OrderId Reserve(const std::string& request_id, absl::Duration ttl = absl::Minutes(10)) {
    return shop_->Reserve({.sku = "shoe", .request_id = request_id, .ttl = ttl}).value().id();
  }

  const TempDir dir_;
  const std::string path_ = dir_.File("orders.db");
  ManualClock clock_;
  std::unique_ptr<Inventory> shop_;
};

TEST_F(RestartTest, SameId_HundredTimesAtOnceBeforeAndAfter_OneTakeAndTheFirstAnswer) {
  Restart();
  ASSERT_TRUE(shop_->AddSku("shoe", {.stock = 100}).ok());
  ASSERT_TRUE(shop_->AddSku("lace", {.stock = 100}).ok());
  const ReserveRequest reserve{.sku = "shoe", .quantity = 3, .request_id = "reserve", .buyer = "ann"};
  const TakeRequest take{.sku = "shoe", .quantity = 2, .request_id = "take", .buyer = "ann"};
  const BasketRequest basket{.lines = {{"shoe", 1}, {"lace", 2}}, .request_id = "basket", .buyer = "ann"};
  std::optional<Reservation> reserved;
  std::optional<Order> taken;
  std::optional<BasketReservation> both;
  OrderState state = OrderState::kHeld;
  for (int restarts = 0; restarts < 3; ++restarts) {
    std::vector<std::optional<Reservation>> reserves(100);
    std::vector<std::optional<Order>> takes(100);
    std::vector<std::optional<BasketReservation>> baskets(100);
    RunThreads(100, [&](int thread) {
      const auto i = static_cast<size_t>(thread);
      reserves[i] = shop_->Reserve(reserve).value();
      takes[i] = shop_->Take(take).value();
      baskets[i] = shop_->ReserveBasket(basket).value();
    });
    if (restarts == 0) {
      reserved = reserves[0];
      taken = takes[0];
      both = baskets[0];
    }
    for (size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(reserves[i]->id(), reserved->id());
      EXPECT_EQ(reserves[i]->expires_at(), reserved->expires_at());
      EXPECT_EQ(reserves[i]->state(), state);
      EXPECT_EQ(takes[i], taken);
      EXPECT_EQ(baskets[i], both);
    }
    EXPECT_EQ(shop_->Available("shoe").value(), 94);
    EXPECT_EQ(shop_->Available("lace").value(), 98);
    Restart();
    ReserveRequest other = reserve;
    other.quantity = 4;
    EXPECT_EQ(RefusalOf(shop_->Reserve(other).status()), Refusal::kRequestMismatch);
    EXPECT_EQ(RefusalOf(shop_->Take({"shoe", 3, "reserve", "ann"}).status()), Refusal::kRequestMismatch);
    EXPECT_EQ(RefusalOf(shop_->Take({"lace", 2, "take", "ann"}).status()), Refusal::kRequestMismatch);
    if (restarts == 0) {
      ASSERT_TRUE(shop_->Commit(reserved->id()).ok());
      state = OrderState::kSold;
    }
  }
}

TEST_F(RestartTest, CommitAndCancel_OfWhatEndedBefore_AnswerAsBefore) {
  Restart();
  ASSERT_TRUE(shop_->AddSku("shoe", {.stock = 10}).ok());
  const OrderId sold = Reserve("sold");
  const OrderId cancelled = Reserve("cancelled");
  const OrderId expired = Reserve("expired", absl::Seconds(1));
  const OrderId held = Reserve("held");
  ASSERT_TRUE(shop_->Commit(sold).ok());
  ASSERT_TRUE(shop_->Cancel(cancelled).ok());
  clock_.Advance(absl::Seconds(1));
  while (shop_->Available("shoe").value() != 8) std::this_thread::yield();
  for (int restarts = 0; restarts < 3; ++restarts) {
    SCOPED_TRACE(restarts);
    EXPECT_TRUE(shop_->Commit(sold).ok());
    EXPECT_EQ(shop_->Cancel(sold).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(shop_->Commit(cancelled).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(shop_->Cancel(cancelled).ok());
    EXPECT_EQ(shop_->Commit(expired).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(shop_->Cancel(expired).ok());
    EXPECT_EQ(shop_->StateOf(held).value(), OrderState::kHeld);
    EXPECT_EQ(shop_->Available("shoe").value(), 8);
    Restart();
  }
  EXPECT_TRUE(shop_->Commit(held).ok());
  Restart();
  EXPECT_EQ(shop_->Cancel(held).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RestartTest, Ttl_ThatPassedWhileNobodyRan_CannotBeCommitted) {
  Restart();
  ASSERT_TRUE(shop_->AddSku("shoe", {.stock = 1}).ok());
  const OrderId order = Reserve("a", absl::Seconds(5));
  shop_.reset();
  clock_.Advance(absl::Seconds(5));
  Restart();
  EXPECT_EQ(shop_->Commit(order).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(shop_->Cancel(order).ok());
  while (shop_->Available("shoe").value() != 1) std::this_thread::yield();
  EXPECT_TRUE(shop_->Take({.sku = "shoe", .request_id = "b"}).ok());
}

// The reaper, Commit() and Cancel() compete; the winner has still won after the restart.
TEST_F(RestartTest, CommitCancelAndExpiryAtOneMoment_OneWins_AndHasWonAfterwards) {
  const int64_t rounds = Scaled(30, 300);
  Restart();
  ASSERT_TRUE(shop_->AddSku("shoe", {.stock = rounds}).ok());
  std::vector<OrderId> sold;
  std::vector<OrderId> not_sold;
  for (int64_t i = 0; i < rounds; ++i) {
    const OrderId order = Reserve(std::to_string(i), absl::Seconds(1));
    absl::Status committed;
    absl::Status cancelled;
    RunThreads(3, [&](int thread) {
      if (thread == 0) clock_.Advance(absl::Seconds(1));
      if (thread == 1) committed = shop_->Commit(order);
      if (thread == 2) cancelled = shop_->Cancel(order);
    });
    EXPECT_NE(committed.ok(), cancelled.ok()) << committed << ", " << cancelled;
    (committed.ok() ? sold : not_sold).push_back(order);
    if (i % 10 == 9) Restart();
  }
  for (const OrderId order : sold) EXPECT_EQ(shop_->StateOf(order).value(), OrderState::kSold);
  for (const OrderId order : not_sold) EXPECT_NE(shop_->StateOf(order).value(), OrderState::kSold);
  const auto left = rounds - static_cast<int64_t>(sold.size());
  while (shop_->Available("shoe").value() != left) std::this_thread::yield();
}

}  // namespace
}  // namespace stockade::testing
