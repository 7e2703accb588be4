#ifndef STOCKADE_TESTS_DASHBOARDS_SHOP_UNDER_LOAD_H_
#define STOCKADE_TESTS_DASHBOARDS_SHOP_UNDER_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mysql/support/mariadb_server.h"
#include "redis/support/redis_server.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/inventory/inventory.h"
#include "stockade/locks/lock_lease.h"
#include "stockade/locks/lock_service.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_registry.h"
#include "stockade/metrics/metrics_server.h"
#include "stockade/redis/redis_client.h"
#include "support/temp_dir.h"

namespace stockade::testing {

// One of every component, used by a few threads from the beginning to the end, so that every kind of series moves; at
// a pace that leaves the machine to others. Its own registry, served on a free port. Needs redis-server
// and MariaDB.
class ShopUnderLoad {
 public:
  ShopUnderLoad();

  uint16_t port() const { return server_->port(); }

 private:
  // Runs `step` again and again, a millisecond apart.
  void Repeat(std::function<void(int)> step);
  void View(int i);
  void Order(int i);
  void OrderOfFleet(int i);
  void Lock(int i);
  void Share(int i);

  const TempDir dir_;
  const RedisServer redis_server_;
  const MariaDbServer database_;
  MetricsRegistry registry_;
  const std::unique_ptr<RedisClient> redis_;
  RedisSubscription news_;
  const std::unique_ptr<LockService> redis_locks_;
  const std::unique_ptr<LockService> local_locks_;
  const std::unique_ptr<LockService> fallback_locks_;
  ReentrantMutex mutex_{{.name = "till", .metrics = &registry_}};
  ReentrantSharedMutex shared_mutex_{{.name = "prices", .metrics = &registry_}};
  LoadingCache<int, int> cache_;
  // Used without a cache, so that each of its series moves.
  struct IgnoredInvalidations final : TierListener {
    void OnInvalidated(uint64_t, const TierTarget&) override {}
    void OnReset() override {}
  };
  IgnoredInvalidations ignored_;
  const std::shared_ptr<CacheTier> tier_;
  const std::unique_ptr<TierCache> shared_;
  Inventory inventory_;
  const std::unique_ptr<Inventory> fleet_;
  LockLease kept_;  // Held throughout, and renewed; lost only if nothing runs for two thirds of its lease.
  const std::unique_ptr<MetricsServer> server_;
  std::vector<std::jthread> threads_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_DASHBOARDS_SHOP_UNDER_LOAD_H_
