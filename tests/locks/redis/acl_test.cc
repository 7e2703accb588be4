// Locks with a user that may do only what redis/README.md says they need. The rules are read from there.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "docs/document_table.h"
#include "locks/redis/redis_engine_fixture.h"
#include "redis/support/ear.h"
#include "redis/support/redis_deployment.h"
#include "stockade/base/strings.h"
#include "stockade/locks/redis_lock_service.h"
#include "stockade/redis/redis_client.h"

namespace stockade {
namespace {

using base_internal::Concat;
using locks_internal::RedisLockEngine;
using testing::Holder;
using testing::RedisServer;
using testing::RedisSetup;

// Of the rows whose first two cells are these.
std::vector<std::string> DocumentedRules(const std::string& part, const std::string& when) {
  std::vector<std::string> rules;
  for (const std::string& row : testing::DocumentedTable("redis/README.md", "| part | when | rules |")) {
    const std::string line = absl::StrReplaceAll(row, {{"\\|", "\1"}});
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 5 || cells[1] != Concat(" ", part, " ") || cells[2] != Concat(" ", when, " ")) continue;
    const std::vector<std::string> words = absl::StrSplit(cells[3], absl::ByAnyChar(" `"), absl::SkipEmpty());
    for (const std::string& rule : words) {
      rules.push_back(absl::StrReplaceAll(rule, {{"\1", "|"}}));
    }
  }
  EXPECT_FALSE(rules.empty()) << "no rules for " << part << ", " << when;
  return rules;
}

std::vector<std::string> RulesOfLocks(RedisSetup setup) {
  std::vector<std::string> rules = {"locker", "on", ">secret", "resetkeys", "resetchannels", "-@all"};
  const auto add = [&rules](const std::string& part, const std::string& when) {
    for (std::string& rule : DocumentedRules(part, when)) rules.push_back(std::move(rule));
  };
  add("each client", "always");
  add("locks", "always");
  add("locks", "keys of names that begin with `lock:`");
  add("locks", "channels of these names");
  if (setup == RedisSetup::kSentinel) add("each client", "Sentinels");
  if (setup == RedisSetup::kCluster) {
    add("each client", "a cluster");
    add("locks", "a cluster of Redis 7");
  }
  return rules;
}

std::string Joined(const std::vector<std::string>& rules, const std::string& without = "") {
  std::string joined;
  for (const std::string& rule : rules) {
    if (rule != without) joined += Concat(joined.empty() ? "" : " ", rule);
  }
  return joined;
}

std::string AsLocker(const std::string& url) { return absl::StrReplaceAll(url, {{"://", "://locker:secret@"}}); }

// Takes, waits for, renews, releases and frees locks of all kinds, and leaves one to an application, for which `client`
// writes. The first error that is met.
absl::Status UseLocks(RedisLockEngine& engine, RedisClient& client, const std::string& name) {
  constexpr absl::Duration kTimeout = absl::Seconds(20);
  absl::Status status;
  const auto check = [&status](std::string_view what, const absl::Status& result, bool expected = true) {
    if (!status.ok()) return;
    if (!result.ok()) status = absl::Status(result.code(), Concat(what, ": ", std::string(result.message())));
    if (result.ok() && !expected) status = absl::InternalError(Concat(what, ": not the expected answer"));
  };
  const auto inspect = [&](const Holder& holder) {
    check("inspect", engine.Inspect(holder.hold().name, holder.hold().owner, kTimeout).status());
  };
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    const std::string lock = Concat(name, std::string(LockKindName(kind)));
    const LockKind other = kind == LockKind::kRead ? LockKind::kWrite : kind;
    Holder holder(engine, lock, kind), waiter(engine, lock, other), second(engine, lock, other);
    LockTry step = holder.Queue();
    check("acquire", step.status, step.acquired);
    step = holder.Queue();
    check("re-enter", step.status, step.hold_count == 2);
    for (Holder* const waits : {&waiter, &second}) {
      step = waits->Queue();
      check("wait", step.status, !step.acquired);
    }
    LockRenewal renewal = {.hold = holder.hold(), .lease = absl::Seconds(60), .sequence = holder.sequence()};
    engine.RenewMany({&renewal, 1}, kTimeout);
    check("renew", renewal.status, renewal.held);
    inspect(holder);
    for (const int64_t keep : {1, 0}) {
      const LockRelease released = holder.Release(keep);
      check("release", released.status, released.held);
    }
    step = waiter.Queue();
    check("the waiter's turn", step.status, step.acquired);
    inspect(waiter);
    check("give up", second.GiveUp().status);
    const auto freed = engine.ForceRelease(lock, kTimeout);
    check("force release", freed.status(), freed.ok() && freed->has_value());
  }
  // A reader whose hold has lapsed beside one whose hold has not; and a reader that writes as well.
  const std::string lock = Concat(name, "mixed");
  Holder brief(engine, lock, LockKind::kRead), reader(engine, lock, LockKind::kRead);
  check("read briefly", brief.Try(absl::Milliseconds(1)).status);
  check("read", reader.Try().status);
  inspect(reader);
  check("release a read hold", reader.Release().status);
  Holder writer(engine, lock, LockKind::kWrite);
  check("write", writer.Try().status);
  check("read within", Holder(engine, lock, LockKind::kRead, LockOwner::New()).Try().status);
  check("release a write hold", writer.Release().status);
  Holder displaced(engine, name);
  check("acquire", displaced.Try().status);
  check("write", client.Run(RedisCommand("HSET").Key(name).Arg("title").Arg("shoe")).status());
  check("release what an application has written into", displaced.Release().status);
  check("delete", client.Run(RedisCommand("DEL").Key(name)).status());
  return status;
}

class RedisLockAclTest : public ::testing::TestWithParam<RedisSetup> {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }
};

INSTANTIATE_TEST_SUITE_P(Redis, RedisLockAclTest, ::testing::ValuesIn(testing::RedisSetups()), testing::RedisSetupName);

TEST_P(RedisLockAclTest, UserWithTheDocumentedRules_EveryStepOfEveryKindWorks_NothingElseDoes) {
  testing::RedisDeployment servers(GetParam(), absl::Seconds(10), {Joined(RulesOfLocks(GetParam()))});
  const std::string url = AsLocker(servers.url());
  const auto engine = testing::EngineOn(url);
  ASSERT_NE(engine, nullptr);
  const auto client = RedisClient::Connect(url);
  ASSERT_TRUE(client.ok()) << client.status();
  for (const std::string name : {"lock:foo", "lock:bar", "lock:c"}) {
    ASSERT_EQ(UseLocks(*engine, **client, name), absl::OkStatus()) << name;
    Holder holder(*engine, name);
    testing::Ear ear;
    ASSERT_TRUE(holder.Queue().acquired);
    const std::unique_ptr<LockWatch> watch = Holder(*engine, name).Hear(testing::HintTo(ear));
    ASSERT_TRUE(ear.AwaitMessages(1)) << "subscribed";
    EXPECT_TRUE(holder.Release().held);
    EXPECT_TRUE(ear.AwaitMessages(2)) << "released";
  }
  // The service, with a waiter that a message wakes, and a watchdog.
  const auto locks = RedisLockService::Connect(url);
  ASSERT_TRUE(locks.ok()) << locks.status();
  EXPECT_TRUE((*client)->ServerOf("lock:foo").value().run_id.ok());
  EXPECT_TRUE((*locks)->Acquire("lock:foo").ok());
  const absl::Status elsewhere = (*locks)->Acquire("stock").status();
  EXPECT_FALSE(elsewhere.ok());
  EXPECT_NE(elsewhere.message().find("NOPERM"), std::string::npos) << elsewhere;
  for (const RedisCommand& command :
       {RedisCommand("GET").Key("stock"), RedisCommand("FLUSHALL"), RedisCommand("KEYS").Arg("*"),
        RedisCommand("PUBLISH").Arg("sales").Arg("x"), RedisCommand("CONFIG").Arg("GET").Arg("*")}) {
    EXPECT_EQ(RedisErrorCode((*client)->Run(command).status()), "NOPERM") << command.name();
  }
}

// So the list has nothing that the locks do not need.
TEST(RedisLockAclExactTest, UserWithoutOneOfTheDocumentedCommands_LocksFail) {
  STOCKADE_NEEDS_REDIS();
  const std::vector<std::string> rules = RulesOfLocks(RedisSetup::kStandalone);
  RedisServer server;
  const auto set_user = [&](const std::string& without) {
    std::vector<std::string> command = absl::StrSplit(Joined(rules, without), ' ');
    command.insert(command.begin(), {"ACL", "SETUSER"});
    EXPECT_EQ(server.Call({"ACL", "DELUSER", "locker"}).type, ':');
    EXPECT_EQ(server.Call(command), "OK");
    EXPECT_EQ(server.Call({"SCRIPT", "FLUSH"}), "OK");
    EXPECT_EQ(server.Call({"FLUSHALL"}), "OK");
    return testing::EngineOn(AsLocker(server.url()));
  };
  const auto use_locks = [&](RedisLockEngine& engine, const std::string& name) {
    const auto client = RedisClient::Connect(AsLocker(server.url()));
    return client.ok() ? UseLocks(engine, **client, name) : client.status();
  };
  EXPECT_EQ(use_locks(*set_user(""), "lock:all"), absl::OkStatus());
  for (const std::string& rule : DocumentedRules("locks", "always")) {
    const auto engine = set_user(rule);
    ASSERT_NE(engine, nullptr);
    if (rule == "+subscribe") {
      const auto client = RedisClient::Connect(AsLocker(server.url()));
      const auto heard = (*client)->Subscribe("redisson_lock__channel:{lock:a}", {});
      EXPECT_TRUE(absl::IsPermissionDenied(heard->AwaitSubscribed(absl::Minutes(1))));
    } else if (rule != "+unsubscribe") {  // Its refusal ends the connection, and the next one is as good.
      EXPECT_TRUE(absl::IsPermissionDenied(use_locks(*engine, "lock:some"))) << "without " << rule;
      for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
        const std::string name = Concat("lock:try-", std::string(LockKindName(kind)));
        if (!Holder(*engine, name, kind).Try().acquired) {
          EXPECT_NE(server.Call({"PTTL", name}).text, "-1") << name << " would stay for ever without " << rule;
        }
      }
    }
  }
}

// As a user that was set up before the locks needed PERSIST.
TEST(RedisLockAclExactTest, UserWithoutPersist_OnlyAWrittenKeyFails_AndKeepsItsHold) {
  STOCKADE_NEEDS_REDIS();
  std::vector<std::string> command = {"ACL", "SETUSER"};
  for (const std::string& rule : RulesOfLocks(RedisSetup::kStandalone)) {
    if (rule != "+persist") command.push_back(rule);
  }
  RedisServer server;
  ASSERT_EQ(server.Call(command), "OK");
  const auto engine = testing::EngineOn(AsLocker(server.url()));
  ASSERT_NE(engine, nullptr);
  Holder written(*engine, "lock:written"), other(*engine, "lock:other");
  for (Holder* const holder : {&written, &other}) ASSERT_TRUE(holder->Try().acquired);
  ASSERT_EQ(server.Call({"HSET", "lock:written", "title", "shoe"}).type, ':');
  LockRenewal renewals[] = {{.hold = written.hold(), .lease = absl::Seconds(60), .sequence = written.sequence()},
                            {.hold = other.hold(), .lease = absl::Seconds(60), .sequence = other.sequence()}};
  engine->RenewMany(renewals, absl::Seconds(20));
  EXPECT_TRUE(absl::IsPermissionDenied(renewals[0].status)) << renewals[0].status;
  EXPECT_TRUE(renewals[1].status.ok() && renewals[1].held) << renewals[1].status;
  EXPECT_TRUE(absl::IsPermissionDenied(written.Try().status));
  EXPECT_TRUE(absl::IsPermissionDenied(written.Release().status));
  EXPECT_EQ(server.Call({"HLEN", "lock:written"}).text, "2");
  EXPECT_TRUE(other.Release().held);
}

}  // namespace
}  // namespace stockade
