#include "fleet_process.h"

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/locks/connect_lock_service.h"
#include "visitors.h"
#include "warehouse.h"

namespace shop {
namespace {

using Prices = stockade::LoadingCache<std::string, int64_t>;

constexpr int kBuyers = 1000;
constexpr int64_t kPausedAfter = 3;  // Boxes.

void Say(const FleetPlan& plan, const std::string& what) {
  std::printf("process %d %s\n", plan.number, what.c_str());
  std::fflush(stdout);
}

void AwaitPhase(Warehouse& warehouse, Phase phase) {
  while (!OrExit(warehouse.HasBegun(phase))) absl::SleepFor(absl::Milliseconds(5));
}

// Books the boxes that are not booked yet. Not OK: the lock was lost meanwhile; somebody else goes on, or we try again.
absl::Status BookDelivery(const FleetPlan& plan, stockade::LockService& locks, Warehouse& warehouse) {
  absl::StatusOr<stockade::LockLease> held = locks.Acquire(plan.lock_name);
  if (!held.ok()) return held.status();
  const absl::StatusOr<int64_t> token = held->fencing_token();
  if (!token.ok()) return token.status();

  const absl::StatusOr<int64_t> found = warehouse.BoxesBooked(*token);
  if (!found.ok()) return found.status();
  int64_t booked = *found;
  while (booked < kBoxes && !held->lost().stop_requested()) {
    if (plan.fate == Fate::kPausedInTheJob && booked == kPausedAfter) {
      Say(plan, absl::StrCat("has booked boxes 1 to ", booked, ", and is paused past its lease"));
      raise(SIGSTOP);
    }
    if (absl::Status written = warehouse.BookBox(*token); !written.ok()) return written;
    ++booked;
  }
  if (booked > *found) Say(plan, absl::StrCat("has booked boxes ", *found + 1, " to ", booked));
  return held->Release();  // FailedPrecondition: it was lost.
}

void BookDeliveryWithTheOthers(const FleetPlan& plan, Warehouse& warehouse) {
  // Renewed as long as we live, and free 2 s after we do not.
  const std::unique_ptr<stockade::LockService> locks =
      OrExit(stockade::ConnectLockService(plan.locks, {.name = "shop", .watchdog_lease = absl::Seconds(2)}));
  for (;;) {
    const absl::Status booked = BookDelivery(plan, *locks, warehouse);
    if (booked.ok()) return;
    if (!absl::IsAborted(booked) && !absl::IsFailedPrecondition(booked)) OrExit(booked);
    if (absl::IsAborted(booked)) Say(plan, "goes on, and its write is refused: its fencing token is old");
  }
}

std::unique_ptr<Prices> ConnectPrices(const FleetPlan& plan, Warehouse& warehouse) {
  stockade::LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5)};
  options.tier = OrExit(stockade::RedisCacheTier::Connect(plan.redis, {.prefix = "shop"}));
  return OrExit(Prices::Create(options, {.load = [&](const std::string&) { return warehouse.Price(); }}));
}

// All of the fleet's visitors look at once. Later one process changes the price, and the others are not told.
void ShowPrices(const FleetPlan& plan, Prices& prices, Warehouse& warehouse) {
  const auto shown = [&] { return *OrExit(prices.Get("shoe-1")); };
  AwaitPhase(warehouse, Phase::kVisits);
  AtOnce(kVisitors, [&](int) { shown(); });
  OrExit(warehouse.Show(plan.number, shown()));

  AwaitPhase(warehouse, Phase::kNewPrice);
  if (plan.number == 2) OrExit(prices.UpdateThrough("shoe-1", [&] { return warehouse.SetPrice(kNewPrice); }));
  while (shown() != kNewPrice) absl::SleepFor(absl::Milliseconds(1));
  OrExit(warehouse.Show(plan.number, kNewPrice));
}

// The id of the order. None: sold out. Without an answer we ask again, by the same request_id: whatever came of the
// first request, the buyer gets one pair.
std::optional<stockade::OrderId> Sell(stockade::Inventory& stock, const std::string& buyer) {
  for (;;) {
    const absl::StatusOr<stockade::Order> sold = stock.Take({.sku = "shoe-1", .request_id = buyer, .buyer = buyer});
    if (sold.ok()) return sold->id();
    if (stockade::RefusalOf(sold.status()) == stockade::Refusal::kSoldOut) return std::nullopt;
    if (!absl::IsUnavailable(sold.status())) OrExit(sold.status());
  }
}

void SellToAll(const FleetPlan& plan, stockade::Inventory& stock) {
  std::mutex mutex;
  std::ofstream told(plan.told(), std::ios::app);  // Both guarded by mutex.
  int count = 0;
  std::atomic<int> next = 0;
  AtOnce(8, [&](int) {
    for (int number = next++; number < kBuyers; number = next++) {
      const std::optional<stockade::OrderId> order = Sell(stock, absl::StrCat("buyer-", plan.number, "-", number));
      if (!order) continue;
      const std::lock_guard lock(mutex);
      told << stockade::OrderIdText(*order) << std::endl;
      if (++count == kToldBeforeTheKill && plan.fate == Fate::kKilledInTheSale) raise(SIGKILL);
    }
  });
}

}  // namespace

std::unique_ptr<stockade::Inventory> ConnectStock(const FleetPlan& plan) {
  const stockade::FleetInventoryOptions options = {.ledger = plan.ledger, .fleet = "shop"};
  OrExit(stockade::FleetInventory::Migrate(options));
  return OrExit(stockade::FleetInventory::Connect(options));
}

void RunFleetProcess(const FleetPlan& plan) {
  const std::unique_ptr<Warehouse> warehouse = OrExit(Warehouse::Open(plan.socket));
  BookDeliveryWithTheOthers(plan, *warehouse);
  OrExit(warehouse->Show(plan.number, kNoPrice));
  const std::unique_ptr<Prices> prices = ConnectPrices(plan, *warehouse);
  ShowPrices(plan, *prices, *warehouse);

  const std::unique_ptr<stockade::Inventory> stock = ConnectStock(plan);
  const int64_t pairs = OrExit(warehouse->BoxesBooked()) * kPairsInABox;
  OrExit(stock->EnsureSku("shoe-1", {.stock = pairs, .per_buyer_limit = 1}));
  AwaitPhase(*warehouse, Phase::kSale);
  SellToAll(plan, *stock);
}

}  // namespace shop
