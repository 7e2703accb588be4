#include "dashboards/shop_under_load.h"

#include <poll.h>

#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <utility>

#include "inventory/fleet/fleet_test.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "stockade/locks/fallback_lock_service.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade::testing {
namespace {

template <typename T>
T Must(absl::StatusOr<T> made) {
  if (!made.ok()) base_internal::Fatal(base_internal::Concat("the shop lacks a part: ", made.status().message()));
  return *std::move(made);
}

void PassAMillisecond() { poll(nullptr, 0, 1); }

absl::StatusOr<std::unique_ptr<Inventory>> ConnectFleet(FleetInventoryOptions options) {
  if (absl::Status migrated = FleetInventory::Migrate(options); !migrated.ok()) return migrated;
  return FleetInventory::Connect(std::move(options));
}

}  // namespace

ShopUnderLoad::ShopUnderLoad()
    : database_({.flags = FleetServerFlags()}),
      redis_(Must(RedisClient::Connect(redis_server_.url(), {.name = "redis", .metrics = &registry_}))),
      news_(Must(redis_->Subscribe("news", {}))),
      redis_locks_(Must(RedisLockService::Connect(
          redis_server_.url(),
          {.service = {.name = "orders", .watchdog_lease = absl::Seconds(12), .metrics = &registry_},
           .redis = {.name = "redis locks", .metrics = &registry_}}))),
      local_locks_(Must(LocalLockService::Create({.name = "orders", .metrics = &registry_}))),
      fallback_locks_(Must(FallbackLockService::Create(Must(LocalLockService::Create({.metrics = nullptr})),
                                                       {.name = "fallback", .metrics = &registry_}))),
      cache_({.name = "products",
              .max_weight = 64,
              .ttl = absl::Milliseconds(40),
              .refresh_ahead = 0.5,
              .negative_ttl = absl::Milliseconds(40),
              .stale_while_revalidate = absl::Milliseconds(20),
              .metrics = &registry_},
             [](int key, LoadContext&) -> absl::StatusOr<int> {
               PassAMillisecond();
               if (key % 10 == 9) return absl::NotFoundError("no such product");
               return key;
             }),
      tier_(Must(RedisCacheTier::Connect(redis_server_.url(), {.prefix = "shop",
                                                               .timeout = absl::Seconds(10),
                                                               .metrics = &registry_,
                                                               .redis = {.name = "tier", .metrics = &registry_}}))),
      shared_(Must(tier_->Open("products", "product/1", ignored_))),
      inventory_({.name = "shop",
                  .ledger = Must(SqliteLedger::Open(dir_.File("orders.db"), {.name = "orders", .metrics = &registry_})),
                  .metrics = &registry_,
                  .sku_metrics = 2}),
      fleet_(Must(ConnectFleet({.ledger = database_.url(),
                                .fleet = "outlet",
                                .patience = absl::Minutes(5),
                                .refusal_lease = absl::Milliseconds(100),
                                .redis = {redis_server_.url()},
                                .metrics = &registry_}))),
      kept_(Must(redis_locks_->Acquire("the shop"))),
      server_(Must(MetricsServer::Start({.port = 0, .registry = &registry_}))) {
  for (const char* const sku : {"shoes", "socks", "laces"}) {
    if (!inventory_.AddSku(sku, {.stock = 50, .shards = 4}).ok()) base_internal::Fatal("no SKU");
  }
  const std::pair<const char*, int64_t> outlet[] = {{"socks", 1'000'000}, {"boots", 2}, {"sandals", 0}};
  for (const auto& [sku, units] : outlet) {
    if (!fleet_->AddSku(sku, {.stock = units}).ok()) base_internal::Fatal("no SKU in the fleet");
  }
  Repeat([this](int i) { OrderOfFleet(i); });
  for (int thread = 0; thread < 3; ++thread) {
    Repeat([this, thread](int i) {
      View(i);
      Order(i * 3 + thread);
      Lock(i);
      Share(i * 3 + thread);
    });
  }
}

void ShopUnderLoad::Repeat(std::function<void(int)> step) {
  threads_.emplace_back([step = std::move(step)](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      step(i);
      PassAMillisecond();
    }
  });
}

// The three threads look at the same products, so that they wait for each other's loads.
void ShopUnderLoad::View(int i) {
  for (int again = 0; again < 20; ++again) (void)cache_.Get(i / 5 % 100);
}

void ShopUnderLoad::Order(int i) {
  const std::string id = std::to_string(i);
  (void)inventory_.Take({.sku = "socks", .quantity = 1, .request_id = "take " + id});
  (void)inventory_.Available("laces");  // Nobody buys them: the exact number freezes shards with units, each time.
  const auto held = inventory_.Reserve({.sku = "shoes", .quantity = 3, .request_id = id, .ttl = absl::Milliseconds(5)});
  if (held.ok() && i % 3 == 0) (void)inventory_.Commit(held->id());
  if (held.ok() && i % 3 == 1) (void)inventory_.Cancel(held->id());
  if (i % 8 != 0) return;
  (void)inventory_.Restock("socks", 6);
  (void)inventory_.Restock("shoes", 9);
}

// Sandals stay sold out, so that leases refuse them. Boots come back and sell out, again and again.
void ShopUnderLoad::OrderOfFleet(int i) {
  const std::string id = std::to_string(i);
  (void)fleet_->Take({.sku = "socks", .request_id = "take " + std::to_string(i / 2)});
  for (int again = 0; again < 20; ++again) (void)fleet_->Take({.sku = "sandals", .request_id = "late " + id});
  const auto held = fleet_->Reserve({.sku = "boots", .request_id = id, .ttl = absl::Milliseconds(500)});
  if (held.ok() && i % 3 == 0) {
    (void)fleet_->Commit(held->id());
    (void)fleet_->Restock({.sku = "boots", .quantity = 1, .request_id = "more " + id});
  }
  if (held.ok() && i % 3 == 1) (void)fleet_->Cancel(held->id());
}

void ShopUnderLoad::Share(int i) {
  const std::string key = std::to_string(i / 10 % 20);
  const TierAsk ask{.key = key};
  const TierAnswer answer = shared_->Ask({&ask, 1})[0];
  if (answer.kind == TierAnswer::Kind::kGranted) {
    const TierFill fill{.key = key, .lease = answer.lease, .bytes = "shoe", .ttl = absl::Seconds(1)};
    (void)shared_->Fill({&fill, 1});
  }
  if (i % 16 == 0) (void)shared_->Await(shared_->Queue({.kind = TierTarget::Kind::kKey, .text = key}), false);
}

void ShopUnderLoad::Lock(int i) {
  {
    const std::lock_guard held(mutex_);
    if (i % 10 == 0) PassAMillisecond();
  }
  for (int again = 0; again < 50; ++again) const std::shared_lock read(shared_mutex_);
  if (i % 20 == 0) const std::unique_lock write(shared_mutex_);
  for (LockService* const service : {redis_locks_.get(), local_locks_.get(), fallback_locks_.get()}) {
    (void)service->Acquire("stock", {.wait = absl::Seconds(1)});
  }
  (void)redis_->Run(RedisCommand("PUBLISH").Arg("news").Arg(i));
}

}  // namespace stockade::testing
