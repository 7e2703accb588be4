// What the tier does in Redis while nothing fails, apart from the contract of all tiers (tier_contract.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/redis/tier_node.h"
#include "support/forked_child.h"

namespace stockade::testing {
namespace {

using TierTest = RedisTierTest;

TEST_F(TierTest, Ask_MoreKeysThanMayBePending_AreAllAnswered) {
  TierNode a(server.url(), PatientTier([](auto& o) { o.redis.max_pending_commands = 1000; }));
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

TEST_F(TierTest, Ask_KeyIsTooLong_IsAway) {
  TierNode a(server.url());
  const std::string long_key(1025, 'k');
  const TierAsk asks[] = {{.key = long_key}, {.key = "granted"}};
  const std::vector<TierAnswer> answers = a.cache->Ask(asks);
  EXPECT_EQ(answers[0].kind, Answer::kAway);
  EXPECT_EQ(answers[1].kind, Answer::kGranted);
}

TEST_F(TierTest, Fill_LongLife_ItsKeyExpiresAfterMaxTtl) {
  RedisCacheTierOptions options = PatientTier();
  options.max_ttl = absl::Hours(2);
  TierNode a(server.url(), options);
  const TierNode::Value values[] = {{.bytes = "v", .ttl = absl::InfiniteDuration(), .grace = absl::Hours(1)},
                                    {.bytes = "v", .grace = absl::InfiniteDuration()}};
  for (const TierNode::Value& value : values) {
    ASSERT_EQ(a.Load("k", value).kind, Filled::kStored);
    EXPECT_EQ(a.Ask("k").record->ttl, std::min<absl::Duration>(value.ttl, options.max_ttl));
    const int64_t life = std::stoll(server.Call({"PTTL", kRecord}).text);
    EXPECT_LE(life, 7'200'000);
    EXPECT_GT(life, 7'000'000);
    ASSERT_TRUE(a.InvalidateKey("k").accepted);
  }
}

TEST_F(TierTest, Fill_Repeated_IsStored) {
  TierNode a(server.url());
  const TierAnswer granted = a.Ask("k");
  for (int n = 0; n < 2; ++n) EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
}

TEST_F(TierTest, Invalidate_AnotherCache_IsNotConcerned) {
  auto [a, b] = TwoNodes(server.url());
  TierNode orders(a, "orders");
  ASSERT_EQ(orders.Load("key", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  ASSERT_TRUE(b.InvalidateKey("key").accepted);
  ASSERT_TRUE(a.InvalidateTag("tag").accepted);
  ASSERT_TRUE(a.ear->AwaitPosition(b.InvalidateAll().position));
  EXPECT_EQ(orders.Ask("key").kind, Answer::kHit);
  EXPECT_TRUE(orders.ear->heard().empty());
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

}  // namespace
}  // namespace stockade::testing
