#ifndef STOCKADE_LOCKS_MYSQL_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_MYSQL_LOCK_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// Whether the connection is encrypted.
enum class MySqlTls : uint8_t {
  kOff,
  kRequired,  // Encrypted, with whoever answers.
  kVerify,    // And its certificate is signed by tls_ca_file's CA, or the system's, for the host of the URL.
};

// What a MySqlLockService is connected with.
struct STOCKADE_EXPORT MySqlLockOptions {
  // What every lock service has.
  LockServiceOptions service = {};

  // Makes the tables where they are missing. Otherwise Connect() fails without them: MySqlLockService::Schema() is what
  // an administrator runs.
  bool create_schema = false;

  // What the names of the tables begin with: letters, digits and '_', at most 32. Services with one prefix in one
  // database share their locks.
  std::string table_prefix = "stockade_";

  MySqlTls tls = MySqlTls::kOff;   // Then no file may be given.
  std::string tls_ca_file = {};    // PEM. Empty: the system's.
  std::string tls_cert_file = {};  // PEM, this and the next: the client's own. Empty: none.
  std::string tls_key_file = {};   // PEM.

  // The time limit of Connect(), and later of each attempt to connect again, in which a call waits at most for its own
  // time-out. For TLS it is rounded up to whole seconds, as the connector counts them.
  absl::Duration connect_timeout = absl::Seconds(5);

  // How many connections at most, 2 to 100. One of them is kept free for renewals and for asking whether locks are
  // free; so many steps less one can wait for rows at a time, each at most a second.
  int max_connections = 4;

  // How often the database is asked whether locks that somebody in this process waits for are free: at first after the
  // one, twice as long each time while nothing changes, at most after the other. One query asks for all of them, so
  // that a service asks at most 1 / poll_interval_min times a second however many wait, and 1 / poll_interval_max times
  // in the long run where nothing changes. A release in this process wakes its waiters without the database.
  absl::Duration poll_interval_min = absl::Milliseconds(5);
  absl::Duration poll_interval_max = absl::Milliseconds(100);

  // How long a lock's fencing token is remembered after its last acquire. A token is never smaller than the database's
  // time in microseconds, so a forgotten one does not come back unless that clock is set back by more than this.
  // Infinite: for ever, and the table keeps a row for each name that ever was.
  absl::Duration token_retention = absl::Hours(24);

  // How often, at random between half of it and all, rows that are not needed any more are deleted, at most 1,000 of
  // each table at a time.
  absl::Duration purge_interval = absl::Minutes(5);

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// Locks kept in two InnoDB tables of a MySQL or MariaDB server, with leases on the database's clock. kReentrant, kRead
// and kWrite; kFair is Unimplemented. Each step is one transaction, sent whole, so that a client that stops keeps no
// row locked; docs/DISTRIBUTED_LOCKS.md has the exception. A lock is as safe as the database's commits: with
// asynchronous replicas, a failover may lose the newest.
//
// docs/DISTRIBUTED_LOCKS.md says what it promises. The connector ignores SIGPIPE for the whole process.
class STOCKADE_EXPORT MySqlLockService {
 public:
  // Reads one of
  //   mysql://[user[:password]@]host[:port]/database[?parameter=value&...]
  //   mysql://[user[:password]@][localhost]/database?socket=/path/to.sock[&parameter=value...]
  // mariadb:// is the same. The port is 3306 unless given. IPv6 addresses stand in brackets; any byte may be written as
  // %XX. Parameters, which go before the options: create_schema (0 or 1), table_prefix, tls (off, required, verify),
  // tls_ca, tls_cert, tls_key (files).
  //
  // Blocks until the first connection is there and the tables are looked at, at most connect_timeout.
  //   InvalidArgument     a bad URL or bad options; never shows a password
  //   PermissionDenied    the server refuses the user, or the user must not do what locks need
  //   FailedPrecondition  a table is missing or is another than it should be, told in the text; or no such database
  //   Unavailable         the server cannot be reached
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::string_view url, MySqlLockOptions options = {});

  // The statements that make the tables. Users of locks need SELECT, INSERT, UPDATE and DELETE on them.
  static std::string Schema(std::string_view table_prefix = "stockade_");
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_MYSQL_LOCK_SERVICE_H_
