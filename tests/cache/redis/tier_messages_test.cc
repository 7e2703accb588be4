// Messages of the processes of a fleet, and what happens without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/redis/tier_node.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using ::testing::ElementsAre;

class TierMessagesTest : public RedisTierTest {
 protected:
  // A process that no heartbeat tells anything while a test runs.
  static RedisCacheTierOptions Rare() {
    return PatientTier([](auto& o) { o.heartbeat = absl::Minutes(2); });
  }
  // A process that sends no messages, such as one of an older version.
  static RedisCacheTierOptions Silent() {
    return PatientTier([](auto& o) { o.pubsub = false; });
  }
  // What is left of the lease of key "k", and the most that is left of a lease that was shortened.
  int64_t LeaseLifeMs() { return std::stoll(server.Call({"PTTL", kLease}).text); }
  static int64_t ShortMs(absl::Duration lease) { return absl::ToInt64Milliseconds(lease) * 4 / 10; }
  void CutSubscriptions() {
    ASSERT_EQ(server.Call({"ACL", "SETUSER", "default", "-subscribe"}).text, "OK");
    server.Call({"CLIENT", "KILL", "TYPE", "pubsub"});
  }
  // Whether the caller asks again soon, because no message will wake it.
  static bool PollsOften(const TierAnswer& busy) { return busy.retry_after < absl::Milliseconds(30); }
};

TEST_F(TierMessagesTest, Invalidate_ReachesAllProcessesWithoutAHeartbeat) {
  TierNode a(server.url(), Rare());
  TierNode other(a, "orders");
  TierNode b(server.url(), Rare());
  AwaitSubscribed(a);
  ASSERT_TRUE(b.InvalidateKey("a key").accepted);
  ASSERT_TRUE(b.InvalidateTag("").accepted);
  ASSERT_TRUE(a.Invalidate(Target::kKey, "put", true).accepted);
  ASSERT_TRUE(other.InvalidateKey("not of products").accepted);
  const uint64_t last = b.InvalidateAll().position;
  ASSERT_TRUE(a.ear->AwaitPosition(last));
  EXPECT_THAT(a.ear->lines(), ElementsAre("key a key", "tag ", "key put", "all"));
  EXPECT_EQ(a.ear->heard()[3].position, last);
  EXPECT_EQ(other.ear->heard().size(), 1u);
  EXPECT_EQ(a.tier->Stats().caches[1].invalidations_applied, 0u) << "a heartbeat confirms them";
}

TEST_F(TierMessagesTest, Invalidate_AnyBytesAsKey_ReachOtherProcesses) {
  TierNode a(server.url(), Rare());
  AwaitSubscribed(a);
  std::string all(256, '\0');
  for (size_t n = 0; n < all.size(); ++n) all[n] = static_cast<char>(n);
  for (const std::string& key : {all, std::string(), std::string("  "), std::string(1000, ' ')}) {
    ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateKey(key).position));
    EXPECT_EQ(a.ear->heard().back().text, key);
  }
}

// A heartbeat reports what no message has, and nothing twice.
TEST_F(TierMessagesTest, Invalidate_WithAndWithoutMessages_IsReportedOnceAndInOrder) {
  auto [a, loud] = TwoNodes(server.url());
  TierNode silent(server.url(), Silent());
  constexpr int kCount = 500;
  uint64_t last = 0;
  for (int n = 0; n < kCount; ++n) {
    TierNode& node = n % 7 == 0 ? silent : loud;
    last = node.InvalidateKey(std::to_string(n)).position;
    if (n % 100 == 50) server.Call({"CLIENT", "KILL", "TYPE", "pubsub"});
  }
  for (TierNode* node : {&a, &loud, &silent}) {
    ASSERT_TRUE(node->ear->AwaitPosition(last));
    EXPECT_EQ(node->ear->lines(), NumberedKeys(kCount));
  }
  EXPECT_FALSE(silent.tier->Stats().subscribed);
}

TEST_F(TierMessagesTest, Message_LateRepeatedOrForeign_ChangesNothing) {
  TierNode a(server.url(), Rare());
  AwaitSubscribed(a);
  const std::string incarnation = server.Call({"HGET", kState, "i"}).text;
  ASSERT_TRUE(a.InvalidateKey("1").accepted);
  ASSERT_TRUE(a.InvalidateKey("2").accepted);
  const std::vector<std::string> messages = {
      incarnation + " 2 k products 1",                // Late, and a repeat.
      incarnation + " 3 k products 2",                // A repeat.
      incarnation + " 9 k products early",            // What is before it is missing.
      "0123456789abcdef 4 k products foreign",        // Of another reign.
      incarnation + " 4 k products",                  // The rest are no messages.
      incarnation + " four k products x",             //
      incarnation + "4 k products x",                 //
      incarnation + " 99999999999999999999 k pro x",  //
      incarnation,
      "",
      std::string(300, '\0'),
      incarnation + " 4 k products " + std::string(2000, 'x'),  // Longer than any key of a cache.
  };
  for (const std::string& message : messages) {
    EXPECT_EQ(server.Call({"PUBLISH", kChannel, message}).text, "1") << message;
  }
  ASSERT_TRUE(a.ear->AwaitPosition(a.InvalidateKey("3").position));
  EXPECT_THAT(a.ear->lines(), ElementsAre("key 1", "key 2", "key 3"));
}

// A later version may have kinds that this one does not know.
TEST_F(TierMessagesTest, Message_OfAnUnknownKind_CountsAsAll) {
  TierNode a(server.url(), Rare());
  AwaitSubscribed(a);
  server.Call({"PUBLISH", kChannel, server.Call({"HGET", kState, "i"}).text + " 2 new products some text"});
  ASSERT_TRUE(a.ear->AwaitPosition(2));
  EXPECT_THAT(a.ear->lines(), ElementsAre("all"));
}

// Two servers with one journal, for example, of which the process hears the wrong one.
TEST_F(TierMessagesTest, Message_IsNotWhatTheJournalHas_TheHeartbeatReportsTheJournal) {
  auto [a, silent] = TwoNodes(server.url(), PatientTier(), Silent());
  AwaitSubscribed(a);
  const std::string incarnation = server.Call({"HGET", kState, "i"}).text;
  std::mutex blocking;  // No heartbeat comes between the messages and the journal.
  a.ear->during = [&] { const std::lock_guard lock(blocking); };
  uint64_t last = 0;
  {
    const std::lock_guard lock(blocking);
    for (const char* text : {"2 k products x", "3 t products k", "4 k orders k", "5 k products k"}) {
      server.Call({"PUBLISH", kChannel, incarnation + " " + text});
    }
    for (int n = 0; n < 4; ++n) ASSERT_TRUE(silent.InvalidateKey("k").accepted);
    last = silent.InvalidateKey("last").position;
  }
  ASSERT_TRUE(a.ear->AwaitPosition(last));
  std::vector<uint64_t> right;
  for (const TierEar::Heard& heard : a.ear->heard()) {
    if (heard.kind == Target::kKey && heard.text == "k") right.push_back(heard.position);
  }
  std::sort(right.begin(), right.end());
  EXPECT_THAT(right, ElementsAre(last - 4, last - 3, last - 2, last - 1)) << "each once";
  EXPECT_EQ(a.ear->resets(), 0);
}

// The invalidation that the message tells of never comes.
TEST_F(TierMessagesTest, Message_IsAheadOfTheJournal_TheHeartbeatDropsAll) {
  auto [a, silent] = TwoNodes(server.url(), PatientTier(), Silent());
  AwaitSubscribed(a);
  const std::string incarnation = server.Call({"HGET", kState, "i"}).text;
  server.Call({"PUBLISH", kChannel, incarnation + " 2 k products x"});
  ASSERT_TRUE(a.ear->AwaitResets(1));
  Await("trust", [&] { return a.trusted(); });
  ASSERT_TRUE(silent.InvalidateKey("y").accepted);
  ASSERT_TRUE(a.ear->AwaitPosition(silent.InvalidateKey("z").position));
  EXPECT_THAT(a.ear->lines(), ElementsAre("key x", "reset", "key y", "key z"));
}

// Interleaving 9 of the design: the subscription is cut, and all else works.
TEST_F(TierMessagesTest, SubscriptionIsCut_HeartbeatsReportWhatItMisses) {
  TierNode a(server.url(), PatientTier([](auto& o) { o.redis.max_backoff = absl::Milliseconds(20); }));
  TierNode b(server.url());
  AwaitSubscribed(a);
  ASSERT_TRUE(a.ear->AwaitPosition(b.InvalidateKey("1").position));
  CutSubscriptions();
  Await("the end of the subscription", [&] { return !a.tier->Stats().subscribed; });
  const uint64_t messages = a.tier->Stats().invalidation_messages;
  const TierAnswer loading = b.Ask("k");
  EXPECT_TRUE(PollsOften(a.Ask("k")));
  b.cache->Fail("k", loading.lease);
  ASSERT_TRUE(a.ear->AwaitPosition(b.InvalidateKey("2").position));
  EXPECT_EQ(a.tier->Stats().invalidation_messages, messages);
  EXPECT_TRUE(a.trusted());
  ASSERT_EQ(server.Call({"ACL", "SETUSER", "default", "+subscribe"}).text, "OK");
  AwaitSubscribed(a);
  Await("a message", [&] {
    EXPECT_TRUE(a.ear->AwaitPosition(b.InvalidateKey("3").position));
    return a.tier->Stats().invalidation_messages > messages;
  });
  EXPECT_EQ(a.ear->resets(), 0);
}

TEST_F(TierMessagesTest, NewReign_MessagesGoOn) {
  auto [a, b] = TwoNodes(server.url());
  AwaitSubscribed(a);
  server.Call({"FLUSHALL"});
  ASSERT_TRUE(a.ear->AwaitResets(1));
  ASSERT_TRUE(b.ear->AwaitResets(1));
  const uint64_t messages = a.tier->Stats().invalidation_messages;
  Await("a message", [&] {
    EXPECT_TRUE(a.ear->AwaitPosition(b.InvalidateKey("k").position));
    return a.tier->Stats().invalidation_messages > messages;
  });
}

TEST_F(TierMessagesTest, Lease_HoweverItEnds_TheProcessThatWaitsIsTold) {
  auto [a, b] = TwoNodes(server.url(), Rare());
  AwaitSubscribed(b);
  size_t told = 0;
  TierLease lease;
  const auto wait = [&] {
    const TierAnswer granted = a.Ask("k");
    ASSERT_EQ(granted.kind, Answer::kGranted);
    lease = granted.lease;
    for (int asked = 0; asked < 3; ++asked) {
      const TierAnswer busy = b.Ask("k");
      ASSERT_EQ(busy.kind, Answer::kBusy);
      EXPECT_FALSE(PollsOften(busy));
    }
    EXPECT_EQ(server.Call({"STRLEN", kWaiters}).text, "16") << "each process once";
  };
  const auto is_told = [&] {
    ASSERT_TRUE(b.ear->AwaitEnded(++told));
    EXPECT_EQ(server.Call({"EXISTS", kWaiters}).text, "0");
  };
  wait();
  EXPECT_EQ(a.Fill("k", lease, {.bytes = "v", .ttl = absl::ZeroDuration()}).kind, Filled::kUnstored);
  is_told();
  wait();
  a.cache->Fail("k", lease);
  is_told();
  wait();
  ASSERT_TRUE(a.InvalidateTag("tag").accepted);
  EXPECT_EQ(a.Fill("k", lease, {.bytes = "v", .tags = {"tag"}}).kind, Filled::kRefused);
  is_told();
  wait();
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  is_told();
  wait();
  const TierInvalidated put = a.Invalidate(Target::kKey, "k", true);
  is_told();
  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_EQ(a.Fill("k", put.lease, "v").kind, Filled::kStored);
  is_told();
  EXPECT_EQ(b.Ask("k").kind, Answer::kHit);
  ASSERT_TRUE(a.InvalidateKey("k").accepted);
  wait();
  a.cache.reset();
  is_told();
  EXPECT_EQ(b.ear->ended(), std::vector<std::string>(told, "k"));
  EXPECT_EQ(b.tier->Stats().lease_messages, told);
}

TEST_F(TierMessagesTest, Lease_ManyProcessesWait_EachIsTold) {
  TierNode loader(server.url(), Rare());
  std::vector<std::unique_ptr<TierNode>> nodes;
  for (int n = 0; n < 6; ++n) nodes.push_back(std::make_unique<TierNode>(server.url(), Rare()));
  TierNode silent(server.url(), Silent());
  const TierAnswer granted = loader.Ask("k");
  for (const auto& node : nodes) {
    AwaitSubscribed(*node);
    EXPECT_FALSE(PollsOften(node->Ask("k")));
  }
  EXPECT_TRUE(PollsOften(silent.Ask("k")));
  ASSERT_EQ(loader.Fill("k", granted.lease, "v").kind, Filled::kStored);
  for (const auto& node : nodes) EXPECT_TRUE(node->ear->AwaitEnded(1));
  EXPECT_TRUE(loader.ear->ended().empty());
}

TEST_F(TierMessagesTest, Lease_MoreProcessesWaitThanItKeeps_TheOthersPoll) {
  auto [a, b] = TwoNodes(server.url(), Rare());
  AwaitSubscribed(b);
  const TierAnswer granted = a.Ask("k");
  const std::string full(size_t{128} * 16, 'x');
  server.Call({"SET", kWaiters, full});
  EXPECT_TRUE(PollsOften(b.Ask("k")));
  EXPECT_EQ(server.Call({"GET", kWaiters}).text, full);
  server.Call({"SET", kWaiters, full.substr(16)});
  EXPECT_FALSE(PollsOften(b.Ask("k")));
  ASSERT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
  EXPECT_TRUE(b.ear->AwaitEnded(1));
}

// If the message is not sent, a process asks again before long, and at the latest when the lease ends.
TEST_F(TierMessagesTest, Lease_ItsLoaderSendsNoMessages_TheProcessThatWaitsPolls) {
  TierNode silent(server.url(), Silent());
  RedisCacheTierOptions short_lease = Rare();
  short_lease.lease = absl::Milliseconds(200);
  TierNode b(server.url(), short_lease);
  AwaitSubscribed(b);
  const TierAnswer granted = silent.Ask("k");
  for (int asked = 0; asked < 3; ++asked) EXPECT_LE(b.Ask("k").retry_after, absl::Milliseconds(1200));
  EXPECT_EQ(silent.Fill("k", granted.lease, "v").kind, Filled::kStored);
  EXPECT_EQ(b.Ask("k").kind, Answer::kHit);
  TierNode a(server.url(), short_lease);
  ASSERT_EQ(a.Ask("lapses").kind, Answer::kGranted);
  EXPECT_LE(b.Ask("lapses").retry_after, absl::Milliseconds(220));
}

// The lease of a process that has no subscription ends earlier, once a process that waits asks again.
TEST_F(TierMessagesTest, Lease_ProcessIsGone_IsShortened) {
  auto [a, b] = TwoNodes(server.url(), Rare());
  AwaitSubscribed(a, b);
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  const int64_t short_ms = ShortMs(Rare().lease);
  for (int asked = 0; asked < 3; ++asked) ASSERT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_GT(LeaseLifeMs(), short_ms) << "its process has a subscription";
  std::string lease = server.Call({"GET", kLease}).text;
  ASSERT_EQ(lease.size(), 49u);
  const std::string whole_ms = std::to_string(absl::ToInt64Milliseconds(Rare().lease));
  // Its process never had one, or is of an older version, whose tokens name no inbox and which renews less often.
  for (const std::string& inbox : {std::string(8, '\0'), std::string("\x12\x34random")}) {
    lease.replace(25, 8, inbox);
    server.Call({"SET", kLease, lease, "PX", whole_ms});
    for (int asked = 0; asked < 3; ++asked) ASSERT_EQ(b.Ask("k").kind, Answer::kBusy);
    EXPECT_GT(LeaseLifeMs(), short_ms);
  }
  lease.replace(25, 8, "\xff\x01kill\x5c\x1b");
  server.Call({"SET", kLease, lease, "PX", whole_ms});
  TierNode c(server.url(), Rare());
  AwaitSubscribed(c);
  ASSERT_EQ(c.Ask("k").kind, Answer::kBusy);
  EXPECT_GT(LeaseLifeMs(), short_ms) << "a first question does not look";
  ASSERT_EQ(c.Ask("k").kind, Answer::kBusy);
  EXPECT_LE(LeaseLifeMs(), short_ms);
}

TEST_F(TierMessagesTest, Lease_ProcessIsGone_AnyBytesAsKey_IsShortened) {
  auto [a, b] = TwoNodes(server.url(), Rare());
  AwaitSubscribed(a, b);
  CutSubscriptions();
  const int64_t short_ms = ShortMs(Rare().lease);
  for (const std::string& key : {std::string(), std::string("}:{i:"), std::string("\0\n%d\xff ", 6)}) {
    const std::string lease = "sc1:{test}:l:products:product/1:" + key;
    const auto life_ms = [&] { return std::stoll(server.Call({"PTTL", lease}).text); };
    ASSERT_EQ(a.Ask(key).kind, Answer::kGranted);
    ASSERT_EQ(server.Call({"ACL", "SETUSER", "default", "-publish"}).text, "OK");
    for (int asked = 0; asked < 3; ++asked) ASSERT_EQ(b.Ask(key).kind, Answer::kBusy);
    EXPECT_GT(life_ms(), short_ms) << "without the right to look, nobody is gone";
    ASSERT_EQ(server.Call({"ACL", "SETUSER", "default", "+publish"}).text, "OK");
    ASSERT_EQ(b.Ask(key).kind, Answer::kBusy);
    EXPECT_LE(life_ms(), short_ms);
  }
}

// Its loader was killed, and the server accepts no writes: a process that waits goes on waiting.
TEST_F(TierMessagesTest, Lease_CannotBeShortened_IsAwaited) {
  auto [a, b] = TwoNodes(server.url(), Rare());
  AwaitSubscribed(a, b);
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  ASSERT_EQ(b.Ask("k").kind, Answer::kBusy);
  CutSubscriptions();
  ASSERT_EQ(server.Call({"CONFIG", "SET", "min-replicas-to-write", "1"}).text, "OK");
  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy);
  ASSERT_EQ(server.Call({"CONFIG", "SET", "min-replicas-to-write", "0"}).text, "OK");
  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy);
}

// While a fleet gets another `lease`, its processes have different ones. A process with the longer one renews it too
// rarely for the shorter one.
TEST_F(TierMessagesTest, Lease_IsLongerThanThatOfTheProcessThatWaits_IsNotShortened) {
  RedisCacheTierOptions short_lease = Rare();
  short_lease.lease = Rare().lease / 10;
  auto [a, b] = TwoNodes(server.url(), Rare(), short_lease);
  AwaitSubscribed(a, b);
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  CutSubscriptions();
  for (int asked = 0; asked < 3; ++asked) ASSERT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_GT(LeaseLifeMs(), absl::ToInt64Milliseconds(short_lease.lease));
  server.Call({"PEXPIRE", kLease, std::to_string(absl::ToInt64Milliseconds(short_lease.lease))});
  ASSERT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_LE(LeaseLifeMs(), ShortMs(short_lease.lease)) << "nobody renews it any more";
}

TEST_F(TierMessagesTest, Lease_MessageIsForeign_IsIgnored) {
  TierNode a(server.url(), Rare());
  AwaitSubscribed(a);
  const TierAnswer granted = a.Ask("k");
  server.Call({"SET", kWaiters, "0123456789abcdef"});  // An inbox of nobody.
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
  TierNode b(server.url());
  ASSERT_EQ(b.Ask("other").kind, Answer::kGranted);
  ASSERT_EQ(a.Ask("other").kind, Answer::kBusy);
  const std::string inbox = "sc1:{test}:i:" + server.Call({"GET", "sc1:{test}:w:products:product/1:other"}).text;
  for (const char* text : {"", "sc1:{test}:l:", "sc1:{test}:l:products", "sc1:{test}:l:products:product/1",
                           "sc1:{test}:l:orders:product/1:k", "sc1:{test}:l:products:product/2:k",
                           "sc1:{other}:l:a:b:k", "sc1:{test}:l:products:product/1:any:key"}) {
    EXPECT_EQ(server.Call({"PUBLISH", inbox, text}).text, "1") << text;
  }
  ASSERT_TRUE(a.ear->AwaitEnded(1));
  EXPECT_EQ(a.ear->ended(), std::vector<std::string>{"any:key"});
}

}  // namespace
}  // namespace stockade::testing
