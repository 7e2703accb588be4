#ifndef STOCKADE_TESTS_ZOOKEEPER_SUPPORT_ZOOKEEPER_ENSEMBLE_H_
#define STOCKADE_TESTS_ZOOKEEPER_SUPPORT_ZOOKEEPER_ENSEMBLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "support/tcp_proxy.h"
#include "zookeeper/support/zookeeper_server.h"

namespace stockade::testing {

// Three servers that elect a leader. Clients and servers reach each server through proxies, so that each of these ways
// can be cut. A server that hears no majority for 1.5 seconds serves no more. For one thread.
class ZooKeeperEnsemble {
 public:
  static constexpr size_t kSize = 3;

  // Blocks until it serves, some 2 s. Of `options` all but the number and the addresses count.
  explicit ZooKeeperEnsemble(ZooKeeperServerOptions options = {});

  // Of all servers; of one; of the others.
  std::string url() const;
  std::string url(size_t i) const;
  std::string url_without(size_t i) const;
  ZooKeeperServer& server(size_t i) { return *servers_[i]; }
  // Between the server and its clients.
  TcpProxy& clients(size_t i) { return *clients_[i]; }

  // Blocks until there is one.
  size_t LeaderIndex();
  // One that is not the leader. Blocks until there is one.
  size_t FollowerIndex();
  // Blocks until all servers that run, and are not paused or cut off, serve under one leader.
  void AwaitSettled();
  // Blocks until a majority without this server does.
  size_t AwaitLeaderOtherThan(size_t i);

  // Neither this server nor the others hear anything of each other any more, as when a cable is pulled. Clients still
  // reach it.
  void CutOff(size_t i);
  void Heal(size_t i);

  // Blocks until all of them are settled.
  void RestartAll();
  // Makes good whatever has been done to any of them: resumes, heals, restarts. Blocks until all are settled.
  void Repair();
  // Deletes all nodes. Transaction numbers go on.
  void Wipe();

 private:
  // How server `from` reaches server `to`.
  struct Way {
    std::unique_ptr<TcpProxy> quorum = {};
    std::unique_ptr<TcpProxy> election = {};
  };
  template <typename Action>
  void ForWaysOf(size_t i, const Action& action);
  std::optional<size_t> Leader(size_t except);

  std::array<std::array<Way, kSize>, kSize> ways_;  // Null from a server to itself.
  std::array<std::unique_ptr<ZooKeeperServer>, kSize> servers_;
  std::array<std::unique_ptr<TcpProxy>, kSize> clients_;
  std::array<bool, kSize> cut_off_ = {};
  absl::Duration tick_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_ZOOKEEPER_SUPPORT_ZOOKEEPER_ENSEMBLE_H_
