// What a tier does while nothing fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/forked_child.h"

namespace stockade::testing {
namespace {

using Answer = TierAnswer::Kind;
using Filled = TierFilled::Kind;
using Target = TierTarget::Kind;

class TierTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  RedisServer server;
};

TEST_F(TierTest, Ask_TwoProcessesMiss_OneLoadsForBoth) {
  TierNode a(server.url());
  TierNode b(server.url());
  const TierAnswer granted = a.Ask("k");
  ASSERT_EQ(granted.kind, Answer::kGranted);
  EXPECT_FALSE(granted.record.has_value());
  const TierAnswer busy = b.Ask("k");
  ASSERT_EQ(busy.kind, Answer::kBusy);
  EXPECT_FALSE(busy.record.has_value());
  EXPECT_GT(busy.retry_after, absl::ZeroDuration());
  EXPECT_LT(busy.retry_after, absl::Seconds(1));

  const std::vector<std::string> tags = {"brand:x", "", std::string("\0\xff{}:", 5)};
  const TierFilled filled = a.Fill("k", granted.lease, TierNode::Value{.bytes = "value", .tags = tags});
  ASSERT_EQ(filled.kind, Filled::kStored);
  EXPECT_NE(filled.version, 0u);
  for (TierNode* node : {&a, &b}) {
    const TierAnswer hit = node->Ask("k");
    ASSERT_EQ(hit.kind, Answer::kHit);
    EXPECT_EQ(hit.record->bytes, "value");
    EXPECT_FALSE(hit.record->absent);
    EXPECT_EQ(hit.record->tags, tags);
    EXPECT_EQ(hit.record->ttl, absl::Hours(1));
    EXPECT_LE(hit.record->left, absl::Hours(1));
    EXPECT_GT(hit.record->left, absl::Minutes(55));
    EXPECT_EQ(hit.record->load_time, absl::Milliseconds(7));
    EXPECT_EQ(hit.record->version, filled.version);
    EXPECT_EQ(hit.record->position, filled.position);
  }
}

TEST_F(TierTest, Ask_AnyBytesAsKeyAndValue_ComeBack) {
  TierNode a(server.url());
  const std::string bytes("\0\r\n{}\xff:", 7);
  const TierAsk asks[] = {{.key = bytes}, {.key = ""}, {.key = std::string_view(bytes).substr(0, 1)}};
  for (const TierAsk& ask : asks) ASSERT_EQ(a.Load(ask.key, bytes).kind, Filled::kStored);
  for (const TierAnswer& answer : a.cache->Ask(asks)) {
    ASSERT_EQ(answer.kind, Answer::kHit);
    EXPECT_EQ(answer.record->bytes, bytes);
  }
}

TEST_F(TierTest, Ask_ManyKeys_AreAnsweredInOrder) {
  TierNode a(server.url());
  TierNode b(server.url());
  ASSERT_EQ(a.Load("hit", "value").kind, Filled::kStored);
  ASSERT_EQ(b.Ask("busy").kind, Answer::kGranted);
  const std::string long_key(1025, 'k');
  const std::vector<TierAsk> asks = {{.key = "busy"}, {.key = long_key}, {.key = "hit"}, {.key = "granted"}};
  const std::vector<TierAnswer> answers = a.cache->Ask(asks);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].kind, Answer::kBusy);
  EXPECT_EQ(answers[1].kind, Answer::kAway);
  EXPECT_EQ(answers[2].kind, Answer::kHit);
  EXPECT_EQ(answers[3].kind, Answer::kGranted);
}

TEST_F(TierTest, Ask_MoreKeysThanMayBePending_AreAllAnswered) {
  RedisCacheTierOptions options = PatientTier();
  options.redis.max_pending_commands = 1000;
  TierNode a(server.url(), options);
  std::vector<std::string> keys;
  keys.reserve(3000);
  for (int n = 0; n < 3000; ++n) keys.push_back(std::to_string(n));
  std::vector<TierAsk> asks;
  for (const std::string& key : keys) asks.push_back({.key = key});
  std::vector<TierAnswer> answers = a.cache->Ask(asks);
  ASSERT_EQ(answers.size(), keys.size());
  std::vector<TierFill> fills;
  for (size_t n = 0; n < keys.size(); ++n) {
    ASSERT_EQ(answers[n].kind, Answer::kGranted) << n;
    fills.push_back({.key = keys[n], .lease = answers[n].lease, .bytes = keys[n], .ttl = absl::Hours(1)});
  }
  for (const TierFilled& filled : a.cache->Fill(fills)) ASSERT_EQ(filled.kind, Filled::kStored);
  answers = a.cache->Ask(asks);
  for (size_t n = 0; n < keys.size(); ++n) ASSERT_EQ(answers[n].record->bytes, keys[n]);
}

TEST_F(TierTest, Fill_AnAbsence_IsAnAbsenceForOthers) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", TierNode::Value{.bytes = "no such product", .absent = true}).kind, Filled::kStored);
  const TierAnswer hit = TierNode(server.url()).Ask("k");
  ASSERT_EQ(hit.kind, Answer::kHit);
  EXPECT_TRUE(hit.record->absent);
  EXPECT_EQ(hit.record->bytes, "no such product");
}

TEST_F(TierTest, Ask_ExpiredWithinItsGrace_ComesWithTheLease) {
  TierNode a(server.url());
  TierNode b(server.url());
  ASSERT_EQ(a.Load("k", TierNode::Value{.bytes = "old", .ttl = absl::Milliseconds(1), .grace = absl::Hours(1)}).kind,
            Filled::kStored);
  TierAnswer granted;
  Await("the expiry", [&] { return (granted = a.Ask("k")).kind == Answer::kGranted; });
  ASSERT_TRUE(granted.record.has_value());
  EXPECT_EQ(granted.record->bytes, "old");
  EXPECT_LE(granted.record->left, absl::ZeroDuration());
  const TierAnswer busy = b.Ask("k");
  ASSERT_EQ(busy.kind, Answer::kBusy);
  ASSERT_TRUE(busy.record.has_value());
  EXPECT_EQ(busy.record->bytes, "old");
}

TEST_F(TierTest, Fill_LongLife_IsLimitedToMaxTtl) {
  RedisCacheTierOptions options = PatientTier();
  options.max_ttl = absl::Hours(2);
  TierNode a(server.url(), options);
  ASSERT_EQ(a.Load("k", TierNode::Value{.bytes = "v", .ttl = absl::InfiniteDuration(), .grace = absl::Hours(1)}).kind,
            Filled::kStored);
  ASSERT_EQ(a.Load("g", TierNode::Value{.bytes = "v", .grace = absl::InfiniteDuration()}).kind, Filled::kStored);
  EXPECT_EQ(a.Ask("k").record->ttl, absl::Hours(2));
  EXPECT_EQ(a.Ask("g").record->ttl, absl::Hours(1));
  for (const char* key : {"k", "g"}) {
    const std::string life = server.Call({"PTTL", std::string("sc1:{test}:v:products:product/1:") + key}).text;
    EXPECT_LE(std::stoll(life), 7'200'000);
    EXPECT_GT(std::stoll(life), 7'000'000);
  }
}

TEST_F(TierTest, Ask_Refresh_OneProcessLoadsAndTheOtherGetsItsRecord) {
  TierNode a(server.url());
  TierNode b(server.url());
  const uint64_t first = a.Load("k", "1").version;
  const TierAnswer granted = a.Ask("k", first);
  ASSERT_EQ(granted.kind, Answer::kGranted);
  EXPECT_FALSE(granted.record.has_value());
  EXPECT_EQ(b.Ask("k", first).kind, Answer::kBusy);
  EXPECT_EQ(b.Ask("k").kind, Answer::kHit) << "a fresh record answers lookups while it is refreshed";
  const TierFilled second = a.Fill("k", granted.lease, "2");
  ASSERT_EQ(second.kind, Filled::kStored);
  EXPECT_NE(second.version, first);
  const TierAnswer hit = b.Ask("k", first);
  ASSERT_EQ(hit.kind, Answer::kHit);
  EXPECT_EQ(hit.record->bytes, "2");
  EXPECT_EQ(hit.record->version, second.version);
}

TEST_F(TierTest, Fill_AfterAnInvalidation_IsRefused) {
  TierNode a(server.url());
  TierNode b(server.url());
  const TierAnswer key = a.Ask("key");
  const TierAnswer tagged = a.Ask("tagged");
  const TierAnswer other = a.Ask("other");
  ASSERT_TRUE(b.InvalidateKey("key").accepted);
  ASSERT_TRUE(b.InvalidateTag("tag").accepted);
  EXPECT_EQ(a.Fill("key", key.lease, "old").kind, Filled::kRefused);
  EXPECT_EQ(a.Fill("tagged", tagged.lease, TierNode::Value{.bytes = "old", .tags = {"x", "tag"}}).kind,
            Filled::kRefused);
  EXPECT_EQ(a.Fill("other", other.lease, TierNode::Value{.bytes = "new", .tags = {"x", "tags"}}).kind, Filled::kStored);
  const TierAnswer all = a.Ask("all");
  ASSERT_TRUE(b.InvalidateAll().accepted);
  EXPECT_EQ(a.Fill("all", all.lease, "old").kind, Filled::kRefused);
  for (const char* name : {"key", "tagged", "other", "all"}) EXPECT_EQ(b.Ask(name).kind, Answer::kGranted) << name;
}

TEST_F(TierTest, Ask_AfterAnInvalidation_MissesWhatItConcerns) {
  TierNode a(server.url());
  TierNode b(server.url());
  TierNode other_cache(a, "orders");
  for (const char* key : {"key", "kept"}) ASSERT_EQ(a.Load(key, "v").kind, Filled::kStored);
  ASSERT_EQ(a.Load("tagged", TierNode::Value{.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  ASSERT_EQ(other_cache.Load("key", TierNode::Value{.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  ASSERT_TRUE(b.InvalidateKey("key").accepted);
  ASSERT_TRUE(b.InvalidateTag("tag").accepted);
  EXPECT_EQ(a.Ask("key").kind, Answer::kGranted);
  EXPECT_EQ(a.Ask("tagged").kind, Answer::kGranted);
  EXPECT_EQ(a.Ask("kept").kind, Answer::kHit);
  ASSERT_TRUE(b.InvalidateAll().accepted);
  EXPECT_EQ(a.Ask("kept").kind, Answer::kGranted);
  EXPECT_EQ(other_cache.Ask("key").kind, Answer::kHit);
}

TEST_F(TierTest, Invalidate_IsReportedToAllProcessesInOrder) {
  TierNode a(server.url());
  TierNode b(server.url());
  TierNode other_cache(b, "orders");
  const TierAnswer before = a.Ask("k");
  const TierInvalidated key = a.InvalidateKey("k");
  const TierInvalidated tag = b.InvalidateTag("t");
  const TierInvalidated all = a.InvalidateAll();
  ASSERT_TRUE(key.accepted && tag.accepted && all.accepted);
  EXPECT_LT(before.lease.position, key.position);
  EXPECT_LT(key.position, tag.position);
  EXPECT_LT(tag.position, all.position);
  EXPECT_EQ(a.Ask("k").lease.position, all.position);
  for (TierNode* node : {&a, &b}) {
    ASSERT_TRUE(node->ear->AwaitPosition(all.position));
    const std::vector<TierEar::Heard> heard = node->ear->heard();
    ASSERT_EQ(heard.size(), 3u);
    EXPECT_EQ(heard[0].position, key.position);
    EXPECT_EQ(heard[0].kind, Target::kKey);
    EXPECT_EQ(heard[0].text, "k");
    EXPECT_EQ(heard[1].position, tag.position);
    EXPECT_EQ(heard[1].kind, Target::kTag);
    EXPECT_EQ(heard[1].text, "t");
    EXPECT_EQ(heard[2].position, all.position);
    EXPECT_EQ(heard[2].kind, Target::kAll);
    EXPECT_TRUE(node->trusted());
  }
  EXPECT_TRUE(other_cache.ear->heard().empty());
}

TEST_F(TierTest, Invalidate_WithLease_VoidsOtherLoadsAndStoresItsValue) {
  TierNode a(server.url());
  TierNode b(server.url());
  const TierAnswer loading = b.Ask("k");
  const TierInvalidated put = a.Invalidate(Target::kKey, "k", true);
  ASSERT_TRUE(put.accepted);
  ASSERT_FALSE(put.lease.token.empty());
  EXPECT_EQ(put.lease.position, put.position);
  EXPECT_EQ(b.Fill("k", loading.lease, "loaded").kind, Filled::kRefused);
  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_EQ(a.Fill("k", put.lease, "put").kind, Filled::kStored);
  EXPECT_EQ(b.Ask("k").record->bytes, "put");
}

TEST_F(TierTest, Invalidate_TwoPuts_OnlyTheLaterOneIsStored) {
  TierNode a(server.url());
  TierNode b(server.url());
  const TierInvalidated first = a.Invalidate(Target::kKey, "k", true);
  const TierInvalidated second = b.Invalidate(Target::kKey, "k", true);
  EXPECT_EQ(b.Fill("k", second.lease, "second").kind, Filled::kStored);
  EXPECT_EQ(a.Fill("k", first.lease, "first").kind, Filled::kRefused);
  EXPECT_EQ(a.Ask("k").record->bytes, "second");
}

TEST_F(TierTest, Fail_EndsTheLease) {
  TierNode a(server.url());
  TierNode b(server.url());
  const TierAnswer granted = a.Ask("k");
  a.cache->Fail("k", granted.lease);
  Await("the end of the lease", [&] { return b.Ask("k").kind == Answer::kGranted; });
  EXPECT_EQ(a.Fill("k", granted.lease, "late").kind, Filled::kRefused);
}

TEST_F(TierTest, Fill_WhatTheTierDoesNotTake_EndsTheLeaseAndDropsTheOldValue) {
  RedisCacheTierOptions options = PatientTier();
  options.max_value_bytes = 10;
  TierNode a(server.url(), options);
  TierNode b(server.url(), options);
  const std::vector<std::string> too_many(65, "tag");
  const TierNode::Value values[] = {{.bytes = "eleven byte"},
                                    {.bytes = "v", .tags = too_many},
                                    {.bytes = "v", .tags = {std::string(256, 't')}},
                                    {.bytes = "v", .ttl = absl::ZeroDuration()},
                                    {.bytes = "v", .ttl = absl::Seconds(-1)}};
  for (const TierNode::Value& value : values) {
    const uint64_t version = a.Load("k", "ten bytes.").version;
    const TierAnswer granted = a.Ask("k", version);
    const TierFilled filled = a.Fill("k", granted.lease, value);
    EXPECT_EQ(filled.kind, Filled::kUnstored);
    EXPECT_EQ(filled.position, granted.lease.position);
    const TierAnswer next = b.Ask("k");
    ASSERT_EQ(next.kind, Answer::kGranted);
    EXPECT_FALSE(next.record.has_value());
    EXPECT_EQ(a.Fill("k", granted.lease, value).kind, Filled::kRefused) << "the lease is no longer its own";
    b.cache->Fail("k", next.lease);
    Await("the end of the lease", [&] {
      const TierAnswer again = a.Ask("k");
      if (again.kind == Answer::kGranted) a.cache->Fail("k", again.lease);
      return again.kind == Answer::kGranted;
    });
  }
  const std::vector<std::string> most(64, std::string(255, 't'));
  EXPECT_EQ(a.Load("most", TierNode::Value{.bytes = "ten bytes.", .tags = most}).kind, Filled::kStored);
  EXPECT_EQ(b.Ask("most").record->tags, most);
}

TEST_F(TierTest, Fill_WithoutALease_IsRefused) {
  TierNode a(server.url());
  EXPECT_EQ(a.Fill("k", {}, "v").kind, Filled::kRefused);
  const TierAnswer granted = a.Ask("k");
  EXPECT_EQ(a.Fill("other", granted.lease, "v").kind, Filled::kRefused);
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored) << "a repeat of the same fill";
}

TEST_F(TierTest, Open_TwoCodecs_HaveTheirOwnValuesAndShareInvalidations) {
  TierNode a(server.url());
  TierNode b(server.url(), PatientTier(), "products", "product/2");
  ASSERT_EQ(a.Load("k", "1").kind, Filled::kStored);
  ASSERT_EQ(b.Load("k", "2").kind, Filled::kStored);
  EXPECT_EQ(a.Ask("k").record->bytes, "1");
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
  const TierAnswer second = b.Ask("k");
  ASSERT_EQ(second.kind, Answer::kGranted);
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  EXPECT_EQ(b.Fill("k", second.lease, "2").kind, Filled::kRefused);
}

TEST_F(TierTest, Open_ACodecRegistersWhileAnotherIsUsed_ItsValuesAreInvalidatedAsWell) {
  TierNode a(server.url());
  ASSERT_TRUE(a.InvalidateKey("k").accepted) << "a has seen the list of codecs";
  TierNode b(server.url(), PatientTier(), "products", "product/2");
  ASSERT_EQ(b.Load("k", "2").kind, Filled::kStored);
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierTest, Open_ACodecThatWasDropped_NeverReadsWhatWasInvalidatedMeanwhile) {
  TierNode old(server.url(), PatientTier(), "products", "c0");
  ASSERT_EQ(old.Load("k", "old").kind, Filled::kStored);
  const TierAnswer loading = old.Ask("loading");
  std::vector<std::unique_ptr<TierNode>> newer;
  for (int n = 1; n <= 8; ++n) {
    newer.push_back(std::make_unique<TierNode>(server.url(), PatientTier(), "products", "c" + std::to_string(n)));
  }
  EXPECT_EQ(server.Call({"HGET", "sc1:{test}:s", "c:products"}).text, "c1 c2 c3 c4 c5 c6 c7 c8");
  ASSERT_TRUE(newer[0]->InvalidateKey("k").accepted) << "does not cover c0";
  EXPECT_EQ(old.Fill("loading", loading.lease, "v").kind, Filled::kRefused);
  const TierAnswer again = old.Ask("k");
  EXPECT_EQ(again.kind, Answer::kGranted) << "registered again, and its old value is void";
  EXPECT_EQ(old.Fill("k", again.lease, "new").kind, Filled::kStored);
  EXPECT_EQ(old.Ask("k").record->bytes, "new");
}

TEST_F(TierTest, Open_BadNames_AreRefused) {
  TierNode a(server.url());
  TierEar ear;
  for (const std::string& name : {std::string(), std::string("a b"), std::string("{a}"), std::string("a:b"),
                                  std::string("caf\xc3\xa9"), std::string(65, 'x'), std::string("a\n")}) {
    const absl::Status refused = a.tier->Open(name, "codec", ear).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("cache '"));
  }
  const absl::Status codec = a.tier->Open("cache", std::string(33, 'x'), ear).status();
  EXPECT_TRUE(absl::IsInvalidArgument(codec));
  EXPECT_THAT(std::string(codec.message()), ::testing::HasSubstr("codec 'xxx"));
  const absl::Status twice = a.tier->Open("products", "codec", ear).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(twice));
  EXPECT_THAT(std::string(twice.message()), ::testing::HasSubstr("'products'"));
  a.cache.reset();
  EXPECT_TRUE(a.tier->Open("products", "codec", ear).ok());
}

TEST_F(TierTest, Destruction_OfTheTierBeforeItsCaches_KeepsTheseUsable) {
  TierNode a(server.url());
  TierNode b(server.url());
  a.tier.reset();
  EXPECT_EQ(a.Load("k", "v").kind, Filled::kStored);
  ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateKey("k").position));
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierTest, ForkedChild_CallsAbortAndDestructionDoesNothing) {
  TierNode a(server.url());
  const auto aborts = [](auto call) {
    const int status = InForkedChild(call);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  };
  EXPECT_TRUE(aborts([&] { a.Ask("k"); }));
  EXPECT_TRUE(aborts([&] { a.Fill("k", {}, "v"); }));
  EXPECT_TRUE(aborts([&] { a.InvalidateKey("k"); }));
  EXPECT_TRUE(aborts([&] { (void)a.tier->Open("orders", "codec", *a.ear); }));
  EXPECT_EQ(InForkedChild([&] {
              a.cache.reset();
              a.tier.reset();
            }),
            0);
  EXPECT_EQ(a.Load("k", "v").kind, Filled::kStored);
}

TEST_F(TierTest, Destruction_EndsLeasesAndListening) {
  TierNode a(server.url());
  TierNode b(server.url());
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  a.cache.reset();
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
  const size_t heard = a.ear->heard().size();
  TierNode other(a, "orders");
  ASSERT_TRUE(b.ear->AwaitPosition(b.InvalidateKey("k").position));
  ASSERT_TRUE(other.ear->AwaitPosition(other.InvalidateAll().position));
  EXPECT_EQ(a.ear->heard().size(), heard);
}

}  // namespace
}  // namespace stockade::testing
