#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>

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

class InventoryCatalogueTest : public ::testing::Test {
 protected:
  InventoryCatalogueTest() {
    Open();
    EXPECT_TRUE(shop_->AddSku("old", {.stock = 10, .shards = 2, .per_buyer_limit = 5}).ok());
    EXPECT_TRUE(shop_->AddSku("new", {.stock = 10, .shards = 2}).ok());
  }

  void Open() {
    shop_.reset();
    shop_ =
        Inventory::Create(
            {.ledger = std::make_unique<RecordingLedger>(disk_), .clock = &clock_, .metrics = nullptr, .max_shards = 4})
            .value();
  }
  Reservation Reserve(const std::string& sku, int64_t quantity, const std::string& id) {
    return shop_->Reserve({.sku = sku, .quantity = quantity, .request_id = id, .buyer = "ann"}).value();
  }
  absl::Status Take(const std::string& sku, const std::string& id) {
    return shop_->Take({.sku = sku, .request_id = id, .buyer = "bob"}).status();
  }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryCatalogueTest, RemoveSku_EndsTheSaleForGood) {
  EXPECT_TRUE(Take("old", "a").ok());
  EXPECT_TRUE(shop_->RemoveSku("old").ok());
  EXPECT_EQ(RefusalOf(Take("old", "b")), Refusal::kUnknownSku);
  EXPECT_EQ(RefusalOf(shop_->Restock("old", 1)), Refusal::kUnknownSku);
  EXPECT_EQ(RefusalOf(shop_->Reshard("old", 1)), Refusal::kUnknownSku);
  EXPECT_EQ(RefusalOf(shop_->Available("old").status()), Refusal::kUnknownSku);
  EXPECT_EQ(RefusalOf(shop_->RemoveSku("old")), Refusal::kUnknownSku);
  EXPECT_EQ(RefusalOf(shop_->RemoveSku("never")), Refusal::kUnknownSku);
  const absl::Status again = shop_->AddSku("old", {.stock = 1});
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("there was a SKU 'old'"));
  EXPECT_TRUE(Take("new", "c").ok());
  // What was sold stays sold, and its request keeps its answer.
  EXPECT_TRUE(Take("old", "a").ok());
  EXPECT_EQ(shop_->Figures("old").value().granted, 1);
  EXPECT_EQ(shop_->Figures("old").value().sold, 1);
}

TEST_F(InventoryCatalogueTest, RemoveSku_WithALimit_IsUnknownToEveryBuyer) {
  ASSERT_TRUE(shop_->Take({.sku = "old", .quantity = 5, .request_id = "a", .buyer = "bob"}).ok());
  EXPECT_EQ(RefusalOf(Take("old", "b")), Refusal::kBuyerLimit);
  ASSERT_TRUE(shop_->RemoveSku("old").ok());
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(RefusalOf(Take("old", "b")), Refusal::kUnknownSku);
    EXPECT_EQ(RefusalOf(shop_->Take({.sku = "old", .request_id = "c"}).status()), Refusal::kUnknownSku);
    EXPECT_EQ(RefusalOf(shop_->Take({.sku = "old", .quantity = 9, .request_id = "d", .buyer = "eve"}).status()),
              Refusal::kUnknownSku);
    Open();
  }
}

TEST_F(InventoryCatalogueTest, RemoveSku_ReservationsRunOn_AndWhatTheyGiveBackIsWithdrawn) {
  const OrderId bought = Reserve("old", 1, "a").id();
  const OrderId cancelled = Reserve("old", 2, "b").id();
  Reserve("old", 1, "c");
  EXPECT_TRUE(shop_->RemoveSku("old").ok());
  EXPECT_TRUE(shop_->Commit(bought).ok());
  EXPECT_TRUE(shop_->Cancel(cancelled).ok());
  for (int restart = 0; restart < 2; ++restart) {
    const StockFigures at = shop_->Figures("old").value();
    EXPECT_EQ(at.granted, 2);
    EXPECT_EQ(at.available, 0);
    EXPECT_EQ(at.held, 1);
    EXPECT_EQ(at.sold, 1);
    Open();
  }
  clock_.Advance(absl::Minutes(10));
  while (shop_->Figures("old").value().held != 0) std::this_thread::yield();
  EXPECT_EQ(shop_->Figures("old").value().granted, 1);
  EXPECT_EQ(RefusalOf(Take("old", "d")), Refusal::kUnknownSku);
  EXPECT_EQ(shop_->AddSku("old", {.stock = 1}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(testing::Replay(disk_->Journal()).never_oversold);
}

TEST_F(InventoryCatalogueTest, AddAndRemove_WhileOthersSell_EveryUnitIsAccountedFor) {
  std::atomic<int64_t> sold = 0;
  std::atomic<bool> stop = false;
  const int64_t rounds = testing::Scaled(200, 5'000);
  testing::RunThreads(3, [&](int thread) {
    if (thread == 0) {
      for (int64_t i = 0; i < rounds; ++i) {
        const std::string sku = "sku-" + std::to_string(i);
        EXPECT_TRUE(shop_->AddSku(sku, {.stock = 100, .shards = 2, .per_buyer_limit = 1'000'000}).ok());
        EXPECT_TRUE(shop_->RemoveSku(sku).ok());
      }
      stop = true;
      return;
    }
    for (int64_t i = 0; !stop; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      const std::string sku = "sku-" + std::to_string(i % rounds);
      const auto held = shop_->Reserve({.sku = sku, .request_id = id, .buyer = "ann"});
      if (!held.ok()) {
        EXPECT_EQ(RefusalOf(held.status()), Refusal::kUnknownSku) << held.status();
      } else if (i % 2 == 0) {
        EXPECT_TRUE(shop_->Cancel(held->id()).ok());
      } else {
        EXPECT_TRUE(shop_->Commit(held->id()).ok());
        ++sold;
      }
    }
  });
  int64_t granted = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    const StockFigures at = shop_->Figures("sku-" + std::to_string(i)).value();
    EXPECT_EQ(at.granted, at.sold);
    EXPECT_EQ(at.available, 0);
    EXPECT_EQ(at.held, 0);
    granted += at.granted;
  }
  EXPECT_EQ(granted, sold);
  EXPECT_TRUE(testing::Replay(disk_->Journal()).never_oversold);
}

TEST_F(InventoryCatalogueTest, EnsureSku_AddsTheSkuOnce) {
  for (int restart = 0; restart < 2; ++restart) {
    ASSERT_TRUE(shop_->EnsureSku("hat", {.stock = 10, .shards = 2, .per_buyer_limit = 3}).ok());
    // The stock and the shards of a SKU that exists stay.
    ASSERT_TRUE(shop_->EnsureSku("hat", {.stock = 20, .shards = 4, .per_buyer_limit = 3}).ok());
    EXPECT_EQ(shop_->Figures("hat").value().granted, 10);
    EXPECT_EQ(shop_->Snapshot("hat").value().shards, 2);
    EXPECT_EQ(shop_->Snapshot("hat").value().per_buyer_limit, 3);
    EXPECT_TRUE(Take("hat", std::to_string(restart)).ok());
    Open();
  }
  EXPECT_EQ(shop_->Available("hat").value(), 8);
  EXPECT_EQ(shop_->AddSku("hat", {.per_buyer_limit = 3}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(shop_->EnsureSku("new", {}).ok());
}

TEST_F(InventoryCatalogueTest, EnsureSku_OfAnotherLimit_NamesBoth) {
  const absl::Status other = shop_->EnsureSku("old", {.stock = 10, .per_buyer_limit = 6});
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(RefusalOf(other), Refusal::kNone);
  EXPECT_THAT(std::string(other.message()), HasSubstr("EnsureSku 'old': its per_buyer_limit is 5, not 6"));
  EXPECT_EQ(shop_->EnsureSku("old", {}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shop_->Snapshot("old").value().per_buyer_limit, 5);
}

TEST_F(InventoryCatalogueTest, EnsureSku_OfARemovedSku_IsAlreadyExists) {
  ASSERT_TRUE(shop_->RemoveSku("old").ok());
  for (const int64_t limit : {5, 6}) {
    const absl::Status again = shop_->EnsureSku("old", {.stock = 10, .per_buyer_limit = limit});
    EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(again.message()), HasSubstr("there was a SKU 'old'"));
  }
  EXPECT_EQ(RefusalOf(shop_->Available("old").status()), Refusal::kUnknownSku);
}

TEST_F(InventoryCatalogueTest, EnsureSku_Invalid_IsRefusedAsByAddSku) {
  const auto expect_invalid = [&](std::string_view sku, const SkuOptions& options, const std::string& text) {
    const absl::Status refused = shop_->EnsureSku(sku, options);
    EXPECT_EQ(RefusalOf(refused), Refusal::kInvalid) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(text));
  };
  expect_invalid("", {}, "EnsureSku: the sku is empty");
  expect_invalid(std::string(kMaxSkuBytes + 1, 'x'), {}, "the sku has 256 bytes");
  expect_invalid("old", {.stock = -1, .per_buyer_limit = 5}, "EnsureSku 'old': stock is -1");
}

// One that exists is not OK before its addition is durable.
TEST_F(InventoryCatalogueTest, EnsureSku_WaitsForTheAdditionOfAnother) {
  disk_->HoldUp(true);
  auto added = std::async(std::launch::async, [&] { return shop_->AddSku("hat", {.stock = 10}); });
  disk_->AwaitWaiting(1);
  auto ensured = std::async(std::launch::async, [&] { return shop_->EnsureSku("hat", {.stock = 20}); });
  disk_->AwaitWaiting(2);
  EXPECT_EQ(disk_->Journal().size(), 3u);
  {
    const std::lock_guard lock(disk_->mutex);
    disk_->fail_at = 3;
  }
  disk_->HoldUp(false);
  EXPECT_EQ(RefusalOf(added.get()), Refusal::kUnavailable);
  EXPECT_EQ(RefusalOf(ensured.get()), Refusal::kUnavailable);
}

TEST_F(InventoryCatalogueTest, EnsureSku_ByManyAtOnce_AddsOnce) {
  const int64_t rounds = testing::Scaled(200, 5'000);
  testing::RunThreads(4, [&](int thread) {
    for (int64_t i = 0; i < rounds; ++i) {
      const std::string sku = "sku-" + std::to_string(i);
      if (thread == 0) {
        const absl::Status added = shop_->AddSku(sku, {.stock = 10});
        EXPECT_TRUE(added.ok() || absl::IsAlreadyExists(added)) << added;
      } else if (thread == 1 && i % 2 == 0) {
        EXPECT_TRUE(shop_->EnsureSku(sku, {.stock = 10}).ok());
        EXPECT_TRUE(shop_->RemoveSku(sku).ok());
      } else {
        const absl::Status ensured = shop_->EnsureSku(sku, {.stock = 10});
        EXPECT_TRUE(ensured.ok() || (i % 2 == 0 && absl::IsAlreadyExists(ensured))) << ensured;
      }
    }
  });
  for (int64_t i = 0; i < rounds; ++i) {
    EXPECT_EQ(shop_->Figures("sku-" + std::to_string(i)).value().granted, i % 2 == 0 ? 0 : 10);
  }
  // One addition per SKU, and each removal once.
  EXPECT_EQ(disk_->Journal().size(), static_cast<size_t>(2 + rounds + (rounds + 1) / 2));
  EXPECT_TRUE(testing::Replay(disk_->Journal()).never_oversold);
}

TEST_F(InventoryCatalogueTest, Reshard_UpToMaxShards_KeepsTheUnits) {
  EXPECT_TRUE(shop_->Reshard("old", 4).ok());
  EXPECT_EQ(shop_->Snapshot("old").value().shards, 4);
  EXPECT_THAT(shop_->Snapshot("old").value().shard_units, ElementsAre(3, 3, 2, 2));
  EXPECT_EQ(shop_->Reshard("old", 5).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(shop_->Reshard("old", 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RefusalOf(shop_->Reshard("never", 1)), Refusal::kUnknownSku);
  EXPECT_EQ(shop_->Available("old").value(), 10);
  Open();
  EXPECT_EQ(shop_->Snapshot("old").value().shards, 2);
  EXPECT_TRUE(shop_->Reshard("old", 4).ok());
}

TEST_F(InventoryCatalogueTest, Snapshot_ShowsEachSkuForSale) {
  const OrderId held = Reserve("old", 3, "a").id();
  EXPECT_TRUE(Take("old", "b").ok());
  const SkuSnapshot old = shop_->Snapshot("old").value();
  EXPECT_EQ(old.sku, "old");
  EXPECT_EQ(old.granted, 10);
  EXPECT_EQ(old.available, 6);
  EXPECT_EQ(old.held, 3);
  EXPECT_EQ(old.sold, 1);
  EXPECT_EQ(old.per_buyer_limit, 5);
  EXPECT_FALSE(old.sold_out);
  EXPECT_EQ(std::accumulate(old.shard_units.begin(), old.shard_units.end(), int64_t{0}), 6);
  const auto all = shop_->Snapshot();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].sku, "new");
  EXPECT_EQ(all[1].sku, "old");
  EXPECT_TRUE(shop_->Take({.sku = "new", .quantity = 10, .request_id = "c"}).ok());
  EXPECT_TRUE(shop_->Snapshot("new").value().sold_out);
  EXPECT_TRUE(shop_->RemoveSku("new").ok());
  EXPECT_EQ(shop_->Snapshot().size(), 1u);
  EXPECT_EQ(RefusalOf(shop_->Snapshot("new").status()), Refusal::kUnknownSku);
  EXPECT_TRUE(shop_->Commit(held).ok());
  EXPECT_EQ(shop_->Snapshot("old").value().sold, 4);
}

}  // namespace
}  // namespace stockade
