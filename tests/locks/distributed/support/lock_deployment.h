#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_DEPLOYMENT_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_DEPLOYMENT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "stockade/locks/lock_service.h"

namespace stockade::testing {

// All but three are set-ups of Redis. kLocal has no server.
enum class LockSetup { kLocal, kStandalone, kSentinel, kCluster, kRedlock, kZooKeeper, kMySql };

// All that are built, and those with servers, which other processes reach and which fail. Under a sanitizer without
// those that have several masters or replicas. For
//   INSTANTIATE_TEST_SUITE_P(Locks, MyTest, ::testing::ValuesIn(LockSetups()), LockSetupName);
std::vector<LockSetup> LockSetups();
std::vector<LockSetup> ServerSetups();
// For what needs read-write locks, or fencing tokens.
std::vector<LockSetup> WithoutRedlock(std::vector<LockSetup> setups);
// For what needs fair locks.
std::vector<LockSetup> WithFair(std::vector<LockSetup> setups);
std::string LockSetupName(const ::testing::TestParamInfo<LockSetup>& setup);

// The environment of the clients of one lock engine. For one thread, except the clients.
class LockDeployment {
 public:
  virtual ~LockDeployment() = default;

  // As another process would be one. The deployment must outlive it.
  virtual std::unique_ptr<LockService> NewClient(LockServiceOptions options) = 0;

  // Of the locks that its engine has.
  virtual std::vector<LockKind> kinds() const;
  virtual bool has_tokens() const { return true; }
  // Whether the lease of a re-entry has a larger token than those before; otherwise it has the hold's.
  virtual bool reentry_has_new_token() const { return true; }

  // How many wait in the queue of a fair lock.
  virtual int64_t Queued(const std::string& name) = 0;
};

// Servers. Data outlive restarts.
class ServerDeployment : public LockDeployment {
 public:
  // For ConnectLockService(), here or in another process.
  virtual std::string url() const = 0;

  // Whether somebody is to hear of it when this reentrant lock is released.
  virtual bool Listened(const std::string& name) = 0;

  // For how long a hold, and a place in a queue, may stand in others' way after its process was killed.
  virtual absl::Duration HolderAfterlife(absl::Duration watchdog_lease) const { return watchdog_lease; }
  virtual absl::Duration WaiterAfterlife(absl::Duration) const { return absl::Seconds(5); }

  // Closes the connections of all clients.
  virtual void KillConnections() = 0;
  // Forgets all data.
  virtual void Empty() = 0;
  // Stops everything and starts it again. Blocks until all is settled.
  virtual void RestartAll() = 0;
  // Kills the servers that have the name, without a word to anybody, and blocks until others stand in for them,
  // or until they are back where there are none.
  virtual void KillServerOf(const std::string& name) = 0;
};

// There is one of each set-up, which lives as long as the program: servers take longer to start than most tests do to
// run. Tests keep to names of their own.
LockDeployment& DeploymentOf(LockSetup setup);
ServerDeployment& ServersOf(LockSetup setup);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_DEPLOYMENT_H_
