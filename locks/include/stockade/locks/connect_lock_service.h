#ifndef STOCKADE_LOCKS_CONNECT_LOCK_SERVICE_H_
#define STOCKADE_LOCKS_CONNECT_LOCK_SERVICE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/locks/lock_service.h"

namespace stockade {

// The lock service of the engine that the URL names, with that engine's default options, so that a program's user
// chooses the engine. In target stockade::locks_connect, which links all engines of the build.
//
//   local:                                      in this process; all that are connected to it there share its locks
//   redis://.., redis+sentinel://..,            RedisLockService; redis_url.h has their form
//   redis+cluster://.., unix://..
//   redlock:redis://a,redis://b,redis://c       RedlockService over these servers
//   zookeeper://host[:port][,host..][/chroot]   ZooKeeperLockService; zookeeper_lock_service.h has their form
//   mysql://user@host[:port]/database           MySqlLockService; mysql_lock_service.h has their form
//
// Blocks until it is connected, for engine_timeout at most, besides the resolution of names (Redis: its default
// connect_timeout of 1 s for each server, where that is less; MySQL: 100 ms at least). Errors as those services'
// Connect(). Besides:
//   InvalidArgument  no such scheme, named
//   Unimplemented    this build has no such engine: how to build it
// No error shows what may be a password.
STOCKADE_EXPORT absl::StatusOr<std::unique_ptr<LockService>> ConnectLockService(std::string_view url,
                                                                                const LockServiceOptions& options = {});

}  // namespace stockade

#endif  // STOCKADE_LOCKS_CONNECT_LOCK_SERVICE_H_
