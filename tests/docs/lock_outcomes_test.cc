// The tables of docs/DISTRIBUTED_LOCKS.md, "every failure": each is made, and what its caller sees put into the tables'
// words.

#include <gtest/gtest.h>

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
#include "docs/test_names.h"
#include "redis/support/redis_server.h"
#include "stockade/locks/redis_lock_service.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

// Nothing of it is over while a test looks.
constexpr absl::Duration kLongLease = absl::Seconds(60);
constexpr absl::Duration kShortLease = absl::Milliseconds(600);
constexpr absl::Duration kEngineTimeout = absl::Seconds(1);

struct Bench {
  explicit Bench(absl::Duration lease = kLongLease, RedisLockOptions options = {})
      : server({.appendonly = lease == kLongLease}), proxy(server.port()) {
    options.service = {.watchdog_lease = lease, .engine_timeout = kEngineTimeout, .metrics = nullptr};
    options.redis.metrics = nullptr;
    service = RedisLockService::Connect(testing::RedisUrl(proxy.port()), options).value();
    others = RedisLockService::Connect(server.url(), options).value();
  }
  absl::Status Acquire(const AcquireOptions& options = {}) { return service->Acquire("ticket", options).status(); }
  void TakeServerAway() {
    proxy.Refuse();
    proxy.CloseAll();
  }

  RedisServer server;
  TcpProxy proxy;
  std::unique_ptr<LockService> service;
  std::unique_ptr<LockService> others;  // Of another process, as far as the server knows; always reaches it.
};

struct FailedAcquire {
  const char* what;
  std::function<absl::Status()> make;
};

std::vector<FailedAcquire> FailedAcquires() {
  return {
      {"others hold it for longer than `wait`",
       [] {
         Bench b;
         const LockLease held = b.others->Acquire("ticket").value();
         return b.Acquire({.wait = absl::Milliseconds(30)});
       }},
      {"nobody listens at the server's address",
       [] {
         Bench b;
         b.TakeServerAway();
         return b.Acquire();
       }},
      {"the server accepts and does not answer",
       [] {
         Bench b;
         b.proxy.Hold();
         return b.Acquire();
       }},
      {"the reply was lost, the server had run it",
       [] {
         Bench b;
         b.proxy.DropReply();
         absl::StatusOr<LockLease> held = b.service->Acquire("ticket");
         if (held.ok()) {
           EXPECT_EQ(b.service->Inspect("ticket").value().owner_holds, 1);
         }
         return held.status();
       }},
      {"`stop` was requested",
       [] {
         Bench b;
         std::stop_source stop;
         const LockLease held = b.others->Acquire("ticket").value();
         stop.request_stop();
         return b.Acquire({.stop = stop.get_token()});
       }},
      {"the service was destroyed meanwhile",
       [] {
         Bench b;
         const LockLease held = b.others->Acquire("ticket").value();
         std::promise<absl::Status> told;
         b.service->AcquireAsync("ticket", {},
                                 [&](const absl::StatusOr<LockLease>& lease) { told.set_value(lease.status()); });
         b.service.reset();
         return told.get_future().get();
       }},
      {"the name is empty or too long, an option out of range",
       [] {
         Bench b;
         EXPECT_TRUE(absl::IsInvalidArgument(b.service->Acquire("").status()));
         EXPECT_TRUE(absl::IsInvalidArgument(b.service->Acquire(std::string(kMaxLockNameBytes + 1, 'x')).status()));
         return b.Acquire({.lease = absl::Nanoseconds(1)});
       }},
      {"to write while the owner only reads",
       [] {
         Bench b;
         const LockLease held = b.service->Acquire("ticket", {.kind = LockKind::kRead}).value();
         return b.Acquire({.kind = LockKind::kWrite});
       }},
      {"the name is used with another kind",
       [] {
         Bench b;
         const LockLease held = b.others->Acquire("ticket").value();
         return b.Acquire({.kind = LockKind::kRead});
       }},
      {"the answer came after the lease was over",
       [] {
         Bench b;
         EXPECT_TRUE(b.Acquire().ok());  // From now on the server knows the script.
         b.proxy.Hold();
         auto asked = std::async(std::launch::async, [&] { return b.Acquire({.lease = kMinLease}); });
         EXPECT_TRUE(b.proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
         Await("the lease to lapse", [&] { return !b.others->Inspect("ticket").value().locked; });
         b.proxy.Release();
         return asked.get();
       }},
      {"fewer than `min_replicas` confirmed",
       [] {
         Bench b(kLongLease, {.min_replicas = 1});
         return b.Acquire();
       }},
  };
}

void ExpectRows(const std::string& head, const std::vector<std::string>& seen) {
  std::vector<std::string> documented = DocumentedTable("docs/DISTRIBUTED_LOCKS.md", head);
  ASSERT_GT(documented.size(), 2u);
  documented.erase(documented.begin(), documented.begin() + 2);  // The head, and the line below it.
  ASSERT_EQ(documented.size(), seen.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_TRUE(documented[i].starts_with(seen[i])) << documented[i] << "\nbut it is\n" << seen[i];
  }
}

std::string Told(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

TEST(LockOutcomesTest, EachFailedAcquire_IsToldAsTheDocumentSays) {
  STOCKADE_NEEDS_REDIS();
  std::vector<std::string> seen;
  for (const FailedAcquire& failure : FailedAcquires()) {
    seen.push_back("| " + std::string(failure.what) + " | " + Told(failure.make()) + " |");
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

// Of one that is to be told of its loss, which another thread does.
Seen LookOnceTold(LockLease& lease) {
  Await("a holder to be told", [&] { return lease.lost().stop_requested(); });
  return Look(lease);
}

struct Fate {
  const char* what;
  std::function<Seen()> make;
};

std::vector<Fate> Fates() {
  return {
      {"nothing",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket").value();
         return Look(lease);
       }},
      {"a fixed lease is over",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket", {.lease = kShortLease}).value();
         return LookOnceTold(lease);
       }},
      {"force-released, a renewal has been due",
       [] {
         Bench b(kShortLease);
         LockLease lease = b.service->Acquire("ticket").value();
         EXPECT_TRUE(b.others->ForceRelease("ticket").value());
         return LookOnceTold(lease);
       }},
      {"force-released, released before the next renewal",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket").value();
         EXPECT_TRUE(b.others->ForceRelease("ticket").value());
         return Look(lease);
       }},
      {"the server came back empty",
       [] {
         Bench b(kShortLease);
         LockLease lease = b.service->Acquire("ticket").value();
         b.server.Restart();
         return LookOnceTold(lease);
       }},
      {"another has it after the server came back empty",
       [] {
         Bench b(kShortLease);
         LockLease lease = b.service->Acquire("ticket").value();
         b.server.Restart();
         LockLease next = b.others->Acquire("ticket", {.lease = kLongLease}).value();
         Seen seen = LookOnceTold(lease);
         const absl::Status undisturbed = next.Release();
         EXPECT_TRUE(undisturbed.ok()) << undisturbed;
         return seen;
       }},
      {"the server was away for less than the lease, with its data",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket").value();
         b.server.Restart();
         return Look(lease);
       }},
      {"the server is away for longer than the lease",
       [] {
         Bench b(kShortLease);
         LockLease lease = b.service->Acquire("ticket").value();
         b.TakeServerAway();
         return LookOnceTold(lease);
       }},
      {"the server is away at the release",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket").value();
         b.TakeServerAway();
         return Look(lease);
       }},
      {"the release's reply was lost, the server had run it",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket").value();
         b.proxy.DropReply();
         Seen seen = Look(lease);
         EXPECT_FALSE(b.others->Inspect("ticket").value().locked);
         return seen;
       }},
      {"it was released before",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket").value();
         EXPECT_TRUE(lease.Release().ok());
         return Look(lease);
       }},
      {"the service was destroyed",
       [] {
         Bench b;
         LockLease lease = b.service->Acquire("ticket").value();
         b.service.reset();
         return LookOnceTold(lease);
       }},
  };
}

TEST(LockOutcomesTest, EachFateOfAHold_IsSeenAsTheDocumentSays) {
  STOCKADE_NEEDS_REDIS();
  std::vector<std::string> all;
  for (const Fate& fate : Fates()) {
    const Seen seen = fate.make();
    all.push_back("| " + std::string(fate.what) + " | " + (seen.valid ? "true" : "false") + " | " +
                  (seen.lost ? "fires" : "silent") + " | " + Told(seen.released) + " |");
  }
  ExpectRows("| what happened |", all);
}

TEST(LockOutcomesTest, PromiseTables_NameTestsThatThereAre) {
  const std::set<std::string> tests = TestNames("tests/locks");
  const std::regex name(R"(`(\w+Test\.\w+)`)");
  std::ifstream document(std::string(STOCKADE_SOURCE_DIR) + "/docs/DISTRIBUTED_LOCKS.md");
  int named = 0;
  for (std::string line; std::getline(document, line);) {
    for (std::sregex_iterator match(line.begin(), line.end(), name), end; match != end; ++match, ++named) {
      EXPECT_TRUE(tests.contains((*match)[1])) << line;
    }
  }
  EXPECT_GE(named, 6);
}

}  // namespace
}  // namespace stockade::testing
