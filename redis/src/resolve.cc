#include "resolve.h"

#include <sys/socket.h>

#include <cerrno>
#include <map>
#include <optional>
#include <system_error>
#include <thread>

#include "absl/status/status.h"
#include "stockade/base/clock.h"
#include "stockade/base/mutex.h"
#include "stockade/base/start_thread.h"

namespace stockade::redis_internal {
namespace {

using Addresses = absl::StatusOr<std::shared_ptr<const addrinfo>>;

Addresses GetAddrInfo(const std::string& host, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed == 0)
    return std::shared_ptr<const addrinfo>(found,
                                           [](const addrinfo* list) { freeaddrinfo(const_cast<addrinfo*>(list)); });
  return absl::UnavailableError(failed == EAI_SYSTEM ? std::generic_category().message(errno) : gai_strerror(failed));
}

struct Lookup {
  Mutex mutex;
  CondVar ended;
  std::optional<Addresses> result STOCKADE_GUARDED_BY(mutex);
};

// Those that run, by name. Never destroyed: a lookup may end after main() has.
struct Lookups {
  Mutex mutex;
  std::map<std::string, std::shared_ptr<Lookup>> running STOCKADE_GUARDED_BY(mutex);
};

Lookups& AllLookups() {
  static auto* const lookups = new Lookups;
  return *lookups;
}

void Run(Lookup& lookup, const std::string& host) {
  Addresses result = GetAddrInfo(host, 0);
  {
    // A call that comes from now on starts a new lookup.
    const MutexLock lock(AllLookups().mutex);
    AllLookups().running.erase(host);
  }
  const MutexLock lock(lookup.mutex);
  lookup.result = std::move(result);
  lookup.ended.NotifyAll();
}

absl::StatusOr<std::shared_ptr<Lookup>> StartOrJoin(const std::string& host) {
  Lookups& lookups = AllLookups();
  const MutexLock lock(lookups.mutex);
  std::shared_ptr<Lookup>& lookup = lookups.running[host];
  if (lookup != nullptr) return lookup;
  lookup = std::make_shared<Lookup>();
  std::thread thread;
  const absl::Status started = StartThread(thread, [lookup = lookup, host] { Run(*lookup, host); });
  if (!started.ok()) {
    lookups.running.erase(host);
    return started;
  }
  thread.detach();
  return lookup;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const addrinfo>> Resolve(const std::string& host, Instant deadline) {
  // An address needs no name server.
  Addresses numeric = GetAddrInfo(host, AI_NUMERICHOST);
  if (numeric.ok()) return numeric;
  const absl::StatusOr<std::shared_ptr<Lookup>> started = StartOrJoin(host);
  if (!started.ok()) return started.status();
  Lookup& lookup = **started;
  const MutexLock lock(lookup.mutex);
  while (!lookup.result && lookup.ended.WaitUntil(*Clock::System(), lookup.mutex, deadline)) {
  }
  if (!lookup.result) return absl::UnavailableError("its name was not resolved in time");
  return *lookup.result;
}

}  // namespace stockade::redis_internal
