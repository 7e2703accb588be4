#include "zookeeper/support/zookeeper_ensemble.h"

#include <utility>
#include <vector>

#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/loopback.h"
#include "support/run_threads.h"
#include "zookeeper/support/raw_zookeeper.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;

namespace {

constexpr size_t kNone = ZooKeeperEnsemble::kSize;

std::string Name(size_t i) { return Concat("server", i + 1); }

// The address by which server `from` knows server `to`: its own is the real one, others' are those of proxies on the
// same port. So all servers have one configuration.
uint32_t HostFor(size_t from, size_t to) { return static_cast<uint32_t>((from + 1) << 16 | (to + 1) << 8 | 1); }

std::string AddressFor(size_t from, size_t to) { return Concat("127.", from + 1, ".", to + 1, ".1"); }

std::string HostsOf(size_t from) {
  std::string hosts = "127.0.0.1 localhost\n";
  for (size_t to = 0; to < ZooKeeperEnsemble::kSize; ++to) hosts += Concat(AddressFor(from, to), " ", Name(to), "\n");
  return hosts;
}

}  // namespace

ZooKeeperEnsemble::ZooKeeperEnsemble(ZooKeeperServerOptions options) : tick_(options.tick) {
  const int64_t tick_ms = absl::ToInt64Milliseconds(options.tick);
  options.config.push_back(Concat("initLimit=", 5'000 / tick_ms));
  options.config.push_back(Concat("syncLimit=", 1'500 / tick_ms));
  for (size_t to = 0; to < kSize; ++to) {
    const uint16_t quorum = FreePort();
    const uint16_t election = FreePort();
    options.config.push_back(Concat("server.", to + 1, "=", Name(to), ":", quorum, ":", election));
    for (size_t from = 0; from < kSize; ++from) {
      if (from == to) continue;
      const TcpProxy::Address address = {.server = HostFor(to, to),
                                         .proxy = HostFor(from, to),
                                         // In elections, servers tell by which address they are to be called back.
                                         .client_says = AddressFor(from, from) + ":",
                                         .server_reads = AddressFor(to, from) + ":"};
      ways_[from][to] = {.quorum = std::make_unique<TcpProxy>(quorum, address),
                         .election = std::make_unique<TcpProxy>(election, address)};
    }
  }
  // Elections that do not wait long for absent servers.
  options.flags.insert(options.flags.end(),
                       {"-Dzookeeper.cnxTimeout=500", "-Dzookeeper.leaderConnectDelayDuringRetryMs=50",
                        "-Dzookeeper.fastleader.maxNotificationInterval=400"});
  RunThreads(kSize, [&](int i) {
    const auto index = static_cast<size_t>(i);
    ZooKeeperServerOptions own = options;
    own.id = i + 1;
    own.hosts = HostsOf(index);
    servers_[index] = std::make_unique<ZooKeeperServer>(std::move(own));
    clients_[index] = std::make_unique<TcpProxy>(servers_[index]->port());
  });
  AwaitSettled();
}

std::string ZooKeeperEnsemble::url() const { return url_without(kNone); }

std::string ZooKeeperEnsemble::url(size_t i) const {
  const uint16_t port = clients_[i]->port();
  return ZooKeeperUrl({&port, 1}, tick_);
}

std::string ZooKeeperEnsemble::url_without(size_t i) const {
  std::vector<uint16_t> ports;
  ports.reserve(kSize);
  for (size_t other = 0; other < kSize; ++other) {
    if (other != i) ports.push_back(clients_[other]->port());
  }
  return ZooKeeperUrl(ports, tick_);
}

// Of those that hear a majority; a leader that hears none any more takes a while to notice.
std::optional<size_t> ZooKeeperEnsemble::Leader(size_t except) {
  std::optional<size_t> leader;
  size_t serving = 0;
  for (size_t i = 0; i < kSize; ++i) {
    if (i == except || cut_off_[i] || !servers_[i]->running()) continue;
    const std::string mode = servers_[i]->Mode();
    if (mode == "leader") leader = i;
    if (!mode.empty()) ++serving;
  }
  return serving > kSize / 2 ? leader : std::nullopt;
}

size_t ZooKeeperEnsemble::LeaderIndex() { return AwaitLeaderOtherThan(kNone); }

size_t ZooKeeperEnsemble::AwaitLeaderOtherThan(size_t i) {
  std::optional<size_t> leader;
  Await("a leader", [&] { return (leader = Leader(i)).has_value(); });
  return *leader;
}

size_t ZooKeeperEnsemble::FollowerIndex() { return (LeaderIndex() + 1) % kSize; }

void ZooKeeperEnsemble::AwaitSettled() {
  Await("the ensemble to settle", [&] {
    size_t leaders = 0;
    for (size_t i = 0; i < kSize; ++i) {
      if (cut_off_[i] || !servers_[i]->running()) continue;
      const std::string mode = servers_[i]->Mode();
      if (mode.empty()) return false;
      if (mode == "leader") ++leaders;
    }
    return leaders == 1;
  });
}

template <typename Action>
void ZooKeeperEnsemble::ForWaysOf(size_t i, const Action& action) {
  for (size_t other = 0; other < kSize; ++other) {
    if (other == i) continue;
    for (const Way* const way : {&ways_[i][other], &ways_[other][i]}) {
      action(*way->quorum);
      action(*way->election);
    }
  }
}

void ZooKeeperEnsemble::CutOff(size_t i) {
  cut_off_[i] = true;
  ForWaysOf(i, [](TcpProxy& proxy) { proxy.Freeze(); });
}

void ZooKeeperEnsemble::Heal(size_t i) {
  cut_off_[i] = false;
  ForWaysOf(i, [](TcpProxy& proxy) { proxy.Thaw(); });
}

void ZooKeeperEnsemble::RestartAll() {
  for (const auto& server : servers_) server->Stop();
  RunThreads(kSize, [&](int i) { servers_[static_cast<size_t>(i)]->Restart(); });
  AwaitSettled();
}

void ZooKeeperEnsemble::Repair() {
  for (size_t i = 0; i < kSize; ++i) {
    if (cut_off_[i]) Heal(i);
    clients_[i]->Accept();
    clients_[i]->Release();
    clients_[i]->Thaw();
    if (servers_[i]->running()) {
      servers_[i]->Resume();
    } else {
      servers_[i]->Restart();
    }
  }
  AwaitSettled();
}

void ZooKeeperEnsemble::Wipe() { servers_[LeaderIndex()]->Wipe(); }

}  // namespace stockade::testing
