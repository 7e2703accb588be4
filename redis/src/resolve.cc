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
#include "stockade/base/strings.h"

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

// Those that run, by name. Never destroyed: a lookup may end after main() has.
struct Lookups {
  Mutex mutex;
  std::map<std::string, std::shared_ptr<NameLookup>> running STOCKADE_GUARDED_BY(mutex);
};

Lookups& AllLookups() {
  static auto* const lookups = new Lookups;
  return *lookups;
}

// Null: none runs for this name.
std::shared_ptr<NameLookup> Find(const std::string& host) {
  Lookups& lookups = AllLookups();
  const MutexLock lock(lookups.mutex);
  const auto found = lookups.running.find(host);
  return found == lookups.running.end() ? nullptr : found->second;
}

}  // namespace

struct NameLookup {
  void Run(const std::string& host) {
    Addresses found = GetAddrInfo(host, 0);
    {
      // A call that comes from now on starts a new lookup.
      const MutexLock lock(AllLookups().mutex);
      AllLookups().running.erase(host);
    }
    const MutexLock lock(mutex);
    result = std::move(found);
    ended.NotifyAll();
  }

  Mutex mutex;
  CondVar ended;
  std::optional<Addresses> result STOCKADE_GUARDED_BY(mutex);
};

absl::StatusOr<std::shared_ptr<const addrinfo>> Resolver::Resolve(const std::string& host, Instant deadline) {
  // An address needs no name server.
  Addresses numeric = GetAddrInfo(host, AI_NUMERICHOST);
  if (numeric.ok()) return numeric;
  const absl::StatusOr<std::shared_ptr<NameLookup>> awaited = AwaitLookup(host, deadline);
  if (!awaited.ok()) return awaited.status();
  NameLookup& lookup = **awaited;
  const MutexLock lock(lookup.mutex);
  while (!lookup.result && lookup.ended.WaitUntil(*Clock::System(), lookup.mutex, deadline)) {
  }
  if (!lookup.result) return absl::UnavailableError("its name was not resolved in time");
  return *lookup.result;
}

absl::StatusOr<std::shared_ptr<NameLookup>> Resolver::AwaitLookup(const std::string& host, Instant deadline) {
  const MutexLock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  waiting_.insert(ticket);
  absl::StatusOr<std::shared_ptr<NameLookup>> lookup;
  for (bool in_time = true;;) {
    if (running_ < kMaxLookups && *waiting_.begin() == ticket) {
      lookup = StartOrJoin(host);
    } else {
      lookup = Find(host);
    }
    if (!lookup.ok() || *lookup != nullptr) break;
    if (!in_time) {
      lookup = absl::UnavailableError(
          Concat("its name was not resolved in time: the client resolves ", kMaxLookups, " others"));
      break;
    }
    in_time = turn_.WaitUntil(*Clock::System(), mutex_, deadline);
  }
  waiting_.erase(ticket);
  turn_.NotifyAll();
  return lookup;
}

absl::StatusOr<std::shared_ptr<NameLookup>> Resolver::StartOrJoin(const std::string& host) {
  Lookups& lookups = AllLookups();
  const MutexLock lock(lookups.mutex);
  std::shared_ptr<NameLookup>& lookup = lookups.running[host];
  if (lookup != nullptr) return lookup;
  lookup = std::make_shared<NameLookup>();
  std::thread thread;
  const absl::Status started = StartThread(thread, [self = shared_from_this(), lookup = lookup, host] {
    lookup->Run(host);
    self->EndLookup();
  });
  if (!started.ok()) {
    lookups.running.erase(host);
    return started;
  }
  thread.detach();
  ++running_;
  return lookup;
}

void Resolver::EndLookup() {
  const MutexLock lock(mutex_);
  --running_;
  turn_.NotifyAll();
}

}  // namespace stockade::redis_internal
