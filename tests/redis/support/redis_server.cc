#include "redis/support/redis_server.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_replace.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/loopback.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;
using ::stockade::base_internal::Fatal;

std::string RedisUrl(uint16_t port) { return Concat("redis://127.0.0.1:", port); }

RedisServerTls TlsOf(CertificateAuthority& authority) {
  return {.ca_file = authority.ca_file(), .certificate = authority.Issue()};
}

RedisServer::RedisServer(RedisServerOptions options) : options_(std::move(options)) {
  const NetworkHost::Scope there = options_.host.Enter();
  for (int attempt = 0; attempt < 10; ++attempt) {
    port_ = FreePort();
    if (options_.tls) plain_port_ = FreePort();
    if (options_.cluster) bus_port_ = FreePort();
    WriteConfig();
    if (Start()) return;
  }
  Fatal(Concat("no port for redis-server: ", log()));
}

RedisServer::~RedisServer() = default;

void RedisServer::WriteConfig() const {
  std::ofstream config(dir_.File("redis.conf"));
  const std::string& address = options_.host.address();
  config << "port " << plain_port() << "\nbind 127.0.0.1"
         << (address == NetworkHost().address() ? "" : " " + address + "\nprotected-mode no") << "\ndir " << dir_.path()
         << "\nsave \"\"\nshutdown-timeout 0\n"
         << "repl-diskless-sync-delay 0\nappendonly " << (options_.appendonly ? "yes\n" : "no\n");
  if (options_.unix_socket) config << "unixsocket " << unix_socket() << '\n';
  if (options_.cluster) config << "cluster-enabled yes\ncluster-port " << bus_port_ << '\n';
  if (!options_.password.empty()) config << "requirepass " << options_.password << '\n';
  if (options_.tls) {
    const auto& [ca_file, certificate, requires_certificates] = *options_.tls;
    config << "tls-port " << port_ << "\ntls-ca-cert-file " << ca_file << "\ntls-cert-file " << certificate.cert_file
           << "\ntls-key-file " << certificate.key_file << "\ntls-replication yes\ntls-cluster yes\ntls-auth-clients "
           << (requires_certificates ? "yes\n" : "no\n");
  }
  for (const std::string& user : options_.users) config << "user " << user << '\n';
  if (!options_.replica_of.empty())
    config << "replicaof " << absl::StrReplaceAll(options_.replica_of, {{":", " "}}) << '\n';
  for (const std::string& line : options_.config) config << line << '\n';
}

// False: another program has the port.
bool RedisServer::Start() {
  std::vector<std::string> argv = {"env"};
  argv.insert(argv.end(), options_.environment.begin(), options_.environment.end());
  argv.insert(argv.end(), {"redis-server", dir_.File("redis.conf")});
  if (options_.sentinel) argv.push_back("--sentinel");
  if (process_.Start(argv, options_.sentinel ? "Sentinel ID is" : "eady to accept connections")) return true;
  if (log().find("ddress already in use") == std::string::npos) Fatal(Concat("redis-server: ", log()));
  return false;
}

std::string RedisServer::Host() const { return Concat(options_.host.address(), ":", port_); }

std::string RedisServer::Url(std::string_view kind, const std::string& hosts) const {
  if (!options_.tls) return Concat("redis", kind, "://", hosts);
  const auto& [ca_file, certificate, requires_certificates] = *options_.tls;
  const std::string mine =
      requires_certificates ? Concat("&tls_cert=", certificate.cert_file, "&tls_key=", certificate.key_file) : "";
  return Concat("rediss", kind, "://", hosts, "?tls_ca=", ca_file, mine);
}

RawReply RedisServer::Call(const std::vector<std::string>& command) const {
  const NetworkHost::Scope there = options_.host.Enter();
  RawRedis connection(plain_port());
  if (!options_.password.empty()) {
    RawReply allowed = connection.Call({"AUTH", options_.password});
    if (allowed.type != '+') return allowed;
  }
  return connection.Call(command);
}

void RedisServer::KillConnections() const {
  for (const char* const type : {"normal", "pubsub"}) {
    const RawReply killed = Call({"CLIENT", "KILL", "TYPE", type});
    if (killed.type != ':') Fatal(Concat("CLIENT KILL TYPE ", type, ": ", killed.text));
  }
}

std::string RedisServer::Info(const std::string& field) const { return InfoField(Call({"INFO"}).text, field); }

void RedisServer::Restart() {
  const NetworkHost::Scope there = options_.host.Enter();
  Stop();
  if (!Start()) Fatal(Concat("port ", port_, " was taken while redis-server was down"));
}

}  // namespace stockade::testing
