// An owner that was paused, and superseded meanwhile: what a ledger on a server, given only the calls of Ledger, makes
// of it.

#include "inventory/fenced_ledger.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "inventory/fenced_store.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::FencedLedger;
using ::stockade::testing::FencedStore;
using ::stockade::testing::Replay;
using ::stockade::testing::RunThreads;
using ::stockade::testing::Scaled;

std::unique_ptr<Inventory> OwnerWith(FencedStore& store, uint64_t token) {
  return Inventory::Create({.ledger = FencedLedger::Open(store, token).value(), .metrics = nullptr}).value();
}

// Of the journal: how many units each request id has taken. A failed test where one has twice, or where more was taken
// than there was.
std::map<std::string, int64_t> TakenIn(const FencedStore& store) {
  const std::vector<LedgerRecord> journal = store.Journal();
  EXPECT_TRUE(Replay(journal).never_oversold);
  std::map<std::string, int64_t> taken;
  for (const LedgerRecord& record : journal) {
    if (record.kind == LedgerRecord::Kind::kTake) {
      EXPECT_TRUE(taken.emplace(record.request_id, record.lines[0].quantity).second) << record.request_id;
    }
  }
  return taken;
}

TEST(FencedLedgerTest, OldOwner_PausedBeforeItsCommit_WritesNothingMore) {
  FencedStore store;
  const auto old_owner = OwnerWith(store, 1);
  ASSERT_TRUE(old_owner->AddSku("shoe", {.stock = 10}).ok());
  ASSERT_TRUE(old_owner->Take({.sku = "shoe", .quantity = 3, .request_id = "early"}).ok());

  store.HoldRequestsOf(1);
  InlineExecutor executor;
  std::atomic<int> refused{0};
  std::latch answered(4);
  for (int i = 0; i < 4; ++i) {
    old_owner->TakeAsync({.sku = "shoe", .request_id = absl::StrCat("late-", i)}, executor,
                         [&](const absl::StatusOr<Order>& order) {
                           refused += RefusalOf(order.status()) == Refusal::kUnavailable ? 1 : 0;
                           answered.count_down();
                         });
  }
  store.AwaitHeld();
  // Its lock has run out; somebody else has it.
  const auto new_owner = OwnerWith(store, 2);
  EXPECT_EQ(new_owner->Available("shoe").value(), 7);
  EXPECT_TRUE(new_owner->Take({.sku = "shoe", .quantity = 5, .request_id = "new"}).ok());

  store.LetGo();
  answered.wait();
  EXPECT_EQ(refused, 4);
  EXPECT_EQ(old_owner->Health().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RefusalOf(old_owner->Take({.sku = "shoe", .request_id = "later"}).status()), Refusal::kUnavailable);

  // What was not acknowledged did not happen: its ids are new to the new owner.
  EXPECT_TRUE(new_owner->Take({.sku = "shoe", .quantity = 2, .request_id = "late-0"}).ok());
  EXPECT_EQ(RefusalOf(new_owner->Take({.sku = "shoe", .request_id = "late-1"}).status()), Refusal::kSoldOut);
  EXPECT_EQ(TakenIn(store), (std::map<std::string, int64_t>{{"early", 3}, {"new", 5}, {"late-0", 2}}));
}

TEST(FencedLedgerTest, OldOwner_PausedAfterItsCommit_HasSoldWhatTheNewOneKnowsOf) {
  FencedStore store;
  const auto old_owner = OwnerWith(store, 1);
  ASSERT_TRUE(old_owner->AddSku("shoe", {.stock = 3}).ok());
  store.HoldRepliesOf(1);
  absl::StatusOr<Order> late;
  std::thread caller([&] { late = old_owner->Take({.sku = "shoe", .quantity = 2, .request_id = "in-doubt"}); });
  store.AwaitHeld();
  const auto new_owner = OwnerWith(store, 2);
  EXPECT_EQ(new_owner->Available("shoe").value(), 1);
  const absl::StatusOr<Order> again = new_owner->Take({.sku = "shoe", .quantity = 2, .request_id = "in-doubt"});
  store.LetGo();
  caller.join();
  ASSERT_TRUE(late.ok() && again.ok()) << late.status() << again.status();
  EXPECT_EQ(*late, *again);
  EXPECT_EQ(RefusalOf(old_owner->Take({.sku = "shoe", .request_id = "later"}).status()), Refusal::kUnavailable);
  EXPECT_EQ(TakenIn(store), (std::map<std::string, int64_t>{{"in-doubt", 2}}));
}

// A deposit of the old owner's, too, must not be sold from by anybody.
TEST(FencedLedgerTest, OldOwner_Superseded_CancelsAndRestocksNothing) {
  FencedStore store;
  const auto old_owner = OwnerWith(store, 1);
  ASSERT_TRUE(old_owner->AddSku("shoe", {.stock = 2}).ok());
  const absl::StatusOr<Reservation> held = old_owner->Reserve({.sku = "shoe", .quantity = 2, .request_id = "held"});
  ASSERT_TRUE(held.ok());
  const auto new_owner = OwnerWith(store, 2);
  EXPECT_TRUE(new_owner->Commit(held->id()).ok());
  EXPECT_EQ(old_owner->Cancel(held->id()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(old_owner->Restock("shoe", 5).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RefusalOf(old_owner->Take({.sku = "shoe", .request_id = "more"}).status()), Refusal::kUnavailable);
  EXPECT_EQ(new_owner->StateOf(held->id()).value(), OrderState::kSold);
  EXPECT_EQ(new_owner->Figures("shoe").value().granted, 2);
  EXPECT_EQ(Replay(store.Journal()).state.orders[0].state, OrderState::kSold);
}

TEST(FencedLedgerTest, Open_WithAnOldToken_IsRefused) {
  FencedStore store;
  const auto owner = OwnerWith(store, 2);
  for (const uint64_t token : {1, 2}) {
    EXPECT_EQ(FencedLedger::Open(store, token).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(owner->AddSku("shoe", {.stock = 1}).ok());
}

// Buyers use the owner that they know until it has failed, then send the same request to the next one. Each gets one
// answer, and the units that were there are sold, no more and no fewer.
TEST(FencedLedgerTest, Owners_ThatFollowEachOtherUnderLoad_SellEachUnitOnce) {
  const int64_t stock = Scaled(2'000, 50'000);
  const auto owners = static_cast<uint64_t>(std::max<int64_t>(5, Scaled(10, 100)));
  constexpr int kBuyers = 3;
  FencedStore store;
  std::shared_ptr<Inventory> current = OwnerWith(store, 1);
  std::mutex mutex;  // Guards current.
  const auto present = [&] {
    const std::lock_guard lock(mutex);
    return current;
  };
  ASSERT_TRUE(current->AddSku("shoe", {.stock = stock}).ok());
  std::atomic<int64_t> sold{0};
  std::atomic<int64_t> unavailable{0};
  std::atomic<uint64_t> reign{
      1};  // The token of `current`, which sells its part of the stock before the next one comes.
  const auto part_of = [&](uint64_t owner) {
    return static_cast<int64_t>(owner * static_cast<uint64_t>(stock) / owners);
  };

  RunThreads(kBuyers + 1, [&](int thread) {
    if (thread == kBuyers) {
      for (uint64_t token = 2; token <= owners; ++token) {
        while (sold < part_of(token - 1)) std::this_thread::yield();
        std::shared_ptr<Inventory> next = OwnerWith(store, token);
        const std::lock_guard lock(mutex);
        current.swap(next);
        reign = token;
      }
      return;
    }
    std::shared_ptr<Inventory> owner = present();
    for (int64_t i = 0;; ++i) {
      const std::string id = absl::StrCat(thread, "-", i);
      while (reign < owners && sold >= part_of(reign)) std::this_thread::yield();
      absl::StatusOr<Order> order = owner->Take({.sku = "shoe", .request_id = id});
      for (;;) {
        if (RefusalOf(order.status()) == Refusal::kUnavailable) {
          ++unavailable;
          const std::shared_ptr<Inventory> failed = owner;
          while ((owner = present()) == failed) std::this_thread::yield();
        } else if (RefusalOf(order.status()) != Refusal::kAllHeld) {  // While the last units change hands.
          break;
        }
        order = owner->Take({.sku = "shoe", .request_id = id});
      }
      if (!order.ok()) {
        EXPECT_EQ(RefusalOf(order.status()), Refusal::kSoldOut) << order.status();
        return;
      }
      ++sold;
    }
  });
  EXPECT_EQ(sold, stock);
  EXPECT_GT(unavailable, 0);
  EXPECT_EQ(TakenIn(store).size(), static_cast<size_t>(stock));
  const std::vector<uint64_t> tokens = store.Tokens();
  EXPECT_TRUE(std::ranges::is_sorted(tokens));
  EXPECT_EQ(tokens.back(), owners);
}

}  // namespace
}  // namespace stockade
