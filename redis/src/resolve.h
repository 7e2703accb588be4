#ifndef STOCKADE_REDIS_RESOLVE_H_
#define STOCKADE_REDIS_RESOLVE_H_

#include <netdb.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "stockade/base/instant.h"

namespace stockade::redis_internal {

// The addresses of `host`, which is a name or an address without a NUL byte, with port 0. Blocks until `deadline` at
// most, because getaddrinfo(3) runs on a thread of its own, which outlives the call if the name server does not answer.
// Calls for one name share a lookup, so there is at most one such thread per name. Unavailable if there is no address,
// or not in time. ResourceExhausted if the thread cannot be started. Thread-safe.
absl::StatusOr<std::shared_ptr<const addrinfo>> Resolve(const std::string& host, Instant deadline);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_RESOLVE_H_
