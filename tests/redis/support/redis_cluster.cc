#include "redis/support/redis_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;
using ::stockade::base_internal::Fatal;

namespace {

constexpr int kSlots = 16384;

std::string FirstSlot(size_t master) { return Concat(kSlots * master / RedisCluster::kMasters); }
std::string LastSlot(size_t master) { return Concat(kSlots * (master + 1) / RedisCluster::kMasters - 1); }

int64_t Number(const RawReply& reply) { return std::atoll(reply.text.c_str()); }

// "first-last:port of the master" of each range.
std::set<std::string> SlotMap(const RawReply& slots) {
  std::set<std::string> map;
  for (const RawReply& range : slots.items) {
    if (range.items.size() < 3) continue;
    map.insert(Concat(range.items[0].text, "-", range.items[1].text, ":", range.items[2].items[1].text));
  }
  return map;
}

}  // namespace

RedisCluster::RedisCluster(RedisClusterOptions options) {
  options.server.cluster = true;
  std::vector<std::string>& config = options.server.config;
  config.push_back("cluster-node-timeout 1000");
  config.push_back("cluster-allow-replica-migration no");
  config.push_back(Concat("cluster-require-full-coverage ", options.full_coverage ? "yes" : "no"));
  const size_t size = kMasters * (options.replicas ? 2 : 1);
  for (size_t i = 0; i < size; ++i) nodes_.push_back(std::make_unique<RedisServer>(options.server));
  Join();
  AwaitSettled();
}

void RedisCluster::Join() {
  for (size_t i = 0; i < kMasters; ++i) {
    Must(i, {"CLUSTER", "ADDSLOTSRANGE", FirstSlot(i), LastSlot(i)});
    Must(i, {"CLUSTER", "SET-CONFIG-EPOCH", Concat(i + 1)});  // Two of one epoch would have to settle that first.
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      Must(j, {"CLUSTER", "MEET", "127.0.0.1", Concat(nodes_[i]->port()), Concat(nodes_[i]->bus_port())});
    }
  }
  for (size_t i = kMasters; i < nodes_.size(); ++i) {
    const std::string master = IdOf(i - kMasters);
    Await("a replica to know its master", [&] {
      return nodes_[i]->Call({"CLUSTER", "REPLICATE", master}).type == '+';
    });
  }
}

RawReply RedisCluster::Must(size_t node, const std::vector<std::string>& command) const {
  RawReply reply = nodes_[node]->Call(command);
  if (reply.type == '-' || reply.lost()) {
    Fatal(Concat("node ", node, " to ", command[0], " ", command.size() > 1 ? command[1] : "", ": ", reply.text));
  }
  return reply;
}

std::string RedisCluster::IdOf(size_t node) const { return Must(node, {"CLUSTER", "MYID"}).text; }

const RedisServer& RedisCluster::AnyUp() const {
  const auto up = std::find_if(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->running(); });
  if (up == nodes_.end()) Fatal("every node of the cluster is down");
  return **up;
}

std::string RedisCluster::url() const {
  std::string hosts;
  for (size_t i = 0; i < kMasters; ++i) hosts += (i == 0 ? "" : ",") + nodes_[i]->Host();
  return nodes_[0]->Url("+cluster", hosts);
}

int RedisCluster::SlotOf(const std::string& key) const {
  return static_cast<int>(Number(AnyUp().Call({"CLUSTER", "KEYSLOT", key})));
}

size_t RedisCluster::OwnerOf(int slot) const {
  for (const RawReply& range : AnyUp().Call({"CLUSTER", "SLOTS"}).items) {
    if (slot < Number(range.items[0]) || slot > Number(range.items[1])) continue;
    const auto owner = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& node) {
      return node->plain_port() == Number(range.items[2].items[1]);
    });
    return static_cast<size_t>(std::distance(nodes_.begin(), owner));
  }
  Fatal(Concat("slot ", slot, " has no owner"));
}

void RedisCluster::MoveSlot(int slot, size_t from, size_t to) {
  BeginMove(slot, from, to);
  FinishMove(slot, from, to);
}

void RedisCluster::BeginMove(int slot, size_t from, size_t to) {
  Must(to, {"CLUSTER", "SETSLOT", Concat(slot), "IMPORTING", IdOf(from)});
  Must(from, {"CLUSTER", "SETSLOT", Concat(slot), "MIGRATING", IdOf(to)});
}

void RedisCluster::MigrateKey(const std::string& key, size_t from, size_t to) {
  Must(from, {"MIGRATE", "127.0.0.1", Concat(nodes_[to]->port()), key, "0", "5000"});
}

void RedisCluster::FinishMove(int slot, size_t from, size_t to) {
  while (true) {
    const RawReply keys = Must(from, {"CLUSTER", "GETKEYSINSLOT", Concat(slot), "100"});
    if (keys.items.empty()) break;
    for (const RawReply& key : keys.items) MigrateKey(key.text, from, to);
  }
  // The new owner is the first to know: were it the old one, each would send clients to the other.
  const std::string owner = IdOf(to);
  Must(to, {"CLUSTER", "SETSLOT", Concat(slot), "NODE", owner});
  Must(from, {"CLUSTER", "SETSLOT", Concat(slot), "NODE", owner});
  AwaitSettled();
}

void RedisCluster::CancelMove(int slot, size_t from, size_t to) {
  for (const size_t node : {from, to}) Must(node, {"CLUSTER", "SETSLOT", Concat(slot), "STABLE"});
}

void RedisCluster::RestartAll() {
  for (const auto& node : nodes_) node->Stop();
  for (const auto& node : nodes_) node->Restart();
  AwaitSettled();
}

bool RedisCluster::Settled() const {
  std::set<std::string> agreed;
  for (const auto& node : nodes_) {
    if (!node->running()) continue;
    const RawReply info = node->Call({"CLUSTER", "INFO"});
    if (InfoField(info.text, "cluster_state") != "ok") return false;
    const std::set<std::string> map = SlotMap(node->Call({"CLUSTER", "SLOTS"}));
    if (agreed.empty()) agreed = map;
    if (map != agreed) return false;
    const std::string replication = node->Call({"INFO", "replication"}).text;
    if (InfoField(replication, "role") == "slave" && InfoField(replication, "master_link_status") != "up") return false;
    if (InfoField(info.text, "cluster_known_nodes") != Concat(nodes_.size())) return false;
  }
  return true;
}

void RedisCluster::AwaitSettled() {
  Await("the cluster to agree", [this] { return Settled(); });
}

}  // namespace stockade::testing
