// One request id takes once; one buyer has no more than the limit.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::RecordingDisk;
using testing::RecordingLedger;

class InventoryRequestsTest : public ::testing::Test {
 protected:
  void Open() {
    shop_.reset();
    shop_ =
        Inventory::Create(
            {.name = "shop", .ledger = std::make_unique<RecordingLedger>(disk_), .clock = &clock_, .metrics = nullptr})
            .value();
  }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryRequestsTest, SameId_HundredTimesAtOnce_OneTakeAndIdenticalAnswers) {
  Open();
  ASSERT_TRUE(shop_->AddSku("sneaker", {.stock = 1000, .per_buyer_limit = 2}).ok());
  const ReserveRequest request{.sku = "sneaker", .quantity = 2, .request_id = "click", .buyer = "ann"};
  std::vector<std::optional<Reservation>> answers(100);
  testing::RunThreads(100, [&](int i) { answers[static_cast<size_t>(i)] = shop_->Reserve(request).value(); });
  for (const auto& answer : answers) EXPECT_EQ(*answer, *answers[0]);
  EXPECT_EQ(shop_->Available("sneaker").value(), 998);

  ASSERT_TRUE(shop_->Commit(answers[0]->id()).ok());
  for (int restarts = 0; restarts < 2; ++restarts) {
    const Reservation repeated = shop_->Reserve(request).value();
    EXPECT_EQ(repeated.id(), answers[0]->id());
    EXPECT_EQ(repeated.expires_at(), answers[0]->expires_at());
    EXPECT_EQ(repeated.state(), OrderState::kSold);
    Open();
  }
  EXPECT_EQ(shop_->Available("sneaker").value(), 998);
  EXPECT_EQ(shop_->StateOf(answers[0]->id()).value(), OrderState::kSold);
}

TEST_F(InventoryRequestsTest, SameId_WithOtherParameters_IsRefusedAlsoAfterRestart) {
  Open();
  ASSERT_TRUE(shop_->AddSku("sneaker", {.stock = 10}).ok());
  ASSERT_TRUE(shop_->AddSku("boot", {.stock = 10}).ok());
  const ReserveRequest request{
      .sku = "sneaker", .quantity = 2, .request_id = "click", .buyer = "ann", .ttl = absl::Minutes(1)};
  ASSERT_TRUE(shop_->Reserve(request).ok());
  for (int restarts = 0; restarts < 2; ++restarts) {
    const auto refused = [&](const ReserveRequest& other) {
      const absl::Status status = shop_->Reserve(other).status();
      return status.code() == absl::StatusCode::kAlreadyExists && RefusalOf(status) == Refusal::kRequestMismatch;
    };
    ReserveRequest other = request;
    other.sku = "boot";
    EXPECT_TRUE(refused(other));
    other.sku = "unknown";
    EXPECT_TRUE(refused(other));
    other = request;
    other.quantity = 1;
    EXPECT_TRUE(refused(other));
    other = request;
    other.buyer = "bob";
    EXPECT_TRUE(refused(other));
    other = request;
    other.ttl = absl::Minutes(2);
    EXPECT_TRUE(refused(other));
    EXPECT_EQ(RefusalOf(shop_->Take({"sneaker", 2, "click", "ann"}).status()), Refusal::kRequestMismatch);
    EXPECT_TRUE(shop_->Reserve(request).ok());
    EXPECT_EQ(shop_->Available("sneaker").value(), 8);
    EXPECT_EQ(shop_->Available("boot").value(), 10);
    Open();
  }
}

// A retry of a restock whose answer was lost used to add the units again.
TEST_F(InventoryRequestsTest, Restock_SentAgain_AddsItsUnitsOnce) {
  Open();
  ASSERT_TRUE(shop_->AddSku("sneaker", {.stock = 10}).ok());
  ASSERT_TRUE(shop_->AddSku("boot", {.stock = 10}).ok());
  ASSERT_TRUE(shop_->Take({.sku = "sneaker", .request_id = "order"}).ok());
  const RestockRequest request{.sku = "sneaker", .quantity = 5, .request_id = "delivery"};
  const auto refusal = [&](const RestockRequest& other) { return RefusalOf(shop_->Restock(other)); };
  EXPECT_EQ(refusal({.sku = "socks", .request_id = "delivery"}), Refusal::kUnknownSku);
  EXPECT_EQ(refusal({.sku = "sneaker", .request_id = ""}), Refusal::kInvalid);
  EXPECT_EQ(refusal({.sku = "sneaker", .quantity = 0, .request_id = "delivery"}), Refusal::kInvalid);
  testing::RunThreads(8, [&](int) { EXPECT_TRUE(shop_->Restock(request).ok()); });
  for (int restarts = 0; restarts < 2; ++restarts) {
    EXPECT_TRUE(shop_->Restock(request).ok());
    EXPECT_EQ(refusal({.sku = "boot", .quantity = 5, .request_id = "delivery"}), Refusal::kRequestMismatch);
    EXPECT_EQ(refusal({.sku = "sneaker", .quantity = 6, .request_id = "delivery"}), Refusal::kRequestMismatch);
    EXPECT_EQ(refusal({.sku = "sneaker", .quantity = 1, .request_id = "order"}), Refusal::kRequestMismatch);
    EXPECT_EQ(RefusalOf(shop_->Take({.sku = "sneaker", .quantity = 5, .request_id = "delivery"}).status()),
              Refusal::kRequestMismatch);
    EXPECT_EQ(shop_->Figures("sneaker")->granted, 15);
    EXPECT_EQ(shop_->Figures("sneaker")->sold, 1);
    Open();
  }
  // It is no order: of all ids only that of the taking has a state.
  const OrderId order = shop_->Take({.sku = "sneaker", .request_id = "order"})->id();
  for (OrderId id = 1; id < 1'000; ++id) EXPECT_EQ(shop_->StateOf(id).ok(), id == order) << id;
  // After the SKU has gone, too.
  ASSERT_TRUE(shop_->RemoveSku("sneaker").ok());
  EXPECT_TRUE(shop_->Restock(request).ok());
  EXPECT_EQ(refusal({.sku = "sneaker", .request_id = "another"}), Refusal::kUnknownSku);
  clock_.Advance(absl::Hours(25));
  EXPECT_EQ(refusal(request), Refusal::kRequestForgotten);
}

TEST_F(InventoryRequestsTest, Repeat_BeforeTheFirstAnswerIsDurable_WaitsForIt) {
  Open();
  ASSERT_TRUE(shop_->AddSku("sneaker", {.stock = 10}).ok());
  disk_->HoldUp(true);
  std::atomic<int> answered{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      EXPECT_TRUE(shop_->Take({.sku = "sneaker", .request_id = "click"}).ok());
      ++answered;
    });
  }
  disk_->AwaitWaiting(2);
  EXPECT_EQ(answered, 0);
  // No lock is held meanwhile: other calls, and those that need every stripe, get through.
  EXPECT_EQ(shop_->Figures("sneaker").value().sold, 1);
  disk_->HoldUp(false);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, 2);
}

TEST_F(InventoryRequestsTest, BuyerLimit_TwoRequestsAtOnce_OneWins) {
  Open();
  const int64_t rounds = testing::Scaled(300, 20'000);
  ASSERT_TRUE(shop_->AddSku("sneaker", {.stock = 10 * rounds, .per_buyer_limit = 1}).ok());
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string buyer = "buyer" + std::to_string(round);
    std::atomic<int> won{0};
    testing::RunThreads(2, [&](int i) {
      const auto order = shop_->Take({"sneaker", 1, buyer + "-" + std::to_string(i), buyer});
      if (order.ok()) {
        ++won;
      } else {
        EXPECT_EQ(order.status().code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(RefusalOf(order.status()), Refusal::kBuyerLimit);
      }
    });
    ASSERT_EQ(won, 1);
  }
}

TEST_F(InventoryRequestsTest, BuyerLimit_CountsWhatIsHeldAndSoldAlsoAfterRestart) {
  Open();
  ASSERT_TRUE(shop_->AddSku("sneaker", {.stock = 10, .per_buyer_limit = 3}).ok());
  EXPECT_EQ(RefusalOf(shop_->Take({.sku = "sneaker", .request_id = "a"}).status()), Refusal::kInvalid);
  ASSERT_TRUE(shop_->Take({"sneaker", 1, "a", "ann"}).ok());
  const Reservation held = shop_->Reserve({"sneaker", 2, "b", "ann"}).value();
  Open();
  EXPECT_EQ(RefusalOf(shop_->Take({"sneaker", 1, "c", "ann"}).status()), Refusal::kBuyerLimit);
  EXPECT_TRUE(shop_->Take({"sneaker", 1, "d", "bob"}).ok());
  ASSERT_TRUE(shop_->Cancel(held.id()).ok());
  EXPECT_EQ(RefusalOf(shop_->Take({"sneaker", 3, "c", "ann"}).status()), Refusal::kBuyerLimit);
  EXPECT_TRUE(shop_->Take({"sneaker", 2, "c", "ann"}).ok());
}

}  // namespace
}  // namespace stockade
