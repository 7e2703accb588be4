// The tables of docs/DISTRIBUTED_LOCKS.md, "every failure": each is made, and what its caller sees put into the tables'
// words.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "docs/document_table.h"
#include "docs/lock_servers.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "stockade/locks/redis_lock_service.h"
#include "support/await.h"
#include "support/tcp_proxy.h"
#ifdef STOCKADE_ALL_LOCK_ENGINES
#include "mysql/support/mariadb_server.h"
#include "zookeeper/support/zookeeper_server.h"
#endif

namespace stockade::testing {
namespace {

// Nothing of it is over while a test looks.
constexpr absl::Duration kLongLease = absl::Seconds(60);
constexpr absl::Duration kShortLease = absl::Seconds(1);
// The time-outs for an engine that has to answer, and for one that must not.
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr absl::Duration kEngineTimeout = absl::Seconds(1);

// The engine may be too busy for its time-out.
LockLease Hold(LockService& locks, const std::string& name, const AcquireOptions& options = {}) {
  absl::StatusOr<LockLease> lease;
  const Instant limit = Clock::System()->Now() + kPatience;
  do {
    lease = locks.Acquire(name, options);
  } while (absl::IsUnavailable(lease.status()) && Clock::System()->Now() < limit);
  return *std::move(lease);
}

// Each has a lock of its own.
struct Bench {
  explicit Bench(LockServer& server, absl::Duration lease = kLongLease, absl::Duration engine_timeout = kPatience)
      : server(server), proxy(server.port()) {
    static int benches = 0;
    name = "ticket " + std::to_string(++benches);
    service = Connect(proxy.port(), lease, engine_timeout);
    others = Connect(server.port(), lease, kPatience);
  }
  absl::Status Acquire(const AcquireOptions& options = {}) { return service->Acquire(name, options).status(); }
  void TakeServerAway() {
    proxy.Refuse();
    proxy.CloseAll();
  }

  LockServer& server;
  TcpProxy proxy;
  std::string name;
  std::unique_ptr<LockService> service;
  std::unique_ptr<LockService> others;  // Of another process, as far as the server knows; always reaches it.

 private:
  std::unique_ptr<LockService> Connect(uint16_t port, absl::Duration lease, absl::Duration engine_timeout) {
    absl::StatusOr<std::unique_ptr<LockService>> connected =
        server.Connect(port, {.watchdog_lease = lease, .engine_timeout = engine_timeout, .metrics = nullptr});
    EXPECT_TRUE(connected.ok()) << connected.status();
    return *std::move(connected);
  }
};

struct FailedAcquire {
  const char* what;
  std::function<absl::Status(LockServer& server)> make;
  bool redis_only = false;
};

std::vector<FailedAcquire> FailedAcquires() {
  return {
      {"others hold it for longer than `wait`",
       [](LockServer& server) {
         Bench b(server);
         const LockLease held = Hold(*b.others, b.name);
         return b.Acquire({.wait = absl::Milliseconds(30)});
       }},
      {"no server listens at the address",
       [](LockServer& server) {
         Bench b(server, kLongLease, kEngineTimeout);
         b.TakeServerAway();
         return b.Acquire();
       }},
      {"the server accepts and does not answer",
       [](LockServer& server) {
         Bench b(server, kLongLease, kEngineTimeout);
         b.proxy.Hold();
         return b.Acquire();
       }},
      {"another call of the same owner waits for an engine that does not answer",
       [](LockServer& server) {
         Bench b(server, kLongLease, kEngineTimeout);
         const AcquireOptions options = {.owner = LockOwner::New()};
         b.proxy.Hold();
         auto other = std::async(std::launch::async, [&] { return b.Acquire(options); });
         const absl::Status refused = b.Acquire(options);
         EXPECT_EQ(other.get().code(), refused.code());
         return refused;
       }},
      {"the reply was lost, the server had run it",
       [](LockServer& server) {
         Bench b(server);
         b.proxy.DropReply();
         absl::StatusOr<LockLease> held = b.service->Acquire(b.name);
         if (held.ok()) {
           EXPECT_EQ(b.service->Inspect(b.name).value().owner_holds, 1);
         }
         return held.status();
       }},
      {"`stop` was requested",
       [](LockServer& server) {
         Bench b(server);
         std::stop_source stop;
         const LockLease held = Hold(*b.others, b.name);
         stop.request_stop();
         return b.Acquire({.stop = stop.get_token()});
       }},
      {"the service was destroyed meanwhile",
       [](LockServer& server) {
         Bench b(server);
         const LockLease held = Hold(*b.others, b.name);
         std::promise<absl::Status> told;
         b.service->AcquireAsync(b.name, {},
                                 [&](const absl::StatusOr<LockLease>& lease) { told.set_value(lease.status()); });
         b.service.reset();
         return told.get_future().get();
       }},
      {"the name is empty or too long, an option out of range",
       [](LockServer& server) {
         Bench b(server);
         EXPECT_TRUE(absl::IsInvalidArgument(b.service->Acquire("").status()));
         EXPECT_TRUE(absl::IsInvalidArgument(b.service->Acquire(std::string(kMaxLockNameBytes + 1, 'x')).status()));
         return b.Acquire({.lease = absl::Nanoseconds(1)});
       }},
      {"the owner only reads and asks to write",
       [](LockServer& server) {
         Bench b(server);
         const LockLease held = Hold(*b.service, b.name, {.kind = LockKind::kRead});
         return b.Acquire({.kind = LockKind::kWrite});
       }},
      {"the name is used with another kind",
       [](LockServer& server) {
         Bench b(server);
         const LockLease held = Hold(*b.others, b.name);
         return b.Acquire({.kind = LockKind::kRead});
       }},
      {"the answer came after the lease was over",
       [](LockServer& server) {
         Bench b(server);
         EXPECT_TRUE(b.Acquire().ok());  // From now on the server knows the script.
         b.proxy.Hold();
         auto asked = std::async(std::launch::async, [&] { return b.Acquire({.lease = kMinLease}); });
         EXPECT_TRUE(b.proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
         // Sent before it was held; counted on our clock.
         const Instant over = Clock::System()->Now() + 10 * kMinLease;
         Await("the lease to be over", [&] { return Clock::System()->Now() > over; });
         b.proxy.Release();
         return asked.get();
       }},
      {"fewer than `min_replicas` confirmed",
       [](LockServer& server) {
         auto service = RedisLockService::Connect(RedisUrl(server.port()),
                                                  {.service = {.engine_timeout = kEngineTimeout, .metrics = nullptr},
                                                   .redis = {.metrics = nullptr},
                                                   .min_replicas = 1});
         EXPECT_TRUE(service.ok()) << service.status();
         return (*service)->Acquire("a lock of replicas").status();
       },
       true},
  };
}

class LockOutcomesTest : public ::testing::TestWithParam<LockEngineKind> {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
#ifdef STOCKADE_ALL_LOCK_ENGINES
    if (GetParam() == LockEngineKind::kZooKeeper) {
      STOCKADE_NEEDS_ZOOKEEPER();
    }
    if (GetParam() == LockEngineKind::kMySql) {
      STOCKADE_NEEDS_MARIADB();
    }
#endif
    server_ = StartLockServer(GetParam());
  }

  // `seen`: rows, one per event. They are all the documented ones, except those of Redis alone.
  void ExpectRows(const std::string& head, const std::vector<std::string>& seen) {
    const std::vector<std::string> documented = DocumentedTable("docs/DISTRIBUTED_LOCKS.md", head);
    if (GetParam() == LockEngineKind::kRedis) {
      EXPECT_EQ(documented.size(), seen.size() + 2);  // The head, and the line below it.
    }
    for (const std::string& row : seen) {
      const std::string what = row.substr(0, row.find(" | "));
      const auto told = std::ranges::find_if(documented, [&](const auto& line) { return line.starts_with(what); });
      ASSERT_NE(told, documented.end()) << row;
      EXPECT_TRUE(told->starts_with(row)) << *told << "\nbut it is\n" << row;
    }
  }

  std::unique_ptr<LockServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Locks, LockOutcomesTest, ::testing::ValuesIn(LockEngineKinds()),
                         [](const auto& engine) { return std::string(NameOf(engine.param)); });

std::string Told(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

TEST_P(LockOutcomesTest, EachFailedAcquire_IsToldAsTheDocumentSays) {
  std::vector<std::string> seen;
  for (const FailedAcquire& failure : FailedAcquires()) {
    if (failure.redis_only && GetParam() != LockEngineKind::kRedis) continue;
    SCOPED_TRACE(failure.what);
    seen.push_back("| " + std::string(failure.what) + " | " + Told(failure.make(*server_)) + " |");
  }
  ExpectRows("| what went wrong | `Acquire()` |", seen);
}

// What a holder sees, before its release and by it.
struct Seen {
  bool valid;
  bool lost;
  absl::Status released;
};

Seen Look(LockLease& lease) { return {lease.valid(), lease.lost().stop_requested(), lease.Release()}; }

// For a holder that another thread notifies of its loss.
Seen LookOnceTold(LockLease& lease) {
  Await("a holder to be told", [&] { return lease.lost().stop_requested(); });
  return Look(lease);
}

struct Fate {
  const char* what;
  std::function<Seen(LockServer& server)> make;
};

std::vector<Fate> Fates() {
  return {
      {"nothing",
       [](LockServer& server) {
         Bench b(server);
         LockLease lease = Hold(*b.service, b.name);
         return Look(lease);
       }},
      {"a fixed lease is over",
       [](LockServer& server) {
         Bench b(server);
         LockLease lease = Hold(*b.service, b.name, {.lease = kShortLease});
         return LookOnceTold(lease);
       }},
      {"force-released, a renewal has been due",
       [](LockServer& server) {
         Bench b(server, kShortLease);
         LockLease lease = Hold(*b.service, b.name);
         EXPECT_TRUE(b.others->ForceRelease(b.name).ok());  // Lost already, on a busy machine.
         return LookOnceTold(lease);
       }},
      {"force-released, released before the next renewal",
       [](LockServer& server) {
         Bench b(server);
         LockLease lease = Hold(*b.service, b.name);
         EXPECT_TRUE(b.others->ForceRelease(b.name).value());
         return Look(lease);
       }},
      {"the server came back empty",
       [](LockServer& server) {
         Bench b(server, kShortLease);
         LockLease lease = Hold(*b.service, b.name);
         b.server.RestartEmpty();
         return LookOnceTold(lease);
       }},
      {"another owner has it after the server came back empty",
       [](LockServer& server) {
         Bench b(server, kShortLease);
         LockLease lease = Hold(*b.service, b.name);
         b.server.RestartEmpty();
         LockLease next = Hold(*b.others, b.name, {.lease = kLongLease});
         Seen seen = LookOnceTold(lease);
         const absl::Status undisturbed = next.Release();
         EXPECT_TRUE(undisturbed.ok()) << undisturbed;
         return seen;
       }},
      {"the server was away for less than the lease, with its data",
       [](LockServer& server) {
         Bench b(server);
         LockLease lease = Hold(*b.service, b.name);
         b.server.Restart();
         return Look(lease);
       }},
      {"the server is away for longer than the lease",
       [](LockServer& server) {
         Bench b(server, kShortLease, kEngineTimeout);
         LockLease lease = Hold(*b.service, b.name);
         b.TakeServerAway();
         return LookOnceTold(lease);
       }},
      {"the server is away at the release",
       [](LockServer& server) {
         Bench b(server, kLongLease, kEngineTimeout);
         LockLease lease = Hold(*b.service, b.name);
         b.TakeServerAway();
         return Look(lease);
       }},
      {"the release's reply was lost, the server had run it",
       [](LockServer& server) {
         Bench b(server);
         LockLease lease = Hold(*b.service, b.name);
         b.proxy.DropReply();
         Seen seen = Look(lease);
         EXPECT_FALSE(b.others->Inspect(b.name).value().locked);
         return seen;
       }},
      {"it was already released",
       [](LockServer& server) {
         Bench b(server);
         LockLease lease = Hold(*b.service, b.name);
         EXPECT_TRUE(lease.Release().ok());
         return Look(lease);
       }},
      {"the service was destroyed",
       [](LockServer& server) {
         Bench b(server);
         LockLease lease = Hold(*b.service, b.name);
         b.service.reset();
         return LookOnceTold(lease);
       }},
  };
}

TEST_P(LockOutcomesTest, EachFateOfAHold_IsSeenAsTheDocumentSays) {
  std::vector<std::string> all;
  for (const Fate& fate : Fates()) {
    SCOPED_TRACE(fate.what);
    const Seen seen = fate.make(*server_);
    all.push_back("| " + std::string(fate.what) + " | " + (seen.valid ? "true" : "false") + " | " +
                  (seen.lost ? "fires" : "silent") + " | " + Told(seen.released) + " |");
  }
  ExpectRows("| what happened |", all);
}

}  // namespace
}  // namespace stockade::testing
