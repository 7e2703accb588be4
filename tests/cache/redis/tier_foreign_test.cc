// Keys that are not what the tier has written: no crash, and a miss or a clear error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

class TierForeignTest : public RedisTierTest {
 protected:
  // Makes the key one of another type, in one step, because a process makes it again.
  void MakeList(const char* key) {
    const char* const script = "redis.call('del', KEYS[1]) return redis.call('rpush', KEYS[1], 'x')";
    ASSERT_EQ(server.Call({"EVAL", script, "1", key}).text, "1");
  }
  // Invalidates the key "k", if `external` by docs/fleet_cache_invalidate.lua.
  bool Invalidate(TierNode& node, bool external) {
    if (!external) return node.InvalidateKey("k").accepted;
    std::ifstream file(STOCKADE_SOURCE_DIR "/docs/fleet_cache_invalidate.lua");
    const std::string script(std::istreambuf_iterator<char>(file), {});
    return server.Call({"EVAL", script, "2", kState, kJournal, "products", "k", "k"}).text != "0";
  }
};

TEST_F(TierForeignTest, Connect_StateIsOfAnotherType_IsReplaced) {
  ASSERT_EQ(server.Call({"SET", kState, "mine"}).text, "OK");
  std::string logged;
  SetLogSink([&](LogSeverity severity, std::string_view message) {
    if (severity == LogSeverity::kError) logged += message;
  });
  TierNode a(server.url());
  SetLogSink({});
  EXPECT_EQ(logged,
            "RedisCacheTier 'test': the key 'sc1:{test}:s' had another type; it was deleted, and a new reign begins");
  EXPECT_EQ(a.Load("k", "v").kind, Filled::kStored);
}

TEST_F(TierForeignTest, StateBecomesAnotherType_ANewReignBegins) {
  auto [a, b] = TwoNodes(server.url());
  for (int round = 1; round <= 3; ++round) {
    ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
    MakeList(kState);
    ASSERT_TRUE(round != 1 || a.Ask("k").kind == Answer::kGranted);
    ASSERT_TRUE(round != 2 || a.InvalidateKey("k").accepted);
    ASSERT_TRUE(a.ear->AwaitResets(round));
    ASSERT_TRUE(b.ear->AwaitResets(round));
    server.Call({"DEL", kLease});
    EXPECT_EQ(server.Call({"TYPE", kState}).text, "hash");
    ASSERT_TRUE(b.InvalidateKey("k").accepted);
  }
}

// Redis refuses times to live that are too long.
TEST_F(TierForeignTest, StateHasSpansWithoutABound_TheyAreLimited) {
  for (const char* field : {"T", "B"}) {
    for (const char* value : {"inf", "-inf", "nan", "1e300", "100000000000000000000", "-1", "0.5", "", "x"}) {
      SCOPED_TRACE(std::string(field) + "=" + value);
      TierNode a(server.url());
      ASSERT_EQ(a.Load("k", "v").kind, Filled::kStored);
      ASSERT_EQ(server.Call({"HSET", kState, field, value}).text, "0");
      server.Call({"PEXPIRE", kState, "1000000"});  // So that it is renewed.
      server.Call({"PEXPIRE", kJournal, "1000000"});
      ASSERT_TRUE(a.InvalidateKey("k").accepted);
      TierNode b(server.url());
      EXPECT_EQ(b.Load("k", "v").kind, Filled::kStored);
      EXPECT_EQ(b.ear->resets() + a.ear->resets(), 0);
      EXPECT_LE(std::stod(server.Call({"HGET", kState, field}).text), 366.0 * 86400'000);
      EXPECT_LE(std::stoll(server.Call({"PTTL", kState}).text), int64_t{3} * 366 * 86400'000);
      server.Call({"FLUSHALL"});
    }
  }
}

TEST_F(TierForeignTest, ListOfCodecsIsLost_AnInvalidationVoidsAllRecords) {
  for (const bool external : {false, true}) {
    for (const bool emptied : {false, true}) {
      TierNode a(server.url());
      ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
      ASSERT_EQ(a.Load("other", "v").kind, Filled::kStored);
      ASSERT_EQ(server.Call({"HDEL", kState, "c:products"}).text, "1");
      if (emptied) server.Call({"HSET", kState, "c:products", ""});
      ASSERT_TRUE(Invalidate(a, external));
      EXPECT_EQ(a.Load("k", "new").kind, Filled::kStored);
      EXPECT_EQ(a.Ask("other").kind, Answer::kGranted);
      server.Call({"FLUSHALL"});
    }
  }
}

TEST_F(TierForeignTest, StateHasOtherValues_ANewReignBegins) {
  std::vector<std::pair<std::string, std::string>> cases = {{"i", "short"}, {"i", std::string(16, 'x')}};
  for (const char* q : {"", "many", "inf", "nan", "-5", "1.5", "1e300", "1099511627776"}) cases.emplace_back("q", q);
  for (const auto& [field, value] : cases) {
    SCOPED_TRACE(field + "=" + value);
    TierNode a(server.url());
    ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
    ASSERT_EQ(server.Call({"HSET", kState, field, value}).text, "0");
    ASSERT_TRUE(a.ear->AwaitResets(1));
    EXPECT_EQ(a.Load("k", "new").kind, Filled::kStored);
    ASSERT_TRUE(a.InvalidateKey("k").accepted);
    server.Call({"FLUSHALL"});
  }
}

// A sequence that went back means that the state was restored.
TEST_F(TierForeignTest, SequenceGoesBack_ANewReignBegins) {
  RedisCacheTierOptions options = PatientTier();
  options.pubsub = false;  // What is reported was read from the journal.
  TierNode a(server.url(), options);
  for (int n = 0; n < 5; ++n) ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateKey("k").position));
  ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
  ASSERT_EQ(server.Call({"HSET", kState, "q", "2"}).text, "0");
  ASSERT_TRUE(a.ear->AwaitResets(1));
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierForeignTest, TagAndAllAndCodecHaveOtherValues_WhatTheyConcernIsVoid) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  server.Call({"HSET", kState, "t:products:tag", "soon"});
  const TierAnswer tagged = a.Ask("k");
  ASSERT_EQ(tagged.kind, Answer::kGranted);
  EXPECT_EQ(a.Fill("k", tagged.lease, {.bytes = "v", .tags = {"tag"}}).kind, Filled::kRefused);
  ASSERT_TRUE(a.InvalidateTag("tag").accepted);
  EXPECT_EQ(a.Load("k", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  server.Call({"HSET", kState, "a:products", "never"});
  const TierAnswer all = a.Ask("k");
  ASSERT_EQ(all.kind, Answer::kGranted);
  EXPECT_EQ(a.Fill("k", all.lease, "v").kind, Filled::kRefused);
  ASSERT_TRUE(a.InvalidateAll().accepted);
  EXPECT_EQ(a.Load("k", "v").kind, Filled::kStored);
}

// The script judges the first hits, and the process judges hits without tags if most questions are hits.
TEST_F(TierForeignTest, StateHasOtherValues_RecordsWithoutTagsAreVoid) {
  for (const bool reads : {false, true}) {
    for (const char* field : {"a:products", "c:products:product/1", "i", "q"}) {
      // A larger "q" voids no record, and a larger one of the others does.
      for (const std::string value : {"never", "", "7x", std::string_view(field) == "q" ? "0" : "1000000"}) {
        SCOPED_TRACE(base_internal::Concat(field, "=", value, reads ? " in a process that reads" : ""));
        TierNode a(server.url());
        ASSERT_TRUE(a.InvalidateKey("k").accepted);
        ASSERT_EQ(a.Load("k", "v").kind, Filled::kStored);
        reads ? a.AskUntilItReads("k") : void(a.Ask("k"));
        server.Call({"HSET", kState, field, value});
        EXPECT_NE(a.Ask("k").kind, Answer::kHit);
        server.Call({"FLUSHALL"});
      }
    }
  }
}

TEST_F(TierForeignTest, RecordIsLargerThanOneOfTheReader_IsReadByTheScript) {
  RedisCacheTierOptions small = QuietTier();
  small.max_value_bytes = 1000;
  auto [writer, reader] = TwoNodes(server.url(), QuietTier(), small);
  ASSERT_EQ(writer.Load("small", "v").kind, Filled::kStored);
  ASSERT_EQ(writer.Load("large", std::string(5000, 'v')).kind, Filled::kStored);
  reader.AskUntilItReads("small");
  const TierAnswer hit = reader.Ask("large");
  ASSERT_EQ(hit.kind, Answer::kHit);
  EXPECT_EQ(hit.record->bytes, std::string(5000, 'v'));
}

TEST_F(TierForeignTest, RecordIsHuge_IsNotReadWhole) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("other", "v").kind, Filled::kStored);
  a.AskUntilItReads("other");
  server.Call({"SETRANGE", kRecord, std::to_string(100 << 20), "x"});
  const auto sent = [&] {
    const std::string text = server.Call({"INFO", "stats"}).text;
    return std::stoll(text.substr(text.find("total_net_output_bytes:") + 23));
  };
  const int64_t before = sent();
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
  EXPECT_LT(sent() - before, 3 << 20);
}

TEST_F(TierForeignTest, JournalIsOfAnotherType_IsReplaced) {
  auto [a, b] = TwoNodes(server.url());
  MakeList(kJournal);
  ASSERT_TRUE(b.InvalidateKey("1").accepted);
  EXPECT_EQ(server.Call({"TYPE", kJournal}).text, "stream");
  const uint64_t last = b.InvalidateKey("2").position;
  ASSERT_TRUE(a.ear->AwaitPosition(last));
}

TEST_F(TierForeignTest, JournalHasForeignEntries_AProcessResets) {
  TierNode a(server.url());
  ASSERT_NE(server.Call({"XADD", kJournal, "77-3", "x", "y"}).type, '-');
  const uint64_t position = a.InvalidateKey("1").position;
  ASSERT_GT(position, 0u);
  // A gap, or the entry itself if the heartbeat came in between.
  Await("the invalidation", [&] { return a.ear->resets() > 0 || !a.ear->heard().empty(); });
  ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateKey("2").position));
}

TEST_F(TierForeignTest, JournalEntryOfAnUnknownKind_CountsAsAll) {
  TierNode a(server.url());
  RawRedis raw(server.port());
  ASSERT_EQ(raw.Call({"EVAL",
                      "redis.call('xadd', KEYS[2], '2-0', 'new', '1', 'k', 'z', 'c', 'products', 't', 'x') "
                      "return redis.call('hset', KEYS[1], 'q', 2)",
                      "2", kState, kJournal})
                .text,
            "0");
  ASSERT_TRUE(a.ear->AwaitPosition(2));
  EXPECT_THAT(a.ear->lines(), ::testing::ElementsAre("all"));
}

TEST_F(TierForeignTest, RecordAndLeaseAreOfAnotherType_CountAsAbsent) {
  TierNode a(server.url());
  MakeList(kRecord);
  MakeList(kLease);
  const TierAnswer granted = a.Ask("k");
  ASSERT_EQ(granted.kind, Answer::kGranted);
  EXPECT_FALSE(granted.record.has_value());
  MakeList(kLease);
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kRefused);
  MakeList(kRecord);
  MakeList(kLease);
  EXPECT_TRUE(a.InvalidateKey("k").accepted);
  EXPECT_EQ(a.Load("k", "v").kind, Filled::kStored);
}

// Random changes of a record and of a lease, by seed: an answer, and never a value that is not the whole one.
TEST_F(TierForeignTest, RecordAndLeaseAreDamaged_NoCrashAndAnAnswer) {
  TierNode a(server.url());
  std::mt19937_64 random(Seed());
  const std::string value(300, 'v');
  const std::vector<std::string> tags = {"one", "two"};
  const int64_t rounds = Scaled(400, 20'000);
  for (int64_t round = 0; round < rounds; ++round) {
    server.Call({"DEL", kRecord, kLease});
    ASSERT_EQ(a.Load("k", {.bytes = value, .tags = tags}).kind, Filled::kStored);
    std::string bytes = server.Call({"GET", kRecord}).text;
    std::string lease;
    const TierAnswer held = a.Ask("k", a.Ask("k").record->version);
    ASSERT_EQ(held.kind, Answer::kGranted);
    lease = server.Call({"GET", kLease}).text;
    for (std::string* text : {&bytes, &lease}) {
      if (random() % 4 == 0) {
        text->resize(random() % (text->size() + 1));
      } else {
        const size_t changes = 1 + random() % 4;
        for (size_t n = 0; n < changes; ++n)
          (*text)[random() % std::min<size_t>(text->size(), 80)] = static_cast<char>(random());
      }
    }
    server.Call({"SET", kRecord, bytes, "PX", "3600000"});
    server.Call({"SET", kLease, lease, "PX", "60000"});
    const TierAnswer answer = a.Ask("k");
    if (answer.kind == Answer::kHit) {
      EXPECT_LE(answer.record->bytes.size(), value.size() + 50);
      EXPECT_LE(answer.record->left, answer.record->ttl);
    }
    a.Fill("k", held.lease, "late");
    ASSERT_TRUE(a.InvalidateKey("k").accepted);
    EXPECT_NE(a.Ask("k").kind, Answer::kHit);
  }
}

TEST_F(TierForeignTest, RecordIsHuge_IsNotReadIntoTheScript) {
  TierNode a(server.url());
  server.Call({"SET", kRecord, std::string(30 << 20, '\1')});
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
  EXPECT_EQ(server.Call({"EXISTS", kRecord}).text, "0");
}

// The client's limit for replies is not the tier's for values.
TEST_F(TierForeignTest, RecordIsLargerThanAReplyMayBe_IsAway) {
  TierNode writer(server.url(), PatientTier([](auto& o) { o.max_value_bytes = 4 << 20; }));
  RedisCacheTierOptions small = PatientTier();
  small.redis.max_reply_bytes = 1 << 20;
  small.max_value_bytes = 64 << 10;
  TierNode reader(server.url(), small);
  ASSERT_EQ(writer.Load("k", std::string(3 << 20, 'v')).kind, Filled::kStored);
  EXPECT_EQ(reader.Ask("k").kind, Answer::kAway);
  EXPECT_EQ(reader.Ask("other").kind, Answer::kGranted);
  EXPECT_EQ(writer.Ask("k").record->bytes.size(), size_t{3} << 20);
}

// One message for each 16 bytes would keep the server busy for seconds.
TEST_F(TierForeignTest, WaitersAreHuge_FewAreNotified) {
  TierNode a(server.url());
  for (const bool external : {false, true}) {
    server.Call({"SETRANGE", kWaiters, std::to_string(30 << 20), "x"});
    server.Call({"CONFIG", "RESETSTAT"});
    ASSERT_TRUE(Invalidate(a, external));
    const std::string stats = server.Call({"INFO", "commandstats"}).text;
    size_t published = 0;
    for (const char* name : {"cmdstat_publish:calls=", "cmdstat_spublish:calls="}) {
      const size_t at = stats.find(name);
      if (at != std::string::npos) published += std::stoul(stats.substr(at + std::string(name).size()));
    }
    EXPECT_LE(published, 2 * 129u);
    EXPECT_EQ(server.Call({"EXISTS", kWaiters}).text, "0");
  }
}

TEST_F(TierForeignTest, KeysWithoutATimeToLive_CountAsAbsent) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", "v").kind, Filled::kStored);
  ASSERT_EQ(server.Call({"PERSIST", kRecord}).text, "1");
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  ASSERT_EQ(server.Call({"PERSIST", kLease}).text, "1");
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted) << "a lease that never ends is none";
}

}  // namespace
}  // namespace stockade::testing
