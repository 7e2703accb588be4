// The snippet of docs/INVENTORY.md, where it compiles and runs. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stockade/base/executor.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/temp_dir.h"

namespace {

absl::Status Sell(const std::string& file, const std::string& click_id, std::vector<absl::Status>& refused) {
  const std::string other_click_id = click_id + "-other";
  const std::string third_click_id = click_id + "-third";
  std::promise<bool> answered;
  stockade::ThreadPool pool(1);

  absl::StatusOr<std::unique_ptr<stockade::SqliteLedger>> ledger = stockade::SqliteLedger::Open(file);
  if (!ledger.ok()) return ledger.status();
  absl::StatusOr<std::unique_ptr<stockade::Inventory>> shop =
      stockade::Inventory::Create({.ledger = *std::move(ledger)});
  if (!shop.ok()) return shop.status();
  absl::Status added = (*shop)->EnsureSku("sneaker", {.stock = 2000, .per_buyer_limit = 2});
  if (!added.ok()) return added;  // Also OK after a restart: the ledger has it.

  // Reserve one article for ten minutes.
  absl::StatusOr<stockade::Reservation> held =
      (*shop)->Reserve({.sku = "sneaker", .request_id = click_id, .buyer = "ann", .ttl = absl::Minutes(10)});
  if (stockade::RefusalOf(held.status()) == stockade::Refusal::kAllHeld) {
    // Other buyers hold them: show "try again in a minute", not "sold out".
  }
  if (!held.ok()) return held.status();
  absl::Status sold = (*shop)->Commit(held->id());  // After the payment. Call Cancel() if it fails.
  if (!sold.ok()) return sold;

  // Reserve several articles, all or none.
  auto basket =
      (*shop)->ReserveBasket({.lines = {{"sneaker", 1}, {"laces", 2}}, .request_id = other_click_id, .buyer = "ann"});
  if (!basket.ok()) refused.push_back(basket.status());

  // Take without waiting for the disk: the callback runs on your executor.
  (*shop)->TakeAsync({.sku = "laces", .request_id = third_click_id}, pool,
                     [&](absl::StatusOr<stockade::Order> order) { answered.set_value(order.ok()); });

  EXPECT_FALSE(answered.get_future().get());
  return (*shop)->Figures("sneaker").status();
}

absl::Status KeepHolding(stockade::Inventory& shop, stockade::OrderId order) {
  // The payment is still under way: keep the article for another ten minutes.
  absl::StatusOr<absl::Time> until = shop.Extend({.order = order, .ttl = absl::Minutes(10)});
  if (!until.ok()) return until.status();  // It was sold, was cancelled, or has expired.
  return absl::OkStatus();
}

absl::Status TakeBack(stockade::Inventory& shop, stockade::OrderId order, const std::string& return_id,
                      std::map<std::string, int64_t>& refund) {
  // All that is left of the order comes back, and is for sale again. The id is that of this return.
  absl::StatusOr<std::vector<stockade::ReturnedLine>> returned = shop.Return({.order = order, .request_id = return_id});
  if (!returned.ok()) return returned.status();  // It is not sold, or all of it came back before.
  for (const stockade::ReturnedLine& line : *returned) refund[line.sku] += line.quantity;
  return absl::OkStatus();
}

absl::Status ShowOrder(const stockade::Inventory& shop, stockade::OrderId order, const std::string& user,
                       absl::Time& wait_until) {
  // Show buyers their order, and nobody else's.
  absl::StatusOr<stockade::OrderInfo> found = shop.Find({.order = order, .buyer = user});
  if (!found.ok()) return found.status();  // NotFound: there is no such order of this buyer, or it is no longer kept.
  if (found->state == stockade::OrderState::kHeld) wait_until = found->expires_at;
  return absl::OkStatus();
}

void TakeSoon(stockade::Inventory& shop, const stockade::TakeRequest& request, stockade::Executor& executor,
              bool& retry) {
  // Answer within 300 ms. The call may still take the unit afterwards.
  shop.TakeAsync(request, executor,
                 [&](absl::StatusOr<stockade::Order> order) { retry = stockade::OutcomeUnknown(order.status()); },
                 {.timeout = absl::Milliseconds(300)});
}

TEST(DocumentsTest, InventoryTimeOutSnippet_RetriesOnlyUnknownOutcomes) {
  stockade::Inventory shop({.metrics = nullptr});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 1}).ok());
  stockade::InlineExecutor executor;
  for (const char* const id : {"a", "b"}) {
    bool retry = true;
    TakeSoon(shop, {.sku = "sneaker", .request_id = id}, executor, retry);
    EXPECT_FALSE(retry) << id;
  }
}

TEST(DocumentsTest, InventoryFindSnippet_ShowsBuyersTheirOrders) {
  stockade::Inventory shop({.metrics = nullptr});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 1}).ok());
  const auto held = shop.Reserve({.sku = "sneaker", .request_id = "a", .buyer = "ann"});
  absl::Time wait_until;
  EXPECT_EQ(ShowOrder(shop, held->id(), "ann", wait_until), absl::OkStatus());
  EXPECT_EQ(wait_until, held->expires_at());
  EXPECT_TRUE(absl::IsNotFound(ShowOrder(shop, held->id(), "bob", wait_until)));
}

TEST(DocumentsTest, InventoryReturnSnippet_TakesAllBackOnce) {
  stockade::Inventory shop({.metrics = nullptr});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 3}).ok());
  const stockade::OrderId order = shop.Take({.sku = "sneaker", .quantity = 2, .request_id = "a"})->id();
  std::map<std::string, int64_t> refund;
  EXPECT_EQ(TakeBack(shop, order, "rma-1", refund), absl::OkStatus());
  EXPECT_EQ(refund["sneaker"], 2);
  EXPECT_EQ(shop.Available("sneaker").value(), 3);
  EXPECT_EQ(stockade::RefusalOf(TakeBack(shop, order, "rma-2", refund)), stockade::Refusal::kTooMany);
}

TEST(DocumentsTest, InventoryExtendSnippet_KeepsOrSaysWhyNot) {
  stockade::Inventory shop({.metrics = nullptr});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 1}).ok());
  const stockade::OrderId order = shop.Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Minutes(1)})->id();
  EXPECT_EQ(KeepHolding(shop, order), absl::OkStatus());
  EXPECT_TRUE(shop.Commit(order).ok());
  EXPECT_EQ(stockade::RefusalOf(KeepHolding(shop, order)), stockade::Refusal::kCommitted);
}

TEST(DocumentsTest, InventorySnippet_Sells) {
  const stockade::testing::TempDir dir;
  std::vector<absl::Status> refused;
  EXPECT_EQ(Sell(dir.File("orders.db"), "1", refused), absl::OkStatus());
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(stockade::RefusalOf(refused[0]), stockade::Refusal::kUnknownSku);  // Nobody has stocked laces.
  EXPECT_EQ(Sell(dir.File("orders.db"), "2", refused), absl::OkStatus());
}

// A snippet is copied: what fails must not abort it.
TEST(DocumentsTest, InventorySnippet_WhatFails_IsToldAsAStatus) {
  const stockade::testing::TempDir dir;
  std::vector<absl::Status> refused;
  EXPECT_FALSE(Sell(dir.File("no/such/folder/orders.db"), "1", refused).ok());
  EXPECT_EQ(stockade::RefusalOf(Sell(dir.File("orders.db"), "", refused)), stockade::Refusal::kInvalid);
}

}  // namespace
