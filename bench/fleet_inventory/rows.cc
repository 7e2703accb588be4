// Orders of processes that share a ledger on MariaDB, each durable when it is acknowledged, with a synchronized binary
// log: how many a second, how long each takes, and how many share a commit.
#include "fleet_inventory/rows.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet_inventory/fleet.h"
#include "fleet_inventory/segments_shop.h"
#include "ledger/mariadb_shop.h"
#include "ledger/order_runs.h"
#include "ledger/request_ids.h"
#include "servers/disk_server.h"
#include "stockade/base/strings.h"
#ifdef STOCKADE_BENCH_POSTGRES
#include "ledger/postgres_shop.h"
#endif

namespace stockade::bench {
namespace {

using base_internal::Concat;

constexpr size_t kProcesses[] = {1, 2, 4};
constexpr int32_t kSegments[] = {1, 4, 16};
// A peer's figure is that of the best of these.
constexpr size_t kPeerClients[] = {1, 16, 64};
constexpr size_t kMostClients = 64;
// How long a repetition takes, in Scale::span: ours, and the peer with each number of clients.
constexpr int kOrderSpans = 12;
constexpr int kPeerSpans = 6;

// A shop whose clients write a transaction for each order. Most have a row of stock that all of them count down.
struct OrderPeer {
  std::string name;
  std::string target = ">= 7";
  std::function<std::shared_ptr<PeerShop>()> open;
};

Figures MeasurePeer(PeerShop& shop, RequestIds& ids, Fleet::Kind kind, absl::Duration span) {
  OrderRun best;
  for (const size_t clients : kPeerClients) {
    OrderRun run;
    RunCrew(clients, [&](Worker& worker) {
      OrderRun mine = RunOrders(worker, clients, span, [&](size_t client) {
        const std::string id = ids.Next();
        if (kind == Fleet::Kind::kTake) return shop.Take(client, id);
        shop.Reserve(client, id);
        shop.Commit(client, id);
      });
      if (worker.thread() == 0) run = std::move(mine);
    });
    if (run.per_second > best.per_second) best = std::move(run);
  }
  return {{Fleet::kRate, best.per_second},
          {Fleet::kMedian, static_cast<double>(best.durations.Percentile(0.5)) / 1e6},
          {Fleet::kP99, static_cast<double>(best.durations.Percentile(0.99)) / 1e6},
          {Fleet::kBatch, 1}};
}

template <typename Shop>
OrderPeer PeerOn(std::string name, StartServer server) {
  return {.name = std::move(name), .open = [server = std::move(server)]() -> std::shared_ptr<PeerShop> {
            return std::make_shared<Shop>(server().address(), kMostClients);
          }};
}

std::string Conditions(size_t processes, int32_t segments) {
  return Concat(processes, processes == 1 ? " process, K = " : " processes, K = ", segments);
}

void AddRows(Suite& suite, const StartServer& server, const OrderPeer& peer, Fleet::Kind kind, size_t processes,
             int32_t segments) {
  // Each row starts processes and makes tables: a smoke test has one of each kind.
  if (suite.quick() && (processes != 2 || segments != 4)) return;
  const std::string conditions = Conditions(processes, segments);
  std::vector<Comparison> rows = {
      {.name = Concat(kind == Fleet::Kind::kTake ? "durable takes, " : "durable reserve + commit, ", conditions),
       .unit = "orders/s",
       .peer = peer.name,
       .better = Better::kHigher,
       .target = peer.target,
       .counter = Fleet::kRate}};
  if (kind == Fleet::Kind::kTake) {
    for (const char* const percentile : {Fleet::kMedian, Fleet::kP99}) {
      rows.push_back({.name = Concat("durable take, ", percentile, ", ", conditions),
                      .unit = "ms",
                      .peer = peer.name,
                      .counter = percentile});
    }
    rows.push_back({.name = Concat("takes a commit, ", conditions),
                    .unit = "orders",
                    .peer = peer.name,
                    .better = Better::kHigher,
                    .counter = Fleet::kBatch});
  }
  suite.AddRows(std::move(rows), {.prepare = [=](const Scale& scale) -> Contestants {
                  const auto ours = std::make_shared<Fleet>(
                      server(), FleetShape{.name = "ours", .processes = processes, .segments = segments});
                  const auto ids = std::make_shared<RequestIds>();
                  const std::shared_ptr<PeerShop> shop = peer.open();
                  return {[=](Worker&) { return ours->Measure(kind, kOrderSpans * scale.span); },
                          [=](Worker&) { return MeasurePeer(*shop, *ids, kind, kPeerSpans * scale.span); }};
                }});
}

constexpr std::string_view kManyIds = "durable takes, 10^7 request ids, 2 processes, K = 4";

// Filling the tables takes minutes.
void AddManyIdsRow(Suite& suite, const StartServer& server) {
  suite.Add({.name = std::string(kManyIds),
             .unit = "orders/s",
             .peer = "ours, 10^4 request ids",
             .better = Better::kHigher,
             .target = ">= 0.7",
             .counter = Fleet::kRate},
            {.prepare = [=](const Scale& scale) -> Contestants {
              const auto fleet = [&](std::string name, int64_t forgotten) {
                return std::make_shared<Fleet>(
                    server(),
                    FleetShape{.name = std::move(name), .processes = 2, .segments = 4, .forgotten = forgotten});
              };
              const auto few = fleet("few", scale.Sized(10, 10'000));
              const auto many = fleet("many", scale.Sized(1'000, 10'000'000));
              return {[=](Worker&) { return many->Measure(Fleet::Kind::kTake, kOrderSpans * scale.span); },
                      [=](Worker&) { return few->Measure(Fleet::Kind::kTake, kOrderSpans * scale.span); }};
            }});
}

}  // namespace

void AddFleetInventoryRows(Suite& suite) {
  constexpr auto kMariaDb = DiskServer::Kind::kMariaDbBinlog;
  if (const absl::Status here = DiskServer::Check(kMariaDb, suite); !here.ok()) {
    suite.LeaveOut("all rows", std::string(here.message()));
    return;
  }
  const StartServer server = DiskServer::OnDemand(kMariaDb);
  const OrderPeer mariadb = PeerOn<MariaDbShop>("MariaDB, one hot row", server);
  for (const Fleet::Kind kind : {Fleet::Kind::kTake, Fleet::Kind::kReserveAndCommit}) {
    for (const int32_t segments : kSegments) {
      for (const size_t processes : kProcesses) AddRows(suite, server, mariadb, kind, processes, segments);
    }
  }
  constexpr std::string_view kSegmentsShop = "16 Redis keys with a lock each, then an INSERT";
  if (const absl::Status here = RedisProcess::Check(); !here.ok()) {
    suite.LeaveOut(kSegmentsShop, std::string(here.message()));
  } else {
    OrderPeer segments = PeerOn<SegmentsShop>(std::string(kSegmentsShop), server);
    segments.target = "-";
    AddRows(suite, server, segments, Fleet::Kind::kTake, 2, 4);
  }
#ifdef STOCKADE_BENCH_POSTGRES
  constexpr std::string_view kPostgres = "PostgreSQL, one hot row";
  if (const absl::Status here = DiskServer::Check(DiskServer::Kind::kPostgres, suite); !here.ok()) {
    suite.LeaveOut(kPostgres, std::string(here.message()));
  } else {
    const OrderPeer postgres =
        PeerOn<PostgresShop>(std::string(kPostgres), DiskServer::OnDemand(DiskServer::Kind::kPostgres));
    for (const Fleet::Kind kind : {Fleet::Kind::kTake, Fleet::Kind::kReserveAndCommit}) {
      for (const size_t processes : kProcesses) AddRows(suite, server, postgres, kind, processes, 4);
    }
  }
#else
  suite.LeaveOut("PostgreSQL, one hot row", "its library was not found when this was built (Debian: libpq-dev)");
#endif
  AddOneCallerRows(suite, server);
  AddEndRows(suite, server);
  AddRefusalRows(suite, server);
  AddRedisRows(suite, server);
  if (suite.quick() || std::getenv("STOCKADE_BENCH_FULL") != nullptr) {
    AddManyIdsRow(suite, server);
  } else {
    suite.LeaveOut(kManyIds, "it takes minutes to fill the tables; set STOCKADE_BENCH_FULL");
  }
}

}  // namespace stockade::bench
