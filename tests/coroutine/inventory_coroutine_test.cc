// ReserveAwait(), ReserveBasketAwait(), TakeAwait(), CommitAwait(), CancelAwait(), ExtendAwait(),
// ReturnAwait(), FindAwait().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coroutine/coroutines.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/clock.h"
#include "stockade/inventory/coroutine.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

class InventoryCoroutineTest : public ::testing::Test {
 protected:
  InventoryCoroutineTest() { EXPECT_TRUE(shop_->AddSku("shoe", {.stock = 10}).ok()); }

  TaskQueue queue_;
  const AwaitOn on_ = AwaitOn(queue_);
  const std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_ = std::make_unique<Inventory>(
      InventoryOptions{.ledger = std::make_unique<RecordingLedger>(disk_), .metrics = nullptr});
};

Routine Reserves(Inventory& shop, AwaitOn on, std::optional<absl::StatusOr<Reservation>>& answer) {
  const ReserveRequest request = {.sku = "shoe", .request_id = "r", .ttl = absl::Minutes(10)};
  answer = co_await ReserveAwait(shop, request, on);
}

Routine RunsAll(Inventory& shop, AwaitOn on, std::vector<absl::Status>& statuses) {
  const ReserveRequest request = {.sku = "shoe", .quantity = 2, .request_id = "a", .ttl = absl::Minutes(10)};
  const absl::StatusOr<Reservation> held = co_await ReserveAwait(shop, request, on);
  statuses.push_back(held.status());
  const ExtendRequest later = {.order = held->id(), .ttl = absl::Minutes(20)};
  const absl::StatusOr<absl::Time> until = co_await ExtendAwait(shop, later, on);
  EXPECT_GT(until.value(), held->expires_at());
  const FindRequest which = {.request_id = "a"};
  const absl::StatusOr<OrderInfo> found = co_await FindAwait(shop, which, on);
  EXPECT_EQ(found.value(), shop.Find(held->id()).value());
  statuses.push_back(co_await CommitAwait(shop, held->id(), on));
  statuses.push_back(co_await CancelAwait(shop, held->id(), on));  // It is sold.
  const BasketRequest basket = {.lines = {{.sku = "shoe", .quantity = 3}}, .request_id = "b", .ttl = absl::Minutes(10)};
  const absl::StatusOr<BasketReservation> all = co_await ReserveBasketAwait(shop, basket, on);
  statuses.push_back(all.status());
  statuses.push_back(co_await CancelAwait(shop, all->id(), on));
  const TakeRequest take = {.sku = "shoe", .quantity = 9, .request_id = "c"};
  const absl::StatusOr<Order> order = co_await TakeAwait(shop, take, on);
  statuses.push_back(order.status());
  const ReturnRequest back = {.order = held->id(), .request_id = "d"};
  const absl::StatusOr<std::vector<ReturnedLine>> returned = co_await ReturnAwait(shop, back, on);
  EXPECT_EQ(returned.value(), shop.Return(back).value());
}

TEST_F(InventoryCoroutineTest, EachCall_ReturnsWhatTheBlockingOneDoes) {
  std::vector<absl::Status> statuses;
  const Routine routine = RunsAll(*shop_, on_, statuses);
  for (int i = 0; i < 9; ++i) queue_.RunOne();
  ASSERT_EQ(statuses.size(), 6);
  for (const int i : {0, 1, 3, 4}) EXPECT_EQ(statuses[i], absl::OkStatus()) << i;
  EXPECT_EQ(RefusalOf(statuses[2]), Refusal::kCommitted) << statuses[2];
  EXPECT_EQ(RefusalOf(statuses[5]), Refusal::kSoldOut) << statuses[5];
  EXPECT_EQ(shop_->Available("shoe").value(), 10) << "two came back";
}

TEST_F(InventoryCoroutineTest, TooLateBefore_NothingHasChanged) {
  std::stop_source stop;
  stop.request_stop();
  std::optional<absl::StatusOr<Reservation>> stopped, late;
  const Routine one = Reserves(*shop_, AwaitOn(queue_, stop.get_token()), stopped);
  const Routine other = Reserves(*shop_, on_.By(Clock::System()->Now()), late);
  queue_.RunOne();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(stopped->status())) << stopped->status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->status())) << late->status();
  for (const auto* answer : {&stopped, &late}) {
    EXPECT_THAT(std::string((*answer)->status().message()), HasSubstr("nothing has changed"));
    EXPECT_FALSE(OutcomeUnknown((*answer)->status()));
  }
  EXPECT_EQ(shop_->Available("shoe").value(), 10);
}

TEST_F(InventoryCoroutineTest, LateOrStoppedMeanwhile_TheOutcomeIsUnknownAndTheSameRequestSaysIt) {
  disk_->HoldUp(true);
  std::stop_source stop;
  std::optional<absl::StatusOr<Reservation>> late, stopped, again;
  const Routine one = Reserves(*shop_, on_.By(Clock::System()->Now() + absl::Milliseconds(20)), late);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->status())) << late->status();
  const Routine two = Reserves(*shop_, AwaitOn(queue_, stop.get_token()), stopped);
  stop.request_stop();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(stopped->status())) << stopped->status();
  for (const auto* answer : {&late, &stopped}) {
    EXPECT_THAT(std::string((*answer)->status().message()),
                HasSubstr("the outcome is unknown; send the same request id again"));
    EXPECT_TRUE(OutcomeUnknown((*answer)->status()));
  }
  disk_->HoldUp(false);
  const Routine three = Reserves(*shop_, on_, again);
  queue_.RunOne();
  EXPECT_TRUE(again->ok()) << again->status();
  EXPECT_EQ(shop_->Available("shoe").value(), 9);  // Once.
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(InventoryCoroutineTest, CommitIsLate_SaysToSendItAgain) {
  std::optional<absl::StatusOr<Reservation>> held;
  const Routine reserves = Reserves(*shop_, on_, held);
  queue_.RunOne();
  disk_->HoldUp(true);
  absl::Status late;
  const auto commits = [&](AwaitOn on) -> Routine { late = co_await CommitAwait(*shop_, (*held)->id(), on); };
  const Routine routine = commits(on_.By(Clock::System()->Now() + absl::Milliseconds(20)));
  queue_.RunOne();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("the outcome is unknown; send it again"));
  disk_->HoldUp(false);
  EXPECT_EQ(shop_->Commit((*held)->id()), absl::OkStatus());
}

TEST_F(InventoryCoroutineTest, DestroyedWhileItWaits_TheReservationStays) {
  disk_->HoldUp(true);
  std::optional<absl::StatusOr<Reservation>> answer;
  Routine routine = Reserves(*shop_, on_, answer);
  routine.Destroy();
  disk_->HoldUp(false);
  EXPECT_EQ(shop_->Available("shoe").value(), 9);
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(InventoryCoroutineTest, InventoryIsDestroyedWhileItWaits_IsAnswered) {
  disk_->HoldUp(true);
  std::optional<absl::StatusOr<Reservation>> answer;
  const Routine routine = Reserves(*shop_, on_, answer);
  shop_.reset();
  ASSERT_EQ(queue_.size(), 1);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsUnavailable(answer->status())) << answer->status();
}

TEST_F(InventoryCoroutineTest, ManyCoroutinesOnTwoThreads_NothingIsSoldTwice) {
  EXPECT_TRUE(shop_->AddSku("air", {.stock = 200}).ok());
  ThreadPool pool(2);
  const auto count = static_cast<int>(std::max<int64_t>(Scaled(1'000, 20'000), 300));
  std::atomic<int> sold = 0;
  std::latch done(count);
  const auto buys = [&](AwaitOn on, int i) -> Detached {
    const ReserveRequest request = {.sku = "air", .request_id = std::to_string(i), .ttl = absl::Minutes(10)};
    const absl::StatusOr<Reservation> held = co_await ReserveAwait(*shop_, request, on);
    if (held.ok()) {
      const absl::Status committed = co_await CommitAwait(*shop_, held->id(), on);
      EXPECT_TRUE(committed.ok()) << committed;
      ++sold;
    }
    done.count_down();
  };
  for (int i = 0; i < count; ++i) buys(AwaitOn(pool), i);
  done.wait();
  EXPECT_EQ(sold, 200);
}

}  // namespace
}  // namespace stockade::testing
