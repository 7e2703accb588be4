// How records are read: which questions are answered without a script, and by how many transactions.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_cluster.h"
#include "redis_record_reader.h"
#include "support/run_threads.h"

namespace stockade::testing {
namespace {

using cache_internal::RecordReader;

class TierReadsTest : public RedisTierTest {};

// The number of calls of a command since CONFIG RESETSTAT.
size_t CallsOf(RedisServer& server, const std::string& command) {
  const std::string stats = server.Call({"INFO", "commandstats"}).text;
  const std::string field = "cmdstat_" + command + ":calls=";
  const size_t at = stats.find(field);
  return at == std::string::npos ? 0 : std::stoul(stats.substr(at + field.size()));
}

// Those that were refused before they ran.
size_t FailedCallsOf(RedisServer& server, const std::string& command) {
  const std::string stats = server.Call({"INFO", "commandstats"}).text;
  const size_t at = stats.find("cmdstat_" + command + ":");
  if (at == std::string::npos) return 0;
  return std::stoul(stats.substr(stats.find("failed_calls=", at) + 13));
}

// Of the question and of the fill. A script that the server does not have yet takes another one.
TEST_F(TierReadsTest, Ask_ColdKeys_TakeTwoRoundTripsEach) {
  TierNode a(server.url(), QuietTier());
  server.Call({"CONFIG", "RESETSTAT"});
  for (int n = 0; n < 100; ++n) ASSERT_EQ(a.Load(std::to_string(n), "v").kind, Filled::kStored);
  EXPECT_EQ(CallsOf(server, "exec"), 0);
  EXPECT_GE(CallsOf(server, "evalsha"), 200);
  EXPECT_LE(CallsOf(server, "evalsha"), 204);
}

TEST_F(TierReadsTest, Ask_MostQuestionsWereHits_ReadsWithoutAScript) {
  TierNode a(server.url(), QuietTier());
  ASSERT_EQ(a.Load("k", "v").kind, Filled::kStored);
  a.AskUntilItReads("k");
  server.Call({"CONFIG", "RESETSTAT"});
  for (int n = 0; n < 10; ++n) EXPECT_EQ(a.Ask("k").kind, Answer::kHit);
  EXPECT_EQ(CallsOf(server, "exec"), 10);
  EXPECT_EQ(CallsOf(server, "evalsha"), 0);
  for (int n = 0; n < 64; ++n) EXPECT_EQ(a.Load(std::to_string(n), "v").kind, Filled::kStored);
  server.Call({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(a.Load("cold", "v").kind, Filled::kStored);
  EXPECT_EQ(CallsOf(server, "exec"), 0);
}

// Keys "0" to count - 1 that the tier has, for a process that reads.
struct Keys {
  Keys(TierNode& node, size_t count, std::string_view bytes = "v") : names(count) {
    for (size_t n = 0; n < count; ++n) {
      names[n] = std::to_string(n);
      EXPECT_EQ(node.Load(names[n], bytes).kind, Filled::kStored);
    }
    node.AskUntilItReads("0");
  }
  void Replace(TierNode& node, std::string_view bytes) const {
    for (const std::string& name : names) {
      EXPECT_TRUE(node.InvalidateKey(name).accepted);
      EXPECT_EQ(node.Load(name, bytes).kind, Filled::kStored);
    }
    node.AskUntilItReads("0");
  }
  std::vector<TierAsk> Asks(size_t count) const {
    std::vector<TierAsk> asks;
    for (size_t n = 0; n < count; ++n) asks.push_back({.key = names[n]});
    return asks;
  }

  std::vector<std::string> names;
};

void ExpectHits(const std::vector<TierAnswer>& answers, std::string_view bytes) {
  for (size_t n = 0; n < answers.size(); ++n) {
    ASSERT_EQ(answers[n].kind, Answer::kHit) << n;
    ASSERT_TRUE(answers[n].record->bytes == bytes) << n;
  }
}

TEST_F(TierReadsTest, ManyKeys_SixtyFourInATransaction) {
  TierNode a(server.url(), QuietTier());
  const Keys keys(a, 130);
  for (const size_t count : {1, 2, 63, 64, 65, 128, 129, 130}) {
    SCOPED_TRACE(count);
    server.Call({"CONFIG", "RESETSTAT"});
    const std::vector<TierAnswer> answers = a.cache->Ask(keys.Asks(count));
    ASSERT_EQ(answers.size(), count);
    ExpectHits(answers, "v");
    EXPECT_EQ(CallsOf(server, "exec"), (count + 63) / 64);
    EXPECT_EQ(CallsOf(server, "getrange"), count);
    EXPECT_EQ(CallsOf(server, "evalsha"), 0);
  }
}

TEST_F(TierReadsTest, ManyKeys_WhatIsNoHitIsAskedByScript) {
  TierNode a(server.url(), QuietTier());
  const Keys keys(a, 6);
  const uint64_t version = a.Ask("1").record->version;
  TierNode b(server.url(), QuietTier());
  ASSERT_TRUE(b.InvalidateKey("3").accepted);
  const TierAnswer busy = b.Ask("3");
  const std::string record(std::string_view(kRecord).substr(0, sizeof kRecord - 2));
  server.Call({"DEL", record + "2"});
  server.Call({"DEL", record + "4"});
  server.Call({"RPUSH", record + "4", "of another type"});
  server.Call({"CONFIG", "RESETSTAT"});
  std::vector<TierAsk> asks = keys.Asks(6);
  asks[1].known_version = version;
  const std::vector<TierAnswer> answers = a.cache->Ask(asks);
  EXPECT_EQ(answers[0].kind, Answer::kHit);
  EXPECT_EQ(answers[1].kind, Answer::kGranted) << "a refresh of the version that is there";
  EXPECT_EQ(answers[2].kind, Answer::kGranted) << "absent";
  EXPECT_EQ(answers[3].kind, Answer::kBusy);
  EXPECT_EQ(answers[4].kind, Answer::kGranted) << "of another type";
  EXPECT_EQ(answers[5].kind, Answer::kHit);
  EXPECT_EQ(CallsOf(server, "exec"), 1);
  EXPECT_EQ(CallsOf(server, "evalsha"), 4);
}

TEST_F(TierReadsTest, ManyKeys_OneHasTags_NoMoreIsReadWithoutAScript) {
  TierNode a(server.url(), QuietTier());
  const Keys keys(a, 3);
  ASSERT_EQ(a.Load("tagged", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  TierNode b(server.url(), QuietTier());
  b.AskUntilItReads("0");
  std::vector<TierAsk> asks = keys.Asks(3);
  asks.push_back({.key = "tagged"});
  for (const size_t scripts : {1, 4}) {
    server.Call({"CONFIG", "RESETSTAT"});
    ExpectHits(b.cache->Ask(asks), "v");
    EXPECT_EQ(CallsOf(server, "evalsha"), scripts);
  }
}

// The bytes of a record beside its value.
size_t HeadBytes(RedisServer& server) {
  return static_cast<size_t>(std::stoul(server.Call({"STRLEN", "sc1:{test}:v:products:product/1:0"}).text)) - 1;
}

// Of several keys. Longer ones are read again, each alone.
TEST_F(TierReadsTest, LongRecords_AreReadAlone) {
  TierNode a(server.url(), QuietTier());
  const Keys keys(a, 2);
  const size_t head = HeadBytes(server);
  for (const int beyond : {-1, 0, 1, 100'000}) {
    SCOPED_TRACE(beyond);
    ASSERT_TRUE(a.InvalidateKey("1").accepted);
    const std::string bytes(RecordReader::kPartBytes - head + static_cast<size_t>(beyond), 'x');
    ASSERT_EQ(a.Load("1", bytes).kind, Filled::kStored);
    server.Call({"CONFIG", "RESETSTAT"});
    const std::vector<TierAnswer> answers = a.cache->Ask(keys.Asks(2));
    ExpectHits({answers[0]}, "v");
    ExpectHits({answers[1]}, bytes);
    EXPECT_EQ(CallsOf(server, "exec"), beyond > 0 ? 2 : 1);
    EXPECT_EQ(CallsOf(server, "evalsha"), 0);
  }
}

TEST_F(TierReadsTest, MostRecordsAreLong_AreReadOnceEach) {
  TierNode a(server.url(), QuietTier());
  const std::string bytes(100'000, 'x');
  const Keys keys(a, 64, bytes);
  a.AskUntilItReads("0");
  server.Call({"CONFIG", "RESETSTAT"});
  ExpectHits(a.cache->Ask(keys.Asks(64)), bytes);
  EXPECT_EQ(CallsOf(server, "exec"), 64);
  EXPECT_EQ(CallsOf(server, "getrange"), 64);
}

// As many as fit into half of the largest reply.
TEST_F(TierReadsTest, RepliesMustBeSmall_FewerKeysInATransaction) {
  RedisCacheTierOptions options = QuietTier();
  options.max_value_bytes = RecordReader::kPartBytes;
  options.redis.max_reply_bytes = 100'000;
  TierNode a(server.url(), options);
  const Keys keys(a, 10);
  const std::string bytes(RecordReader::kPartBytes - HeadBytes(server), 'x');
  keys.Replace(a, bytes);
  server.Call({"CONFIG", "RESETSTAT"});
  ExpectHits(a.cache->Ask(keys.Asks(10)), bytes);
  EXPECT_EQ(CallsOf(server, "exec"), 4);
  EXPECT_EQ(CallsOf(server, "evalsha"), 0);
}

TEST_F(TierReadsTest, SixtyFourRecordsOfAMegabyte_ComeOverOneConnection) {
  TierNode a(server.url(), QuietTier());
  const Keys keys(a, 64);
  const std::string bytes(1 << 20, 'x');
  keys.Replace(a, bytes);
  const auto connections = [&] { return std::stoi(server.Info("total_connections_received")); };
  const int before = connections();
  ExpectHits(a.cache->Ask(keys.Asks(64)), bytes);
  EXPECT_EQ(connections(), before + 1) << "to ask for their number";
}

// Without memory Redis refuses all commands after MULTI, but no script that only reads.
TEST_F(TierReadsTest, RedisIsFull_HitsAreAskedByScript) {
  TierNode a(server.url(), QuietTier());
  const Keys keys(a, 10);
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "1"}), "OK");
  server.Call({"CONFIG", "RESETSTAT"});
  size_t refused = 0;
  Await("many hits within a pause", [&] {
    for (int n = 0; n < 100; ++n) {
      EXPECT_EQ(a.Ask("0").kind, Answer::kHit);
      ExpectHits(a.cache->Ask(keys.Asks(10)), "v");
    }
    const size_t before = std::exchange(refused, FailedCallsOf(server, "exec"));
    return refused - before <= 2;
  });
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "0"}), "OK");
  Await("reads without scripts", [&] {
    server.Call({"CONFIG", "RESETSTAT"});
    EXPECT_EQ(a.Ask("0").kind, Answer::kHit);
    return CallsOf(server, "evalsha") == 0;
  });
}

TEST_F(TierReadsTest, GetAllOfColdKeys_OthersAreReadAsBefore) {
  TierNode a(server.url(), QuietTier());
  const Keys keys(a, 1);
  std::vector<std::string> names(256);
  std::vector<TierAsk> asks;
  for (size_t n = 0; n < names.size(); ++n) {
    names[n] = "cold" + std::to_string(n);
    asks.push_back({.key = names[n]});
  }
  for (const TierAnswer& answer : a.cache->Ask(asks)) EXPECT_EQ(answer.kind, Answer::kGranted);
  server.Call({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(a.Ask("0").kind, Answer::kHit);
  EXPECT_EQ(CallsOf(server, "exec"), 1);
  EXPECT_EQ(CallsOf(server, "evalsha"), 0);
}

// Each thread asks for one record. `most`: of a transaction.
void ReadByManyThreads(RedisServer& server, const RedisCacheTierOptions& options, size_t most) {
  constexpr size_t kThreads = 2 * RecordReader::kMostKeys;
  constexpr size_t kTimes = 50;
  TierNode a(server.url(), options);
  const Keys keys(a, kThreads);
  Await("threads that share transactions", [&] {
    server.Call({"CONFIG", "RESETSTAT"});
    RunThreads(kThreads, [&](int n) {
      for (size_t i = 0; i < kTimes; ++i) {
        const TierAnswer answer = a.Ask(keys.names[static_cast<size_t>(n)]);
        ASSERT_EQ(answer.kind, Answer::kHit);
        ASSERT_EQ(answer.record->bytes, "v");
      }
    });
    EXPECT_EQ(CallsOf(server, "getrange"), kThreads * kTimes);
    EXPECT_GE(CallsOf(server, "exec") * most, kThreads * kTimes);
    return CallsOf(server, "exec") <= kThreads * kTimes / 2;
  });
}

TEST_F(TierReadsTest, ManyThreads_ReadTogether) {
  ReadByManyThreads(server, QuietTier(), RecordReader::kMostKeys);
  server.Call({"FLUSHALL"});
  RedisCacheTierOptions options = QuietTier();
  options.max_value_bytes = RecordReader::kPartBytes;
  options.redis.max_reply_bytes = 100'000;
  ReadByManyThreads(server, options, 3);
}

// Redis answers a transaction only if all its keys are on one side. The threads that ask for what is there are answered
// while others wait for the slot. Without INFO the client follows a redirection, and the other node says TRYAGAIN.
TEST_F(TierReadsTest, SlotIsMoving_AKeyThatIsAbsentKeepsNoOtherOneWaiting) {
  constexpr size_t kThreads = 32;
  RedisCluster cluster({.server = {.users = {"alice on >secret ~* &* +@all -info"}}});
  std::string url = cluster.url();
  url.insert(url.find("://") + 3, "alice:secret@");
  RedisCacheTierOptions patient = QuietTier();
  patient.timeout = absl::Minutes(1);
  TierNode a(url, patient);
  const Keys keys(a, kThreads);
  const int slot = cluster.SlotOf("{test}");
  const size_t owner = cluster.OwnerOf(slot);
  const size_t other = (owner + 1) % RedisCluster::kMasters;
  for (int round = 0; round < 3; ++round) {
    cluster.BeginMove(slot, owner, other);
    std::latch start(2 * kThreads);
    const Instant begun = a.tier->clock()->Now();
    std::vector<std::jthread> waiting, answered;
    for (size_t n = 0; n < kThreads; ++n) {
      waiting.emplace_back([&] {
        start.arrive_and_wait();
        a.Ask("absent");
      });
      answered.emplace_back([&, n] {
        start.arrive_and_wait();
        for (int i = 0; i < 20; ++i) EXPECT_EQ(a.Ask(keys.names[n]).kind, Answer::kHit);
      });
    }
    answered.clear();
    EXPECT_LT(a.tier->clock()->Now() - begun, patient.timeout / 2) << "they have waited for the others' time-out";
    cluster.CancelMove(slot, owner, other);
  }
}

}  // namespace
}  // namespace stockade::testing
