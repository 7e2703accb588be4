// The snippets with which docs/CACHE.md, docs/INVENTORY.md and docs/DISTRIBUTED_LOCKS.md begin, where they compile and
// run. snippets_test.cc compares them.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "stockade/base/manual_clock.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/transparent_string_hash.h"
#include "stockade/inventory/inventory.h"
#include "stockade/locks/acquire_all.h"
#include "stockade/locks/local_lock_service.h"

namespace {

struct Product {
  std::string id;
  int price = 0;
};

struct Database {
  absl::StatusOr<Product> Fetch(const std::string& id) {
    ++queries;
    if (const auto found = rows.find(id); found != rows.end()) return found->second;
    return absl::NotFoundError(id);
  }
  absl::Status SetPrice(const std::string& id, int price) {
    rows.at(id).price = price;
    return absl::OkStatus();
  }
  std::map<std::string, Product> rows = {{"dunk-low", {"dunk-low", 110}}};
  int queries = 0;
};

absl::Status ShowAndChange(Database& db, std::vector<int>& shown) {
  const auto show = [&](int price) { shown.push_back(price); };

  stockade::LoadingCache<std::string, Product> products({.name = "products", .ttl = absl::Minutes(5)},
                                                        [&](const std::string& id) { return db.Fetch(id); });

  absl::StatusOr<stockade::CacheHandle<Product>> product = products.Get("dunk-low");
  if (!product.ok()) return product.status();  // NotFound, if the loader says so.
  show((*product)->price);                     // The handle keeps the value, whatever happens to the entry.

  absl::Status changed = products.UpdateThrough("dunk-low", [&] { return db.SetPrice("dunk-low", 99); });
  products.Invalidate("dunk-low");                // Something else has changed it.
  products.InvalidateKeys({"dunk-low", "af-1"});  // Or several.
  products.Put("dunk-low", {"dunk-low", 95});     // The new value is at hand.
  auto now = products.GetIfPresent("dunk-low");   // Never loads.

  if (!now.has_value()) return absl::NotFoundError("no value");
  show((*now)->price);
  return changed;
}

TEST(CacheDocumentTest, TaskSnippets_Run_LoadOnceAndSeeChanges) {
  Database db;
  std::vector<int> shown;
  EXPECT_EQ(ShowAndChange(db, shown), absl::OkStatus());
  EXPECT_EQ(shown, (std::vector<int>{110, 95}));
  EXPECT_EQ(db.queries, 1);
}

TEST(CacheDocumentTest, LookSnippet_Run_ShowsOneEntry) {
  struct {
    absl::StatusOr<std::string> Render(const std::string& path) { return "page " + path; }
  } db;
  std::vector<std::string> shown;
  const auto show = [&](const std::string& key, absl::Duration) { shown.push_back(key); };

  using Pages = stockade::LoadingCache<std::string, std::string, stockade::TransparentStringHash, std::equal_to<>>;
  Pages pages({.name = "pages", .ttl = absl::Minutes(5)}, [&](const std::string& path) { return db.Render(path); });

  std::string_view path = "/shoes";                        // Of a request. A hit copies no key.
  absl::StatusOr<std::string> copy = pages.GetCopy(path);  // The value instead of a handle.
  auto entry = pages.GetEntry(path);                       // With its source, and the time until it expires.
  bool known = pages.Peek(path).has_value();               // No load, no use, no count.
  absl::Status walked = pages.ForEach([&](const std::string& key, const stockade::CacheEntry<std::string>& page) {
    show(key, page.expires_in);
    return true;  // Go on.
  });
  double ratio = pages.Stats().hit_ratio();          // And all other counts, without a scrape.
  absl::Status bounded = pages.SetMaxWeight(1'000);  // Evicts what is too much before it returns.

  EXPECT_EQ(*copy, "page /shoes");
  EXPECT_EQ(entry->source, stockade::CacheSource::kHit);
  EXPECT_TRUE(known);
  EXPECT_TRUE(walked.ok());
  EXPECT_EQ(shown, std::vector<std::string>{"/shoes"});
  EXPECT_GT(ratio, 0);
  EXPECT_TRUE(bounded.ok());
}

TEST(CacheDocumentTest, OptionsSnippet_Run_KeepsAStaleValueAndAnAbsence) {
  Database db;
  stockade::ManualClock clock;

  stockade::LoadingCacheOptions options = {.name = "products", .max_weight = 100'000, .ttl = absl::Minutes(5)};
  options.refresh_ahead = 0.8;                        // A key in use is loaded again after 4 of the 5 minutes.
  options.stale_while_revalidate = absl::Minutes(1);  // For one more minute callers get the old value meanwhile,
  options.stale_if_error = absl::Hours(1);            // and for an hour if the database is away.
  options.negative_ttl = absl::Seconds(10);           // Ids that do not exist cost one query in this time.

  options.clock = &clock;
  options.metrics = nullptr;
  stockade::LoadingCache<std::string, Product> products(options, [&](const std::string& id) { return db.Fetch(id); });
  EXPECT_EQ((*products.Get("dunk-low"))->price, 110);
  EXPECT_TRUE(absl::IsNotFound(products.Get("none").status()));
  EXPECT_TRUE(absl::IsNotFound(products.Get("none").status()));
  EXPECT_EQ(db.queries, 2);
  clock.Advance(absl::Minutes(5) + absl::Seconds(30));
  EXPECT_EQ((*products.Get("dunk-low"))->price, 110);
}

std::string Sell(stockade::Inventory& shop, const std::string& click_id) {
  absl::StatusOr<stockade::Order> order = shop.Take({.sku = "sneaker", .request_id = click_id, .buyer = "ann"});
  if (order.ok()) return "order " + stockade::OrderIdText(order->id());  // The same one if the click is sent again.
  switch (stockade::RefusalOf(order.status())) {
    case stockade::Refusal::kSoldOut: return "sold out";
    case stockade::Refusal::kAllHeld: return "try again in a minute";  // Other buyers hold the last ones.
    case stockade::Refusal::kBuyerLimit: return "you have two already";
    default: return "try again";  // The status has the reason, for the log.
  }
}

TEST(InventoryDocumentTest, TaskSnippet_Run_SellsOnceAndSaysWhyNot) {
  stockade::Inventory shop({.name = "shop", .metrics = nullptr});
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 2, .per_buyer_limit = 2}).ok());
  const std::string first = Sell(shop, "1");
  EXPECT_TRUE(first.starts_with("order ")) << first;
  EXPECT_EQ(Sell(shop, "1"), first);
  EXPECT_TRUE(Sell(shop, "2").starts_with("order "));
  EXPECT_EQ(Sell(shop, "3"), "you have two already");
}

TEST(DocumentsTest, LocksTaskSnippets_Run_SkipShareAndTakeSeveral) {
  auto made = stockade::LocalLockService::Create();
  ASSERT_TRUE(made.ok());
  const std::unique_ptr<stockade::LockService> locks = *std::move(made);
  int ran = 0;
  const auto run_report = [&] { ++ran; };
  const auto skip = [&]() -> absl::Status {
    auto report = locks->Acquire("nightly-report", {.wait = absl::ZeroDuration()});
    if (absl::IsDeadlineExceeded(report.status())) return absl::OkStatus();  // Another process runs it.
    if (!report.ok()) return report.status();
    run_report();
    return report->Release();
  };
  EXPECT_TRUE(skip().ok());
  EXPECT_EQ(ran, 1);

  auto reading = locks->Acquire("prices", {.kind = stockade::LockKind::kRead, .wait = std::chrono::seconds(3)});
  auto writing = locks->Acquire("stock", {.kind = stockade::LockKind::kWrite, .wait = std::chrono::seconds(3)});

  const std::vector<std::string> names = {"account-7", "account-3"};
  absl::StatusOr<stockade::LockLeases> both = stockade::AcquireAll(*locks, names, {.wait = std::chrono::seconds(3)});

  EXPECT_TRUE(reading.ok() && writing.ok() && both.ok());
}

}  // namespace
