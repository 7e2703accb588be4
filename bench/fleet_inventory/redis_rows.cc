// Segments at Redis nodes: what a node does when a lane asks it for units, and how many orders processes sell with
// nodes and without.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/fleet_dispenser.h"
#include "fleet_inventory/fleet.h"
#include "fleet_inventory/rows.h"
#include "ledger/request_ids.h"
#include "servers/redis_process.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {
namespace {

using base_internal::Concat;
using inventory_internal::FleetDispenser;

constexpr int64_t kUnits = int64_t{1} << 40;
// Scripts that a thread sends in one round trip.
constexpr int64_t kScripts = 64;
// Units of a take as a lane has it, which asks for those of a whole batch.
constexpr int64_t kBatchUnits = 256;
constexpr size_t kNodes = 3;
constexpr size_t kThreads = 2;
constexpr int kSpans = 12;

constexpr char kCalls[] = "calls";
constexpr char kCpu[] = "cpu";

// The number after `field` in the reply of INFO; 0 if there is no such field.
double NumberIn(const std::string& info, std::string_view field) {
  const size_t found = info.find(field);
  return found == std::string::npos ? 0 : std::strtod(info.c_str() + found + field.size(), nullptr);
}

// A Redis server, and a client for what is not measured.
class Server {
 public:
  Server() : client_(Require(RedisClient::Connect(process_.url()), "RedisClient")) {}

  std::string url() const { return process_.url(); }
  RedisClient& client() { return *client_; }
  // Its processor time so far.
  double CpuSeconds() {
    const std::string info(Require(client_->Run(RedisCommand("INFO").Arg("cpu")), "INFO").text());
    return NumberIn(info, "used_cpu_sys:") + NumberIn(info, "used_cpu_user:");
  }

 private:
  const RedisProcess process_;
  const std::unique_ptr<RedisClient> client_;
};

// Lets all threads call take(thread), which runs kScripts scripts, for `span`. kCalls: scripts per second; kCpu: the
// processor time of all servers per script, in microseconds.
template <typename Servers, typename Take>
Figures MeasureScripts(Worker& worker, absl::Duration span, Servers& servers, const Take& take) {
  const auto cpu_seconds = [&] {
    double seconds = 0;
    for (Server& server : servers) seconds += server.CpuSeconds();
    return seconds;
  };
  const double before = worker.thread() == 0 ? cpu_seconds() : 0;
  const Throughput scripts = worker.RunFor(span, kScripts, [&](size_t thread, int64_t) { take(thread); });
  if (worker.thread() != 0) return {};
  return {{kCalls, scripts.PerSecond()}, {kCpu, (cpu_seconds() - before) * 1e6 / static_cast<double>(scripts.ops)}};
}

// Redis servers, and the inventory's counters of one SKU at them.
class Nodes {
 public:
  explicit Nodes(size_t count) : servers_(count) {
    FleetInventoryOptions options = {
        .fleet = "bench", .name = "bench", .redis_timeout = absl::Minutes(1), .metrics = nullptr};
    std::vector<FleetDispenser::Node> nodes;
    for (const Server& server : servers_) {
      options.redis.push_back(server.url());
      nodes.push_back({.segment = static_cast<int32_t>(nodes.size()), .name = server.url()});
    }
    dispenser_ = Require(inventory_internal::ConnectFleetNodes(options, nodes), "ConnectFleetNodes");
    for (size_t node = 0; node < count; ++node) {
      if (!dispenser_->Fill(node, kSku, 1, 1, kUnits)) base_internal::Fatal("bench: a node was not filled");
    }
  }

  // Threads take from the nodes in turn.
  Figures Measure(Worker& worker, absl::Duration span, int64_t units) {
    return MeasureScripts(worker, span, servers_, [&](size_t thread) { Take(thread % servers_.size(), units); });
  }

 private:
  static constexpr uint64_t kSku = 1;

  // As for a batch of kScripts SKUs. All are of one SKU here, so that they use one key.
  void Take(size_t node, int64_t units) {
    const std::vector<FleetDispenser::Want> wants(kScripts, {.sku = kSku, .least_generation = 1, .units = units});
    const auto got = dispenser_->Take(node, wants);
    if (!got.has_value()) base_internal::Fatal("bench: a node is away");
    for (const FleetDispenser::Got& each : *got) {
      if (each.units != units) base_internal::Fatal("bench: a node has too few units");
    }
  }

  std::deque<Server> servers_;
  std::unique_ptr<FleetDispenser> dispenser_;
};

// As a careful shop does it without a ledger: the stock is a number in one key. A request id is a key that expires
// after a day, so that a repeat takes no unit, and each reservation has a place in the order of their deadlines.
//
// KEYS: the stock, the request id, the reservations. ARGV: the request id, the units, the deadline. Returns 1, 0 for a
// repeat, -1 if there are too few units.
const RedisScript& ShopScript() {
  static const RedisScript script(R"lua(
if not redis.call('SET', KEYS[2], ARGV[2], 'NX', 'EX', 86400) then return 0 end
if redis.call('DECRBY', KEYS[1], ARGV[2]) < 0 then
  redis.call('INCRBY', KEYS[1], ARGV[2])
  redis.call('DEL', KEYS[2])
  return -1
end
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
return 1
)lua");
  return script;
}

class RedisShop {
 public:
  Figures Measure(Worker& worker, absl::Duration span) {
    // Reservations of the repetition before have ended.
    worker.Once([this] {
      Require(client().Run(RedisCommand("FLUSHALL")).status(), "FLUSHALL");
      Require(client().Run(RedisCommand("SET").Key("{sku}:stock").Arg(kUnits)).status(), "SET");
    });
    return MeasureScripts(worker, span, server_, [this](size_t) { Take(); });
  }

 private:
  RedisClient& client() { return server_[0].client(); }
  void Take() {
    std::vector<RedisCommand> commands;
    commands.reserve(kScripts);
    const int64_t deadline = absl::ToUnixMillis(absl::Now() + absl::Minutes(10));
    for (int64_t i = 0; i < kScripts; ++i) {
      const std::string id = ids_.Next();
      const std::string key = Concat("{sku}:", id);
      commands.push_back(RedisCommand(ShopScript(), {"{sku}:stock", key, "{sku}:held"}).Arg(id).Arg(1).Arg(deadline));
    }
    for (const absl::StatusOr<RedisReply>& reply : client().RunMany(commands)) {
      if (Require(reply, "a take").integer() != 1) base_internal::Fatal("bench: a take got no unit");
    }
  }

  std::array<Server, 1> server_;
  RequestIds ids_;
};

constexpr std::string_view kShop = "Lua with request id and reservation, one Redis key";

void AddTakeRows(Suite& suite) {
  suite.AddRows(
      {{.name = "takes at a Redis node, 1 unit each",
        .unit = "calls/s",
        .peer = std::string(kShop),
        .better = Better::kHigher,
        .target = ">= 2",
        .counter = kCalls},
       {.name = "processor time of Redis per take", .unit = "us", .peer = std::string(kShop), .counter = kCpu}},
      {.threads = kThreads, .prepare = [](const Scale& scale) -> Contestants {
         const auto nodes = std::make_shared<Nodes>(1);
         const auto shop = std::make_shared<RedisShop>();
         return {[=](Worker& worker) { return nodes->Measure(worker, kSpans * scale.span, 1); },
                 [=](Worker& worker) { return shop->Measure(worker, kSpans * scale.span); }};
       }});
  suite.Add({.name = Concat("units of a Redis node, takes of ", kBatchUnits),
             .unit = "units/s",
             .peer = std::string(kShop),
             .better = Better::kHigher,
             .counter = kCalls},
            {.threads = kThreads, .prepare = [](const Scale& scale) -> Contestants {
               const auto nodes = std::make_shared<Nodes>(1);
               const auto shop = std::make_shared<RedisShop>();
               return {[=](Worker& worker) {
                         Figures figures = nodes->Measure(worker, kSpans * scale.span, kBatchUnits);
                         figures[kCalls] *= kBatchUnits;
                         return figures;
                       },
                       [=](Worker& worker) { return shop->Measure(worker, kSpans * scale.span); }};
             }});
  suite.Add({.name = Concat("processor time of Redis per take, ", kNodes, " nodes"),
             .unit = "us",
             .peer = "ours, 1 Redis node",
             .target = "<= 1.15",
             .counter = kCpu},
            {.threads = kNodes * kThreads, .prepare = [](const Scale& scale) -> Contestants {
               const auto three = std::make_shared<Nodes>(kNodes);
               const auto one = std::make_shared<Nodes>(1);
               return {[=](Worker& worker) { return three->Measure(worker, kSpans * scale.span, 1); },
                       [=](Worker& worker) { return one->Measure(worker, kSpans * scale.span, 1); }};
             }});
}

void AddSaleRows(Suite& suite, const StartServer& server, size_t processes, int32_t segments) {
  // Each row starts servers and processes: a smoke test has one of them.
  if (suite.quick() && (processes != 2 || segments != 1)) return;
  const std::string conditions = Concat(kNodes, " Redis nodes, ", processes, " processes, K = ", segments);
  const std::string peer = "ours, without Redis";
  suite.AddRows(
      {{.name = Concat("durable takes, ", conditions),
        .unit = "orders/s",
        .peer = peer,
        .better = Better::kHigher,
        .counter = Fleet::kRate},
       {.name = Concat("durable take, p50, ", conditions), .unit = "ms", .peer = peer, .counter = Fleet::kMedian},
       {.name = Concat("takes a commit, ", conditions),
        .unit = "orders",
        .peer = peer,
        .better = Better::kHigher,
        .counter = Fleet::kBatch}},
      {.prepare = [=](const Scale& scale) -> Contestants {
        const auto redis = std::make_shared<std::array<RedisProcess, kNodes>>();
        FleetShape shape = {.name = "plain", .processes = processes, .segments = segments};
        const auto without = std::make_shared<Fleet>(server(), shape);
        shape.name = "nodes";
        for (const RedisProcess& node : *redis) shape.redis.push_back(node.url());
        const auto with = std::make_shared<Fleet>(server(), shape);
        return {[=](Worker&) {
                  (void)redis;  // Lives as long as the fleet.
                  return with->Measure(Fleet::Kind::kTake, kSpans * scale.span);
                },
                [=](Worker&) { return without->Measure(Fleet::Kind::kTake, kSpans * scale.span); }};
      }});
}

}  // namespace

void AddRedisRows(Suite& suite, const StartServer& server) {
  if (const absl::Status here = RedisProcess::Check(); !here.ok()) {
    suite.LeaveOut("Redis segments", std::string(here.message()));
    return;
  }
  AddTakeRows(suite);
  for (const int32_t segments : {1, 16}) {
    for (const size_t processes : {2U, 4U}) AddSaleRows(suite, server, processes, segments);
  }
}

}  // namespace stockade::bench
