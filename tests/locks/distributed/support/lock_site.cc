#include "locks/distributed/support/lock_site.h"

#include <algorithm>
#include <utility>

#include "locks/distributed/support/connect_lock_service.h"
#include "redis/support/redis_server.h"
#include "redis/support/sentinel_set.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/loopback.h"
#include "support/run_threads.h"
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "mysql/support/mariadb_server.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
#include "zookeeper/support/zookeeper_server.h"
#endif

namespace stockade::testing {
namespace {

using ::stockade::base_internal::Concat;

template <typename Server>
LockSite::Server ActionsOn(Server& server) {
  return {.kill = [&server] { server.Kill(); },
          .restart = [&server] { server.Restart(); },
          .pause = [&server] { server.Pause(); },
          .resume = [&server] { server.Resume(); }};
}

template <typename Server>
using Servers = std::vector<std::unique_ptr<Server>>;

// `url_of` a host and port of each proxy.
template <typename Server, typename UrlOf>
void Own(LockSite& site, const Network& network, std::shared_ptr<Servers<Server>> servers, UrlOf url_of) {
  std::string hosts;
  for (size_t i = 0; i < servers->size(); ++i) {
    const NetworkHost& host = network.host(static_cast<int>(i));
    site.servers.push_back(ActionsOn(*(*servers)[i]));
    site.proxies.push_back(std::make_unique<TcpProxy>((*servers)[i]->port(), host));
    hosts += Concat(hosts.empty() ? "" : ",", url_of(Concat(host.address(), ":", site.proxies.back()->port())));
  }
  site.url = std::move(hosts);
  site.owner = std::move(servers);
}

// What is written is in the kernel's hands before it is confirmed, and so outlives the server.
void MakeRedis(LockSite& site, const Network& network, int count) {
  auto servers = std::make_shared<Servers<RedisServer>>();
  for (int i = 0; i < count; ++i) {
    servers->push_back(std::make_unique<RedisServer>(
        RedisServerOptions{.appendonly = true, .config = {"appendfsync no"}, .host = network.host(i)}));
  }
  Own(site, network, servers, [](const std::string& host) { return "redis://" + host; });
  if (count > 1) site.url.insert(0, kRedlockScheme);
}

void MakeSentinels(LockSite& site, const Network& network) {
  auto set =
      std::make_shared<SentinelSet>(SentinelSetOptions{.server = {.appendonly = true, .config = {"appendfsync no"}},
                                                       .hosts = {network.host(0), network.host(1), network.host(2)}});
  site.url = set->url();
  for (size_t i = 0; i < 3; ++i) site.servers.push_back(ActionsOn(set->server(i)));
  SentinelSet* const servers = set.get();
  site.await_settled = [servers] { servers->AwaitSettled(); };
  site.master = [servers] {
    const uint16_t master = servers->master_port();
    size_t i = 0;
    while (i < 2 && servers->server(i).port() != master) ++i;
    return i;
  };
  site.owner = std::move(set);
}

#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
void MakeZooKeeper(LockSite& site, const Network& network) {
  constexpr int kServers = 3;
  ZooKeeperServerOptions options = {
      .config = {"initLimit=50", "syncLimit=15"},
      .flags = {"-Dzookeeper.cnxTimeout=500", "-Dzookeeper.leaderConnectDelayDuringRetryMs=50",
                "-Dzookeeper.fastleader.maxNotificationInterval=400"}};
  for (int i = 0; i < kServers; ++i) {
    options.config.push_back(
        Concat("server.", i + 1, "=", network.host(i).address(), ":", FreePort(), ":", FreePort()));
  }
  auto servers = std::make_shared<Servers<ZooKeeperServer>>(kServers);
  RunThreads(kServers, [&](int i) {
    ZooKeeperServerOptions own = options;
    own.id = i + 1;
    own.host = network.host(i);
    (*servers)[static_cast<size_t>(i)] = std::make_unique<ZooKeeperServer>(std::move(own));
  });
  Own(site, network, servers, [](const std::string& host) { return host; });
  site.url = Concat("zookeeper://", site.url, "?tick_ms=", absl::ToInt64Milliseconds(options.tick));
  const auto* const all = servers.get();
  site.await_settled = [all] {
    Await("the ensemble to settle", [all] {
      return std::all_of(all->begin(), all->end(), [](const auto& server) { return !server->Mode().empty(); });
    });
  };
  site.await_settled();
}
#endif

#ifdef STOCKADE_HAS_LOCKS_MYSQL
void MakeMySql(LockSite& site, const Network& network) {
  auto servers = std::make_shared<Servers<MariaDbServer>>();
  servers->push_back(std::make_unique<MariaDbServer>(MariaDbServerOptions{.host = network.host(0)}));
  Own(site, network, servers,
      [](const std::string& host) { return Concat("mysql://stockade:secret@", host, "/test?tls=off"); });
}
#endif

}  // namespace

int LockSite::HostsOf(LockSetup setup) {
  switch (setup) {
    case LockSetup::kRedlock: return 5;
    case LockSetup::kSentinel:
    case LockSetup::kZooKeeper: return 3;
    default: return 1;
  }
}

std::unique_ptr<LockSite> LockSite::On(const Network& network, LockSetup setup) {
  auto site = std::make_unique<LockSite>();
  site->await_settled = [] {};
  site->master = [] { return size_t{0}; };
  switch (setup) {
    case LockSetup::kStandalone:
    case LockSetup::kRedlock: MakeRedis(*site, network, HostsOf(setup)); break;
    case LockSetup::kSentinel: MakeSentinels(*site, network); break;
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
    case LockSetup::kZooKeeper: MakeZooKeeper(*site, network); break;
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
    case LockSetup::kMySql: MakeMySql(*site, network); break;
#endif
    default: base_internal::Fatal("no servers of this kind can be put on hosts");
  }
  return site;
}

}  // namespace stockade::testing
