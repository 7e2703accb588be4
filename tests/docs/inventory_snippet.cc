// The snippet of docs/INVENTORY.md, where it compiles and runs. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "stockade/base/executor.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/temp_dir.h"

namespace {

TEST(DocumentsTest, InventorySnippet_Sells) {
  const stockade::testing::TempDir dir;
  const std::string file = dir.File("orders.db");
  const std::string click_id = "1";
  const std::string other_click_id = "2";
  const std::string third_click_id = "3";
  std::promise<bool> answered;
  stockade::ThreadPool pool(1);

  stockade::Inventory shop({.ledger = stockade::SqliteLedger::Open(file).value()});
  absl::Status added = shop.AddSku("sneaker", {.stock = 2000, .per_buyer_limit = 2});

  // One article, for ten minutes.
  absl::StatusOr<stockade::Reservation> held =
      shop.Reserve({.sku = "sneaker", .request_id = click_id, .buyer = "ann", .ttl = absl::Minutes(10)});
  if (held.ok()) {
    absl::Status sold = shop.Commit(held->id());  // Once the payment is through; Cancel() where it is not.
  } else if (stockade::RefusalOf(held.status()) == stockade::Refusal::kAllHeld) {
    // Others have them in their baskets: "try again in a minute", not "sold out".
  }

  // Several, all or none.
  auto basket =
      shop.ReserveBasket({.lines = {{"sneaker", 1}, {"laces", 2}}, .request_id = other_click_id, .buyer = "ann"});

  // Without waiting for the disk; the answer comes on an executor of yours.
  shop.TakeAsync({.sku = "laces", .request_id = third_click_id}, pool,
                 [&](absl::StatusOr<stockade::Order> order) { answered.set_value(order.ok()); });

  EXPECT_TRUE(added.ok());
  EXPECT_EQ(shop.Figures("sneaker").value().sold, 1);
  EXPECT_EQ(stockade::RefusalOf(basket.status()), stockade::Refusal::kUnknownSku);  // Nobody has stocked laces.
  EXPECT_FALSE(answered.get_future().get());
}

}  // namespace
