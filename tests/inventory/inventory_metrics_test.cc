#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "item.h"
#include "recording_ledger.h"
#include "stockade/inventory/inventory.h"
#include "support/scale.h"

namespace stockade {
namespace {

// Every sample but a histogram's, by its line's head.
std::map<std::string, double> Samples(const MetricsRegistry& registry) {
  std::map<std::string, double> samples;
  for (const auto& family : registry.Collect()) {
    for (const auto& metric : family.metric) {
      std::string name = family.name;
      for (const auto& label : metric.label) name += "|" + label.value;
      samples[name] = family.type == prometheus::MetricType::Histogram
                          ? static_cast<double>(metric.histogram.sample_count)
                          : metric.counter.value + metric.gauge.value;
    }
  }
  return samples;
}

TEST(InventoryMetricsTest, EveryEvent_IsCountedOnce) {
  MetricsRegistry registry;
  {
    Inventory shop({.name = "shop", .metrics = &registry});
    ASSERT_TRUE(shop.AddSku("s", {.stock = 10, .shards = 2, .per_buyer_limit = 20}).ok());
    ASSERT_TRUE(shop.Take({"s", 1, "a", "ann"}).ok());
    ASSERT_TRUE(shop.Take({"s", 1, "a", "ann"}).ok());
    const OrderId sold = shop.Reserve({"s", 2, "b", "ann"})->id();
    ASSERT_TRUE(shop.Extend({sold, absl::Minutes(20)}).ok());
    ASSERT_TRUE(shop.Extend({sold, absl::Minutes(1)}).ok());  // Changes nothing.
    ASSERT_TRUE(shop.Commit(sold).ok());
    ASSERT_TRUE(shop.Commit(sold).ok());
    ASSERT_TRUE(shop.Cancel(shop.Reserve({"s", 2, "c", "ann"})->id()).ok());
    const OrderId returned = shop.Take({"s", 1, "f", "eve"})->id();
    ASSERT_TRUE(shop.Return({.order = returned, .request_id = "g"}).ok());
    (void)shop.Return({.order = returned, .request_id = "h"});  // Nothing is left.
    ASSERT_TRUE(shop.Restock("s", 5).ok());
    ASSERT_TRUE(shop.Reserve({"s", 12, "d", "ann"}).ok());
    (void)shop.Take({"s", 1, "e", "bob"});   // All held.
    (void)shop.Take({"s", 1, "e", ""});      // Invalid.
    (void)shop.Take({"s", 20, "e", "bob"});  // Sold out: not even with what is held.
    (void)shop.Take({"s", 20, "e", "ann"});  // Buyer limit.
    (void)shop.Take({"t", 1, "e", "bob"});   // Unknown SKU.
    (void)shop.Take({"s", 2, "a", "ann"});   // Mismatch.
    std::map<std::string, double> at = Samples(registry);
    const std::string p = "stockade_inventory_";
    EXPECT_EQ(at[p + "takes_total|shop"], 2);
    EXPECT_EQ(at[p + "returns_total|shop"], 1);
    EXPECT_EQ(at[p + "repeats_total|shop"], 1);
    EXPECT_EQ(at[p + "reservations_total|shop"], 3);
    EXPECT_EQ(at[p + "commits_total|shop"], 1);
    EXPECT_EQ(at[p + "cancels_total|shop"], 1);
    EXPECT_EQ(at[p + "expirations_total|shop"], 0);
    EXPECT_EQ(at[p + "extensions_total|shop"], 1);
    EXPECT_EQ(at[p + "restocks_total|shop"], 1);
    for (const char* reason : {"all_held", "invalid", "sold_out", "buyer_limit", "unknown_sku", "request_mismatch"}) {
      EXPECT_EQ(at[p + "refusals_total|shop|" + reason], 1) << reason;
    }
    EXPECT_EQ(at[p + "refusals_total|shop|unavailable"], 0);
    EXPECT_GT(at[p + "freezes_total|shop"], 0);
    EXPECT_EQ(at[p + "available_units|shop"], 0);
    EXPECT_EQ(at[p + "held_units|shop"], 12);
    EXPECT_EQ(at[p + "sold_units|shop"], 3);
  }
  std::map<std::string, double> after = Samples(registry);
  EXPECT_EQ(after["stockade_inventory_takes_total|shop"], 2);
  EXPECT_EQ(after["stockade_inventory_held_units|shop"], 0);
}

TEST(InventoryMetricsTest, ReserveSeconds_WithoutALedger_AreOfOneCallIn64) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop", .metrics = &registry});
  ASSERT_TRUE(shop.AddSku("s", {.stock = 200}).ok());
  // Of a thread of its own, whose first call is timed.
  std::thread([&] {
    for (int i = 0; i < 129; ++i) ASSERT_TRUE(shop.Take({.sku = "s", .request_id = std::to_string(i)}).ok());
  }).join();
  EXPECT_EQ(Samples(registry)["stockade_inventory_reserve_seconds|shop"], 3);
}

TEST(InventoryMetricsTest, ReserveSeconds_WithoutALedger_LeaveOutRefusals) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop", .metrics = &registry});
  ASSERT_TRUE(shop.AddSku("s", {.stock = 1}).ok());
  std::thread([&] {
    (void)shop.Take({.sku = "s", .quantity = 2, .request_id = "a"});
    (void)shop.Take({.sku = "s", .request_id = "b"});
  }).join();
  EXPECT_EQ(Samples(registry)["stockade_inventory_reserve_seconds|shop"], 0);
}

TEST(InventoryMetricsTest, ReserveSeconds_WithALedger_AreOfEveryCallThatWasNotRefused) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop",
                  .ledger = std::make_unique<testing::RecordingLedger>(std::make_shared<testing::RecordingDisk>()),
                  .metrics = &registry});
  ASSERT_TRUE(shop.AddSku("s", {.stock = 10}).ok());
  for (int i = 0; i < 20; ++i) (void)shop.Take({.sku = "s", .request_id = std::to_string(i)});
  ASSERT_TRUE(shop.Take({.sku = "s", .request_id = "0"}).ok());
  EXPECT_EQ(Samples(registry)["stockade_inventory_reserve_seconds|shop"], 11);
}

TEST(InventoryMetricsTest, RefusalLabels_AreTheNamesOfTheRefusals) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop", .metrics = &registry});
  std::set<std::string> reasons;
  for (const auto& [name, value] : Samples(registry)) {
    const std::string prefix = "stockade_inventory_refusals_total|shop|";
    if (name.starts_with(prefix)) reasons.insert(name.substr(prefix.size()));
  }
  std::set<std::string> names;
  for (int i = 1; i <= static_cast<int>(Refusal::kInvalid); ++i) {
    names.insert(std::string(RefusalName(static_cast<Refusal>(i))));
  }
  EXPECT_EQ(reasons, names);
}

TEST(InventoryMetricsTest, SkuSeries_AreOfTheFirstSkusOnly) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop", .metrics = &registry, .sku_metrics = 2});
  for (const char* sku : {"a", "b", "c"}) ASSERT_TRUE(shop.AddSku(sku, {.stock = 10, .shards = 2}).ok());
  ASSERT_TRUE(shop.Take({.sku = "b", .quantity = 3, .request_id = "1"}).ok());
  ASSERT_TRUE(shop.Reserve({.sku = "b", .quantity = 2, .request_id = "2"}).ok());
  std::map<std::string, double> at = Samples(registry);
  EXPECT_EQ(at["stockade_inventory_sku_available_units|shop|a"], 10);
  EXPECT_EQ(at["stockade_inventory_sku_available_units|shop|b"], 5);
  EXPECT_EQ(at["stockade_inventory_sku_held_units|shop|b"], 2);
  EXPECT_EQ(at["stockade_inventory_sku_sold_units|shop|b"], 3);
  EXPECT_FALSE(at.contains("stockade_inventory_sku_available_units|shop|c"));
  // A place is not given to another, or the number of series would grow with the SKUs that come and go.
  ASSERT_TRUE(shop.RemoveSku("a").ok());
  ASSERT_TRUE(shop.AddSku("d", {.stock = 10}).ok());
  at = Samples(registry);
  EXPECT_EQ(at["stockade_inventory_sku_available_units|shop|a"], 0);
  EXPECT_FALSE(at.contains("stockade_inventory_sku_available_units|shop|d"));
  EXPECT_EQ(at["stockade_inventory_available_units|shop"], 25);
}

TEST(InventoryMetricsTest, SkuSeries_AreOffUnlessAskedFor) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop", .metrics = &registry});
  ASSERT_TRUE(shop.AddSku("a", {.stock = 10}).ok());
  for (const auto& [name, value] : Samples(registry)) EXPECT_EQ(name.find("inventory_sku"), std::string::npos) << name;
}

TEST(InventoryMetricsTest, ShardImbalance_IsThatOfTheWorstSku) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop", .metrics = &registry});
  ASSERT_TRUE(shop.AddSku("even", {.stock = 8, .shards = 2}).ok());
  EXPECT_EQ(Samples(registry)["stockade_inventory_shard_imbalance|shop"], 1);
  ASSERT_TRUE(shop.AddSku("odd", {.stock = 8, .shards = 2}).ok());
  ASSERT_TRUE(shop.Take({.sku = "odd", .quantity = 4, .request_id = "1"}).ok());
  EXPECT_EQ(Samples(registry)["stockade_inventory_shard_imbalance|shop"], 2);
}

TEST(ShardedStockMetricsTest, Alone_CountsTakesRefusalsAndSteals) {
  MetricsRegistry registry;
  ShardedStock item({.name = "seats", .stock = 4, .shards = 4, .metrics = &registry});
  for (int i = 0; i < 5; ++i) (void)item.Take();
  std::map<std::string, double> at = Samples(registry);
  EXPECT_EQ(at["stockade_inventory_takes_total|seats"], 4);
  EXPECT_EQ(at["stockade_inventory_steals_total|seats"], 3);
  EXPECT_EQ(at["stockade_inventory_refusals_total|seats|sold_out"], 1);
  EXPECT_EQ(at["stockade_inventory_freezes_total|seats"], 1);
  EXPECT_EQ(at["stockade_inventory_available_units|seats"], 0);
}

using inventory_internal::Account;

constexpr inventory_internal::Transfer kReserve{Account::kAvailable, Account::kHeld};
constexpr inventory_internal::Transfer kCancel{Account::kHeld, Account::kAvailable};
constexpr inventory_internal::Transfer kCommit{Account::kHeld, Account::kSold};
constexpr inventory_internal::Transfer kTake{Account::kAvailable, Account::kSold};

inventory_internal::Item TenUnits() {
  static metrics_internal::ComponentMetrics off;
  return {"s", 1, 0, 10, {.name = "s", .stock = 10}, &off};
}

TEST(OversoldTest, MoreTakenThanPutUp_IsTheDifference) {
  inventory_internal::Item item = TenUnits();
  item.units.Count(kReserve, 10);
  EXPECT_EQ(item.Oversold(), 0);
  item.units.Count(kReserve, 3);
  EXPECT_EQ(item.Oversold(), 3);
  item.units.Count(kCancel, 1);
  item.Move({Account::kOutside, Account::kAvailable}, 1);
  EXPECT_EQ(item.Oversold(), 1);
  item.Move({Account::kAvailable, Account::kOutside}, 2);
  EXPECT_EQ(item.Oversold(), 3);
}

TEST(OversoldTest, UnitsLeft_AreNoDebt) {
  inventory_internal::Item item = TenUnits();
  item.units.Count(kReserve, 4);
  item.units.Count(kCommit, 4);
  EXPECT_EQ(item.Oversold(), 0);
  EXPECT_EQ(item.units.held(), 0);
}

// A scrape in the midst of it must not raise the alarm: one that read the counts in another order would.
TEST(OversoldTest, ReadWhileUnitsComeAndGo_IsZero) {
  inventory_internal::Item item = TenUnits();
  std::atomic<bool> done = false;
  std::thread trader([&] {
    for (int i = 0; i < testing::Scaled(2'000'000, 20'000'000); ++i) {
      item.units.Count(kReserve, 10);
      item.units.Count(kCancel, 10);
    }
    done = true;
  });
  int64_t most = 0;
  while (!done) most = std::max(most, item.Oversold());
  trader.join();
  EXPECT_EQ(most, 0);
}

// As when a full ledger refuses sales.
TEST(OrderedUnitsTest, Held_WhileSalesAreTakenBack_IsNeverNegative) {
  inventory_internal::OrderedUnits units;
  std::atomic<bool> done = false;
  std::thread trader([&] {
    for (int i = 0; i < testing::Scaled(1'000'000, 10'000'000); ++i) {
      units.Count(kTake, 10);
      units.Count(Reverse(kTake), 10);
    }
    done = true;
  });
  int64_t least = 0;
  while (!done) least = std::min(least, units.held());
  trader.join();
  EXPECT_EQ(least, 0);
  EXPECT_EQ(units.held(), 0);
}

// As when a full ledger refuses restocks while a page is made.
TEST(ItemTest, Granted_WhileRestocksAreTakenBack_IsNeverWhatItNeverWas) {
  inventory_internal::Item item = TenUnits();
  std::atomic<bool> done = false;
  std::thread keeper([&] {
    for (int i = 0; i < testing::Scaled(1'000'000, 10'000'000); ++i) {
      item.Move({Account::kOutside, Account::kHeld}, 5);
      item.Move({Account::kHeld, Account::kOutside}, 5);
    }
    done = true;
  });
  int64_t least = 10;
  int64_t most = 10;
  while (!done) {
    const int64_t granted = item.granted();
    least = std::min(least, granted);
    most = std::max(most, granted);
  }
  keeper.join();
  EXPECT_EQ(least, 10);
  EXPECT_LE(most, 15);
}

// promtool's rules, in short: a help text, and names whose unit and suffix fit their type.
TEST(InventoryMetricsTest, Names_PassTheLint) {
  MetricsRegistry registry;
  Inventory shop({.name = "shop", .metrics = &registry});
  for (const auto& family : registry.Collect()) {
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, family.name.ends_with("_total")) << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Histogram, family.name.ends_with("_seconds")) << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Gauge, family.name.ends_with("_units") ||
                                                                family.name.ends_with("_buyers") ||
                                                                family.name.ends_with("_imbalance"))
        << family.name;
  }
}

}  // namespace
}  // namespace stockade
