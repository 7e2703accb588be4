#include "zookeeper/support/zookeeper_server.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/loopback.h"
#include "zookeeper/support/raw_zookeeper.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;
using ::stockade::base_internal::Fatal;

namespace {

// For complaints, where it is installed.
constexpr char kLogJar[] = "/usr/share/java/slf4j-simple.jar";

}  // namespace

std::string ZooKeeperUrl(std::span<const uint16_t> ports, absl::Duration tick) {
  std::string hosts;
  for (const uint16_t port : ports) hosts += Concat(hosts.empty() ? "" : ",", "127.0.0.1:", port);
  return Concat("zookeeper://", hosts, "?tick_ms=", absl::ToInt64Milliseconds(tick));
}

ZooKeeperServer::ZooKeeperServer(ZooKeeperServerOptions options) : options_(std::move(options)) {
  std::filesystem::create_directory(dir_.File("data"));
  const NetworkHost::Scope there = options_.host.Enter();
  for (int attempt = 0; attempt < 10; ++attempt) {
    port_ = FreePort();
    WriteConfig();
    if (Start()) return;
  }
  Fatal(Concat("no port for ZooKeeper: ", log()));
}

void ZooKeeperServer::WriteConfig() const {
  const std::string data = dir_.File("data");
  // On a host of a network it listens at every address.
  const bool alone = options_.host.address() == NetworkHost().address();
  std::ofstream config(dir_.File("zoo.cfg"));
  config << "dataDir=" << data << "\nclientPort=" << port_ << "" << (alone ? "\nclientPortAddress=127.0.0.1" : "")
         << "\ntickTime=" << absl::ToInt64Milliseconds(options_.tick) << "\nmaxSessionTimeout=60000\n"
         << "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n";
  for (const std::string& line : options_.config) config << line << '\n';
  if (options_.id == 0) return;
  std::ofstream(data + "/myid") << options_.id << '\n';
  if (!options_.hosts.empty()) std::ofstream(dir_.File("hosts")) << options_.hosts;
}

// False: another program has the port.
bool ZooKeeperServer::Start() {
  std::vector<std::string> argv = {
      "java",
      "-Xmx96m",
      "-XX:+UseSerialGC",
      "-XX:TieredStopAtLevel=1",
      "-Dzookeeper.forceSync=no",
      "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
      Concat("-Dznode.container.checkIntervalMs=", absl::ToInt64Milliseconds(options_.container_check))};
  if (!options_.hosts.empty()) argv.push_back("-Djdk.net.hosts.file=" + dir_.File("hosts"));
  argv.insert(argv.end(), options_.flags.begin(), options_.flags.end());
  argv.insert(argv.end(), {"-cp", Concat(kJar, ":", kLogJar), "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                           dir_.File("zoo.cfg")});
  const bool alone = options_.id == 0;
  if (process_.Start(argv, "ZooKeeper",
                     [&] { return alone ? Mode() == "standalone" : !FourLetterWord(port_, "srvr").empty(); })) {
    return true;
  }
  if (log().find("BindException") == std::string::npos) Fatal(Concat("ZooKeeper: ", log()));
  return false;
}

std::string ZooKeeperServer::Mode() const {
  constexpr std::string_view kField = "Mode: ";
  const NetworkHost::Scope there = options_.host.Enter();
  const std::string answer = FourLetterWord(port_, "srvr");
  const size_t at = answer.find(kField);
  if (at == std::string::npos) return "";
  return answer.substr(at + kField.size(), answer.find('\n', at) - at - kField.size());
}

void ZooKeeperServer::Wipe() const {
  const NetworkHost::Scope there = options_.host.Enter();
  RawZooKeeper(port_).DeleteTree("/");
}

void ZooKeeperServer::Reconfigure(std::vector<std::string> config) {
  options_.config = std::move(config);
  WriteConfig();
}

void ZooKeeperServer::RestartEmpty() {
  Stop();
  std::filesystem::remove_all(dir_.File("data") + "/version-2");
  Restart();
}

void ZooKeeperServer::Restart() {
  const NetworkHost::Scope there = options_.host.Enter();
  Stop();
  if (!Start()) Fatal(Concat("port ", port_, " was taken while ZooKeeper was down"));
}

}  // namespace stockade::testing
