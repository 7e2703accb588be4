#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RecordingDisk;
using testing::RecordingLedger;

class InventoryBasketTest : public ::testing::Test {
 protected:
  InventoryBasketTest() {
    Open();
    EXPECT_TRUE(shop_->AddSku("hat", {.stock = 5, .shards = 2}).ok());
    EXPECT_TRUE(shop_->AddSku("coat", {.stock = 3, .shards = 2, .per_buyer_limit = 2}).ok());
  }

  void Open() {
    shop_.reset();
    shop_ =
        Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk_), .clock = &clock_, .metrics = nullptr})
            .value();
  }
  absl::StatusOr<BasketReservation> Reserve(std::vector<OrderLine> lines, std::string id, std::string buyer = "ann") {
    return shop_->ReserveBasket({.lines = std::move(lines), .request_id = std::move(id), .buyer = std::move(buyer)});
  }
  int64_t Available(const std::string& sku) { return shop_->Available(sku).value(); }
  void ExpectWhole() {
    for (const char* sku : {"hat", "coat"}) {
      const StockFigures at = shop_->Figures(sku).value();
      EXPECT_EQ(at.granted, at.available + at.held + at.sold) << sku;
    }
    EXPECT_TRUE(testing::Replay(disk_->Journal()).never_oversold);
  }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryBasketTest, Lines_OfTheSameSku_AreAddedUp) {
  const BasketReservation held = Reserve({{"hat", 1}, {"coat", 2}, {"hat", 3}}, "a").value();
  EXPECT_THAT(held.lines(), ElementsAre(OrderLine{"coat", 2}, OrderLine{"hat", 4}));
  EXPECT_EQ(held.buyer(), "ann");
  EXPECT_EQ(held.expires_at(), clock_.WallNow() + absl::Minutes(10));
  EXPECT_EQ(Available("hat"), 1);
  EXPECT_EQ(Available("coat"), 1);
  // Each line alone would fit.
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 1}, {"hat", 1}}, "b").status()), Refusal::kAllHeld);
}

TEST_F(InventoryBasketTest, OneSkuShort_NothingIsHeld) {
  const absl::Status refused = Reserve({{"hat", 1}, {"coat", 4}}, "a", "bob").status();
  EXPECT_EQ(RefusalOf(refused), Refusal::kBuyerLimit);
  ASSERT_TRUE(shop_->AddSku("scarf", {.stock = 1}).ok());
  const absl::Status short_one = Reserve({{"hat", 1}, {"scarf", 2}}, "a").status();
  EXPECT_EQ(RefusalOf(short_one), Refusal::kSoldOut);
  EXPECT_THAT(std::string(short_one.message()), HasSubstr("'scarf'"));
  EXPECT_EQ(Available("hat"), 5);
  EXPECT_EQ(Available("scarf"), 1);
  // A refusal took nothing, so the id is as good as new.
  EXPECT_TRUE(Reserve({{"hat", 1}, {"scarf", 1}}, "a").ok());
  ExpectWhole();
}

TEST_F(InventoryBasketTest, BadBaskets_AreInvalidAndChangeNothing) {
  EXPECT_EQ(RefusalOf(Reserve({}, "a").status()), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 1}}, "").status()), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 2}, {"hat", -1}}, "a").status()), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 0}, {"coat", 1}}, "a").status()), Refusal::kInvalid);
  const absl::Status many = Reserve({{"hat", INT64_MAX}, {"coat", 1}, {"hat", 1}}, "a").status();
  EXPECT_EQ(RefusalOf(many), Refusal::kInvalid);
  EXPECT_THAT(std::string(many.message()), HasSubstr("'hat'"));
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 1}, {"boot", 1}}, "a").status()), Refusal::kUnknownSku);
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 1}, {"coat", 1}}, "a", "").status()), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(Reserve({{"hat", INT64_MAX}}, "a").status()), Refusal::kSoldOut);
  EXPECT_EQ(Available("hat"), 5);
  EXPECT_EQ(Available("coat"), 3);
  EXPECT_EQ(disk_->Journal().size(), 2);
}

TEST_F(InventoryBasketTest, Repeat_GetsTheFirstAnswer_AlsoWithLinesInAnotherOrder) {
  const BasketReservation held = Reserve({{"hat", 2}, {"coat", 1}}, "a").value();
  EXPECT_EQ(Reserve({{"coat", 1}, {"hat", 1}, {"hat", 1}}, "a").value(), held);
  EXPECT_EQ(RefusalOf(Reserve({{"coat", 1}, {"hat", 3}}, "a").status()), Refusal::kRequestMismatch);
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 2}}, "a").status()), Refusal::kRequestMismatch);
  EXPECT_EQ(RefusalOf(Reserve({{"hat", 2}, {"coat", 1}}, "a", "bob").status()), Refusal::kRequestMismatch);
  // A basket of one line and a reservation of it are two different calls.
  ASSERT_TRUE(Reserve({{"hat", 1}}, "b").ok());
  EXPECT_EQ(RefusalOf(shop_->Reserve({.sku = "hat", .request_id = "b", .buyer = "ann"}).status()),
            Refusal::kRequestMismatch);
  EXPECT_EQ(Available("hat"), 2);
  Open();
  EXPECT_EQ(Reserve({{"hat", 2}, {"coat", 1}}, "a").value(), held);
  EXPECT_EQ(Available("hat"), 2);
  ExpectWhole();
}

TEST_F(InventoryBasketTest, Settling_IsOfTheWholeBasket) {
  const OrderId sold = Reserve({{"hat", 1}, {"coat", 1}}, "a").value().id();
  const OrderId cancelled = Reserve({{"hat", 1}, {"coat", 1}}, "b").value().id();
  EXPECT_TRUE(shop_->Commit(sold).ok());
  EXPECT_EQ(shop_->Cancel(sold).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(shop_->Cancel(cancelled).ok());
  EXPECT_EQ(shop_->Commit(cancelled).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shop_->Figures("coat").value().sold, 1);
  EXPECT_EQ(Available("coat"), 2);
  // The cancelled one no longer counts for the buyer; the sold one does.
  EXPECT_EQ(RefusalOf(Reserve({{"coat", 2}}, "c").status()), Refusal::kBuyerLimit);
  const OrderId expired = Reserve({{"coat", 1}, {"hat", 4}}, "d").value().id();
  clock_.Advance(absl::Minutes(10));
  EXPECT_EQ(shop_->Commit(expired).code(), absl::StatusCode::kFailedPrecondition);
  while (Available("hat") != 4 || Available("coat") != 2) std::this_thread::yield();
  EXPECT_EQ(shop_->StateOf(expired).value(), OrderState::kExpired);
  ExpectWhole();
}

TEST_F(InventoryBasketTest, OppositeOrders_NoDeadlockAndNothingLost) {
  ASSERT_TRUE(shop_->AddSku("glove", {.stock = 2, .shards = 2}).ok());
  std::atomic<int64_t> baskets = 0;
  const int64_t rounds = testing::Scaled(2'000, 100'000);
  testing::RunThreads(4, [&](int thread) {
    std::vector<OrderLine> lines = {{"hat", 1}, {"glove", 1}};
    if (thread % 2 == 1) std::reverse(lines.begin(), lines.end());
    for (int64_t i = 0; i < rounds; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      const auto held = Reserve(lines, id, "");
      if (!held.ok()) {
        // Nothing is ever sold.
        EXPECT_EQ(RefusalOf(held.status()), Refusal::kAllHeld) << held.status();
        continue;
      }
      ++baskets;
      EXPECT_TRUE(shop_->Cancel(held->id()).ok());
    }
  });
  EXPECT_GT(baskets, 0);
  EXPECT_EQ(Available("hat"), 5);
  EXPECT_EQ(Available("glove"), 2);
  ExpectWhole();
}

// Baskets of both and takers of one: whatever they do, what is sold of both together is what was there.
TEST_F(InventoryBasketTest, RacingWithSingleTakes_SellsExactlyTheStock) {
  ASSERT_TRUE(shop_->AddSku("left", {.stock = 100, .shards = 4}).ok());
  ASSERT_TRUE(shop_->AddSku("right", {.stock = 100, .shards = 4}).ok());
  std::atomic<int64_t> left = 0;
  std::atomic<int64_t> right = 0;
  testing::RunThreads(4, [&](int thread) {
    for (int i = 0; i < 150; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      if (thread % 2 == 0) {
        if (shop_->Take({.sku = "left", .request_id = id}).ok()) ++left;
      } else if (Reserve({{"right", 1}, {"left", 1}}, id, "").ok()) {
        ++left;
        ++right;
      }
    }
  });
  EXPECT_EQ(left, 100);
  EXPECT_EQ(Available("left"), 0);
  EXPECT_EQ(Available("right"), 100 - right);
  ExpectWhole();
}

}  // namespace
}  // namespace stockade
