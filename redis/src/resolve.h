#ifndef STOCKADE_REDIS_RESOLVE_H_
#define STOCKADE_REDIS_RESOLVE_H_

#include <netdb.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::redis_internal {

struct NameLookup;

// Looks up the names of one client's servers. getaddrinfo(3) blocks, so it runs on a thread of its own, which outlives
// the call, and the client, if the name server does not answer. Calls for one name share a lookup, also those of
// several clients, so there is at most one such thread per name.
//
// Servers may name hosts without end. So at most kMaxLookups lookups that this client has begun run at a time. Further
// names wait for their turn, in the order of the calls. Other clients do not wait for them.
//
// Invariant: running_ is the number of lookups that this has begun and that have not ended, at most kMaxLookups. Lock
// order: mutex_ before that of the list of all lookups. Thread-safe. Shared by all that connects for the client.
class Resolver : public std::enable_shared_from_this<Resolver> {
 public:
  static constexpr size_t kMaxLookups = 8;

  // The addresses of `host`, which is a name or an address without a NUL byte, with port 0. An address needs no lookup.
  // Blocks until `deadline` at most. Unavailable if there is no address, or not in time, or no turn in time.
  // ResourceExhausted if the thread cannot be started.
  absl::StatusOr<std::shared_ptr<const addrinfo>> Resolve(const std::string& host, Instant deadline)
      STOCKADE_EXCLUDES(mutex_);

 private:
  absl::StatusOr<std::shared_ptr<NameLookup>> AwaitLookup(const std::string& host, Instant deadline)
      STOCKADE_EXCLUDES(mutex_);
  absl::StatusOr<std::shared_ptr<NameLookup>> StartOrJoin(const std::string& host) STOCKADE_REQUIRES(mutex_);
  void EndLookup() STOCKADE_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar turn_;  // A lookup has ended, or a call waits no longer.
  size_t running_ STOCKADE_GUARDED_BY(mutex_) = 0;
  uint64_t next_ticket_ STOCKADE_GUARDED_BY(mutex_) = 0;
  // The tickets of the calls that have no lookup yet. The first is the next one to begin one.
  std::set<uint64_t> waiting_ STOCKADE_GUARDED_BY(mutex_);
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_RESOLVE_H_
