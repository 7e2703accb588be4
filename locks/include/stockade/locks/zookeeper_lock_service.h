#ifndef STOCKADE_LOCKS_ZOOKEEPER_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_ZOOKEEPER_LOCK_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// The permissions of the nodes that a service creates.
enum class ZooKeeperAcl : uint8_t {
  kDefault,     // kCreatorAll if the URL has a user, kOpen otherwise.
  kOpen,        // All clients.
  kCreatorAll,  // Clients that authenticated as the same user; the URL must have one.
};

// Options of a ZooKeeperLockService.
struct STOCKADE_EXPORT ZooKeeperLockOptions {
  // Options that all lock services have.
  LockServiceOptions service = {};

  // How long ZooKeeper keeps the session of a process that it does not hear from; then all holds of the session end at
  // once. The servers limit it, by default to between 2 and 20 of their ticks, and the result must be more than three
  // ticks. All servers must have the same limits: a session that reconnects to a server with a shorter limit is given
  // up. Zero, the default, means service.watchdog_lease.
  Duration session_timeout = absl::ZeroDuration();

  // At least the servers' tickTime, whose default this is; a longer value is safe, a shorter one is not. A server
  // reports its active sessions to the leader within this time, so the service assumes that the leader has noticed a
  // session's request only after it.
  Duration server_tick = absl::Seconds(2);

  // The permissions of the nodes that it creates.
  ZooKeeperAcl acl = ZooKeeperAcl::kDefault;

  // The time limit of Connect().
  Duration connect_timeout = absl::Seconds(10);

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// Locks in a ZooKeeper ensemble of version 3.5.3 or newer. Each hold and each place in a queue is an ephemeral node.
// Every kind of lock is therefore fair, and each waiter watches only the node before it. All holds of a service belong
// to one session, which a thread keeps alive by a write in about each sixth of its time-out.
//
//   zookeeper://[user:password@]host[:port][,host[:port]...][/root][?tick_ms=..&session_timeout_ms=..]
//
// The default port is 2181. Nodes are created below /root, by default /stockade/locks. The root itself stays, and the
// servers remove unused nodes below it. The user and password are for ZooKeeper's digest scheme; any byte in them may
// be encoded as %XX. The parameters after '?' override the options.
//
// Fencing tokens are the transaction ids of the nodes. They increase from one holder to the next one that it excludes.
// A re-entry has the token of its hold, and a read of an owner that also writes has the token of the write. Tokens of
// readers that hold the lock together need not be in the order in which they entered.
//
// For a hold of another process, LockState::remaining is the session time-out, because ZooKeeper provides no more.
//
// There is no TLS, because Debian's build of ZooKeeper's C client has none. The password and all data are sent
// unencrypted.
//
// ZooKeeper's C client creates sockets that programs executed by this one inherit, unless it was built with
// SOCK_CLOEXEC_ENABLED, which Debian's is not. Such a child keeps a connection open, but no session.
//
// docs/DISTRIBUTED_LOCKS.md describes the guarantees.
class STOCKADE_EXPORT ZooKeeperLockService {
 public:
  // Blocks until there is a session, at most for connect_timeout plus the time that the C client takes to resolve
  // names, which has no limit.
  //
  //   InvalidArgument     the URL or an option is invalid; the message never contains the password
  //   Unavailable         no server answered in time
  //   ResourceExhausted   the process has no thread or file descriptor left
  //   FailedPrecondition  the session time-out that the servers granted is not above three ticks; the message has both
  //   PermissionDenied    this user may not read or create the root
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::string_view url, ZooKeeperLockOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_ZOOKEEPER_LOCK_SERVICE_H_
