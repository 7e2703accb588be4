#ifndef STOCKADE_TESTS_REDIS_SUPPORT_REDIS_SERVER_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_REDIS_SERVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/support/raw_redis.h"
#include "support/certificates.h"
#include "support/needs_program.h"
#include "support/network.h"
#include "support/server_process.h"
#include "support/temp_dir.h"

// For SetUp() or a test's body, before the first server.
#define STOCKADE_NEEDS_REDIS() STOCKADE_NEEDS_PROGRAM("redis-server", "redis-server")

namespace stockade::testing {

// Of a server on 127.0.0.1, or of a proxy before one.
std::string RedisUrl(uint16_t port);

// Of a server that uses TLS, and of the clients that its URL is for.
struct RedisServerTls {
  std::string ca_file = {};
  Certificate certificate = {};
  bool requires_certificates = false;  // Of clients. The server's own then serves them, too.
};

// TLS by a new certificate of `authority`, for the names that Certificate has by default.
RedisServerTls TlsOf(CertificateAuthority& authority);

struct RedisServerOptions {
  // Whether its data outlive it; a server without comes back empty. Scripts never outlive it.
  bool appendonly = false;
  bool unix_socket = false;
  bool cluster = false;
  bool sentinel = false;
  std::string password = {};                  // The default user's.
  std::vector<std::string> users = {};        // As ACL files have them: "alice on >secret ~* &* +@all".
  std::string replica_of = {};                // Host() of another one.
  std::optional<RedisServerTls> tls = {};     // For clients, replication and the bus of a cluster.
  std::vector<std::string> config = {};       // More lines of its configuration file.
  std::vector<std::string> environment = {};  // "NAME=value".
  NetworkHost host = {};                      // On which it runs.
};

// A redis-server 7 or newer, killed with the object or with the test's process. Aborts with the server's
// log where it does not start. Not thread-safe, but any thread may use it.
class RedisServer {
 public:
  // Blocks until it answers, some 20 ms.
  explicit RedisServer(RedisServerOptions options = {});
  ~RedisServer();

  uint16_t port() const { return port_; }
  // Another one if it uses TLS, for tests that look behind a client's back.
  uint16_t plain_port() const { return options_.tls ? plain_port_ : port_; }
  std::string url() const { return Url("", Host()); }
  // "redis+sentinel://hosts", or rediss and what a client needs for it, for a set of servers like this one.
  std::string Url(std::string_view kind, const std::string& hosts) const;
  std::string Host() const;  // "127.0.0.1:port", or with the address of its host
  std::string unix_socket() const { return dir_.File("socket"); }
  bool running() const { return process_.running(); }
  // What it and those before it on this port have logged, the last one first.
  std::string log() const { return process_.log(); }

  // One command by a connection of its own, by the default user.
  RawReply Call(const std::vector<std::string>& command) const;
  // Closes the connections of all clients, subscribers too.
  void KillConnections() const;
  // "redis_version" and the like.
  std::string Info(const std::string& field) const;

  // Each blocks until it is so.
  void Stop() { process_.Stop(); }    // By SIGTERM, as an operator does it.
  void Kill() { process_.Kill(); }    // By SIGKILL.
  void Pause() { process_.Pause(); }  // No command is answered until Resume(); the kernel accepts connections.
  void Resume() { process_.Resume(); }
  // On the same port, with the configuration it had, which Sentinels may have rewritten. Stops it first.
  void Restart();

  // Of a cluster's bus.
  uint16_t bus_port() const { return bus_port_; }

 private:
  void WriteConfig() const;
  bool Start();

  const RedisServerOptions options_;
  const TempDir dir_;
  uint16_t port_ = 0;
  uint16_t plain_port_ = 0;
  uint16_t bus_port_ = 0;
  ServerProcess process_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_REDIS_SERVER_H_
