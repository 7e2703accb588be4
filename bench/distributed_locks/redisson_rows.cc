// A lock service beside Redisson, which speaks the same protocol in Java. Both have a client on one server.
#include <memory>
#include <string>
#include <utility>

#include "distributed_locks/our_locks.h"
#include "distributed_locks/rows.h"
#include "peers/peer_driver.h"
#include "servers/redis_process.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

struct RedissonLoad {
  std::string name;  // The row's.
  LockKind kind = LockKind::kReentrant;
  std::string java = {};  // The kind as the driver has it.
  size_t threads = 1;
  bool own_names = true;
};

struct World {
  World(const std::string& driver, const RedissonLoad& load, const Scale& scale)
      : java(Require(PeerProcess::Start({driver, "--url", server.url(), "--kind", load.java, "--threads",
                                         std::to_string(load.threads), "--names", load.own_names ? "own" : "one",
                                         "--warm-up-ms", std::to_string(scale.Sized(10, 3000))}),
                     "Redisson")) {
    const std::string line = Require(java->ReadLine(kPatience), "Redisson");
    Require(line == "ready" ? absl::OkStatus() : absl::InternalError(line), "Redisson");
  }

  RedisProcess server;
  OurLocks ours{RedisLockService::Connect(server.url())};
  std::unique_ptr<PeerProcess> java;
};

void AddRow(Suite& suite, const std::string& driver, const RedissonLoad& load) {
  // Of one thread the time, of many what they get done.
  const bool alone = load.threads == 1;
  suite.Add({.name = load.name,
             .unit = alone ? "us" : "1/s",
             .peer = "Redisson",
             .better = alone ? Better::kLower : Better::kHigher},
            {.threads = load.threads, .peer_threads = 1, .prepare = [=](const Scale& scale) -> Contestants {
               const auto world = std::make_shared<World>(driver, load, scale);
               const absl::Duration span = 4 * scale.span;
               const auto figure = [=](double per_second) { return alone ? 1e6 / per_second : per_second; };
               return {[=](Worker& worker) {
                         return figure(world->ours.Run(worker, load.kind, load.own_names, span).PerSecond());
                       },
                       [=](Worker&) { return figure(Require(RunPeerDriver(*world->java, span), "Redisson")); }};
             }});
}

}  // namespace

void AddRedissonRows(Suite& suite) {
  if (!RedisProcess::Check().ok()) return;  // AddScriptRows() has said so.
  const absl::StatusOr<std::string> driver = FindPeerDriver(STOCKADE_BENCH_PEERS_DIR, "redisson");
  if (!driver.ok()) {
    suite.LeaveOut("rows beside Redisson", std::string(driver.status().message()));
    return;
  }
  // No writers of one name: now and then one of Redisson's misses its message and waits for 30 s, with the lock free.
  const RedissonLoad loads[] = {
      {.name = "lock + unlock, alone", .java = "lock"},
      {.name = "lock + unlock, 64 threads, own names", .java = "lock", .threads = 64},
      {.name = "lock + unlock, 16 threads, one name", .java = "lock", .threads = 16, .own_names = false},
      {.name = "fair lock + unlock, alone", .kind = LockKind::kFair, .java = "fair"},
      {.name = "fair lock + unlock, 16 threads, one name",
       .kind = LockKind::kFair,
       .java = "fair",
       .threads = 16,
       .own_names = false},
      {.name = "read lock + unlock, alone", .kind = LockKind::kRead, .java = "read"},
      {.name = "read lock + unlock, 16 threads, one name",
       .kind = LockKind::kRead,
       .java = "read",
       .threads = 16,
       .own_names = false},
      {.name = "write lock + unlock, alone", .kind = LockKind::kWrite, .java = "write"},
  };
  for (const RedissonLoad& load : loads) AddRow(suite, *driver, load);
}

}  // namespace stockade::bench
