#ifndef STOCKADE_REDIS_REDIS_STATUS_H_
#define STOCKADE_REDIS_REDIS_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "stockade/base/export.h"

namespace stockade {

// What a failed command's status tells beyond its code. Where a command failed:
//
//   Unavailable         the server could not be reached, or refuses for now (LOADING, READONLY, CLUSTERDOWN, ...)
//   DeadlineExceeded    no reply within the command's time-out
//   ResourceExhausted   a bound of ours: the queue, a reply's size; the server's: OOM; or the process's: no thread or
//                       file descriptor for a connection to a new node
//   PermissionDenied    NOPERM, or RedisOptions::allowed_hosts forbids the server
//   Unauthenticated     NOAUTH, WRONGPASS, a password where none is set
//   FailedPrecondition  WRONGTYPE and others that a retry does not mend
//   Unknown             any other error of the server, ERR first of all
//   InvalidArgument     refused before it was sent: keys of two slots for a cluster; the server lacks the URL's
//                       database
//   Cancelled           the client was destroyed

// True: the command was sent, and whether Redis has run it is not known. False: it has not run, or the server answered.
STOCKADE_EXPORT bool RedisOutcomeUnknown(const absl::Status& status);

// The first word of the server's error ("WRONGTYPE"), or empty where the error is none of the server's.
STOCKADE_EXPORT std::string RedisErrorCode(const absl::Status& status);

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_STATUS_H_
