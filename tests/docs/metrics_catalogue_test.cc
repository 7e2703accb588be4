// docs/METRICS.md is the golden list of what is exported: name, type, labels, help.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "inventory/fleet/fleet_test.h"
#include "mysql/support/mariadb_server.h"
#include "redis/support/redis_server.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "stockade/locks/fallback_lock_service.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "stockade/locks/mysql_lock_service.h"
#include "stockade/locks/redis_lock_service.h"
#include "stockade/locks/redlock_service.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/locks/zookeeper_lock_service.h"
#include "stockade/metrics/metrics_registry.h"
#include "stockade/redis/redis_client.h"
#include "support/temp_dir.h"
#include "zookeeper/support/zookeeper_server.h"

namespace stockade {
namespace {

constexpr char kName[] = "golden";  // The name of every component: distinguishes its label from fixed values.

const char* TypeName(prometheus::MetricType type) {
  switch (type) {
    case prometheus::MetricType::Counter: return "counter";
    case prometheus::MetricType::Gauge: return "gauge";
    case prometheus::MetricType::Histogram: return "histogram";
    default: return "other";
  }
}

// "`cache`, `result` (hit, miss)"
std::string LabelsOf(const prometheus::MetricFamily& family) {
  std::map<std::string, std::set<std::string>> labels;
  for (const auto& metric : family.metric) {
    for (const auto& label : metric.label) {
      labels[label.name];
      if (label.value != kName && label.name != "node") labels[label.name].insert(label.value);
    }
  }
  std::string text;
  for (const auto& [name, values] : labels) {
    if (!text.empty()) text += ", ";
    text += "`" + name + "`";
    if (values.empty()) continue;
    std::string list;
    for (const std::string& value : values) list += (list.empty() ? "" : ", ") + value;
    text += " (" + list + ")";
  }
  return text;
}

struct IgnoredInvalidations final : TierListener {
  void OnInvalidated(uint64_t, const TierTarget&) override {}
  void OnReset() override {}
};

std::vector<std::string> ExportedRows() {
  const testing::TempDir directory;
  MetricsRegistry registry;
  const ReentrantMutex mutex({.name = kName, .metrics = &registry});
  const ReentrantSharedMutex shared_mutex({.name = kName, .metrics = &registry});
  const KeyedSharedMutex<std::string> keyed({.name = kName, .metrics = &registry});
  const LoadingCache<int, int> cache({.name = kName, .metrics = &registry},
                                     [](int key, LoadContext&) -> absl::StatusOr<int> { return key; });
  Inventory inventory(
      {.name = kName,
       .ledger = SqliteLedger::Open(directory.File("orders.db"), {.name = kName, .metrics = &registry}).value(),
       .metrics = &registry,
       .sku_metrics = 1});
  EXPECT_TRUE(inventory.AddSku(kName, {}).ok());
  const testing::RedisServer server;
  const auto redis = RedisClient::Connect(server.url(), {.name = kName, .metrics = &registry});
  EXPECT_TRUE(redis.ok()) << redis.status();
  const auto tier =
      RedisCacheTier::Connect(server.url(), {.prefix = kName, .metrics = &registry, .redis = {.metrics = nullptr}});
  EXPECT_TRUE(tier.ok()) << tier.status();
  IgnoredInvalidations ignored;
  const auto shared = (*tier)->Open(kName, "codec", ignored);
  EXPECT_TRUE(shared.ok()) << shared.status();
  const LockServiceOptions service = {.name = kName, .metrics = &registry};
  const RedisOptions no_metrics = {.metrics = nullptr};
  auto locks = RedisLockService::Connect(server.url(), {.service = service, .redis = no_metrics});
  EXPECT_TRUE(locks.ok()) << locks.status();
  const auto fallback = FallbackLockService::Create(*std::move(locks), service);
  EXPECT_TRUE(fallback.ok()) << fallback.status();
  const testing::RedisServer others[2];
  const std::string urls[] = {server.url(), others[0].url(), others[1].url()};
  const auto redlock = RedlockService::Connect(urls, {.service = service, .redis = no_metrics});
  EXPECT_TRUE(redlock.ok()) << redlock.status();
  const testing::ZooKeeperServer zookeeper;
  const auto queued = ZooKeeperLockService::Connect(zookeeper.url(), {.service = service});
  EXPECT_TRUE(queued.ok()) << queued.status();
  const testing::MariaDbServer database({.flags = testing::FleetServerFlags()});
  const auto rows_held = MySqlLockService::Connect(database.url(), {.service = service, .create_schema = true});
  EXPECT_TRUE(rows_held.ok()) << rows_held.status();
  const FleetInventoryOptions fleet = {
      .ledger = database.url(), .name = kName, .redis = {server.url()}, .metrics = &registry};
  const absl::Status migrated = FleetInventory::Migrate(fleet);
  EXPECT_TRUE(migrated.ok()) << migrated;
  const auto shop = FleetInventory::Connect(fleet);
  EXPECT_TRUE(shop.ok()) << shop.status();
  std::vector<std::string> rows;
  for (const auto& family : registry.Collect()) {
    rows.push_back("| `" + family.name + "` | " + TypeName(family.type) + " | " + LabelsOf(family) + " | " +
                   family.help + " |");
  }
  return rows;
}

std::vector<std::string> DocumentedRows() {
  std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/docs/METRICS.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| `stockade_")) rows.push_back(line);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(MetricsCatalogueTest, ExportedSeries_AllComponents_AreThoseOfTheDocument) {
  STOCKADE_NEEDS_REDIS();
  STOCKADE_NEEDS_ZOOKEEPER();
  STOCKADE_NEEDS_MARIADB();
  std::vector<std::string> exported = ExportedRows();
  std::sort(exported.begin(), exported.end());
  const std::vector<std::string> documented = DocumentedRows();
  for (const std::string& row : exported) {
    EXPECT_TRUE(std::binary_search(documented.begin(), documented.end(), row)) << "docs/METRICS.md lacks:\n" << row;
  }
  for (const std::string& row : documented) {
    EXPECT_TRUE(std::binary_search(exported.begin(), exported.end(), row)) << "not exported:\n" << row;
  }
}

}  // namespace
}  // namespace stockade
