// How asynchronous calls end early, and which outcomes are unknown then.
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
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

class InventoryWaitTest : public ::testing::Test {
 protected:
  InventoryWaitTest() {
    EXPECT_TRUE(shop_->AddSku("sneaker", {.stock = 9}).ok());
    disk_->HoldUp(true);
  }
  ~InventoryWaitTest() override { disk_->HoldUp(false); }

  using Answer = std::future<absl::StatusOr<Order>>;
  Answer Take(const std::string& id, const InventoryCallOptions& options) {
    const auto answer = std::make_shared<std::promise<absl::StatusOr<Order>>>();
    shop_->TakeAsync(
        {.sku = "sneaker", .request_id = id}, executor_,
        [answer](absl::StatusOr<Order> order) { answer->set_value(std::move(order)); }, options);
    return answer->get_future();
  }
  // Once there is room on the disk.
  int64_t Sold() {
    disk_->HoldUp(false);
    return shop_->Figures("sneaker")->sold;
  }
  static bool Says(const absl::Status& status, std::string_view text) {
    return status.message().find(absl::string_view(text.data(), text.size())) != std::string_view::npos;
  }

  ManualClock clock_;
  InlineExecutor executor_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_ =
      Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk_), .clock = &clock_, .metrics = nullptr})
          .value();
};

TEST_F(InventoryWaitTest, TimeOut_AnswersAndTheCallGoesOn) {
  Answer answer = Take("a", {.timeout = absl::Seconds(1)});
  Answer patient = Take("b", {.timeout = absl::Seconds(1) + absl::Nanoseconds(1)});
  clock_.Advance(absl::Seconds(1));
  const absl::Status late = answer.get().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_TRUE(OutcomeUnknown(late));
  EXPECT_TRUE(Says(late, "TakeAsync(): the time-out has passed; the outcome is unknown")) << late;
  disk_->HoldUp(false);
  EXPECT_TRUE(patient.get().ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Sold(), 2);
  EXPECT_TRUE(Take("a", {}).get().ok()) << "the same request shows the outcome";
  EXPECT_EQ(Sold(), 2);
}

TEST_F(InventoryWaitTest, Stop_AnswersAndTheCallGoesOn) {
  std::stop_source stop;
  Answer answer = Take("a", {.stop = stop.get_token()});
  Answer other = Take("b", {});
  stop.request_stop();
  const absl::Status stopped = answer.get().status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  EXPECT_TRUE(OutcomeUnknown(stopped));
  disk_->HoldUp(false);
  EXPECT_TRUE(other.get().ok());
  EXPECT_EQ(Sold(), 2);
}

TEST_F(InventoryWaitTest, TooLateBefore_NothingHasChanged) {
  std::stop_source stop;
  stop.request_stop();
  const absl::Status stopped = Take("a", {.stop = stop.get_token()}).get().status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  for (const absl::Duration timeout : {absl::ZeroDuration(), -absl::InfiniteDuration()}) {
    const absl::Status late = Take("b", {.timeout = timeout}).get().status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
    EXPECT_TRUE(Says(late, "nothing has changed")) << late;
    EXPECT_FALSE(OutcomeUnknown(late));
  }
  EXPECT_TRUE(Says(stopped, "nothing has changed")) << stopped;
  EXPECT_FALSE(OutcomeUnknown(stopped));
  EXPECT_EQ(Sold(), 0);
}

TEST_F(InventoryWaitTest, Answer_ComesBeforeTheTimeOutAndTheStop) {
  disk_->HoldUp(false);
  std::stop_source stop;
  Answer answer = Take("a", {.timeout = absl::Seconds(1), .stop = stop.get_token()});
  EXPECT_TRUE(answer.get().ok());
  clock_.Advance(absl::Seconds(2));
  stop.request_stop();
  const absl::Status refused = shop_->Take({"sneaker", 9, "c", ""}).status();
  EXPECT_EQ(RefusalOf(refused), Refusal::kSoldOut);
  EXPECT_FALSE(OutcomeUnknown(refused));
}

TEST_F(InventoryWaitTest, FindThatIsTooLate_HasNoOutcome) {
  Answer taking = Take("a", {});
  std::promise<absl::Status> answered;
  shop_->FindAsync({.request_id = "a"}, executor_,
                   [&](const absl::StatusOr<OrderInfo>& found) { answered.set_value(found.status()); },
                   {.timeout = absl::Seconds(1)});
  clock_.Advance(absl::Seconds(1));
  const absl::Status late = answered.get_future().get();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_FALSE(OutcomeUnknown(late));
  EXPECT_FALSE(Says(late, "changed")) << late;
  disk_->HoldUp(false);
  EXPECT_TRUE(taking.get().ok());
}

TEST_F(InventoryWaitTest, DestroyedWhileCallsWait_EachIsAnsweredOnce) {
  std::vector<Answer> answers;
  std::stop_source stop;
  for (int i = 0; i < 9; ++i) {
    answers.push_back(Take(std::to_string(i), {.timeout = absl::Hours(1), .stop = stop.get_token()}));
  }
  {
    const std::lock_guard lock(disk_->mutex);
    disk_->fail_at = disk_->durable + 1;
  }
  shop_.reset();
  stop.request_stop();
  for (Answer& answer : answers) {
    const absl::Status status = answer.get().status();
    EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
    EXPECT_TRUE(OutcomeUnknown(status)) << status;
  }
}

TEST(InventoryOutcomeTest, LedgerFails_OnlyCallsThatItHadAreUnknown) {
  const auto disk = std::make_shared<RecordingDisk>();
  Inventory failing({.ledger = std::make_unique<RecordingLedger>(disk), .metrics = nullptr});
  ASSERT_TRUE(failing.AddSku("sneaker", {.stock = 9}).ok());
  {
    const std::lock_guard lock(disk->mutex);
    disk->fail_at = disk->durable + 1;
  }
  const absl::Status failed = failing.Take({.sku = "sneaker", .request_id = "a"}).status();
  EXPECT_EQ(RefusalOf(failed), Refusal::kUnavailable);
  EXPECT_TRUE(OutcomeUnknown(failed)) << failed;
  const absl::Status later = failing.Take({.sku = "sneaker", .request_id = "b"}).status();
  EXPECT_FALSE(OutcomeUnknown(later)) << later;
  EXPECT_FALSE(OutcomeUnknown(absl::OkStatus()));
  EXPECT_TRUE(OutcomeUnknown(absl::Status(absl::StatusCode::kCancelled, "")));
  EXPECT_FALSE(OutcomeUnknown(absl::CancelledError("of something else")));
}

}  // namespace
}  // namespace stockade
