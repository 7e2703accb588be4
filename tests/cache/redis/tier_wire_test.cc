// docs/FLEET_CACHE_WIRE.md: the bytes, and the script for other languages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "redis_tier_record.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

TEST(TierRecordTest, Encode_IsWhatTheDocumentSays) {
  const std::vector<std::string> tags = {"ab", ""};
  const TierFill fill{.key = {},
                      .absent = true,
                      .bytes = "value",
                      .tags = tags,
                      .ttl = {},
                      .grace = {},
                      .load_time = absl::Microseconds(0x01020304)};
  const std::string record = cache_internal::EncodeTierRecord(
      {.incarnation = "0123456789abcdef", .position = 0x1122334455, .token = "ABCDEFGHIJKLMNOP"}, fill,
      absl::Milliseconds(0x10203), absl::Milliseconds(0x405));
  using std::string_literals::operator""s;
  EXPECT_EQ(record,
            "\x01\x01"
            "0123456789abcdef"
            "\0\0\0\x11\x22\x33\x44\x55"
            "ABCDEFGHIJKLMNOP"
            "\0\0\0\0\0\0\x04\x05"
            "\0\0\0\0\0\x01\x02\x03"
            "\x01\x02\x03\x04"
            "\0\x45"
            "\x02\x02"
            "ab"
            "\0"
            "value"s);
  const std::optional<TierRecord> read = cache_internal::DecodeTierRecord(record, absl::Milliseconds(5), 7);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->absent);
  EXPECT_EQ(read->bytes, "value");
  EXPECT_EQ(read->tags, tags);
  EXPECT_EQ(read->ttl, absl::Milliseconds(0x10203));
  EXPECT_EQ(read->left, absl::Milliseconds(5));
  EXPECT_EQ(read->load_time, absl::Microseconds(0x01020304));
  EXPECT_EQ(read->version, 0x4142434445464748u);
  EXPECT_EQ(read->position, 7u);
}

TEST(TierRecordTest, Decode_APart_IsNone) {
  const std::vector<std::string> tags = {"ab"};
  const TierFill fill{.key = {}, .tags = tags};
  const std::string record = cache_internal::EncodeTierRecord(
      {.incarnation = "0123456789abcdef", .token = "ABCDEFGHIJKLMNOP"}, fill, absl::Seconds(1), absl::ZeroDuration());
  for (size_t bytes = 0; bytes < record.size(); ++bytes) {
    EXPECT_FALSE(cache_internal::DecodeTierRecord(record.substr(0, bytes), absl::Seconds(1), 1)) << bytes;
  }
  EXPECT_TRUE(cache_internal::DecodeTierRecord(record, absl::Seconds(1), 1));
}

class TierWireTest : public RedisTierTest {
 protected:
  // Runs the documented script.
  std::string Invalidate(const std::string& cache, const std::string& kind, const std::string& text) {
    return Run(Script(), {cache, kind, text});
  }
  // The same, and nothing of it is left in the journal.
  std::string InvalidateBesidesTheJournal(const std::string& key) {
    return Run("local function invalidate() " + Script() + " end\nlocal position = invalidate()\n" +
                   "redis.call('del', KEYS[2])\nreturn position",
               {"products", "k", key});
  }
  static RedisCacheTierOptions SmallReplies() {
    RedisCacheTierOptions options = PatientTier();
    options.max_value_bytes = 1 << 10;
    options.redis.max_reply_bytes = 65 << 10;
    options.redis.max_unsent_bytes = 65 << 10;
    options.pubsub = false;
    return options;
  }
  static std::string Script() {
    std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/docs/fleet_cache_invalidate.lua");
    std::stringstream script;
    script << in.rdbuf();
    return script.str();
  }
  std::string Run(const std::string& script, const std::vector<std::string>& args, const std::string& state = kState,
                  const std::string& journal = kJournal) {
    std::vector<std::string> words = {"EVAL", script, "2", state, journal};
    words.insert(words.end(), args.begin(), args.end());
    return server.Call(words).text;
  }
};

TEST_F(TierWireTest, RecordAndLease_AreWhatTheDocumentSays) {
  TierNode a(server.url());
  const TierAnswer granted = a.Ask("k");
  const std::string incarnation = server.Call({"HGET", kState, "i"}).text;
  const std::string lease = server.Call({"GET", kLease}).text;
  ASSERT_EQ(lease.size(), 49u);
  EXPECT_EQ(lease.substr(0, 33), "L" + incarnation + granted.lease.token);
  EXPECT_EQ(lease.substr(33, 8), std::string("\0\0\0\0\0\0\0\1", 8));
  ASSERT_EQ(a.Fill("k", granted.lease, {.bytes = "value", .tags = {"tag"}}).kind, Filled::kStored);
  const std::string record = server.Call({"GET", kRecord}).text;
  EXPECT_EQ(record.substr(0, 2), std::string("\1\0", 2));
  EXPECT_EQ(record.substr(2, 16), incarnation);
  EXPECT_EQ(record.substr(26, 16), granted.lease.token);
  EXPECT_TRUE(record.ends_with("\3tagvalue"));
  EXPECT_EQ(server.Call({"HGET", kState, "c:products"}).text, "product/1");
  EXPECT_EQ(server.Call({"HGET", kState, "k"}).text, "products");
  EXPECT_EQ(server.Call({"HGET", kState, "w"}).text, server.Info("run_id"));
}

// A reader of this version skips what a later one adds before the value.
TEST_F(TierWireTest, Record_HasMoreInItsHead_IsRead) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", "value").kind, Filled::kStored);
  std::string record = server.Call({"GET", kRecord}).text;
  record.insert(65, std::string(300, 'x'));
  record[62] = static_cast<char>(365 >> 8);
  record[63] = static_cast<char>(365 & 0xff);
  server.Call({"SET", kRecord, record, "PX", "100000"});
  const TierAnswer hit = a.Ask("k");
  ASSERT_EQ(hit.kind, Answer::kHit);
  EXPECT_EQ(hit.record->bytes, "value");
}

TEST_F(TierWireTest, State_KeepsTheLargestSettings) {
  RedisCacheTierOptions larger = PatientTier();
  larger.max_ttl = absl::Hours(24 * 30);
  larger.max_staleness = absl::Minutes(20);
  TierNode a(server.url());
  EXPECT_EQ(server.Call({"HGET", kState, "T"}).text, "86400000");
  EXPECT_EQ(server.Call({"HGET", kState, "B"}).text, "600000");
  EXPECT_LE(std::stoll(server.Call({"PTTL", kState}).text), 604'800'000);
  auto [b, c] = TwoNodes(server.url(), larger, PatientTier());
  EXPECT_EQ(server.Call({"HGET", kState, "T"}).text, "2592000000");
  EXPECT_EQ(server.Call({"HGET", kState, "B"}).text, "1200000");
  ASSERT_TRUE(c.InvalidateKey("k").accepted);
  for (const char* key : {kState, kJournal}) {
    EXPECT_GT(std::stoll(server.Call({"PTTL", key}).text), int64_t{2} * 2'592'000'000) << key;
  }
}

TEST_F(TierWireTest, Script_InvalidatesAsAProcessDoes) {
  EXPECT_EQ(Invalidate("products", "k", "k"), "0") << "there is no state";
  TierNode a(server.url());
  TierNode b(server.url(), PatientTier(), "products", "product/2");
  const TierAnswer loading = a.Ask("k");
  ASSERT_EQ(b.Load("k", "old").kind, Filled::kStored);
  ASSERT_EQ(b.Load("tagged", {.bytes = "old", .tags = {"tag"}}).kind, Filled::kStored);
  ASSERT_EQ(b.Load("kept", "v").kind, Filled::kStored);
  EXPECT_EQ(Invalidate("products", "k", "k"), "2");
  EXPECT_EQ(a.Fill("k", loading.lease, "old").kind, Filled::kRefused);
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
  EXPECT_EQ(Invalidate("products", "t", "tag"), "3");
  EXPECT_EQ(b.Ask("tagged").kind, Answer::kGranted);
  EXPECT_EQ(b.Ask("kept").kind, Answer::kHit);
  EXPECT_EQ(Invalidate("products", "a", ""), "4");
  EXPECT_EQ(b.Ask("kept").kind, Answer::kGranted);
  EXPECT_THAT(Invalidate("products", "x", ""), ::testing::HasSubstr("the kind is not k, t or a"));
  ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateKey("last").position));
  EXPECT_THAT(a.ear->lines(), ElementsAre("key k", "tag tag", "all", "key last"));
}

TEST_F(TierWireTest, Messages_AreWhatTheDocumentSays) {
  auto [a, b] = TwoNodes(server.url(), PatientTier([](auto& o) { o.heartbeat = absl::Minutes(2); }));
  AwaitSubscribed(b);
  const std::string incarnation = server.Call({"HGET", kState, "i"}).text;
  RawRedis raw(server.port());
  ASSERT_EQ(raw.Call({"SUBSCRIBE", kChannel}).type, '*');
  const TierAnswer granted = a.Ask("k");
  ASSERT_EQ(b.Ask("k").kind, Answer::kBusy);
  const std::string inbox = server.Call({"GET", kWaiters}).text;
  ASSERT_EQ(inbox.size(), 16u);
  ASSERT_EQ(raw.Call({"SUBSCRIBE", "sc1:{test}:i:" + inbox}).type, '*');
  ASSERT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  ASSERT_TRUE(a.InvalidateTag("some tag").accepted);
  EXPECT_EQ(Invalidate("products", "a", ""), "4");
  const auto message = [&] {
    const RawReply reply = raw.Read();
    return reply.items.size() == 3 ? reply.items[1].text + " | " + reply.items[2].text : reply.text;
  };
  EXPECT_EQ(message(), "sc1:{test}:i:" + inbox + " | " + kLease);
  EXPECT_EQ(message(), std::string(kChannel) + " | " + incarnation + " 2 k products k");
  EXPECT_EQ(message(), std::string(kChannel) + " | " + incarnation + " 3 t products some tag");
  EXPECT_EQ(message(), std::string(kChannel) + " | " + incarnation + " 4 a products ");
}

TEST_F(TierWireTest, Script_IsHeardByProcessesWithoutAHeartbeat) {
  auto [a, b] = TwoNodes(server.url(), PatientTier([](auto& o) { o.heartbeat = absl::Minutes(2); }));
  AwaitSubscribed(a, b);
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  ASSERT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_EQ(Invalidate("products", "t", "tag"), "2");
  EXPECT_EQ(Invalidate("products", "k", "k"), "3");
  ASSERT_TRUE(a.ear->AwaitPosition((uint64_t{1} << 40) + 3));
  ASSERT_TRUE(b.ear->AwaitEnded(1));
  EXPECT_THAT(a.ear->lines(), ElementsAre("tag tag", "key k"));
}

TEST_F(TierWireTest, Sums_AreWhatTheDocumentSays) {
  TierNode a(server.url());
  const std::string incarnation = server.Call({"HGET", kState, "i"}).text;
  EXPECT_EQ(server.Call({"HGET", kState, "m"}).type, '_');
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  ASSERT_TRUE(a.InvalidateTag("some tag").accepted);
  EXPECT_EQ(Invalidate("products", "a", ""), "4");
  std::string sums = " ";
  std::string sum;
  for (const char* message : {" 2 k products k", " 3 t products some tag", " 4 a products "}) {
    sum = server.Call({"EVAL", "return redis.sha1hex(ARGV[1])", "0", sum + " " + incarnation + message}).text;
    sum = sum.substr(0, 20);
    sums = std::string(" ") + message[1] + "=" + sum + sums;
  }
  EXPECT_EQ(server.Call({"HGET", kState, "m"}).text, sums);
  // Some of the last ones are kept.
  for (int n = 0; n < 100; ++n) ASSERT_TRUE(a.InvalidateKey("k").accepted);
  const std::string many = server.Call({"HGET", kState, "m"}).text;
  EXPECT_EQ(many.substr(0, 5), " 104=");
  EXPECT_LE(many.size(), 1026u);
}

// A heartbeat reads no entry that a message has brought: here it could not.
TEST_F(TierWireTest, Heartbeat_MessagesHaveBroughtAll_NeedsNoJournal) {
  TierNode a(server.url());
  AwaitSubscribed(a);
  // A heartbeat may come before the message: then all is dropped.
  Await("a heartbeat after its message", [&] {
    const int resets = a.ear->resets();
    const uint64_t position = std::stoull(InvalidateBesidesTheJournal("k"));
    Await("the message or a heartbeat", [&] {
      const std::vector<TierEar::Heard> heard = a.ear->heard();
      return a.ear->resets() > resets || (!heard.empty() && heard.back().position == (uint64_t{1} << 40) + position);
    });
    const uint64_t beats = a.tier->Stats().heartbeats;
    Await("two heartbeats", [&] { return a.tier->Stats().heartbeats >= beats + 2; });
    return a.ear->resets() == resets;
  });
  EXPECT_TRUE(a.trusted());
}

// Versions before the sums invalidate without them, and others with messages but wrong ones.
TEST_F(TierWireTest, Sums_AreMissingOrWrong_TheHeartbeatReadsTheJournal) {
  TierNode a(server.url());
  AwaitSubscribed(a);
  uint64_t last = 0;
  constexpr int kCount = 300;
  for (int n = 0; n < kCount; ++n) {
    const std::string key = std::to_string(n);
    if (n % 5 == 1 || n % 5 == 2 || n % 25 == 13) {
      const std::string sent = n % 5 == 1 ? key : n % 5 == 2 ? "" : "wrong";
      last = std::stoull(Run(kInvalidateWithoutSum, {key, sent}));
    } else {
      if (n % 50 == 3) server.Call({"HDEL", kState, "m"});
      last = std::stoull(Invalidate("products", "k", key));
    }
    if (n % 60 == 59) {
      ASSERT_TRUE(a.ear->AwaitPosition((uint64_t{1} << 40) + last));
    }
  }
  ASSERT_TRUE(a.ear->AwaitPosition((uint64_t{1} << 40) + last));
  EXPECT_EQ(a.ear->resets(), 0);
  std::set<std::string> heard;
  for (const TierEar::Heard& one : a.ear->heard()) heard.insert(one.text);
  heard.erase("wrong");
  EXPECT_EQ(heard.size(), static_cast<size_t>(kCount)) << "each is told, whatever the messages say";
}

TEST_F(TierWireTest, Script_TooManyTags_BecomeOneInvalidationOfAll) {
  TierNode a(server.url());
  TierNode other(a, "orders");
  TierNode of_another_version(server.url(), PatientTier(), "products", "product/2");
  ASSERT_EQ(a.Load("k", {.bytes = "v", .tags = {"kept"}}).kind, Filled::kStored);
  ASSERT_EQ(other.Load("k", "v").kind, Filled::kStored);
  const std::string fill = "for n = 1, 100000 do redis.call('hset', KEYS[1], 't:products:' .. n, 1) end return 1";
  ASSERT_EQ(Run(fill, {}), "1");
  EXPECT_EQ(Invalidate("products", "k", "other"), "2");
  EXPECT_EQ(a.Ask("k").kind, Answer::kHit);
  std::vector<std::string> read = {"HMGET", kState, "i", "w", "o", "T", "B", "k"};
  for (const char* codecs : {"", ":product/1", ":product/2"}) read.push_back(std::string("c:products") + codecs);
  for (const char* codecs : {"", ":product/1"}) read.push_back(std::string("c:orders") + codecs);
  const RawReply before = server.Call(read);
  EXPECT_EQ(Invalidate("products", "t", "one more"), "3");
  EXPECT_EQ(server.Call({"HLEN", kState}).text, std::to_string(read.size() - 2 + 4)) << "q, m and two of a:<cache>";
  const RawReply after = server.Call(read);
  for (size_t n = 2; n < read.size(); ++n) EXPECT_EQ(after.items[n - 2].text, before.items[n - 2].text) << read[n];
  EXPECT_GT(std::stoll(server.Call({"PTTL", kState}).text), 600'000'000);
  EXPECT_EQ(other.Ask("k").kind, Answer::kGranted);
  ASSERT_EQ(a.Load("k", "new").kind, Filled::kStored);
  EXPECT_EQ(a.Ask("k").record->bytes, "new");
  ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateTag("one more").position));
  EXPECT_EQ(a.ear->heard().size(), 3u);
  EXPECT_EQ(a.ear->resets(), 0) << "the reign goes on";
}

TEST_F(TierWireTest, Script_WithoutMemory_Invalidates) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "1"}).text, "OK");
  EXPECT_EQ(Invalidate("products", "k", "k"), "2");
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "0"}).text, "OK");
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierWireTest, Script_SomethingIsMistyped_IsAnErrorThatSaysWhat) {
  const auto run = [&](const std::string& state, const std::string& journal, const std::vector<std::string>& args) {
    return Run(Script(), args, state, journal);
  };
  EXPECT_EQ(run(kState, kJournal, {"products", "k", "k"}), "0") << "there is no state";
  TierNode a(server.url());
  TierNode other(a, "orders");
  const std::string keys = "ERR the keys are not sc1:{<prefix>}:s and sc1:{<prefix>}:j";
  EXPECT_THAT(run("sc1:{shop}", kJournal, {"products", "k", "k"}), StartsWith(keys));
  EXPECT_THAT(run("sc1:test:s", "sc1:test:j", {"products", "k", "k"}), StartsWith(keys));
  EXPECT_THAT(run(kState, "sc1:{tset}:j", {"products", "k", "k"}), StartsWith(keys));
  EXPECT_EQ(run("sc1:{tset}:s", "sc1:{tset}:j", {"products", "k", "k"}), "0");
  for (const char* cache : {"product", "roducts", "", "products orders"}) {
    EXPECT_THAT(
        run(kState, kJournal, {cache, "k", "k"}),
        StartsWith("ERR no cache '" + std::string(cache) +
                   "' was opened in this reign, so nothing of it is in Redis; the known ones: products orders"));
  }
  EXPECT_THAT(run(kState, kJournal, {"products", "key", "k"}), StartsWith("ERR the kind is not k, t or a"));
  for (const char* kind : {"k", "t"}) {
    EXPECT_THAT(run(kState, kJournal, {"products", kind}), StartsWith("ERR the key or the tag is empty"));
    EXPECT_THAT(run(kState, kJournal, {"products", kind, ""}), StartsWith("ERR the key or the tag is empty"));
  }
  EXPECT_EQ(server.Call({"HGET", kState, "q"}).text, "1") << "nothing was invalidated";
  EXPECT_EQ(run(kState, kJournal, {"products", "k", "", "empty"}), "2");
  EXPECT_EQ(run(kState, kJournal, {"orders", "a"}), "3");
}

// What is longer than a record has is reported to all processes, and what is longer than the journal takes counts as
// all that they have in memory. Nothing of both is kept in the state.
TEST_F(TierWireTest, LongKeysAndTags_ReachTheOthers_AndTheStateStaysSmall) {
  auto [a, b] = TwoNodes(server.url());
  ASSERT_EQ(a.Load("k", "v").kind, Filled::kStored);
  ASSERT_TRUE(a.InvalidateTag(std::string(255, 't')).accepted);
  const std::string fields = server.Call({"HLEN", kState}).text;
  struct Case {
    size_t bytes;
    bool precise;
  };
  uint64_t last = 0;
  size_t count = 1;
  for (const auto& [bytes, precise] :
       {Case{256, true}, Case{1024, true}, Case{1025, false}, Case{200'000, false}, Case{1 << 20, false}}) {
    for (const bool external : {false, true}) {
      for (const auto kind : {Target::kKey, Target::kTag}) {
        const std::string text(bytes, 'x');
        if (external) {
          last = (uint64_t{1} << 40) + std::stoull(Invalidate("products", kind == Target::kKey ? "k" : "t", text));
        } else {
          const TierInvalidated done = a.Invalidate(kind, text);
          ASSERT_TRUE(done.accepted);
          last = done.position;
        }
        ASSERT_TRUE(b.ear->AwaitPosition(last));
        const std::vector<TierEar::Heard> heard = b.ear->heard();
        ASSERT_EQ(heard.size(), ++count);
        EXPECT_EQ(heard.back().kind, precise ? kind : Target::kAll) << bytes;
        EXPECT_EQ(heard.back().text, precise ? text : "");
      }
    }
  }
  EXPECT_EQ(server.Call({"HLEN", kState}).text, fields);
  EXPECT_LT(std::stoll(server.Call({"MEMORY", "USAGE", kState}).text), 10'000);
  EXPECT_EQ(b.Ask("k").kind, Answer::kHit) << "no record has such a key or tag";
  EXPECT_EQ(b.ear->resets(), 0);
}

TEST_F(TierWireTest, TagsOfTooManyBytes_BecomeOneInvalidationOfAll) {
  for (const bool external : {false, true}) {
    TierNode a(server.url());
    ASSERT_EQ(a.Load("k", {.bytes = "v", .tags = {"kept"}}).kind, Filled::kStored);
    const auto invalidate = [&](const std::string& tag) {
      return external ? Invalidate("products", "t", tag) != "0" : a.InvalidateTag(tag).accepted;
    };
    ASSERT_TRUE(invalidate(std::string(200, 't')));
    EXPECT_EQ(server.Call({"HGET", kState, "b"}).text, "200");
    ASSERT_TRUE(invalidate(std::string(200, 't')));
    EXPECT_EQ(server.Call({"HGET", kState, "b"}).text, "200") << "a tag counts once";
    server.Call({"HSET", kState, "b", "9999999"});
    ASSERT_TRUE(invalidate("t"));
    EXPECT_EQ(a.Ask("k").kind, Answer::kHit);
    ASSERT_TRUE(invalidate("u"));
    EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
    EXPECT_EQ(server.Call({"HEXISTS", kState, "t:products:t"}).text, "0");
    EXPECT_EQ(server.Call({"HEXISTS", kState, "b"}).text, "0");
    server.Call({"FLUSHALL"});
  }
}

// An older version writes keys and tags of any length. They are not sent, whatever a reply may have.
TEST_F(TierWireTest, JournalHasLargeEntries_TheProcessesDropTheirMemoryAndGoOn) {
  const RedisCacheTierOptions options = SmallReplies();
  TierNode a(server.url(), options);
  constexpr char kOlder[] =
      "for n = 1, 200 do\n"
      "  local q = redis.call('hincrby', KEYS[1], 'q', 1)\n"
      "  redis.call('xadd', KEYS[2], q .. '-0', 'o', 'older', 'c', n % 2 == 0 and 'products' or string.rep('c', 9999),"
      "             'k', n % 3 == 0 and 'k' or 't', 't', string.rep('x', n * 1000))\n"
      "end\n"
      "return redis.call('hget', KEYS[1], 'q')";
  const uint64_t last = std::stoull(Run(kOlder, {}));
  ASSERT_TRUE(a.ear->AwaitPosition((uint64_t{1} << 40) + last));
  EXPECT_EQ(a.ear->heard().size(), 100u);
  EXPECT_EQ(a.ear->heard().front().text.size(), 0u) << "2,000 bytes are too many";
  EXPECT_EQ(a.ear->resets(), 0);
  Await("trust", [&] { return a.trusted(); });
  TierNode b(server.url(), options);
  EXPECT_TRUE(b.trusted());
  ASSERT_TRUE(a.ear->AwaitPosition(b.InvalidateKey("k").position));
  EXPECT_EQ(a.ear->heard().back().text, "k");
}

// More bytes than one reply may have are read in several.
TEST_F(TierWireTest, JournalHasManyEntries_TheyAreReadInParts) {
  TierNode a(server.url(), SmallReplies());
  constexpr char kMany[] =
      "for n = 1, 500 do\n"
      "  local q = redis.call('hincrby', KEYS[1], 'q', 1)\n"
      "  redis.call('xadd', KEYS[2], q .. '-0', 'o', 'older', 'c', 'products', 'k', 'k', 't', n .. string.rep('x', "
      "1000))\n"
      "end\n"
      "return redis.call('hget', KEYS[1], 'q')";
  const uint64_t last = std::stoull(Run(kMany, {}));
  ASSERT_TRUE(a.ear->AwaitPosition((uint64_t{1} << 40) + last));
  const std::vector<TierEar::Heard> heard = a.ear->heard();
  ASSERT_EQ(heard.size(), 500u);
  for (size_t n = 0; n < heard.size(); ++n) EXPECT_EQ(heard[n].text, std::to_string(n + 1) + std::string(1000, 'x'));
  EXPECT_EQ(a.ear->resets(), 0);
}

}  // namespace
}  // namespace stockade::testing
