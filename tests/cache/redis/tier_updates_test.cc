// Updates of strict caches over Redis: their marks, and what a real server adds to the contract suite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "cache/redis/tier_node.h"
#include "cache/test_cache.h"
#include "redis/support/redis_server.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/locks/lock_service.h"
#include "stockade/locks/redis_lock_service.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

// The lease of "k" of the second codec.
constexpr char kSecondLease[] = "sc1:{test}:l:products:product/2:k";

class TierUpdatesTest : public RedisTierTest {
 protected:
  RedisCacheTierOptions WithLocks(RedisCacheTierOptions options = PatientTier()) {
    options.locks = locks.get();
    return options;
  }
  TierNode SecondCodec() { return TierNode(server.url(), PatientTier(), "products", "product/2"); }
  int64_t LifeMs(const char* key) { return std::stoll(server.Call({"PTTL", key}).text); }

  const std::unique_ptr<LockService> locks = LocalLockService::Create({.metrics = nullptr}).value();
};

// docs/FLEET_CACHE_WIRE.md. To an older version it is a lease of another process.
TEST_F(TierUpdatesTest, Mark_IsALeaseWhoseTokenHasAReservedEnd) {
  TierNode a(server.url());
  const TierMark held = a.Hold("k", 0x0102030405060708);
  ASSERT_EQ(held.kind, Mark::kStands);
  const std::string mark = server.Call({"GET", kLease}).text;
  ASSERT_EQ(mark.size(), 49u);
  EXPECT_EQ(mark.substr(0, 33), "L" + server.Call({"HGET", kState, "i"}).text + held.token);
  EXPECT_EQ(held.token.substr(8), "upd mark");
  EXPECT_EQ(mark.substr(33, 8), "\1\2\3\4\5\6\7\10");
}

TEST_F(TierUpdatesTest, Hold_SeveralCodecs_MarksEach) {
  TierNode a(server.url());
  TierNode b = SecondCodec();
  ASSERT_EQ(b.Load("k", "old").kind, Filled::kStored);
  const TierMark held = a.Hold("k", 1);
  EXPECT_EQ(a.Ask("k").kind, Answer::kBusy);
  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_EQ(a.Release("k", held).kind, Mark::kStands);
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierUpdatesTest, Release_ACodecWasRegisteredSince_IsLost) {
  TierNode a(server.url());
  const TierMark held = a.Hold("k", 1);
  TierNode b = SecondCodec();
  ASSERT_EQ(b.Load("k", "old").kind, Filled::kStored) << "it has no mark";
  EXPECT_EQ(a.Release("k", held).kind, Mark::kLost);
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierUpdatesTest, Release_TheMarkOfAnotherCodecIsGone_IsLost) {
  TierNode a(server.url());
  TierNode b = SecondCodec();
  for (const char* key : {kLease, kSecondLease}) {
    const TierMark held = a.Hold("k", 1);
    server.Call({"DEL", key});
    EXPECT_EQ(a.Release("k", held).kind, Mark::kLost) << key;
  }
}

// The documented script is as old as the first version, and takes a mark for a lease.
TEST_F(TierUpdatesTest, Release_AfterTheScriptOfOtherLanguages_IsLost) {
  std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/docs/fleet_cache_invalidate.lua");
  std::stringstream script;
  script << in.rdbuf();
  TierNode a(server.url());
  const TierMark held = a.Hold("k", 1);
  server.Call({"EVAL", script.str(), "2", kState, kJournal, "products", "k", "k"});
  EXPECT_EQ(a.Release("k", held).kind, Mark::kLost);
}

TEST_F(TierUpdatesTest, Mark_IsRenewedForEachCodecUntilTheRelease) {
  RedisCacheTierOptions options = PatientTier();
  options.lease = absl::Seconds(4);
  TierNode a(server.url(), options);
  TierNode b = SecondCodec();
  const TierMark held = a.Hold("k", 1);
  for (const char* key : {kLease, kSecondLease}) {
    int64_t last = LifeMs(key);
    Await("a renewal", [&] {
      const int64_t now = LifeMs(key);
      return now > std::exchange(last, now);
    });
  }
  EXPECT_EQ(a.tier->Stats().caches[0].leases, 2);
  EXPECT_EQ(a.Release("k", held).kind, Mark::kStands);
  EXPECT_EQ(a.tier->Stats().caches[0].leases, 0);
  EXPECT_EQ(LifeMs(kLease), -2) << "there is none";
  EXPECT_EQ(LifeMs(kSecondLease), -2);
}

TEST_F(TierUpdatesTest, Release_IsNotAccepted_TheMarkIsNotRenewedAnyMore) {
  RedisCacheTierOptions options = PatientTier();
  options.timeout = absl::Milliseconds(200);
  TierNode a(server.url(), options);
  const TierMark held = a.Hold("k", 1);
  ASSERT_EQ(held.kind, Mark::kStands);
  server.Stop();
  EXPECT_EQ(a.Release("k", held).kind, Mark::kAway);
  EXPECT_EQ(a.tier->Stats().caches[0].leases, 0);
  EXPECT_EQ(a.tier->Stats().caches[0].invalidations_pending, 1);
  EXPECT_EQ(a.Hold("k", 2).kind, Mark::kAway);
  server.Restart();
  EXPECT_TRUE(a.AwaitAccepted());
}

// The reply is lost, and the client repeats the step. It finds no mark then, so the update waits again.
TEST_F(TierUpdatesTest, HoldAndRelease_TheirRepliesAreLost_AreRepeated) {
  struct Proxied {
    TcpProxy proxy;
    TierNode node{RedisUrl(proxy.port()), QuietTier()};
  };
  Proxied a{.proxy = TcpProxy(server.port())};
  Proxied b{.proxy = TcpProxy(server.port())};
  const auto with_lost_reply = [&](Proxied& of, auto step) {
    EXPECT_EQ(of.node.Release("warm", of.node.Hold("warm", 1)).kind, Mark::kStands);  // Nothing else is held below.
    const std::string before = server.Call({"EXISTS", kLease}).text;
    of.proxy.Hold();
    TierMark result;
    std::thread calling([&] { result = step(of.node); });
    Await("the step, at the server", [&] { return server.Call({"EXISTS", kLease}).text != before; });
    of.proxy.CloseAll();
    of.proxy.Release();
    calling.join();
    return result;
  };
  const TierMark held = with_lost_reply(a, [](TierNode& node) { return node.Hold("k", 1); });
  EXPECT_EQ(held.kind, Mark::kStands);
  EXPECT_EQ(b.node.Ask("k").kind, Answer::kBusy);
  EXPECT_EQ(with_lost_reply(b, [&](TierNode& node) { return node.Release("k", held); }).kind, Mark::kLost);
  EXPECT_EQ(b.node.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierUpdatesTest, Hold_AnotherProcessHasALongerMaxStaleness_TheBoundIsItsOwn) {
  RedisCacheTierOptions longer = PatientTier();
  longer.max_staleness = absl::Minutes(20);
  TierNode a(server.url());
  TierNode b(server.url(), longer);
  const TierMark held = a.Hold("k", 1);
  EXPECT_EQ(held.bound, absl::Minutes(20));
  EXPECT_EQ(a.Release("k", held).bound, absl::Minutes(20));
  const absl::Status refused = a.cache->CheckStrict();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("max_staleness = 10m: another process has 20m"));
  EXPECT_TRUE(b.cache->CheckStrict().ok());
  for (const bool strict : {true, false}) {
    LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5), .strict = strict, .metrics = nullptr};
    options.tier = ConnectTier(server.url(), WithLocks());
    const auto cache = LoadingCache<int, int>::Create(options, [](int key) -> absl::StatusOr<int> { return key; });
    EXPECT_EQ(CodeOf(cache.status()), strict ? "FAILED_PRECONDITION" : "OK");
  }
}

TEST_F(TierUpdatesTest, Lock_KeysOfAnySize_AreNamedOrRefused) {
  TierNode a(server.url(), WithLocks());
  const std::string longest(1024, '}');
  for (const auto& [key, name] : {std::pair<std::string, std::string>("k", "test:products:k"),
                                  {"", "test:products:"},
                                  {"{a}%", "test:products:%7ba%7d%25"},
                                  {std::string("\0\xff", 2), std::string("test:products:\0\xff", 16)}}) {
    const absl::StatusOr<LockLease> lock = a.cache->Lock(key, absl::Seconds(1), {});
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_EQ(lock->name(), name);
  }
  EXPECT_TRUE(a.cache->Lock(longest, absl::Seconds(1), {}).ok());
  EXPECT_TRUE(a.cache->Lock(longest.substr(1), absl::Seconds(1), {}).ok());
  const absl::Status refused = a.cache->Lock(longest + "x", absl::Seconds(1), {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a key of 1025 bytes"));
}

// With the locks of Redis, on the same server.
TEST_F(TierUpdatesTest, UpdateThrough_TwoProcesses_TakeTurnsAndAreSeenAtOnce) {
  using Prices = LoadingCache<std::string, int64_t>;
  const auto redis = RedisLockService::Connect(server.url(), {.service = {.metrics = nullptr}}).value();
  RedisCacheTierOptions shared = PatientTier();
  shared.max_staleness = absl::Milliseconds(100);
  shared.locks = redis.get();
  shared.metrics = nullptr;
  std::atomic<int64_t> price{0}, last_token{0};
  const auto open = [&] {
    LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5), .strict = true, .metrics = nullptr};
    options.tier = ConnectTier(server.url(), shared);
    return Prices::Create(options, [&](const std::string&) -> absl::StatusOr<int64_t> { return price.load(); }).value();
  };
  const std::unique_ptr<Prices> caches[] = {open(), open()};
  for (int round = 0; round < 4; ++round) {
    const absl::StatusOr<UpdateReport> report = caches[round % 2]->UpdateThrough("k", [&](const LockLease& lock) {
      EXPECT_GT(*lock.fencing_token(), last_token.exchange(*lock.fencing_token()));
      ++price;
      return absl::OkStatus();
    });
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->settled) << report->reason;
    for (const auto& cache : caches) EXPECT_EQ(**cache->Get("k"), price);
  }
}

// The first update is paused beyond its lock, and writes after the second one.
TEST_F(TierUpdatesTest, UpdateThrough_TheDatabaseTakesSmallerTokens_AnOldValueIsRead) {
  using Prices = LoadingCache<std::string, std::string>;
  for (const bool checks : {true, false}) {
    const auto redis = RedisLockService::Connect(server.url(), {.service = {.metrics = nullptr}}).value();
    RedisCacheTierOptions shared = PatientTier();
    shared.max_staleness = absl::Milliseconds(100);
    shared.locks = redis.get();
    shared.metrics = nullptr;
    int64_t row_token = 0;
    std::string row = "before";
    const auto write = [&](const LockLease& lock, const std::string& value) -> absl::Status {
      if (checks && *lock.fencing_token() < row_token) return absl::AbortedError("a smaller token");
      row_token = *lock.fencing_token();
      row = value;
      return absl::OkStatus();
    };
    const auto open = [&] {
      LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5), .strict = true, .metrics = nullptr};
      options.tier = ConnectTier(server.url(), shared);
      return Prices::Create(options, [&](const std::string&) -> absl::StatusOr<std::string> { return row; }).value();
    };
    const std::unique_ptr<Prices> a = open();
    const std::unique_ptr<Prices> b = open();
    const absl::StatusOr<UpdateReport> first = a->UpdateThrough("k", [&](const LockLease& lock) {
      EXPECT_TRUE(redis->ForceRelease("test:prices:k").ok());
      std::thread([&] {
        const absl::StatusOr<UpdateReport> second =
            b->UpdateThrough("k", [&](const LockLease& other) { return write(other, "second"); });
        EXPECT_TRUE(second.ok() && second->settled) << second.status();
      }).join();
      EXPECT_EQ(**b->Get("k"), "second");
      return write(lock, "first");
    });
    EXPECT_EQ(first.ok(), !checks);
    EXPECT_EQ(**b->Get("k"), checks ? "second" : "first") << "the second update was settled";
  }
}

}  // namespace
}  // namespace stockade::testing
