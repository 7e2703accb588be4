#include "fleet_inventory/fleet.h"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "fleet_inventory/rows.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::bench {
namespace {

using base_internal::Concat;
using mysql_internal::MySqlConnection;

// Of all processes together.
constexpr size_t kOutstanding = 4096;
constexpr absl::Duration kAnswerLimit = absl::Minutes(5);

}  // namespace

std::string FleetUrl(const DiskServer& server, std::string_view database) {
  return Concat("mysql://root@localhost/", database, "?socket=", server.address(), "/socket");
}

Fleet::Fleet(const DiskServer& server, const FleetShape& shape) : name_(shape.name) {
  const std::string database = Concat("fleet_", name_);
  sql_ = Require(MySqlConnection::Open(Require(mysql_internal::ParseMySqlUrl(FleetUrl(server, "mysql")), "a URL"), -1),
                 "MariaDB");
  // Rows that ran before have left their events in the binary log.
  Run(Concat("FLUSH BINARY LOGS;PURGE BINARY LOGS BEFORE NOW();DROP DATABASE IF EXISTS ", database, ";CREATE DATABASE ",
             database, ";USE ", database));
  const FleetInventoryOptions options = {
      .ledger = FleetUrl(server, database), .fleet = name_, .redis = shape.redis, .metrics = nullptr};
  Require(FleetInventory::Migrate(options), "Migrate");
  Require(Require(FleetInventory::Connect(options), "Connect")
              ->AddSku("sku",
                       {.stock = int64_t{1} << 40, .shards = shape.segments, .redis_segments = !shape.redis.empty()}),
          "AddSku");
  if (shape.forgotten > 0) Fill(shape.forgotten);
  std::vector<std::string> line = {STOCKADE_BENCH_FLEET_INVENTORY_PROCESS, options.ledger, name_,
                                   std::to_string(kOutstanding / shape.processes)};
  line.insert(line.end(), shape.redis.begin(), shape.redis.end());
  for (size_t i = 0; i < shape.processes; ++i) processes_.push_back(Require(PeerProcess::Start(line), "a process"));
  Measure(Kind::kTake, absl::Milliseconds(1));  // Each has its connections now.
}

Figures Fleet::Measure(Kind kind, absl::Duration span) {
  const std::string request = Concat(kind == Kind::kTake ? "take " : "reserve ", absl::ToInt64Milliseconds(span));
  const std::string packets_query = Concat("SELECT SUM(batch) FROM ", name_, "_lanes");  // Group commits so far.
  const std::string orders_query = Concat("SELECT SUM(held+sold) FROM ", name_, "_stock");
  const int64_t packets = NumberOf(packets_query);
  const int64_t orders = NumberOf(orders_query);
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
  const double changes = static_cast<double>(NumberOf(orders_query) - orders) * (kind == Kind::kTake ? 1 : 2);
  const int64_t commits = std::max<int64_t>(NumberOf(packets_query) - packets, 1);
  return {{kRate, rate}, {kMedian, p50 / 1000}, {kP99, p99 / 1000}, {kBatch, changes / static_cast<double>(commits)}};
}

void Fleet::Run(const std::string& statements, std::span<const mysql_internal::MySqlSink> results) {
  Require(sql_->Run(statements, results, Clock::System()->Now() + absl::Hours(1)).status, statements);
}

int64_t Fleet::NumberOf(const std::string& query) {
  std::optional<int64_t> number;  // NULL is a sum of no rows.
  Run(query, mysql_internal::MySqlInto(number));
  return number.value_or(0);
}

// In one transaction each, and not in the binary log. Request ids are sorted, so that the table is written in order.
void Fleet::Fill(int64_t count) {
  const std::string source = Concat("FROM seq_1_to_", count);
  Run(Concat("SET SESSION sql_log_bin=0,unique_checks=0;INSERT INTO ", name_,
             "_requests (id,order_id) SELECT UNHEX(MD5(seq)) AS id,seq ", source, " ORDER BY id"));
  Run(Concat("INSERT INTO ", name_,
             "_orders (order_id,fence,request,sku_id,quantity,buyer,kind,state,created_at,ttl_us,at) "
             "SELECT seq,1,UNHEX(MD5(seq)),sku_id,1,REPEAT('\\0',16),0,1,now,1,now ",
             source, ",(SELECT sku_id,1000000*UNIX_TIMESTAMP() AS now FROM ", name_, "_skus) s ORDER BY seq"));
  Run(Concat("UPDATE ", name_, "_skus SET granted=granted+", count, ";UPDATE ", name_, "_stock SET sold=sold+", count,
             " WHERE segment=0;SET SESSION sql_log_bin=1"));
}

}  // namespace stockade::bench
