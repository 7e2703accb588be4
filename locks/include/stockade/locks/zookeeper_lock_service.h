#ifndef STOCKADE_LOCKS_ZOOKEEPER_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_ZOOKEEPER_LOCK_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// Who may touch the nodes that a service makes.
enum class ZooKeeperAcl : uint8_t {
  kDefault,     // kCreatorAll where the URL has a user, kOpen otherwise.
  kOpen,        // Everybody.
  kCreatorAll,  // Who has authenticated as the same user: the URL must have one.
};

// What a ZooKeeperLockService is connected with.
struct STOCKADE_EXPORT ZooKeeperLockOptions {
  // What every lock service has.
  LockServiceOptions service = {};

  // For how long ZooKeeper keeps what a process holds that it does not hear: all of it ends at once then. The servers
  // bound it, by 2 and 20 of their ticks unless told otherwise, and what they make of it must be more than three. They
  // are to bound it alike: a session that comes to one that makes it shorter is given up.
  // Zero, the default: service.watchdog_lease.
  absl::Duration session_timeout = absl::ZeroDuration();

  // At least the tickTime of the servers, whose default this is: a longer one is safe, a shorter one is not. What a
  // session has sent counts as heard by the leader of the servers once this has passed.
  absl::Duration server_tick = absl::Seconds(2);

  // Of the nodes that it makes.
  ZooKeeperAcl acl = ZooKeeperAcl::kDefault;

  // How long Connect() tries.
  absl::Duration connect_timeout = absl::Seconds(10);

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// Locks that a ZooKeeper ensemble keeps, of version 3.5 or newer: each hold and each place in a queue is an ephemeral
// node, so that every kind of lock is fair, and each waiter watches the one before it alone. All of a service's holds
// stand on one session, which a thread keeps by a write in some sixth of its time-out.
//
//   zookeeper://[user:password@]host[:port][,host[:port]...][/root][?tick_ms=..&session_timeout_ms=..]
//
// The port is 2181 unless given. Nodes are made below /root, whose default is /stockade/locks; it stays, and what is
// below it the servers clean up. User and password are for ZooKeeper's digest scheme; any byte in them may be written
// as %XX. What follows the '?' goes before the options.
//
// Fencing tokens are the transaction ids of the nodes. They grow from one holder to the next who excludes it. A
// re-entry has the token of its hold, and a read within one's own write that of the write; those of readers who hold
// together need not be in the order in which they entered.
//
// LockState::remaining of a hold of another process is the session time-out: ZooKeeper does not tell more.
//
// ZooKeeper's C client opens its sockets for programs that this one executes too, unless it was built otherwise
// (SOCK_CLOEXEC_ENABLED), which Debian's is not: such a child keeps a connection from being closed, but no session.
//
// docs/DISTRIBUTED_LOCKS.md says what it promises.
class STOCKADE_EXPORT ZooKeeperLockService {
 public:
  // Blocks until there is a session, at most connect_timeout and what the C client takes to resolve names, for which it
  // has no bound.
  //
  //   InvalidArgument     the URL or an option, never with the password
  //   Unavailable         no server answered in time
  //   FailedPrecondition  the session's time-out, as the servers bound it, is not above three ticks; both are named
  //   PermissionDenied    the root may not be read or made by this user
  static absl::StatusOr<std::unique_ptr<LockService>> Connect(std::string_view url, ZooKeeperLockOptions options = {});
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_ZOOKEEPER_LOCK_SERVICE_H_
