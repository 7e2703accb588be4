#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_ONE_SERVER_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_ONE_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "locks/distributed/support/lock_deployment.h"

namespace stockade::testing {

// A server of an engine that is alone, and what may happen to it. Each blocks until it is so.
class OneServer {
 public:
  virtual ~OneServer() = default;

  virtual uint16_t port() const = 0;
  // For ConnectLockService(), by way of a port that may be a proxy's.
  virtual std::string UrlOf(uint16_t port) const = 0;
  std::string url() const { return UrlOf(port()); }
  virtual std::vector<LockKind> kinds() const {
    return {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite};
  }
  // Whether it counts re-entries; otherwise clients do, without a word to it.
  virtual bool counts_reentry() const { return true; }

  virtual void Kill() = 0;
  virtual void Restart() = 0;
  virtual void Pause() = 0;
  virtual void Resume() = 0;
  // Forgets all data.
  virtual void Empty() = 0;
  // Does what nobody may notice.
  virtual void Unsettle() {}

  // Whether a client listens for a release.
  virtual bool listened() { return false; }
  // Data that neither are tokens nor expire within this time: places in queues, and holds without a holder. Empty:
  // none.
  virtual std::string Remains(absl::Duration within) = 0;
};

// Those that there are one of, one of each engine.
std::vector<LockSetup> OneServerSetups();
// `forgetful`: all is forgotten when it is killed. Only Redis can, and does unless told otherwise.
std::unique_ptr<OneServer> NewOneServer(LockSetup setup, bool forgetful = true);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_ONE_SERVER_H_
