#include "redis/support/sentinel_set.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using ::stockade::base_internal::Concat;

size_t Running(const std::vector<std::unique_ptr<RedisServer>>& servers) {
  size_t running = 0;
  for (const auto& server : servers) running += server->running() ? 1 : 0;
  return running;
}

// Those of a Sentinel's list with these flags, and with `field` as it must be.
size_t CountOf(const RawReply& list, std::string_view flags, std::string_view field, std::string_view value) {
  size_t count = 0;
  for (const RawReply& item : list.items) {
    if (item.ValueOf("flags") == flags && item.ValueOf(field) == value) ++count;
  }
  return count;
}

}  // namespace

SentinelSet::SentinelSet(SentinelSetOptions options) {
  for (const NetworkHost& host : options.hosts) {
    options.server.host = host;
    servers_.push_back(std::make_unique<RedisServer>(options.server));
    options.server.replica_of = servers_[0]->Host();
  }
  std::vector<std::string> config = {
      Concat("sentinel monitor mymaster ", options.hosts[0].address(), " ", servers_[0]->port(), " 2"),
      Concat("sentinel down-after-milliseconds mymaster ", absl::ToInt64Milliseconds(options.down_after)),
      "sentinel failover-timeout mymaster 2000", "sentinel parallel-syncs mymaster 1"};
  config.insert(config.end(), options.sentinel_config.begin(), options.sentinel_config.end());
  for (const NetworkHost& host : options.hosts) {
    sentinels_.push_back(std::make_unique<RedisServer>(
        RedisServerOptions{.sentinel = true, .tls = options.server.tls, .config = config, .host = host}));
    Hasten(*sentinels_.back());
  }
  AwaitSettled();
}

void SentinelSet::Hasten(RedisServer& sentinel) {
  // Four publish-periods after a Sentinel has seen a server be a master that should be none, it makes it a replica. In
  // a failover that must leave the Sentinel in charge the time to see its work, which takes it up to a second.
  // A Sentinel promotes only a replica whose INFO is at most five ping-periods old, and asks for it once a second while
  // the master is down. So five ping-periods must be more than a second, or it finds no good replica again and again.
  const RawReply done = sentinel.Call({"SENTINEL", "DEBUG", "publish-period", "400", "info-period", "100",
                                       "ping-period", "300", "ask-period", "100", "tilt-period", "500",
                                       "election-timeout", "1000", "min-link-reconnect-period", "100"});
  if (done.type != '+') base_internal::Fatal(Concat("SENTINEL DEBUG: ", done.text));
}

std::string SentinelSet::url() const {
  std::string hosts;
  for (const auto& sentinel : sentinels_) {
    hosts += (hosts.empty() ? "" : ",") + sentinel->Host();
  }
  return sentinels_[0]->Url("+sentinel", hosts + "/mymaster");
}

uint16_t SentinelSet::master_port() const {
  for (const auto& sentinel : sentinels_) {
    if (!sentinel->running()) continue;
    const RawReply address = sentinel->Call({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"});
    if (address.items.size() == 2) return static_cast<uint16_t>(std::atoi(address.items[1].text.c_str()));
  }
  base_internal::Fatal("no Sentinel knows the master");
}

RedisServer& SentinelSet::ServerOn(uint16_t port) {
  for (const auto& server : servers_) {
    if (server->port() == port) return *server;
  }
  base_internal::Fatal(Concat("port ", port, " is none of the set's"));
}

// All that run agree on a master which runs, and hold its other servers for replicas of it and each other for
// reachable.
bool SentinelSet::Settled() const {
  const std::string master = Concat(master_port());
  for (const auto& sentinel : sentinels_) {
    if (!sentinel->running()) continue;
    const RawReply seen = sentinel->Call({"SENTINEL", "MASTER", "mymaster"});
    if (seen.ValueOf("port") != master || seen.ValueOf("flags") != "master") return false;
    if (seen.ValueOf("role-reported") != "master") return false;
    const RawReply replicas = sentinel->Call({"SENTINEL", "REPLICAS", "mymaster"});
    if (CountOf(replicas, "slave", "master-port", master) != Running(servers_) - 1) return false;
    if (CountOf(replicas, "slave", "master-link-status", "ok") != Running(servers_) - 1) return false;
    const RawReply others = sentinel->Call({"SENTINEL", "SENTINELS", "mymaster"});
    if (CountOf(others, "sentinel", "link-refcount", "1") != Running(sentinels_) - 1) return false;
  }
  return true;
}

void SentinelSet::AwaitSettled() {
  Await("the Sentinels to agree", [this] { return Settled(); });
}

void SentinelSet::Failover() {
  const auto up = std::find_if(sentinels_.begin(), sentinels_.end(), [](const auto& s) { return s->running(); });
  if (up == sentinels_.end()) base_internal::Fatal("every Sentinel is down");
  const RedisServer& sentinel = **up;
  const uint16_t old = master_port();
  do {  // Again where it gave up halfway.
    Await("a Sentinel to begin the failover", [&] {
      return sentinel.Call({"SENTINEL", "FAILOVER", "mymaster"}).type == '+';
    });
    Await("the Sentinel to end the failover", [&] {
      const std::string flags = sentinel.Call({"SENTINEL", "MASTER", "mymaster"}).ValueOf("flags");
      return flags.find("failover_in_progress") == std::string::npos;
    });
  } while (master_port() == old);
  AwaitSettled();
}

void SentinelSet::KillMaster() {
  const uint16_t old = master_port();
  ServerOn(old).Kill();
  Await("another master", [&] { return master_port() != old; });
  AwaitSettled();
}

void SentinelSet::RestartAll() {
  // The Sentinels are down while the servers are: they would promote another one.
  for (const auto& sentinel : sentinels_) sentinel->Stop();
  for (const auto& server : servers_) server->Stop();
  for (const auto& server : servers_) server->Restart();
  for (const auto& sentinel : sentinels_) {
    sentinel->Restart();
    Hasten(*sentinel);
  }
  AwaitSettled();
}

}  // namespace stockade::testing
