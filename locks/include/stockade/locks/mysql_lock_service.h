#ifndef STOCKADE_LOCKS_MYSQL_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_MYSQL_LOCK_SERVICE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"
#include "stockade/mysql/mysql_tls.h"

namespace stockade {

// Options of a MySqlLockService.
struct STOCKADE_EXPORT MySqlLockOptions {
  // Options that all lock services have.
  LockServiceOptions service = {};

  // If true, Connect() creates missing tables. Otherwise it fails without them, and an administrator runs the
  // statements of MySqlLockService::Schema().
  bool create_schema = false;

  // The prefix of the table names: letters, digits and '_', at most 32. Services with the same prefix in the same
  // database share their locks.
  std::string table_prefix = "stockade_";

  // With kOff, no file may be set.
  MySqlTls tls = MySqlTls::kDefault;
  std::string tls_ca_file = {};    // PEM. Empty: the system's CAs.
  std::string tls_cert_file = {};  // PEM, like tls_key_file: the client's certificate. Empty: none.
  std::string tls_key_file = {};   // PEM.

  // The time limit of Connect(), and of each later attempt to reconnect; a call waits for that only until its own
  // time-out.
  Duration connect_timeout = absl::Seconds(5);

  // The largest number of connections, 2 to 100. One of them is reserved for renewals and for polling. All others
  // together can wait for row locks, each for at most a second.
  int max_connections = 4;

  // How often the service polls the database for the locks that callers in this process wait for. The first poll comes
  // after poll_interval_min; while nothing changes, the interval doubles up to poll_interval_max. One query covers up
  // to 256 locks that are due, so that a service sends at most 1 / poll_interval_min queries per second however many
  // callers wait, and for the callers of one lock 1 / poll_interval_max in the long run if nothing changes. A release
  // in this process wakes its waiters without the database.
  Duration poll_interval_min = absl::Milliseconds(5);
  Duration poll_interval_max = absl::Milliseconds(100);

  // How long the fencing token of a lock is kept after its last acquire. A token is never smaller than the database's
  // time in microseconds, so tokens do not repeat unless that clock is set back by more than this. If infinite, tokens
  // are kept for good, and the table has a row for each name that was ever used.
  Duration token_retention = absl::Hours(24);

  // How often rows that are not needed any more are deleted, at most 1,000 of each table at a time. The interval is
  // random, between half of this and all of it.
  Duration purge_interval = absl::Minutes(5);

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// Locks in two InnoDB tables of a MySQL or MariaDB server, with leases on the database's clock. Supports kReentrant,
// kRead and kWrite; kFair is Unimplemented. Each step is one transaction and is sent in one packet, so that a suspended
// client keeps no row locked; docs/DISTRIBUTED_LOCKS.md has the exception. A lock is as safe as the database's commits:
// with asynchronous replicas, a failover may lose the newest ones.
//
// docs/DISTRIBUTED_LOCKS.md describes the guarantees. The connector ignores SIGPIPE for the whole process.
class STOCKADE_EXPORT MySqlLockService {
 public:
  // Connects to a URL of one of these forms:
  //   mysql://[user[:password]@]host[:port]/database[?parameter=value&...]
  //   mysql://[user[:password]@][localhost]/database?socket=/path/to.sock[&parameter=value...]
  // mariadb:// is equivalent. The default port is 3306. IPv6 addresses are in brackets; any byte may be encoded as %XX.
  // Parameters override the options: create_schema (0 or 1), table_prefix, tls (off, required, verify), tls_ca,
  // tls_cert, tls_key (files), auth_plugin (a plug-in by which the server may ask for the password although that
  // reveals it; with tls=verify or a socket). Without `tls`, a host that is not loopback gets tls=verify.
  //
  // Blocks until the first connection is established and the tables are checked, at most for connect_timeout.
  //   InvalidArgument     the URL, an option or a file of TLS is invalid; the message never contains a password
  //   Unauthenticated     one side refuses the other's certificate
  //   PermissionDenied    the server refuses the user, or the user lacks a privilege that locks need
  //   FailedPrecondition  a table is missing or differs from the schema, as the message says; there is no such
  //                       database; the session's clock stands still; the server has no TLS (tls=required), or
  //                       asks for the password by a plug-in that may reveal it; the connector does not verify
  //   ResourceExhausted   the process has no thread or file descriptor left
  //   Unavailable         the server cannot be reached
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::string_view url, MySqlLockOptions options = {});

  // The statements that create the tables. Users need SELECT, INSERT, UPDATE and DELETE on them.
  static std::string Schema(std::string_view table_prefix = "stockade_");
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_MYSQL_LOCK_SERVICE_H_
