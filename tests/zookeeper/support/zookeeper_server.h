#ifndef STOCKADE_TESTS_ZOOKEEPER_SUPPORT_ZOOKEEPER_SERVER_H_
#define STOCKADE_TESTS_ZOOKEEPER_SUPPORT_ZOOKEEPER_SERVER_H_

#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "support/needs_program.h"
#include "support/network.h"
#include "support/server_process.h"
#include "support/temp_dir.h"

// For SetUp() or a test's body, before the first server.
#define STOCKADE_NEEDS_ZOOKEEPER() \
  STOCKADE_NEEDS(::stockade::testing::ZooKeeperServer::Installed(), "ZooKeeper", "zookeeper")

namespace stockade::testing {

struct ZooKeeperServerOptions {
  // Sessions end at a multiple of it. A session's time-out may be from two ticks to a minute.
  absl::Duration tick = absl::Milliseconds(100);
  // How often nodes are looked for that are deleted once they are empty.
  absl::Duration container_check = absl::Seconds(60);
  std::vector<std::string> config = {};  // More lines of its configuration file.
  std::vector<std::string> flags = {};   // More of its Java machine.

  // As one of several: its number, and who has which address, as /etc/hosts has it.
  int id = 0;
  std::string hosts = {};

  NetworkHost host = {};  // On which it runs.
};

// The URL of servers, or of proxies before them, on 127.0.0.1.
std::string ZooKeeperUrl(std::span<const uint16_t> ports, absl::Duration tick);

// A ZooKeeper 3.8 or newer, killed with the object or with the test's process. Its data outlive a restart,
// but not the machine: nothing is forced to the disk. Aborts with the server's log where it does not start. Not
// thread-safe, but any thread may use it.
class ZooKeeperServer {
 public:
  // Debian's; it names those that it needs.
  static constexpr char kJar[] = "/usr/share/java/zookeeper.jar";

  static bool Installed() { return InPath("java") && access(kJar, R_OK) == 0; }

  // Blocks until it answers, some 0.5 s. One of several may not serve yet.
  explicit ZooKeeperServer(ZooKeeperServerOptions options = {});

  uint16_t port() const { return port_; }
  absl::Duration tick() const { return options_.tick; }
  std::string url() const { return ZooKeeperUrl({&port_, 1}, options_.tick); }  // Of 127.0.0.1.
  bool running() const { return process_.running(); }
  // What it and those before it have complained about, the last one first.
  std::string log() const { return process_.log(); }

  // "leader", "follower" or "standalone"; empty where it does not serve, or not within 2 seconds.
  std::string Mode() const;
  // Deletes all nodes. Transaction numbers go on.
  void Wipe() const;

  // Each blocks until it is so.
  void Stop() { process_.Stop(); }    // By SIGTERM, as an operator does it.
  void Kill() { process_.Kill(); }    // By SIGKILL.
  void Pause() { process_.Pause(); }  // Nothing is answered until Resume(); the kernel accepts connections and bytes.
  void Resume() { process_.Resume(); }
  void Restart();  // On the same port. Stops it first.
  // The same without its data: transaction numbers begin again.
  void RestartEmpty();
  // More lines of its configuration file, for the next Restart().
  void Reconfigure(std::vector<std::string> config);

 private:
  void WriteConfig() const;
  bool Start();

  ZooKeeperServerOptions options_;
  const TempDir dir_;
  uint16_t port_ = 0;
  ServerProcess process_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_ZOOKEEPER_SUPPORT_ZOOKEEPER_SERVER_H_
