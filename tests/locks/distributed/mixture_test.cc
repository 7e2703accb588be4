// Random steps of several services on few names: kinds, owners, Inspect(), ForceRelease(), data of the application
// under the names of locks, and a server whose clock steps back and which has forgotten the last acquires, as after a
// failover. After each step: who is inside excludes the others, tokens have grown, and Inspect() says what is so.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/local_clients.h"
#include "redis/support/redis_server.h"
#include "stockade/base/manual_clock.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/server_clock.h"
#include "support/test_seed.h"
#ifdef STOCKADE_HAS_LOCKS_MYSQL
#include "mysql/support/mariadb_server.h"
#endif
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
#include "zookeeper/support/zookeeper_server.h"
#endif

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;

constexpr absl::Duration kLease = absl::Minutes(10);
constexpr int kServices = 3;
constexpr int kOwners = 2;  // Of each service.
const char* const kNames[] = {"seat-1", "seat-2", "{seat}-3"};

// The servers of one engine, and what happens to them.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::unique_ptr<LockService> NewService(LockServiceOptions options) = 0;
  virtual std::vector<LockKind> kinds() const {
    return {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite};
  }
  // Whether several servers decide by majority.
  virtual bool majority() const { return false; }
  // Whether the server's clock decides when a hold ends.
  virtual bool leases() const { return true; }
  virtual void StepClock(absl::Duration) {}
  // Of a lock that nobody has.
  virtual void Forget(const std::string& /*name*/) {}
  // Names that have data of the application, and what they have.
  virtual std::vector<std::string> foreign() const { return {}; }
  virtual std::string ForeignData() const { return ""; }
};

class LocalEngine final : public Engine {
 public:
  std::unique_ptr<LockService> NewService(LockServiceOptions options) override { return clients_.New(options); }

 private:
  testing::LocalClients clients_;
};

class RedisEngine : public Engine {
 public:
  explicit RedisEngine(int servers = 1) {
    for (int i = 0; i < servers; ++i) {
      servers_.push_back(
          std::make_unique<testing::RedisServer>(testing::RedisServerOptions{.environment = clock_.environment()}));
      Call(i, {"HSET", "title", "shoe", "3000000"});
      Call(i, {"HSET", "moded", "mode", "read", "shoe", "3000000"});
      Call(i, {"SET", "text", "shoe"});
      Call(i, {"RPUSH", "list", "shoe"});
    }
  }

  std::unique_ptr<LockService> NewService(LockServiceOptions options) override {
    return testing::ConnectLockService(servers_[0]->url(), options);
  }
  void StepClock(absl::Duration by) override { clock_.Step(by); }
  void Forget(const std::string& name) override {
    for (size_t i = 0; i < servers_.size(); ++i) {
      for (const testing::RawReply& key : Call(i, {"KEYS", "*" + name + "*"}).items) {
        Call(i, {"DEL", key.text});
      }
    }
  }
  std::vector<std::string> foreign() const override { return {"title", "moded", "text", "list"}; }
  std::string ForeignData() const override {
    std::string data;
    for (size_t i = 0; i < servers_.size(); ++i) {
      for (const std::string& name : foreign()) {
        data += Concat(Call(i, {"DUMP", name}).text, Call(i, {"PTTL", name}).text, ";");
      }
    }
    return data;
  }

 protected:
  testing::RawReply Call(size_t server, const std::vector<std::string>& command) const {
    return servers_[server]->Call(command);
  }

  testing::ServerClock clock_;
  std::vector<std::unique_ptr<testing::RedisServer>> servers_;
};

class RedlockEngine final : public RedisEngine {
 public:
  RedlockEngine() : RedisEngine(3) {}

  std::unique_ptr<LockService> NewService(LockServiceOptions options) override {
    std::string urls;
    for (const auto& server : servers_) urls += (urls.empty() ? "" : ",") + server->url();
    return testing::ConnectLockService(std::string(testing::kRedlockScheme) + urls, options);
  }
  std::vector<LockKind> kinds() const override { return {LockKind::kReentrant}; }
  bool majority() const override { return true; }
};

#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
class ZooKeeperEngine final : public Engine {
 public:
  std::unique_ptr<LockService> NewService(LockServiceOptions options) override {
    options.clock = Clock::System();  // Sessions are alive by it.
    const uint16_t port = server_.port();
    return testing::ConnectLockService(testing::ZooKeeperUrl({&port, 1}, server_.tick()), options);
  }
  bool leases() const override { return false; }

 private:
  testing::ZooKeeperServer server_;
};
#endif

#ifdef STOCKADE_HAS_LOCKS_MYSQL
class MySqlEngine final : public Engine {
 public:
  std::unique_ptr<LockService> NewService(LockServiceOptions options) override {
    return testing::ConnectLockService(testing::MariaDbServer::UrlOf(server_.port()), options);
  }
  std::vector<LockKind> kinds() const override { return {LockKind::kReentrant, LockKind::kRead, LockKind::kWrite}; }
  // The server measures its own waits by that clock, too, so the ends of holds are moved instead.
  void StepClock(absl::Duration by) override {
    server_.Query(Concat("UPDATE test.stockade_lock_holds SET expires_at = expires_at - ",
                         absl::ToInt64Microseconds(by), " WHERE hold_count > 0"));
  }
  void Forget(const std::string& name) override {
    for (const char* const table : {"stockade_lock_holds", "stockade_locks"}) {
      server_.Query(Concat("DELETE FROM test.", table, " WHERE name = '", name, "'"));
    }
  }

 private:
  testing::MariaDbServer server_;
};
#endif

struct EngineCase {
  const char* name;
  std::unique_ptr<Engine> (*make)();
};

template <typename T>
std::unique_ptr<Engine> Make() {
  return std::make_unique<T>();
}

std::vector<EngineCase> Engines() {
  return {
      {"Local", &Make<LocalEngine>},         {"Redis", &Make<RedisEngine>}, {"Redlock", &Make<RedlockEngine>},
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
      {"ZooKeeper", &Make<ZooKeeperEngine>},
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
      {"MySql", &Make<MySqlEngine>},
#endif
  };
}

class MixtureTest : public ::testing::TestWithParam<EngineCase> {
 protected:
  struct Held {
    int service;
    LockLease lease;
  };

  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
#ifdef STOCKADE_HAS_LOCKS_ZOOKEEPER
    STOCKADE_NEEDS_ZOOKEEPER();
#endif
#ifdef STOCKADE_HAS_LOCKS_MYSQL
    STOCKADE_NEEDS_MARIADB();
#endif
    engine_ = GetParam().make();
    last_step_ = Clock::System()->Now();
    for (int i = 0; i < kServices; ++i) {
      services_.push_back(engine_->NewService(
          {.watchdog_lease = kLease, .engine_timeout = absl::Minutes(1), .clock = &clock_, .metrics = nullptr}));
      for (int j = 0; j < kOwners; ++j) owners_.push_back(LockOwner::New());
      // Each has had a token of the server before it fails.
      EXPECT_TRUE(services_.back()->Acquire(Concat("first ", i)).ok());
    }
    foreign_data_ = engine_->ForeignData();
  }

  // The clients' clock, which stands still in a step, goes no slower than the servers'.
  void PassTime() {
    const Instant now = Clock::System()->Now();
    const absl::Duration step = std::max(now - std::exchange(last_step_, now), absl::Milliseconds(1));
    longest_step_ = std::max(longest_step_, step);
    clock_.Advance(step);
  }

  template <typename T>
  const T& Any(const std::vector<T>& of) {
    return of[random_() % of.size()];
  }
  std::string AnyName() { return kNames[random_() % std::size(kNames)]; }
  LockOwner AnyOwner(int service) { return owners_[static_cast<size_t>(service) * kOwners + random_() % kOwners]; }

  void Acquire() {
    const int service = static_cast<int>(random_() % kServices);
    const std::string name = AnyName();
    const LockKind kind = Any(engine_->kinds());
    const LockOwner owner = AnyOwner(service);
    absl::StatusOr<LockLease> lease = services_[static_cast<size_t>(service)]->Acquire(
        name, {.kind = kind, .wait = absl::ZeroDuration(), .owner = owner});
    step_ = Concat("acquire ", name, " as ", LockKindName(kind), " by ", service, "/", owner.id(), ": ",
                   lease.status().ToString());
    if (!lease.ok()) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(lease.status()) || absl::IsFailedPrecondition(lease.status()));
      return;
    }
    const bool first = std::ranges::none_of(
        held_, [&](const Held& one) { return one.lease.name() == name && one.lease.owner() == owner; });
    const absl::StatusOr<int64_t> token = lease->fencing_token();
    if (token.ok() && first) {
      int64_t& before = kind == LockKind::kRead ? written_[name] : newest_[name];
      EXPECT_GT(*token, before) << "a token has gone back";
      newest_[name] = std::max(newest_[name], *token);
      if (kind != LockKind::kRead) written_[name] = *token;
    }
    held_.push_back({service, *std::move(lease)});
  }

  void Release() {
    if (held_.empty()) return;
    const size_t place = random_() % held_.size();
    step_ = Concat("release ", held_[place].lease.name(), " by ", held_[place].service, "/",
                   held_[place].lease.owner().id());
    const absl::Status released = held_[place].lease.Release();
    EXPECT_TRUE(released.ok()) << released;
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(place));
  }

  // What those who are inside hold a lock as.
  std::optional<LockKind> KindOf(std::string_view name) const {
    std::optional<LockKind> kind;
    for (const Held& one : held_) {
      if (one.lease.name() == name && one.lease.valid())
        kind = std::max(kind.value_or(one.lease.kind()), one.lease.kind());
    }
    return kind;
  }

  void Inspect() {
    const int service = static_cast<int>(random_() % kServices);
    const std::string name = AnyName();
    const LockOwner owner = AnyOwner(service);
    const absl::StatusOr<LockState> state = services_[static_cast<size_t>(service)]->Inspect(name, owner);
    step_ = Concat("inspect ", name, " of ", service, "/", owner.id());
    ASSERT_TRUE(state.ok()) << state.status();
    const std::optional<LockKind> kind = KindOf(name);
    EXPECT_EQ(state->locked, kind.has_value());
    if (kind) {
      EXPECT_EQ(state->kind, *kind);
    }
    EXPECT_EQ(state->owner_holds, std::ranges::count_if(held_, [&](const Held& one) {
                return one.lease.name() == name && one.lease.owner() == owner;
              }));
  }

  // Its holders are lost; they learn it at the release, at the latest.
  void ForceRelease() {
    const std::string name = AnyName();
    step_ = "force " + name;
    const absl::StatusOr<std::optional<LockKind>> freed = services_[random_() % kServices]->ForceRelease(name);
    ASSERT_TRUE(freed.ok()) << freed.status();
    // RedLock ends a release with the answers of a majority: another server may have the hold a moment longer.
    if (KindOf(name) || !engine_->majority()) {
      EXPECT_EQ(*freed, KindOf(name));
    }
    std::erase_if(held_, [&](Held& one) {
      if (one.lease.name() != name) return false;
      const absl::Status released = one.lease.Release();
      // Where clients count re-entries, only the last release asks the server.
      EXPECT_TRUE(absl::IsFailedPrecondition(released) || !engine_->leases()) << released;
      return true;
    });
  }

  void TouchForeignData() {
    if (engine_->foreign().empty()) return;
    const std::string name = Any(engine_->foreign());
    LockService& service = *services_[random_() % kServices];
    const LockKind kind = Any(engine_->kinds());
    step_ = Concat("foreign data ", name, " as ", LockKindName(kind));
    EXPECT_FALSE(service.Acquire(name, {.kind = kind, .wait = absl::ZeroDuration()}).ok());
    EXPECT_FALSE(service.Inspect(name).ok());
    EXPECT_FALSE(service.ForceRelease(name).ok());
    EXPECT_EQ(engine_->ForeignData(), foreign_data_);
  }

  // As a failover to a server whose clock is behind, and which missed the last acquires and releases.
  void FailOver() {
    step_ = "fail over";
    clock_.Advance(longest_step_);  // What clients know of the server's time is as exact as that.
    engine_->StepClock(-absl::Seconds(1 + static_cast<int64_t>(random_() % 3600)));
    for (const char* const name : kNames) {
      if (!KindOf(name)) engine_->Forget(name);
    }
  }

  // After that all that is held is held for a lease from now, not for longer.
  void Renew() {
    if (!engine_->leases()) return;
    step_ = "renew";
    const Instant before = clock_.Now();
    clock_.Advance(kLease / 3);
    for (const Held& one : held_) {
      Await("a renewal", [&] {
        if (!one.lease.valid() || one.lease.remaining() > kLease * 0.75) return true;
        clock_.Advance(
            absl::Seconds(1));  // To its next try: a database may give up a wait for a row, as its clock steps.
        return false;
      });
      ASSERT_TRUE(one.lease.valid()) << one.lease.name() << " of " << one.service << "/" << one.lease.owner().id();
    }
    for (const Held& one : held_) {  // When all are renewed: a lock lives as long as its longest reader.
      const absl::StatusOr<LockState> state = services_[0]->Inspect(one.lease.name());
      ASSERT_TRUE(state.ok()) << state.status();
      EXPECT_LE(state->remaining, kLease) << one.lease.name() << " for a hold since " << (clock_.Now() - before);
    }
  }

  void CheckExclusion() {
    for (const std::string name : kNames) {
      std::set<std::pair<int, OwnerId>> all;
      std::set<std::pair<int, OwnerId>> writers;
      std::set<LockKind> kinds;
      for (const Held& one : held_) {
        if (one.lease.name() != name || !one.lease.valid()) continue;
        const std::pair<int, OwnerId> holder = {one.service, one.lease.owner().id()};
        all.insert(holder);
        if (one.lease.kind() != LockKind::kRead) writers.insert(holder);
        kinds.insert(one.lease.kind() == LockKind::kWrite ? LockKind::kRead : one.lease.kind());
      }
      EXPECT_TRUE(writers.empty() || all.size() == 1) << name << ": " << all.size() << " are inside";
      EXPECT_LE(kinds.size(), 1u) << name << " is held as several kinds";
    }
  }

  std::mt19937_64 random_{testing::Seed()};
  ManualClock clock_;
  Instant last_step_;  // When it began.
  absl::Duration longest_step_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<LockService>> services_;
  std::vector<LockOwner> owners_;
  std::vector<Held> held_;
  std::map<std::string, int64_t> newest_;   // Tokens, by name.
  std::map<std::string, int64_t> written_;  // Of all but readers.
  std::string foreign_data_;
  std::string step_;
};

INSTANTIATE_TEST_SUITE_P(Locks, MixtureTest, ::testing::ValuesIn(Engines()),
                         [](const auto& engine) { return std::string(engine.param.name); });

TEST_P(MixtureTest, RandomSteps_ExclusionTokensAndForeignDataHold) {
  const int64_t steps = testing::Scaled(1500, 30'000);
  for (int64_t i = 0; i < steps && !HasFailure(); ++i) {
    PassTime();
    const uint64_t chosen = random_() % 100;
    if (chosen < 45) {
      Acquire();
    } else if (chosen < 75) {
      Release();
    } else if (chosen < 88) {
      Inspect();
    } else if (chosen < 91) {
      ForceRelease();
    } else if (chosen < 95) {
      TouchForeignData();
    } else if (chosen < 97) {
      FailOver();
    } else {
      Renew();
    }
    CheckExclusion();
    ASSERT_FALSE(HasFailure()) << "step " << i << ": " << step_;
  }
}

}  // namespace
}  // namespace stockade
