#ifndef STOCKADE_TESTS_MYSQL_SUPPORT_MARIADB_SERVER_H_
#define STOCKADE_TESTS_MYSQL_SUPPORT_MARIADB_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/certificates.h"
#include "support/needs_program.h"
#include "support/network.h"
#include "support/server_process.h"
#include "support/temp_dir.h"

// For SetUp() or a test's body, before the first server.
#define STOCKADE_NEEDS_MARIADB() \
  STOCKADE_NEEDS(::stockade::testing::MariaDbServer::Installed(), "MariaDB's server", "mariadb-server")

namespace stockade::testing {

struct MariaDbServerOptions {
  bool tls = false;  // It has a certificate: see ca_file().
  // Of the certificate, as CertificateAuthority::Issue() has it.
  std::string names = "IP:127.0.0.1,DNS:localhost";
  int days = 2;
  std::vector<std::string> flags = {};        // More of its command line: "--max-connections=20".
  std::vector<std::string> environment = {};  // "NAME=value".
  NetworkHost host = {};                      // On which it runs.
};

// The rows of an answer; NULL is "NULL".
using SqlRows = std::vector<std::vector<std::string>>;

// A MariaDB server at its host's address and on a socket, with an empty database "test" and two users, "root" without a
// password and "stockade" with "secret"; killed with the object or with the test's process. Its data outlive a restart,
// but not the machine: nothing is forced to the disk. Aborts with the server's log where it does not start. Not
// thread-safe, but any thread may use it.
class MariaDbServer {
 public:
  static bool Installed() { return InPath("mariadb-install-db") && InPath("openssl"); }

  // Blocks until it answers, some 0.7 s.
  explicit MariaDbServer(MariaDbServerOptions options = {});

  uint16_t port() const { return port_; }
  // By TCP, by a user with a password, to the database "test".
  std::string url() const;
  // The same by way of another port, a proxy's.
  static std::string UrlOf(uint16_t port);
  std::string unix_socket() const { return dir_.File("socket"); }
  // The authority that has signed the certificate. Only with TLS.
  CertificateAuthority& authority() { return *authority_; }
  std::string ca_file() const { return authority_->ca_file(); }
  bool running() const { return process_.running(); }
  // What it and those before it have printed, the last one first.
  std::string log() const { return process_.log(); }

  // Asks it as root, by a connection of its own. None where that fails, or takes 20 seconds.
  std::optional<SqlRows> TryQuery(const std::string& sql) const;
  // Aborts with the error where it fails. Tries again if it lost a deadlock with clients.
  SqlRows Query(const std::string& sql) const;
  // The only value of the answer.
  std::string Value(const std::string& sql) const;

  // Closes the connections of all clients.
  void KillConnections() const;
  // Of the database "test": deletes all rows of all tables; drops the tables.
  void Empty() const;
  void Wipe() const;

  // Each blocks until it is so.
  void Stop() { process_.Stop(); }    // By SIGTERM, as an operator does it.
  void Kill() { process_.Kill(); }    // By SIGKILL.
  void Pause() { process_.Pause(); }  // Nothing is answered until Resume(); the kernel accepts connections and bytes.
  void Resume() { process_.Resume(); }
  void Restart();  // On the same port. Stops it first.

 private:
  struct Answer {
    SqlRows rows = {};
    std::string error = {};
    unsigned error_code = 0;
  };
  bool OnLoopback() const;
  void Install() const;
  bool Start();
  Answer Ask(const std::string& sql) const;

  const MariaDbServerOptions options_;
  const TempDir dir_;
  std::unique_ptr<CertificateAuthority> authority_;
  Certificate certificate_;
  uint16_t port_ = 0;
  ServerProcess process_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_MYSQL_SUPPORT_MARIADB_SERVER_H_
