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
  const auto add = [&, server = DiskServer::OnDemand(kKind)](const std::string& peer, Target target, Calls calls) {
    AddLoadRows(suite, "ZooKeeper", peer, target, [=](const Scale& scale) -> LockSides {
      const std::string address = server().address();
      const auto plain = std::make_shared<PlainZooKeeper>(address, calls);
      plain->Run(16, true, 25 * scale.span);  // The JVM compiles what it runs.
      return {
          RunOf(std::make_shared<OurLocks>(ZooKeeperLockService::Connect("zookeeper://" + address))),
          [=](size_t threads, bool own_names, absl::Duration span) { return plain->Run(threads, own_names, span); }};
    });
  };
  add("libzookeeper, create and list in one", Target::RatioAtMost(1.2), Calls::kPipelined);
  add("libzookeeper, one call after another", Target::None(), Calls::kSynchronous);
}

}  // namespace stockade::bench
