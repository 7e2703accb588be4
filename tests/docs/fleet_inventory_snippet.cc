// The snippet of docs/INVENTORY.md, "Many processes", where it compiles and runs. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "inventory/fleet/fleet_test.h"
#include "stockade/inventory/fleet_inventory.h"

namespace {

absl::Status Sell(const std::string& url, const std::string& click_id) {
  stockade::FleetInventoryOptions options = {.ledger = url, .fleet = "shop"};
  absl::Status migrated = stockade::FleetInventory::Migrate(options);  // Once, while no process runs.
  if (!migrated.ok()) return migrated;

  absl::StatusOr<std::unique_ptr<stockade::Inventory>> shop = stockade::FleetInventory::Connect(options);
  if (!shop.ok()) return shop.status();
  absl::Status added = (*shop)->EnsureSku("sneaker", {.stock = 2000, .shards = 4, .per_buyer_limit = 2});
  if (!added.ok()) return added;  // OK in every process: the first one adds it.

  absl::StatusOr<stockade::Reservation> held =
      (*shop)->Reserve({.sku = "sneaker", .request_id = click_id, .buyer = "ann", .ttl = absl::Minutes(10)});
  if (stockade::RefusalOf(held.status()) == stockade::Refusal::kUnavailable) {
    // The ledger could not be used for options.patience: send the same request id again, in any process.
  }
  if (!held.ok()) return held.status();
  return (*shop)->Commit(held->id());  // Any process can do this.
}

class FleetDocumentTest : public stockade::testing::FleetTest {};

TEST_F(FleetDocumentTest, FleetInventorySnippet_Sells) {
  EXPECT_EQ(Sell(server().url(), "1"), absl::OkStatus());
  EXPECT_EQ(Sell(server().url(), "1"), absl::OkStatus());
  EXPECT_EQ(Sell(server().url(), "2"), absl::OkStatus());
  EXPECT_EQ(stockade::RefusalOf(Sell(server().url(), "3")), stockade::Refusal::kBuyerLimit);
}

TEST_F(FleetDocumentTest, FleetInventorySnippet_WhatFails_IsToldAsAStatus) {
  EXPECT_FALSE(Sell("mysql://nobody@127.0.0.1:1/test", "1").ok());
}

}  // namespace
