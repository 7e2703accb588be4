#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_NODE_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_NODE_H_

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "redis/support/redis_server.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {

// A Redis node of a fleet, behind a proxy, so that another server can take over at the same URL. Not thread-safe.
class FleetNode {
 public:
  std::string url() const { return RedisUrl(proxy_.port()); }
  // The server that new clients get.
  RedisServer& master() { return servers_[master_]; }

  void KeepSnapshot() { snapshot_ = SnapshotOf(master()); }
  // It is killed, and comes back with the last snapshot that was kept.
  void RollBack() { RestartWith(master(), snapshot_); }
  // It is killed, and comes back empty.
  void Crash() { RestartWith(master(), ""); }

  // A second server takes over with the same data. Every second client moves to it; the others stay with the first one
  // until EndTwoMasters().
  void BeginTwoMasters() {
    RedisServer& old_master = master();
    master_ = 1 - master_;
    RestartWith(master(), SnapshotOf(old_master));
    proxy_.SwitchNewTo(master().port());
    bool moves = true;
    const std::string clients = old_master.Call({"CLIENT", "LIST", "TYPE", "normal"}).text;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(clients, '\n', absl::SkipEmpty()))) {
      if (line.find(" cmd=client") != std::string::npos) continue;  // The one that asks.
      if (moves) old_master.Call({"CLIENT", "KILL", "ID", line.substr(3, line.find(' ') - 3)});
      moves = !moves;
    }
  }
  void EndTwoMasters() { servers_[1 - master_].Kill(); }

 private:
  static std::string FileOf(const RedisServer& server) {
    return server.Call({"CONFIG", "GET", "dir"}).items.at(1).text + "/dump.rdb";
  }
  static std::string SnapshotOf(const RedisServer& server) {
    server.Call({"SAVE"});
    std::ifstream file(FileOf(server), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void RestartWith(RedisServer& server, const std::string& snapshot) {
    if (!server.running()) server.Restart();
    const std::string path = FileOf(server);
    server.Kill();
    std::filesystem::remove(path);
    if (!snapshot.empty()) std::ofstream(path, std::ios::binary) << snapshot;
    server.Restart();
  }

  std::array<RedisServer, 2> servers_;
  size_t master_ = 0;
  TcpProxy proxy_{servers_[0].port()};
  std::string snapshot_;  // Empty: there is none.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_NODE_H_
