// Orders of processes that share a ledger on MariaDB, each durable when it is acknowledged, with a synchronized binary
// log: how many a second, how long each takes, and how many share a commit.
#include "fleet_inventory/rows.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/mariadb_shop.h"
#include "ledger/order_runs.h"
#include "ledger/request_ids.h"
#include "peers/peer_process.h"
#include "servers/disk_server.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/mysql/internal/mysql_connection.h"
#ifdef STOCKADE_BENCH_POSTGRES
#include "ledger/postgres_shop.h"
#endif

namespace stockade::bench {
namespace {

using base_internal::Concat;
using mysql_internal::MySqlConnection;
using mysql_internal::MySqlNumber;
using mysql_internal::MySqlReply;

constexpr size_t kProcesses[] = {1, 2, 4};
constexpr int32_t kSegments[] = {1, 4, 16};
// Of all processes together.
constexpr size_t kOutstanding = 4096;
// A peer's figure is that of the best of these.
constexpr size_t kPeerClients[] = {1, 16, 64};
constexpr size_t kMostClients = 64;
// How long a repetition takes, in Scale::span: ours, and the peer with each number of clients.
constexpr int kSpans = 12;
constexpr int kPeerSpans = 6;
constexpr absl::Duration kAnswerLimit = absl::Minutes(5);

constexpr char kRate[] = "rate";
constexpr char kMedian[] = "p50";
constexpr char kP99[] = "p99";
constexpr char kBatch[] = "batch";

enum class Kind { kTake, kReserveAndCommit };

// The processes of a fleet, which has a database of its own.
class Fleet {
 public:
  // `forgotten`: the number of request ids that are there from the start, with as many orders that have ended.
  Fleet(const DiskServer& server, const std::string& fleet, size_t processes, int32_t segments, int64_t forgotten = 0)
      : fleet_(fleet) {
    const std::string database = Concat("fleet_", fleet);
    sql_ =
        Require(MySqlConnection::Open(Require(mysql_internal::ParseMySqlUrl(FleetUrl(server, "mysql")), "a URL"), -1),
                "MariaDB");
    // Rows that ran before have left their events in the binary log.
    Run(Concat("FLUSH BINARY LOGS;PURGE BINARY LOGS BEFORE NOW();DROP DATABASE IF EXISTS ", database,
               ";CREATE DATABASE ", database, ";USE ", database));
    const FleetInventoryOptions options = {.ledger = FleetUrl(server, database), .fleet = fleet, .metrics = nullptr};
    Require(FleetInventory::Migrate(options), "Migrate");
    Require(Require(FleetInventory::Connect(options), "Connect")
                ->AddSku("sku", {.stock = int64_t{1} << 40, .shards = segments}),
            "AddSku");
    if (forgotten > 0) Fill(forgotten);
    for (size_t i = 0; i < processes; ++i) {
      processes_.push_back(Require(PeerProcess::Start({STOCKADE_BENCH_FLEET_INVENTORY_PROCESS, options.ledger, fleet,
                                                       std::to_string(kOutstanding / processes)}),
                                   "a process"));
    }
    Measure(Kind::kTake, absl::Milliseconds(1));  // Each has its connections now.
  }

  Figures Measure(Kind kind, absl::Duration span) {
    const std::string request = Concat(kind == Kind::kTake ? "take " : "reserve ", absl::ToInt64Milliseconds(span));
    const int64_t packets = Packets();
    const int64_t orders = Orders();
    std::vector<std::string> answers(processes_.size());
    {
      std::vector<std::jthread> askers;
      for (size_t i = 0; i < processes_.size(); ++i) {
        askers.emplace_back([&, i] { answers[i] = Require(processes_[i]->Ask(request, kAnswerLimit), "a process"); });
      }
    }
    double rate = 0;
    double p50 = 0;
    double p99 = 0;
    for (const std::string& answer : answers) {
      double its_rate = 0;
      double its_p50 = 0;
      double its_p99 = 0;
      if (std::sscanf(answer.c_str(), "%lf %lf %lf", &its_rate, &its_p50, &its_p99) != 3) {
        base_internal::Fatal("bench: a process answered " + answer);
      }
      rate += its_rate;
      p50 = std::max(p50, its_p50);
      p99 = std::max(p99, its_p99);
    }
    const double changes = static_cast<double>(Orders() - orders) * (kind == Kind::kTake ? 1 : 2);
    return {{kRate, rate},
            {kMedian, p50 / 1000},
            {kP99, p99 / 1000},
            {kBatch, changes / static_cast<double>(std::max<int64_t>(Packets() - packets, 1))}};
  }

 private:
  MySqlReply Run(const std::string& statements) {
    MySqlReply reply = sql_->Run(statements, Clock::System()->Now() + absl::Hours(1));
    Require(reply.status, statements);
    return reply;
  }
  // Group commits so far.
  int64_t Packets() { return MySqlNumber(Run(Concat("SELECT SUM(batch) FROM ", fleet_, "_lanes")).rows().at(0), 0); }
  int64_t Orders() { return MySqlNumber(Run(Concat("SELECT SUM(held+sold) FROM ", fleet_, "_stock")).rows().at(0), 0); }
  // In one transaction each, and not in the binary log. Request ids are sorted, so that the table is written in order.
  void Fill(int64_t count) {
    const std::string source = Concat("FROM seq_1_to_", count);
    Run(Concat("SET SESSION sql_log_bin=0,unique_checks=0;INSERT INTO ", fleet_,
               "_requests (id,order_id) SELECT UNHEX(MD5(seq)) AS id,seq ", source, " ORDER BY id"));
    Run(Concat("INSERT INTO ", fleet_,
               "_orders (order_id,fence,request,sku_id,quantity,buyer,kind,state,created_at,ttl_us,at) "
               "SELECT seq,1,UNHEX(MD5(seq)),sku_id,1,REPEAT('\\0',16),0,1,now,1,now ",
               source, ",(SELECT sku_id,1000000*UNIX_TIMESTAMP() AS now FROM ", fleet_, "_skus) s ORDER BY seq"));
    Run(Concat("UPDATE ", fleet_, "_skus SET granted=granted+", count, ";UPDATE ", fleet_, "_stock SET sold=sold+",
               count, " WHERE segment=0;SET SESSION sql_log_bin=1"));
  }

  const std::string fleet_;
  std::unique_ptr<MySqlConnection> sql_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
};

// A row of stock that all clients count down, with a transaction for each order.
struct HotRow {
  std::string name;
  std::function<std::shared_ptr<PeerShop>()> open;
};

Figures MeasureHotRow(PeerShop& shop, RequestIds& ids, Kind kind, absl::Duration span) {
  OrderRun best;
  for (const size_t clients : kPeerClients) {
    OrderRun run;
    RunCrew(clients, [&](Worker& worker) {
      OrderRun mine = RunOrders(worker, clients, span, [&](size_t client) {
        const std::string id = ids.Next();
        if (kind == Kind::kTake) return shop.Take(client, id);
        shop.Reserve(client, id);
        shop.Commit(client, id);
      });
      if (worker.thread() == 0) run = std::move(mine);
    });
    if (run.per_second > best.per_second) best = std::move(run);
  }
  return {{kRate, best.per_second},
          {kMedian, static_cast<double>(best.durations.Percentile(0.5)) / 1e6},
          {kP99, static_cast<double>(best.durations.Percentile(0.99)) / 1e6},
          {kBatch, 1}};
}

template <typename Shop>
HotRow HotRowOn(std::string name, StartServer server) {
  return {.name = std::move(name), .open = [server = std::move(server)]() -> std::shared_ptr<PeerShop> {
            return std::make_shared<Shop>(server().address(), kMostClients);
          }};
}

std::string Conditions(size_t processes, int32_t segments) {
  return Concat(processes, processes == 1 ? " process, K = " : " processes, K = ", segments);
}

void AddRows(Suite& suite, const StartServer& server, const HotRow& peer, Kind kind, size_t processes,
             int32_t segments) {
  // Each row starts processes and makes tables: a smoke test has one of each kind.
  if (suite.quick() && (processes != 2 || segments != 4)) return;
  const std::string conditions = Conditions(processes, segments);
  std::vector<Comparison> rows = {
      {.name = Concat(kind == Kind::kTake ? "durable takes, " : "durable reserve + commit, ", conditions),
       .unit = "orders/s",
       .peer = peer.name,
       .better = Better::kHigher,
       .target = ">= 7",
       .counter = kRate}};
  if (kind == Kind::kTake) {
    for (const char* const percentile : {kMedian, kP99}) {
      rows.push_back({.name = Concat("durable take, ", percentile, ", ", conditions),
                      .unit = "ms",
                      .peer = peer.name,
                      .counter = percentile});
    }
    rows.push_back({.name = Concat("takes a commit, ", conditions),
                    .unit = "orders",
                    .peer = peer.name,
                    .better = Better::kHigher,
                    .counter = kBatch});
  }
  suite.AddRows(std::move(rows), {.prepare = [=](const Scale& scale) -> Contestants {
                  const auto ours = std::make_shared<Fleet>(server(), "ours", processes, segments);
                  const auto ids = std::make_shared<RequestIds>();
                  const std::shared_ptr<PeerShop> shop = peer.open();
                  return {[=](Worker&) { return ours->Measure(kind, kSpans * scale.span); },
                          [=](Worker&) { return MeasureHotRow(*shop, *ids, kind, kPeerSpans * scale.span); }};
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
             .counter = kRate},
            {.prepare = [=](const Scale& scale) -> Contestants {
              const auto few = std::make_shared<Fleet>(server(), "few", 2, 4, scale.Sized(10, 10'000));
              const auto many = std::make_shared<Fleet>(server(), "many", 2, 4, scale.Sized(1'000, 10'000'000));
              return {[=](Worker&) { return many->Measure(Kind::kTake, kSpans * scale.span); },
                      [=](Worker&) { return few->Measure(Kind::kTake, kSpans * scale.span); }};
            }});
}

}  // namespace

std::string FleetUrl(const DiskServer& server, std::string_view database) {
  return Concat("mysql://root@localhost/", database, "?socket=", server.address(), "/socket");
}

void AddFleetInventoryRows(Suite& suite) {
  constexpr auto kMariaDb = DiskServer::Kind::kMariaDbBinlog;
  if (const absl::Status here = DiskServer::Check(kMariaDb, suite); !here.ok()) {
    suite.LeaveOut("all rows", std::string(here.message()));
    return;
  }
  const StartServer server = DiskServer::OnDemand(kMariaDb);
  const HotRow mariadb = HotRowOn<MariaDbShop>("MariaDB, one hot row", server);
  for (const Kind kind : {Kind::kTake, Kind::kReserveAndCommit}) {
    for (const int32_t segments : kSegments) {
      for (const size_t processes : kProcesses) AddRows(suite, server, mariadb, kind, processes, segments);
    }
  }
#ifdef STOCKADE_BENCH_POSTGRES
  constexpr std::string_view kPostgres = "PostgreSQL, one hot row";
  if (const absl::Status here = DiskServer::Check(DiskServer::Kind::kPostgres, suite); !here.ok()) {
    suite.LeaveOut(kPostgres, std::string(here.message()));
  } else {
    const HotRow postgres =
        HotRowOn<PostgresShop>(std::string(kPostgres), DiskServer::OnDemand(DiskServer::Kind::kPostgres));
    for (const Kind kind : {Kind::kTake, Kind::kReserveAndCommit}) {
      for (const size_t processes : kProcesses) AddRows(suite, server, postgres, kind, processes, 4);
    }
  }
#else
  suite.LeaveOut("PostgreSQL, one hot row", "its library was not found when this was built (Debian: libpq-dev)");
#endif
  AddRefusalRows(suite, server);
  if (suite.quick() || std::getenv("STOCKADE_BENCH_FULL") != nullptr) {
    AddManyIdsRow(suite, server);
  } else {
    suite.LeaveOut(kManyIds, "it takes minutes to fill the tables; set STOCKADE_BENCH_FULL");
  }
}

}  // namespace stockade::bench
