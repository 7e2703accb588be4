// The forms of a call: one that waits, one that calls back, one for many.

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/executor.h"
#include "stockade/inventory/inventory.h"

namespace stockade {
namespace {

using testing::RecordingDisk;
using testing::RecordingLedger;

// The stripe of a request decides its order's id: ids of a few requests are spread over the first hundred or so.
constexpr OrderId kNoOrder = 1'000'000;

// Runs the scheduled tasks in RunAll() only.
class ManualExecutor final : public Executor {
 public:
  void Schedule(Task task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  size_t RunAll() {
    std::vector<Task> tasks;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    for (Task& task : tasks) task();
    return tasks.size();
  }

 private:
  std::mutex mutex_;
  std::vector<Task> tasks_;  // Guarded by mutex_.
};

class InventoryFormsTest : public ::testing::TestWithParam<bool> {
 protected:
  InventoryFormsTest() {
    Open();
    EXPECT_TRUE(shop_->AddSku("hat", {.stock = 10, .shards = 2}).ok());
    EXPECT_TRUE(shop_->AddSku("coat", {.stock = 10, .shards = 2}).ok());
  }

  bool has_ledger() const { return GetParam(); }
  void Open() {
    InventoryOptions options{.metrics = nullptr};
    if (has_ledger()) options.ledger = std::make_unique<RecordingLedger>(disk_);
    shop_ = std::make_unique<Inventory>(std::move(options));
  }
  template <class Result>
  auto Into(std::vector<Result>& answers) {
    return [&answers](Result answer) { answers.push_back(std::move(answer)); };
  }

  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  ManualExecutor executor_;
  std::unique_ptr<Inventory> shop_;
};

INSTANTIATE_TEST_SUITE_P(Ledger, InventoryFormsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Recording" : "None"; });

TEST(InventoryFormsDeathTest, Async_WithoutACallback_AbortsWithTheCallsName) {
  InlineExecutor executor;
  Inventory shop({.metrics = nullptr});
  EXPECT_DEATH(shop.ReserveAsync({}, executor, nullptr), "Inventory: ReserveAsync\\(\\) was called without a callback");
  EXPECT_DEATH(shop.ReserveBasketAsync({}, executor, nullptr), "ReserveBasketAsync\\(\\) was called without");
  EXPECT_DEATH(shop.TakeAsync({}, executor, nullptr), "TakeAsync\\(\\) was called without");
  EXPECT_DEATH(shop.CommitAsync(1, executor, nullptr), "CommitAsync\\(\\) was called without");
  EXPECT_DEATH(shop.CancelAsync(1, executor, nullptr), "CancelAsync\\(\\) was called without");
  EXPECT_DEATH(shop.ExtendAsync({}, executor, nullptr), "ExtendAsync\\(\\) was called without");
  EXPECT_DEATH(shop.ReturnAsync({}, executor, nullptr), "ReturnAsync\\(\\) was called without");
}

TEST_P(InventoryFormsTest, Async_AnswersAreThoseOfTheCallsThatBlock_OnTheExecutorOnly) {
  std::vector<absl::StatusOr<Reservation>> reserved;
  std::vector<absl::StatusOr<BasketReservation>> baskets;
  std::vector<absl::StatusOr<Order>> taken;
  std::vector<absl::Status> settled;
  shop_->ReserveAsync({.sku = "hat", .quantity = 2, .request_id = "a"}, executor_, Into(reserved));
  shop_->ReserveBasketAsync({.lines = {{"hat", 1}, {"coat", 1}}, .request_id = "b"}, executor_, Into(baskets));
  shop_->TakeAsync({.sku = "coat", .quantity = 3, .request_id = "c"}, executor_, Into(taken));
  shop_->TakeAsync({.sku = "shoe", .request_id = "d"}, executor_, Into(taken));
  EXPECT_TRUE(reserved.empty() && baskets.empty() && taken.empty());
  EXPECT_EQ(executor_.RunAll(), 4u);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(reserved.at(0).value(), shop_->Reserve({.sku = "hat", .quantity = 2, .request_id = "a"}).value());
  EXPECT_EQ(baskets.at(0).value(),
            shop_->ReserveBasket({.lines = {{"hat", 1}, {"coat", 1}}, .request_id = "b"}).value());
  EXPECT_EQ(taken[0].value(), shop_->Take({.sku = "coat", .quantity = 3, .request_id = "c"}).value());
  EXPECT_EQ(RefusalOf(taken[1].status()), Refusal::kUnknownSku);
  shop_->CommitAsync(reserved[0]->id(), executor_, Into(settled));
  shop_->CancelAsync(baskets[0]->id(), executor_, Into(settled));
  shop_->CancelAsync(reserved[0]->id(), executor_, Into(settled));
  shop_->CommitAsync(kNoOrder, executor_, Into(settled));
  EXPECT_TRUE(settled.empty());
  EXPECT_EQ(executor_.RunAll(), 4u);
  ASSERT_EQ(settled.size(), 4u);
  EXPECT_TRUE(settled[0].ok());
  EXPECT_TRUE(settled[1].ok());
  EXPECT_EQ(settled[2].code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(settled[3].code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(shop_->Figures("hat").value().sold, 2);
  EXPECT_EQ(shop_->Available("coat").value(), 7);
}

TEST_P(InventoryFormsTest, Many_EachIsARequestOfItsOwn_InOrder) {
  const std::vector<ReserveRequest> requests = {{.sku = "hat", .quantity = 6, .request_id = "a"},
                                                {.sku = "hat", .quantity = 6, .request_id = "b"},
                                                {.sku = "shoe", .request_id = "c"},
                                                {.sku = "hat", .quantity = 6, .request_id = "a"},
                                                {.sku = "hat", .quantity = 4, .request_id = "d"}};
  const auto reserved = shop_->ReserveMany(requests);
  ASSERT_EQ(reserved.size(), 5u);
  EXPECT_TRUE(reserved[0].ok());
  EXPECT_EQ(RefusalOf(reserved[1].status()), Refusal::kAllHeld);
  EXPECT_EQ(RefusalOf(reserved[2].status()), Refusal::kUnknownSku);
  EXPECT_EQ(reserved[3].value(), reserved[0].value());
  EXPECT_TRUE(reserved[4].ok());
  const std::vector<OrderId> ids = {reserved[0]->id(), kNoOrder, reserved[4]->id()};
  const auto committed = shop_->CommitMany({ids.data(), 2});
  EXPECT_TRUE(committed.at(0).ok());
  EXPECT_EQ(committed.at(1).code(), absl::StatusCode::kNotFound);
  const auto cancelled = shop_->CancelMany(ids);
  EXPECT_EQ(cancelled.at(0).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(cancelled.at(2).ok());
  const std::vector<TakeRequest> takes = {{.sku = "hat", .quantity = 4, .request_id = "e"},
                                          {.sku = "hat", .request_id = "f"}};
  const auto taken = shop_->TakeMany(takes);
  EXPECT_TRUE(taken.at(0).ok());
  EXPECT_EQ(RefusalOf(taken.at(1).status()), Refusal::kSoldOut);
  EXPECT_TRUE(shop_->ReserveMany({}).empty());
}

class InventoryLedgerFormsTest : public InventoryFormsTest {};
INSTANTIATE_TEST_SUITE_P(Ledger, InventoryLedgerFormsTest, ::testing::Values(true));

TEST_P(InventoryLedgerFormsTest, Async_IsAnsweredWhenDurable_AndNobodyWaits) {
  disk_->HoldUp(true);
  std::vector<absl::StatusOr<Reservation>> reserved;
  shop_->ReserveAsync({.sku = "hat", .request_id = "a"}, executor_, Into(reserved));
  shop_->ReserveAsync({.sku = "hat", .request_id = "b"}, executor_, Into(reserved));
  EXPECT_EQ(executor_.RunAll(), 0u);
  disk_->HoldUp(false);
  EXPECT_EQ(executor_.RunAll(), 2u);
  EXPECT_TRUE(reserved.at(0).ok());
  EXPECT_TRUE(reserved.at(1).ok());
}

TEST_P(InventoryLedgerFormsTest, Async_OfALedgerThatFails_IsUnavailable) {
  std::vector<absl::StatusOr<Reservation>> reserved;
  disk_->fail_at = disk_->Journal().size() + 2;
  shop_->ReserveAsync({.sku = "hat", .request_id = "a"}, executor_, Into(reserved));
  shop_->ReserveAsync({.sku = "hat", .request_id = "b"}, executor_, Into(reserved));
  EXPECT_EQ(executor_.RunAll(), 2u);
  EXPECT_TRUE(reserved.at(0).ok());
  EXPECT_EQ(RefusalOf(reserved.at(1).status()), Refusal::kUnavailable);
}

// The destructor makes the ledger settle what is outstanding. A callback that calls the inventory meanwhile must not
// get an answer that claims durability.
TEST_P(InventoryLedgerFormsTest, Async_CallbackWithinTheDestructor_FindsItUnavailable) {
  const OrderId before = shop_->Take({.sku = "hat", .request_id = "z"})->id();
  disk_->HoldUp(true);
  InlineExecutor inline_executor;
  Inventory* const shop = shop_.get();
  std::vector<absl::Status> within;
  shop->ReserveAsync({.sku = "hat", .request_id = "a"}, inline_executor, [&](const auto& reserved) {
    within.push_back(reserved.status());
    within.push_back(shop->Take({.sku = "hat", .request_id = "b"}).status());
    within.push_back(shop->Commit(1));
    within.push_back(shop->Health());
    within.push_back(shop->Find(before).status());
    shop->FindAsync({.request_id = "z"}, inline_executor, [&](const auto& found) { within.push_back(found.status()); });
  });
  shop_.reset();
  ASSERT_EQ(within.size(), 6u);
  for (const absl::Status& status : within) EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
}

TEST_P(InventoryLedgerFormsTest, Many_WaitsOnceForAll) {
  disk_->HoldUp(true);
  std::vector<ReserveRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back({.sku = "hat", .request_id = std::to_string(i)});
  auto answers = std::async(std::launch::async, [&] { return shop_->ReserveMany(requests); });
  // All are written down before the first is waited for.
  while (disk_->Journal().size() < 2 + requests.size()) std::this_thread::yield();
  disk_->HoldUp(false);
  for (const auto& answer : answers.get()) EXPECT_TRUE(answer.ok()) << answer.status();
}

}  // namespace
}  // namespace stockade
