// A lock service beside ZooKeeper's recipe by hand, with ZooKeeper's own C client. Both have a session each on one
// server.
#include <memory>
#include <string>

#include "distributed_locks/load_rows.h"
#include "distributed_locks/our_locks.h"
#include "distributed_locks/plain_zookeeper.h"
#include "distributed_locks/rows.h"
#include "servers/disk_server.h"
#include "stockade/locks/zookeeper_lock_service.h"

namespace stockade::bench {
namespace {

using Calls = PlainZooKeeper::Calls;

}  // namespace

void AddZooKeeperRows(Suite& suite) {
  constexpr auto kKind = DiskServer::Kind::kZooKeeper;
  if (const absl::Status here = DiskServer::Check(kKind, suite); !here.ok()) {
    suite.LeaveOut("ZooKeeper's rows", std::string(here.message()));
    return;
  }
  const auto add = [&, server = DiskServer::OnDemand(kKind)](const std::string& peer, const std::string& target,
                                                             Calls calls) {
    AddLoadRows(suite, "ZooKeeper", peer, target, [=](const Scale& scale) -> LockSides {
      const std::string address = server().address();
      const auto plain = std::make_shared<PlainZooKeeper>(address, calls);
      RunCrew(16,
              [&](Worker& worker) { plain->Run(worker, true, 25 * scale.span); });  // The JVM compiles what it runs.
      return {RunOf(std::make_shared<OurLocks>(ZooKeeperLockService::Connect("zookeeper://" + address))),
              [=](Worker& worker, bool own_names, absl::Duration span) { return plain->Run(worker, own_names, span); }};
    });
  };
  add("libzookeeper, create and list in one", "<= 1.2", Calls::kPipelined);
  add("libzookeeper, one call after another", "-", Calls::kSynchronous);
}

}  // namespace stockade::bench
