// What a refusal of a SKU that is sold out costs, when processes begin to refuse without the ledger, and when units
// that come back are for sale.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fleet_inventory/rows.h"
#include "ledger/request_ids.h"
#include "peers/peer_driver.h"
#include "servers/redis_process.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/mysql/internal/mysql_connection.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {
namespace {

using base_internal::Concat;
using mysql_internal::MySqlConnection;

constexpr size_t kRefusalThreads = 2;
constexpr int64_t kUnitsToRefuse = 100;
constexpr size_t kDrainingProcesses = 4;
constexpr absl::Duration kLease = absl::Seconds(2);  // The default.
constexpr absl::Duration kRefusalLimit = absl::Minutes(5);

// A request with an id that has not been used, as each buyer who comes too late has one.
Refusal TakeOne(Inventory& shop, std::string id) {
  return RefusalOf(shop.Take({.sku = "sku", .request_id = std::move(id)}).status());
}

// Threads that ask for a SKU without units.
class Asking {
 public:
  Asking(std::unique_ptr<Inventory> shop, int64_t stock) : shop_(std::move(shop)) {
    Require(shop_->AddSku("sku", {.stock = stock}), "AddSku");
    for (int64_t i = 0; i < stock; ++i) {
      if (TakeOne(*shop_, Concat("unit", i)) != Refusal::kNone) base_internal::Fatal("bench: a unit is missing");
    }
    // Until a process of a fleet has a lease.
    const Instant end = Clock::System()->Now() + absl::Seconds(1);
    while (Clock::System()->Now() < end) Ask(0);
  }

  void Ask(size_t thread) {
    if (TakeOne(*shop_, ids_[thread].Next()) != Refusal::kSoldOut) base_internal::Fatal("bench: it is not sold out");
  }
  double PerSecond(Worker& worker, absl::Duration span) {
    return worker
        .RunFor(span, 16,
                [this](size_t thread, int64_t batch) {
                  for (int64_t i = 0; i < batch; ++i) Ask(thread);
                })
        .PerSecond();
  }

 private:
  const std::unique_ptr<Inventory> shop_;
  std::array<RequestIds, kRefusalThreads> ids_;
};

// As a shop does it by hand: the stock is a number, and a script looks a request id up before it takes a unit.
constexpr std::string_view kTakeScript =
    "local took=redis.call('HGET',KEYS[2],ARGV[1]) if took then return took end "
    "if tonumber(redis.call('GET',KEYS[1]))<1 then return 0 end "
    "redis.call('DECR',KEYS[1]) redis.call('HSET',KEYS[2],ARGV[1],1) return 1";

// Connections with 16 requests outstanding each, as redis-benchmark has them.
double RefusalsByScript(const RedisProcess& redis, int64_t commands) {
  return redis.RedisBenchmark({"EVAL", std::string(kTakeScript), "2", "{sku}stock", "{sku}ids", "__rand_int__"},
                              commands, 1'000'000'000);
}

struct RefusalPeer {
  std::string name;
  std::string target = "-";
  size_t threads = 1;
  std::function<Measurement(const Scale&)> prepare;
};

void AddRateRow(Suite& suite, const StartServer& server, const RefusalPeer& peer) {
  suite.Add(
      {.name = Concat("refusals of a sold-out SKU, ", kRefusalThreads, " threads"),
       .unit = "calls/s",
       .peer = peer.name,
       .better = Better::kHigher,
       .target = peer.target},
      {.threads = kRefusalThreads, .peer_threads = peer.threads, .prepare = [=](const Scale& scale) -> Contestants {
         const auto asking = std::make_shared<Asking>(
             Require(FleetInventory::Connect(NewFleet(server(), "sold")), "Connect"), kUnitsToRefuse);
         return {[=](Worker& worker) { return asking->PerSecond(worker, 4 * scale.span); }, peer.prepare(scale)};
       }});
}

void AddRateRows(Suite& suite, const StartServer& server) {
  AddRateRow(suite, server,
             {.name = "Inventory in one process",
              .target = ">= 0.3",
              .threads = kRefusalThreads,
              .prepare = [](const Scale& scale) -> Measurement {
                const auto asking = std::make_shared<Asking>(std::make_unique<Inventory>(), kUnitsToRefuse);
                return [=](Worker& worker) { return asking->PerSecond(worker, 4 * scale.span); };
              }});
  if (const absl::Status here = RedisProcess::Check(); !here.ok()) {
    suite.LeaveOut("refusals beside Redis", std::string(here.message()));
    return;
  }
  AddRateRow(suite, server,
             {.name = "one Redis key with Lua, 64 requests outstanding",
              .target = ">= 10",
              .prepare = [](const Scale& scale) -> Measurement {
                const auto redis = std::make_shared<RedisProcess>();
                const auto client = Require(RedisClient::Connect(redis->url()), "RedisClient");
                Require(client->Run(RedisCommand("SET").Key("{sku}stock").Arg(0)).status(), "SET");
                return [=](Worker&) { return RefusalsByScript(*redis, scale.Sized(10'000, 400'000)); };
              }});
  const absl::StatusOr<std::string> driver = FindPeerDriver(STOCKADE_BENCH_PEERS_DIR, "redisson");
  if (!driver.ok()) {
    suite.LeaveOut("refusals beside Redisson's RSemaphore", std::string(driver.status().message()));
    return;
  }
  AddRateRow(suite, server,
             {.name = "Redisson's RSemaphore, tryAcquire, 16 threads",
              .prepare = [driver = *driver](const Scale& scale) -> Measurement {
                const auto redis = std::make_shared<RedisProcess>();
                const std::shared_ptr<PeerProcess> java = Require(
                    PeerProcess::Start({driver, "--url", redis->url(), "--kind", "semaphore", "--threads", "16",
                                        "--names", "one", "--warm-up-ms", std::to_string(scale.Sized(10, 3000))}),
                    "Redisson");
                const std::string line = Require(java->ReadLine(kRefusalLimit), "Redisson");
                Require(line == "ready" ? absl::OkStatus() : absl::InternalError(line), "Redisson");
                return [=](Worker&) {
                  (void)redis;  // Lives as long as the driver.
                  return Require(RunPeerDriver(*java, 4 * scale.span), "Redisson");
                };
              }});
}

// How long after the last unit was sold each of some processes has refused without the ledger.
double DrainMs(const DiskServer& server, int64_t stock) {
  const FleetInventoryOptions options = NewFleet(server, "drained");
  Require(Require(FleetInventory::Connect(options), "Connect")->AddSku("sku", {.stock = stock, .shards = 4}), "AddSku");
  std::vector<std::unique_ptr<PeerProcess>> processes;
  for (size_t i = 0; i < kDrainingProcesses; ++i) {
    processes.push_back(
        Require(PeerProcess::Start({STOCKADE_BENCH_FLEET_INVENTORY_PROCESS, options.ledger, options.fleet, "16"}),
                "a process"));
  }
  std::vector<std::string> answers(processes.size());
  {
    std::vector<std::jthread> askers;
    for (size_t i = 0; i < processes.size(); ++i) {
      askers.emplace_back([&, i] { answers[i] = Require(processes[i]->Ask("drain 0", kRefusalLimit), "a process"); });
    }
  }
  int64_t last_unit = 0;
  int64_t last_lease = 0;
  for (const std::string& answer : answers) {
    long long unit = 0;
    long long lease = 0;
    if (std::sscanf(answer.c_str(), "%lld %lld", &unit, &lease) != 2) {
      base_internal::Fatal("bench: a process answered " + answer);
    }
    last_unit = std::max<int64_t>(last_unit, unit);
    last_lease = std::max<int64_t>(last_lease, lease);
  }
  return static_cast<double>(last_lease - last_unit) / 1e6;
}

// How long after a cancel another process gets the unit.
double ReturnMs(Inventory& one, Inventory& two, RequestIds& ids) {
  const auto held = one.Reserve({.sku = "sku", .request_id = ids.Next()});
  Require(held.status(), "Reserve");
  // Both refuse by a lease then.
  const Instant leased = Clock::System()->Now() + absl::Milliseconds(200);
  while (Clock::System()->Now() < leased) {
    for (Inventory* const shop : {&one, &two}) {
      if (TakeOne(*shop, ids.Next()) != Refusal::kAllHeld) base_internal::Fatal("bench: it is not held");
    }
  }
  const Instant cancelled = Clock::System()->Now();
  Require(one.Cancel(held->id()), "Cancel");
  for (;;) {
    const auto again = two.Reserve({.sku = "sku", .request_id = ids.Next()});
    if (!again.ok()) continue;
    const double ms = absl::ToDoubleMilliseconds(Clock::System()->Now() - cancelled);
    Require(two.Cancel(again->id()), "Cancel");
    return ms;
  }
}

void AddTimeRows(Suite& suite, const StartServer& server) {
  suite.Add({.name = Concat("last unit sold until ", kDrainingProcesses, " processes refuse by a lease"),
             .unit = "ms",
             .peer = "2 refusal leases",
             .target = "<= 1"},
            {.prepare = [=](const Scale& scale) -> Contestants {
              const int64_t stock = scale.Sized(100, 20'000);
              return {[=](Worker&) { return DrainMs(server(), stock); },
                      [](Worker&) { return absl::ToDoubleMilliseconds(2 * kLease); }};
            }});
  suite.Add({.name = "cancel until the unit is for sale, sold out",
             .unit = "ms",
             .peer = "1.1 refusal leases + 100 ms",
             .target = "<= 1"},
            {.prepare = [=](const Scale&) -> Contestants {
              const FleetInventoryOptions options = NewFleet(server(), "returned");
              const std::shared_ptr<Inventory> one = Require(FleetInventory::Connect(options), "Connect");
              const std::shared_ptr<Inventory> two = Require(FleetInventory::Connect(options), "Connect");
              Require(one->AddSku("sku", {.stock = 1}), "AddSku");
              const auto ids = std::make_shared<RequestIds>();
              return {[=](Worker&) { return ReturnMs(*one, *two, *ids); },
                      [](Worker&) { return absl::ToDoubleMilliseconds(1.1 * kLease) + 100; }};
            }});
}

}  // namespace

FleetInventoryOptions NewFleet(const DiskServer& server, const std::string& fleet) {
  const auto sql = Require(
      MySqlConnection::Open(Require(mysql_internal::ParseMySqlUrl(FleetUrl(server, "mysql")), "a URL"), -1), "MariaDB");
  const std::string database = Concat("fleet_", fleet);
  Require(sql->Run(Concat("DROP DATABASE IF EXISTS ", database, ";CREATE DATABASE ", database),
                   Clock::System()->Now() + absl::Minutes(10))
              .status,
          "CREATE DATABASE");
  FleetInventoryOptions options = {.ledger = FleetUrl(server, database), .fleet = fleet};
  Require(FleetInventory::Migrate(options), "Migrate");
  return options;
}

void AddRefusalRows(Suite& suite, const StartServer& server) {
  AddRateRows(suite, server);
  AddTimeRows(suite, server);
}

}  // namespace stockade::bench
