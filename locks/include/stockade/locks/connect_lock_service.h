#ifndef STOCKADE_LOCKS_CONNECT_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_CONNECT_LOCK_SERVICE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// Connects to the lock service of the engine that the URL names, with the default options of that engine, so that the
// users of a program can choose the engine. In the target stockade::locks_connect, which links all engines of the
// build.
//
//   local:                                      in this process; all services from this URL share their locks
//   redis://.., redis+sentinel://..,            RedisLockService; redis_url.h describes the form
//   redis+cluster://.., unix://..             rediss://.. and so on with TLS
//   redlock:redis://a,redis://b,redis://c       RedlockService with these servers
//   zookeeper://host[:port][,host..][/chroot]   ZooKeeperLockService; zookeeper_lock_service.h describes the form
//   mysql://user@host[:port]/database           MySqlLockService; mysql_lock_service.h describes the form
//
// Blocks until it is connected, at most for engine_timeout, plus the time to resolve names. (Redis: for its default
// connect_timeout of 1 s per server, if that is less. MySQL: for at least 100 ms.) Errors as for Connect() of these
// services. In addition:
//   InvalidArgument  the scheme is unknown; the message names it
//   Unimplemented    this build does not have the engine; the message says how to build it
// No message contains what may be a password.
STOCKADE_EXPORT absl::StatusOr<std::unique_ptr<LockService>> ConnectLockService(std::string_view url,
                                                                                const LockServiceOptions& options = {});

}  // namespace stockade

#endif  // STOCKADE_LOCKS_CONNECT_LOCK_SERVICE_H_
