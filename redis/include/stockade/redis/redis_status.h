#ifndef STOCKADE_REDIS_REDIS_STATUS_H_
#define STOCKADE_REDIS_REDIS_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"

namespace stockade {

// Details of a failed command's status. The codes of a failed command are:
//
//   Unavailable         the server could not be reached, or refuses for now (LOADING, READONLY, CLUSTERDOWN, ...), or
//                       there was no room for a connection to it (RedisOptions::max_nodes)
//   DeadlineExceeded    no reply within the command's time-out
//   ResourceExhausted   a limit of the client (queue, reply size), of the server (OOM) or of the process (no thread or
//                       file descriptor for a connection)
//   PermissionDenied    NOPERM, a right that is missing within a script, or RedisOptions::allowed_hosts does not
//                       contain the server
//   Unauthenticated     NOAUTH, WRONGPASS, or a password although the server has none
//   FailedPrecondition  WRONGTYPE and other errors that a retry does not fix
//   Unknown             any other error of the server, such as ERR
//   InvalidArgument     refused before it was sent: keys of two slots for a cluster, or the server does not have the
//                       URL's database
//   Aborted             RedisCallOptions::on_server, and the command would go to another server
//   Cancelled           the client was destroyed

// True if the command was sent and it is unknown whether Redis has run it. False if it has not run or the server has
// answered.
STOCKADE_EXPORT bool RedisOutcomeUnknown(const absl::Status& status);

// True if the process has no file descriptor left for the connection that the command needs (ResourceExhausted). It was
// not sent.
STOCKADE_EXPORT bool RedisOutOfDescriptors(const absl::Status& status);

// The status of an error of a server, such as one that a script has caught and returned as text.
STOCKADE_EXPORT absl::Status RedisErrorStatus(std::string_view error);

// The first word of the server's error ("WRONGTYPE"), or empty if the error did not come from the server.
STOCKADE_EXPORT std::string RedisErrorCode(const absl::Status& status);

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_STATUS_H_
