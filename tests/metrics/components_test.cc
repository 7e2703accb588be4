// Locks, caches and inventories as Prometheus sees them: many, of one name, under load, coming and going.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_server.h"
#include "support/exported.h"
#include "support/http.h"
#include "support/needs_program.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/subprocess.h"

namespace stockade {
namespace {

using testing::Exported;
using testing::Scaled;

// One of each, all of one name, and something to do with them.
class Shop {
 public:
  Shop(MetricsRegistry* registry, const std::string& name)
      : lock_({.name = name, .metrics = registry}),
        service_(LocalLockService::Create({.name = name, .metrics = registry}).value()),
        cache_({.name = name, .metrics = registry},
               [](const int& key, LoadContext&) -> absl::StatusOr<int> { return key; }),
        inventory_({.name = name, .metrics = registry, .sku_metrics = 1}) {
    EXPECT_TRUE(inventory_.AddSku("sku", {.stock = 1'000'000}).ok());
  }

  // Counts one of everything below: `turn` is of one thread, and none is used twice.
  void Serve(const std::string& turn) {
    { const std::lock_guard writing(lock_); }
    { const std::shared_lock reading(lock_); }
    EXPECT_TRUE(service_->Acquire("lock of " + turn).ok());
    EXPECT_EQ(**cache_.Get(1), 1);
    const auto held = inventory_.Reserve({.sku = "sku", .request_id = turn});
    EXPECT_TRUE(held.ok() && inventory_.Commit(held->id()).ok());
  }

 private:
  ReentrantSharedMutex lock_;
  std::unique_ptr<LockService> service_;
  LoadingCache<int, int> cache_;
  Inventory inventory_;
};

double Requests(const MetricsRegistry& registry, const std::string& cache) {
  double sum = 0;
  for (const char* const result : {"hit", "miss", "coalesced", "stale", "negative"}) {
    sum += Exported(registry, "stockade_cache_requests_total{cache=\"" + cache + "\",result=\"" + result + "\"}");
  }
  return sum;
}

void ExpectServed(const MetricsRegistry& registry, const std::string& name, double turns) {
  const std::string lock = "{lock=\"" + name + "\",mode=";
  const std::string service = "{service=\"" + name + "\",engine=\"local\"";
  const std::string inventory = "{inventory=\"" + name + "\"}";
  EXPECT_EQ(Exported(registry, "stockade_lock_acquisitions_total" + lock + "\"exclusive\"}"), turns);
  EXPECT_EQ(Exported(registry, "stockade_lock_acquisitions_total" + lock + "\"shared\"}"), turns);
  EXPECT_EQ(Exported(registry, "stockade_lock_service_acquisitions_total" + service + ",result=\"acquired\"}"), turns);
  EXPECT_EQ(Exported(registry, "stockade_lock_service_round_trips_total" + service + "}"), 2 * turns);
  EXPECT_EQ(Exported(registry, "stockade_lock_service_wait_seconds_count" + service + "}"), turns);
  EXPECT_EQ(Exported(registry, "stockade_lock_service_hold_seconds_count" + service + "}"), turns);
  EXPECT_EQ(Requests(registry, name), turns);
  EXPECT_EQ(Exported(registry, "stockade_inventory_reservations_total" + inventory), turns);
  EXPECT_EQ(Exported(registry, "stockade_inventory_commits_total" + inventory), turns);
}

// Scrapes over and over, until it is destroyed, and sees that no counter falls and no series goes away.
class Scraper {
 public:
  explicit Scraper(const MetricsRegistry& registry)
      : thread_([this, &registry](const std::stop_token& stop) {
          do {
            Look(registry.Collect());
            scrapes_.fetch_add(1);
            scrapes_.notify_all();
          } while (!stop.stop_requested());
        }) {}

  // Until another scrape has begun and ended.
  void AwaitScrape() const {
    for (const int target = scrapes_ + 2; scrapes_ < target;) scrapes_.wait(scrapes_);
  }

 private:
  void Look(const std::vector<prometheus::MetricFamily>& families) {
    size_t found = 0;
    const auto look = [&](const std::string& series, double value) {
      const auto [last, is_new] = last_.try_emplace(series, value);
      if (!is_new) ++found;
      EXPECT_GE(value, last->second) << series << " fell";
      last->second = value;
    };
    const size_t before = last_.size();
    for (const prometheus::MetricFamily& family : families) {
      if (family.type == prometheus::MetricType::Gauge) continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        std::string series = family.name;
        for (const auto& label : metric.label) series += "," + label.name + "=" + label.value;
        look(series, metric.counter.value);
        look(series + " sum", metric.histogram.sample_sum);
        uint64_t below = 0;
        for (size_t i = 0; i < metric.histogram.bucket.size(); ++i) {
          const uint64_t count = metric.histogram.bucket[i].cumulative_count;
          look(series + " bucket " + std::to_string(i), static_cast<double>(count));
          EXPECT_GE(count, below) << series;
          below = count;
        }
        EXPECT_EQ(metric.histogram.sample_count, below) << series;
      }
    }
    EXPECT_EQ(found, before) << "series went away, or came twice";
  }

  std::map<std::string, double> last_;
  std::atomic<int> scrapes_ = 0;
  std::jthread thread_;  // Last: it uses the above.
};

TEST(ComponentsTest, Scraped_UnderLoad_NothingFallsAndEveryCountIsThereInTheEnd) {
  constexpr int kThreads = 4;
  const int64_t turns = Scaled(10'000, 100'000);
  MetricsRegistry registry;
  Shop shop(&registry, "shop");
  {
    const Scraper scraper(registry);
    testing::RunThreads(kThreads, [&](int thread) {
      for (int64_t i = 0; i < turns; ++i) shop.Serve(std::to_string(thread) + "-" + std::to_string(i));
    });
    scraper.AwaitScrape();
  }
  ExpectServed(registry, "shop", static_cast<double>(kThreads * turns));
}

TEST(ComponentsTest, DestroyedAndMadeAgain_DuringScrapes_KeepWhatTheyCounted) {
  constexpr int kThreads = 2;
  constexpr int kTurns = 3;
  const int64_t lives = Scaled(300, 3'000);
  MetricsRegistry registry;
  {
    const Scraper scraper(registry);
    testing::RunThreads(kThreads, [&](int) {
      for (int64_t life = 0; life < lives; ++life) {
        Shop shop(&registry, "shop");
        for (int turn = 0; turn < kTurns; ++turn) shop.Serve(std::to_string(turn));
      }
    });
    scraper.AwaitScrape();
  }
  ExpectServed(registry, "shop", static_cast<double>(kThreads * lives * kTurns));
  EXPECT_EQ(Exported(registry, "stockade_inventory_sold_units{inventory=\"shop\"}"), 0) << "a gauge of what is gone";
  EXPECT_EQ(Exported(registry, "stockade_cache_entries{cache=\"shop\"}"), 0);
  EXPECT_EQ(Exported(registry, "stockade_lock_service_held{service=\"shop\",engine=\"local\"}"), 0);
}

TEST(ComponentsTest, TwoOfOneName_AreOneSeries) {
  MetricsRegistry registry;
  Shop stays(&registry, "shop");
  stays.Serve("a");
  {
    Shop goes(&registry, "shop");
    goes.Serve("a");
    goes.Serve("b");
    ExpectServed(registry, "shop", 3);
    EXPECT_EQ(Exported(registry, "stockade_inventory_sold_units{inventory=\"shop\"}"), 3);
    EXPECT_EQ(Exported(registry, "stockade_cache_entries{cache=\"shop\"}"), 2);
  }
  ExpectServed(registry, "shop", 3);
  EXPECT_EQ(Exported(registry, "stockade_inventory_sold_units{inventory=\"shop\"}"), 1);
  EXPECT_EQ(Exported(registry, "stockade_cache_entries{cache=\"shop\"}"), 1);
}

TEST(ComponentsTest, AThousand_ScrapedOverHttp_EachSeriesOnceAndPromtoolIsSilent) {
  const auto locks = static_cast<size_t>(Scaled(600, 600));
  const auto caches = static_cast<size_t>(Scaled(300, 300));
  const auto inventories = static_cast<size_t>(Scaled(100, 100));
  MetricsRegistry registry;
  std::deque<ReentrantMutex> all_locks;
  std::deque<LoadingCache<int, int>> all_caches;
  std::deque<Inventory> all_inventories;
  const auto name = [](size_t i) { return "component " + std::to_string(i); };
  for (size_t i = 0; i < locks; ++i) all_locks.emplace_back(LockOptions{.name = name(i), .metrics = &registry});
  for (size_t i = 0; i < caches; ++i) {
    all_caches.emplace_back(LoadingCacheOptions{.name = name(i), .metrics = &registry}).Put(1, 1);
  }
  for (size_t i = 0; i < inventories; ++i) {
    all_inventories.emplace_back(InventoryOptions{.name = name(i), .metrics = &registry});
  }
  const auto server = MetricsServer::Start({.port = 0, .registry = &registry});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string page = testing::Scrape((*server)->port());
  ASSERT_FALSE(page.empty());

  std::set<std::string> series;  // And the heads of families.
  std::map<std::string, size_t> of_family;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    // "name{labels} value", "# TYPE name type" or "# HELP name help"
    const bool is_head = line.starts_with("# ");
    const std::string key = line.substr(0, is_head ? line.find(' ', 7) : line.rfind(' '));
    EXPECT_TRUE(series.insert(key).second) << key << " is there twice";
    if (!is_head) ++of_family[line.substr(0, line.find('{'))];
  }
  EXPECT_EQ(of_family["stockade_lock_acquisitions_total"], 2 * locks);
  EXPECT_EQ(of_family["stockade_lock_hold_seconds_count"], locks);
  EXPECT_EQ(of_family["stockade_cache_entries"], caches);
  EXPECT_EQ(of_family["stockade_inventory_takes_total"], inventories);

  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  const testing::RunResult check = testing::RunToEnd({"promtool", "check", "metrics"}, page);
  EXPECT_EQ(check.status, 0);
  EXPECT_EQ(check.out + check.err, "");
}

// One label value that is not UTF-8 makes Prometheus refuse the whole scrape, and one with a NUL ends it early.
TEST(ComponentsTest, Validate_NameThatAScrapeCannotCarry_IsRefusedAndShownEscaped) {
  const std::string bad("caf\xe9\0", 5);
  const std::string shown = "'caf\\xe9\\x00'";
  EXPECT_EQ(LoadingCacheOptions{.name = bad}.Validate(),
            absl::InvalidArgumentError("LoadingCache: name " + shown + " is not printable UTF-8"));
  EXPECT_EQ(InventoryOptions{.name = bad}.Validate(),
            absl::InvalidArgumentError("Inventory: name " + shown + " is not printable UTF-8"));
  EXPECT_EQ(ShardedStockOptions{.name = bad}.Validate(),
            absl::InvalidArgumentError("ShardedStock: name " + shown + " is not printable UTF-8"));
  EXPECT_EQ(LockOptions{.name = bad}.Validate(),
            absl::InvalidArgumentError("LockOptions.name " + shown + " has characters that are not printable ASCII"));
  EXPECT_EQ(LockServiceOptions{.name = bad}.Validate().code(), absl::StatusCode::kInvalidArgument);

  MetricsRegistry registry;
  Inventory inventory({.name = "gr\xc3\xbcn", .metrics = &registry, .sku_metrics = 2});
  const absl::Status refused = inventory.AddSku(bad, {.stock = 1});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "Inventory 'gr\xc3\xbcn': AddSku: the sku " + shown + " is not printable UTF-8");
  EXPECT_TRUE(inventory.AddSku("\xe2\x82\xac 5", {.stock = 3}).ok());
  EXPECT_EQ(
      Exported(registry, "stockade_inventory_sku_available_units{inventory=\"gr\xc3\xbcn\",sku=\"\xe2\x82\xac 5\"}"),
      3);
}

}  // namespace
}  // namespace stockade
