#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
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

using ::testing::HasSubstr;
using testing::RecordingDisk;
using testing::RecordingLedger;

constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

class InventoryExpiryTest : public ::testing::Test {
 protected:
  InventoryExpiryTest() {
    Open();
    EXPECT_TRUE(shop_->AddSku("sneaker", {.stock = 5, .shards = 2, .per_buyer_limit = 4}).ok());
  }

  void Open() {
    shop_.reset();
    shop_ =
        Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk_), .clock = &clock_, .metrics = nullptr})
            .value();
  }
  Reservation Reserve(const std::string& id, absl::Duration ttl = absl::Minutes(10)) {
    return shop_->Reserve({.sku = "sneaker", .quantity = 2, .request_id = id, .buyer = "ann", .ttl = ttl}).value();
  }
  void AwaitAvailable(int64_t units) {
    while (shop_->Available("sneaker").value() != units) std::this_thread::yield();
  }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryExpiryTest, Expiry_EndsTheRightAtOnceAndUnitsComeBack) {
  const Reservation held = Reserve("a");
  EXPECT_EQ(held.expires_at(), clock_.WallNow() + absl::Minutes(10));
  clock_.Advance(absl::Minutes(10) - absl::Nanoseconds(1));
  EXPECT_EQ(shop_->StateOf(held.id()).value(), OrderState::kHeld);
  EXPECT_EQ(shop_->Available("sneaker").value(), 3);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(shop_->StateOf(held.id()).value(), OrderState::kExpired);
  const absl::Status late = shop_->Commit(held.id());
  EXPECT_EQ(late.code(), kFailedPrecondition);
  EXPECT_THAT(std::string(late.message()), HasSubstr("has expired"));
  EXPECT_EQ(RefusalOf(late), Refusal::kExpired);
  AwaitAvailable(5);
  EXPECT_EQ(shop_->Commit(held.id()).code(), kFailedPrecondition);
  EXPECT_TRUE(shop_->Cancel(held.id()).ok());
  // The repeat gets the first answer, with the state of now; the buyer's limit is free again.
  const Reservation repeated = Reserve("a");
  EXPECT_EQ(repeated.id(), held.id());
  EXPECT_EQ(repeated.expires_at(), held.expires_at());
  EXPECT_EQ(repeated.state(), OrderState::kExpired);
  EXPECT_TRUE(shop_->Take({"sneaker", 4, "b", "ann"}).ok());
}

TEST_F(InventoryExpiryTest, Expiry_OfTheEarlierOfTwo_LeavesTheLater) {
  const Reservation later = Reserve("later", absl::Minutes(2));
  const Reservation earlier = Reserve("earlier", absl::Minutes(1));
  clock_.Advance(absl::Minutes(1));
  AwaitAvailable(3);
  EXPECT_EQ(shop_->StateOf(earlier.id()).value(), OrderState::kExpired);
  EXPECT_TRUE(shop_->Commit(later.id()).ok());
  clock_.Advance(absl::Minutes(5));
  EXPECT_EQ(shop_->Figures("sneaker").value().sold, 2);
}

TEST_F(InventoryExpiryTest, CommitAndCancel_AreIdempotentAndExcludeEachOther) {
  const Reservation sold = Reserve("sold");
  EXPECT_TRUE(shop_->Commit(sold.id()).ok());
  EXPECT_TRUE(shop_->Commit(sold.id()).ok());
  const absl::Status cancel = shop_->Cancel(sold.id());
  EXPECT_EQ(cancel.code(), kFailedPrecondition);
  EXPECT_THAT(std::string(cancel.message()), HasSubstr("it is sold"));
  EXPECT_EQ(RefusalOf(cancel), Refusal::kCommitted);
  const Reservation cancelled = Reserve("cancelled");
  EXPECT_TRUE(shop_->Cancel(cancelled.id()).ok());
  EXPECT_TRUE(shop_->Cancel(cancelled.id()).ok());
  const absl::Status commit = shop_->Commit(cancelled.id());
  EXPECT_EQ(commit.code(), kFailedPrecondition);
  EXPECT_THAT(std::string(commit.message()), HasSubstr("was cancelled"));
  EXPECT_EQ(RefusalOf(commit), Refusal::kCancelled);
  const StockFigures at = shop_->Figures("sneaker").value();
  EXPECT_EQ(at.sold, 2);
  EXPECT_EQ(at.available, 3);
  EXPECT_EQ(shop_->Cancel(shop_->Take({"sneaker", 1, "t", "bob"})->id()).code(), kFailedPrecondition);
}

TEST_F(InventoryExpiryTest, Commit_AtTheMomentOfExpiry_ExactlyOneWins) {
  int committed = 0;
  const int64_t rounds = testing::Scaled(500, 50'000);
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string sku = "item" + std::to_string(round);
    ASSERT_TRUE(shop_->AddSku(sku, {.stock = 1}).ok());
    const Reservation held = shop_->Reserve({.sku = sku, .request_id = sku, .ttl = absl::Seconds(1)}).value();
    absl::Status commit;
    absl::Status cancel;
    testing::RunThreads(3, [&](int thread) {
      if (thread == 0) commit = shop_->Commit(held.id());
      if (thread == 1) clock_.Advance(absl::Seconds(1));
      if (thread == 2 && round % 2 == 0) cancel = shop_->Cancel(held.id());
    });
    const OrderState state = shop_->StateOf(held.id()).value();
    ASSERT_EQ(commit.ok(), state == OrderState::kSold) << commit;
    ASSERT_NE(state, OrderState::kHeld);
    while (shop_->Figures(sku).value().held != 0) std::this_thread::yield();
    ASSERT_EQ(shop_->Available(sku).value(), commit.ok() ? 0 : 1);
    committed += commit.ok();
  }
  EXPECT_TRUE(testing::Replay(disk_->Journal()).never_oversold);
  RecordProperty("committed", committed);
}

TEST_F(InventoryExpiryTest, Repeat_OfARequest_SaysWhatHasBecomeOfItsOrder) {
  const auto basket = [&] {
    return shop_->ReserveBasket({.lines = {{"sneaker", 1}}, .request_id = "basket", .buyer = "bob"}).value();
  };
  EXPECT_EQ(shop_->Take({"sneaker", 1, "taken", "bob"})->state(), OrderState::kSold);
  EXPECT_EQ(Reserve("expired").state(), OrderState::kHeld);
  EXPECT_EQ(Reserve("expired").state(), OrderState::kHeld);
  const BasketReservation cancelled = basket();
  EXPECT_EQ(cancelled.state(), OrderState::kHeld);
  ASSERT_TRUE(shop_->Cancel(cancelled.id()).ok());
  for (int restarts = 0; restarts < 2; ++restarts) {
    EXPECT_EQ(basket().state(), OrderState::kCancelled);
    EXPECT_EQ(shop_->Take({"sneaker", 1, "taken", "bob"})->state(), OrderState::kSold);
    // At once, whether the reaper has come by or not.
    if (restarts == 0) clock_.Advance(absl::Minutes(10));
    EXPECT_EQ(Reserve("expired").state(), OrderState::kExpired);
    EXPECT_EQ(shop_->Figures("sneaker")->available, 4);
    Open();
  }
  const Reservation sold = Reserve("sold");
  ASSERT_TRUE(shop_->Commit(sold.id()).ok());
  EXPECT_EQ(Reserve("sold").state(), OrderState::kSold);
}

TEST_F(InventoryExpiryTest, Restart_ReservationRunsOnForWhatTheWallClockLeaves) {
  const Reservation held = Reserve("a");
  shop_.reset();
  clock_.Advance(absl::Minutes(4));
  Open();
  EXPECT_EQ(Reserve("a"), held);
  clock_.Advance(absl::Minutes(6) - absl::Microseconds(1));
  EXPECT_EQ(shop_->StateOf(held.id()).value(), OrderState::kHeld);
  clock_.Advance(absl::Microseconds(1));
  EXPECT_EQ(shop_->Commit(held.id()).code(), kFailedPrecondition);
  AwaitAvailable(5);
}

TEST_F(InventoryExpiryTest, Restart_WallClockSetBackOrFarAhead_RemainingTimeIsClamped) {
  const Reservation held = Reserve("a");
  shop_.reset();
  clock_.StepWallTime(-absl::Hours(24));
  Open();
  clock_.Advance(absl::Minutes(10) - absl::Nanoseconds(1));
  EXPECT_EQ(shop_->StateOf(held.id()).value(), OrderState::kHeld);
  shop_.reset();
  clock_.StepWallTime(absl::Hours(48));
  Open();
  EXPECT_EQ(shop_->StateOf(held.id()).value(), OrderState::kExpired);
  AwaitAvailable(5);
}

TEST_F(InventoryExpiryTest, InfiniteTtl_NeverExpires) {
  const Reservation held = Reserve("a", absl::InfiniteDuration());
  EXPECT_EQ(held.expires_at(), absl::InfiniteFuture());
  clock_.Advance(absl::Hours(24 * 3650));
  Open();
  EXPECT_EQ(Reserve("a", absl::InfiniteDuration()), held);
  EXPECT_TRUE(shop_->Commit(held.id()).ok());
}

TEST(InventoryExpiryRealClockTest, Expiry_OnTheSystemClock_UnitsAreForSaleAgain) {
  Inventory shop({.metrics = nullptr});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 1}).ok());
  const Instant start = Clock::System()->Now();
  ASSERT_TRUE(shop.Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Milliseconds(20)}).ok());
  while (!shop.Take({.sku = "sneaker", .request_id = "b"}).ok()) std::this_thread::yield();
  EXPECT_GE(Clock::System()->Now() - start, absl::Milliseconds(5));
}

TEST_F(InventoryExpiryTest, Expiry_OfTheFewLeftAmongManySettled_ComesInTime) {
  ManualClock clock;
  Inventory shop({.clock = &clock, .metrics = nullptr, .stripes = 1});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 1'000}).ok());
  std::vector<OrderId> held;
  for (int i = 0; i < 1'000; ++i) {
    // Deadlines up and down.
    const absl::Duration ttl = absl::Seconds(1 + i * 7 % 100);
    held.push_back(shop.Reserve({.sku = "sneaker", .request_id = std::to_string(i), .ttl = ttl})->id());
  }
  int64_t left = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    const size_t one = (i * 389) % held.size();
    if (one % 97 == 0) {
      ++left;
    } else {
      ASSERT_TRUE((one % 2 == 0 ? shop.Commit(held[one]) : shop.Cancel(held[one])).ok());
    }
  }
  const int64_t sold = shop.Figures("sneaker")->sold;
  EXPECT_EQ(shop.Figures("sneaker")->held, left);
  for (int second = 1; second <= 100; ++second) {
    clock.Advance(absl::Seconds(1));
    int64_t running = 0;
    for (size_t one = 0; one < held.size(); one += 97) running += static_cast<int64_t>(1 + one * 7 % 100) > second;
    while (shop.Figures("sneaker")->held != running) std::this_thread::yield();
  }
  EXPECT_EQ(shop.Available("sneaker").value(), 1'000 - sold);
}

// Otherwise a take has to wait for all of them: they used to be appended at once.
TEST_F(InventoryExpiryTest, Expiry_OfManyAtOnce_LeavesTheLedgerRoomForBuyers) {
  constexpr int kOrders = 1'000;
  ASSERT_TRUE(shop_->AddSku("sock", {.stock = kOrders + 1}).ok());
  for (int i = 0; i < kOrders; ++i) {
    ASSERT_TRUE(shop_->Reserve({.sku = "sock", .request_id = std::to_string(i)}).ok());
  }
  const auto expired = [&] {
    return std::ranges::count(disk_->Journal(), LedgerRecord::Kind::kExpire, &LedgerRecord::kind);
  };
  const auto reaper_waits = [&] {
    const std::lock_guard lock(disk_->mutex);
    return disk_->waiting > 0;
  };
  disk_->HoldUp(true);
  clock_.Advance(absl::Minutes(10));
  while (!reaper_waits() && expired() < kOrders) std::this_thread::yield();
  EXPECT_EQ(expired(), 256);
  disk_->HoldUp(false);
  while (shop_->Figures("sock")->held > 0) std::this_thread::yield();
  EXPECT_TRUE(shop_->Take({.sku = "sock", .quantity = kOrders + 1, .request_id = "all"}).ok());
}

// A wake-up that is missed leaves units with nobody: the last wait would not end.
TEST_F(InventoryExpiryTest, Reaper_WhileTimePassesAndReservationsComeAndGo_MissesNone) {
  ManualClock clock;
  Inventory shop({.clock = &clock, .metrics = nullptr, .stripes = 3});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 1'000'000'000, .shards = 2}).ok());
  const int64_t rounds = testing::Scaled(3'000, 200'000);
  std::atomic<int> running = 3;
  testing::RunThreads(4, [&](int thread) {
    if (thread == 3) {
      while (running > 0) clock.Advance(absl::Microseconds(300));
      return;
    }
    for (int64_t i = 0; i < rounds; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      const absl::Duration ttl = absl::Milliseconds(1 + i * 5 % 7);
      const auto held = shop.Reserve({.sku = "sneaker", .request_id = id, .ttl = ttl});
      ASSERT_TRUE(held.ok());
      if (i % 3 == 0) (void)shop.Commit(held->id());
      if (i % 3 == 1) (void)shop.Cancel(held->id());
    }
    --running;
  });
  clock.Advance(absl::Milliseconds(7));
  while (shop.Figures("sneaker")->held != 0) std::this_thread::yield();
  const StockFigures at = shop.Figures("sneaker").value();
  EXPECT_EQ(at.granted, at.available + at.sold);
}

}  // namespace
}  // namespace stockade
