#ifndef STOCKADE_TESTS_DOCS_LOCK_SERVERS_H_
#define STOCKADE_TESTS_DOCS_LOCK_SERVERS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "stockade/locks/lock_service.h"

namespace stockade::testing {

enum class LockEngineKind { kRedis, kZooKeeper, kMySql };

// Of this build.
std::vector<LockEngineKind> LockEngineKinds();
// "Redis".
std::string_view NameOf(LockEngineKind kind);

// One server that keeps locks. Its data outlive a restart.
class LockServer {
 public:
  virtual ~LockServer() = default;

  // On 127.0.0.1.
  virtual uint16_t port() const = 0;
  // By way of this port, its own or a proxy's.
  virtual absl::StatusOr<std::unique_ptr<LockService>> Connect(uint16_t port, const LockServiceOptions& options) = 0;
  virtual void Restart() = 0;
  // Without the locks that it had.
  virtual void RestartEmpty() = 0;
};

std::unique_ptr<LockServer> StartLockServer(LockEngineKind kind);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_DOCS_LOCK_SERVERS_H_
