// What an inventory writes down, and what it does when that fails.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::RecordingDisk;
using testing::RecordingLedger;

std::unique_ptr<Inventory> Open(const std::shared_ptr<RecordingDisk>& disk, int32_t stripes = 64) {
  return Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk), .metrics = nullptr, .stripes = stripes})
      .value();
}

TEST(InventoryLedgerTest, Restart_SkusOrdersAndIdsGoOn) {
  const auto disk = std::make_shared<RecordingDisk>();
  OrderId last;
  {
    const auto shop = Open(disk);
    ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 10, .shards = 3}).ok());
    ASSERT_TRUE(shop->Restock("sneaker", 5).ok());
    ASSERT_TRUE(shop->Take({.sku = "sneaker", .quantity = 4, .request_id = "a"}).ok());
    ASSERT_TRUE(shop->Cancel(shop->Reserve({.sku = "sneaker", .request_id = "b"})->id()).ok());
    last = shop->Reserve({.sku = "sneaker", .quantity = 3, .request_id = "c"})->id();
  }
  const auto shop = Open(disk);
  EXPECT_EQ(shop->AddSku("sneaker", {.stock = 10}).code(), absl::StatusCode::kAlreadyExists);
  const StockFigures at = shop->Figures("sneaker").value();
  EXPECT_EQ(at.granted, 15);
  EXPECT_EQ(at.available, 8);
  EXPECT_EQ(at.held, 3);
  EXPECT_EQ(at.sold, 4);
  EXPECT_TRUE(shop->Commit(last).ok());
  EXPECT_GT(shop->Take({.sku = "sneaker", .quantity = 8, .request_id = "d"})->id(), last);
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "sneaker", .request_id = "e"}).status()), Refusal::kSoldOut);
}

TEST(InventoryLedgerTest, Recovery_ThatDoesNotAddUp_IsDataLoss) {
  const auto disk = std::make_shared<RecordingDisk>();
  using Kind = LedgerRecord::Kind;
  disk->journal = {{.kind = Kind::kAddSku, .sku = "s", .quantity = 1, .shards = 1},
                   {.kind = Kind::kTake, .order_id = 1, .request_id = "a", .sku = "s", .quantity = 2}};
  EXPECT_EQ(Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk), .metrics = nullptr}).status().code(),
            absl::StatusCode::kDataLoss);
}

// The ledger breaks at each position in turn. Before it: acknowledged. From it on: Unavailable, and whatever the disk
// kept is what a restart finds.
TEST(InventoryLedgerTest, Failure_AtEachPosition_NothingIsHalfDone) {
  for (uint64_t fail_at = 1; fail_at <= 7; ++fail_at) {
    SCOPED_TRACE(fail_at);
    const auto disk = std::make_shared<RecordingDisk>();
    disk->fail_at = fail_at;
    auto shop = Open(disk, 1);  // One stripe numbers its orders without a gap.
    std::vector<absl::Status> answers;
    answers.push_back(shop->AddSku("s", {.stock = 10}));
    answers.push_back(shop->Take({.sku = "s", .quantity = 2, .request_id = "a"}).status());
    answers.push_back(shop->Reserve({.sku = "s", .quantity = 3, .request_id = "b"}).status());
    answers.push_back(shop->Commit(2));
    answers.push_back(shop->Reserve({.sku = "s", .quantity = 1, .request_id = "c"}).status());
    answers.push_back(shop->Cancel(3));
    answers.push_back(shop->Restock("s", 5));
    for (uint64_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].ok(), i + 1 < fail_at) << i << ": " << answers[i];
      if (i + 1 >= fail_at) {
        EXPECT_EQ(RefusalOf(answers[i]), Refusal::kUnavailable) << i << ": " << answers[i];
      }
    }
    EXPECT_EQ(RefusalOf(shop->Health()), Refusal::kUnavailable);
    EXPECT_EQ(RefusalOf(shop->Available("s").status()), Refusal::kUnavailable);
    EXPECT_EQ(RefusalOf(shop->Take({.sku = "s", .quantity = 2, .request_id = "a"}).status()), Refusal::kUnavailable);
    shop.reset();

    disk->Crash();
    shop = Open(disk);
    EXPECT_TRUE(shop->Health().ok());
    if (fail_at == 1) {
      EXPECT_EQ(RefusalOf(shop->Available("s").status()), Refusal::kUnknownSku);
      continue;
    }
    static constexpr int64_t kAvailable[] = {10, 8, 5, 5, 4, 5};
    const StockFigures at = shop->Figures("s").value();
    EXPECT_EQ(at.available, kAvailable[fail_at - 2]);
    EXPECT_EQ(at.granted, at.available + at.held + at.sold);
  }
}

TEST(InventoryLedgerTest, Journal_UnderLoad_EveryPrefixCoversWhatWasTaken) {
  const auto disk = std::make_shared<RecordingDisk>();
  const auto shop = Open(disk);
  ASSERT_TRUE(shop->AddSku("s", {.stock = 3, .shards = 3}).ok());
  const int64_t rounds = testing::Scaled(1'500, 50'000);
  testing::RunThreads(4, [&](int thread) {
    for (int64_t i = 0; i < rounds; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      const auto held = shop->Reserve({.sku = "s", .quantity = 1 + i % 2, .request_id = id});
      if (held.ok()) {
        EXPECT_TRUE((i % 16 == 0 ? shop->Commit(held->id()) : shop->Cancel(held->id())).ok());
      }
      if (i % 16 == 0) {
        EXPECT_TRUE(shop->Restock("s", 1).ok());
      }
    }
  });
  const testing::Replayed replayed = testing::Replay(disk->Journal());
  EXPECT_TRUE(replayed.never_oversold);
  const StockFigures at = shop->Figures("s").value();
  EXPECT_EQ(at.granted, at.available + at.held + at.sold);
  EXPECT_EQ(replayed.state.skus.at(0).granted, at.granted);
}

}  // namespace
}  // namespace stockade
