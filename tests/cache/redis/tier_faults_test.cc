// What a tier does when replies, leases, keys or memory are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/server_clock.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

class TierFaultTest : public RedisTierTest {
 protected:
  // A short time-out, but one that a busy machine keeps. Leases do not lapse by themselves.
  static RedisCacheTierOptions Hasty() {
    return PatientTier([](auto& o) { o.timeout = absl::Seconds(1); });
  }
  // Whether another process gets the lease.
  static bool Grants(TierNode& node, std::string_view key) {
    const TierAnswer answer = node.Ask(key);
    if (answer.kind == Answer::kGranted) node.cache->Fail(key, answer.lease);
    return answer.kind == Answer::kGranted;
  }
};

// Runs `call` through a proxy that cuts the connection before, within and after the reply to it.
void CutEverywhere(const RedisServer& server,
                   const std::function<void(TierNode& node, const std::string& key)>& prepare,
                   const std::function<void(TierNode& node, const std::string& key)>& call) {
  TcpProxy proxy(server.port());
  TierNode node(RedisUrl(proxy.port()), QuietTier());
  prepare(node, "first");  // Afterwards the server knows the scripts.
  call(node, "first");
  prepare(node, "warm");
  const uint64_t before = proxy.counts().to_client;
  call(node, "warm");
  const uint64_t reply = proxy.counts().to_client - before;
  ASSERT_GT(reply, 2u);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, reply / 2, reply - 1, reply}) {
    const std::string key = "k" + std::to_string(bytes);
    SCOPED_TRACE(key);
    prepare(node, key);
    const uint64_t cut = proxy.counts().cut;
    proxy.CutReplyAfter(bytes);
    call(node, key);
    EXPECT_EQ(proxy.counts().cut, cut + 1);
  }
}

TEST_F(TierFaultTest, Ask_ReplyIsLost_OneLeaseIsGrantedToTheCaller) {
  TierNode other(server.url());
  CutEverywhere(
      server, [](TierNode&, const std::string&) {},
      [&](TierNode& node, const std::string& key) {
        const TierAnswer granted = node.Ask(key);
        ASSERT_EQ(granted.kind, Answer::kGranted);
        EXPECT_EQ(other.Ask(key).kind, Answer::kBusy);
      });
}

TEST_F(TierFaultTest, Fill_ReplyIsLost_IsStoredOnce) {
  TierNode other(server.url());
  TierAnswer granted;
  CutEverywhere(
      server, [&](TierNode& node, const std::string& key) { granted = node.Ask(key); },
      [&](TierNode& node, const std::string& key) {
        EXPECT_EQ(node.Fill(key, granted.lease, "v").kind, Filled::kStored);
        EXPECT_EQ(other.Ask(key).record->bytes, "v");
      });
}

TEST_F(TierFaultTest, Invalidate_ReplyIsLost_IsOneEntryOfTheJournal) {
  int64_t entries = std::stoll(server.Call({"XLEN", kJournal}).text);
  CutEverywhere(
      server, [](TierNode&, const std::string&) {},
      [&](TierNode& node, const std::string& key) {
        const TierInvalidated done = node.InvalidateKey(key);
        EXPECT_TRUE(done.accepted);
        EXPECT_EQ(std::stoll(server.Call({"XLEN", kJournal}).text), ++entries);
        EXPECT_EQ(done.position % (uint64_t{1} << 40), static_cast<uint64_t>(entries) + 1);
      });
}

TEST_F(TierFaultTest, Put_ReplyIsLost_IsOneEntryAndTheLeaseIsItsOwn) {
  TierNode other(server.url());
  int64_t entries = 0;
  CutEverywhere(
      server, [](TierNode&, const std::string&) {},
      [&](TierNode& node, const std::string& key) {
        const TierInvalidated put = node.Invalidate(Target::kKey, key, true);
        ASSERT_TRUE(put.accepted);
        EXPECT_EQ(std::stoll(server.Call({"XLEN", kJournal}).text), ++entries);
        EXPECT_EQ(other.Ask(key).kind, Answer::kBusy);
        ASSERT_FALSE(put.lease.token.empty());
        EXPECT_EQ(server.Call({"EXISTS", "sc1:{test}:l:products:product/1:" + key}).text, "1");
      });
}

// The row of a fill whose repeat was given the position of now. The reply to the first fill is held, a tag is
// invalidated, the connection breaks, and the client repeats the fill.
TEST_F(TierFaultTest, Fill_RepeatedAfterATagWasInvalidated_IsRefusedOrHasThePositionOfItsLease) {
  for (const bool own_tag : {true, false}) {
    SCOPED_TRACE(own_tag);
    TcpProxy proxy(server.port());
    TierNode a(RedisUrl(proxy.port()), QuietTier());
    TierNode b(server.url());
    ASSERT_EQ(a.Load("warm", "v").kind, Filled::kStored);
    const TierAnswer granted = a.Ask("k");
    proxy.Hold();
    TierFilled filled;
    std::thread filling([&] { filled = a.Fill("k", granted.lease, {.bytes = "old", .tags = {"tag"}}); });
    ASSERT_TRUE(proxy.Await([](const TcpProxy::Counts& counts) { return counts.held > 0; }));
    ASSERT_TRUE(b.InvalidateTag(own_tag ? "tag" : "other").accepted);
    proxy.CloseAll();
    proxy.Release();
    filling.join();
    EXPECT_EQ(filled.kind, own_tag ? Filled::kRefused : Filled::kStored);
    EXPECT_EQ(b.Ask("k").kind, own_tag ? Answer::kGranted : Answer::kHit);
    EXPECT_EQ(filled.position, own_tag ? 0 : granted.lease.position);
    server.Call({"FLUSHALL"});
  }
}

TEST_F(TierFaultTest, Lease_LapsedAndLoadedByOthers_TheFirstFillIsRefused) {
  RedisCacheTierOptions options = PatientTier();
  options.lease = absl::Milliseconds(20);
  options.max_load = absl::Milliseconds(20);
  TierNode a(server.url(), options);
  auto [b, c] = TwoNodes(server.url());
  const TierAnswer first = a.Ask("k");
  ASSERT_EQ(first.kind, Answer::kGranted);
  TierAnswer second;
  Await("the end of the lease", [&] { return (second = b.Ask("k")).kind == Answer::kGranted; });
  ASSERT_EQ(b.Fill("k", second.lease, "second").kind, Filled::kStored);
  ASSERT_TRUE(b.InvalidateKey("k").accepted);
  ASSERT_EQ(c.Load("k", "third").kind, Filled::kStored);
  EXPECT_EQ(a.Fill("k", first.lease, "first").kind, Filled::kRefused);
  EXPECT_EQ(b.Ask("k").record->bytes, "third");
}

TEST_F(TierFaultTest, Lease_IsRenewedWhileItsLoadTakesLong) {
  auto [a, b] = TwoNodes(server.url(), PatientTier([](auto& o) { o.lease = absl::Seconds(2); }), PatientTier());
  const TierAnswer granted = a.Ask("k");
  // Each renewal sets the time to live to the whole lease. It falls between two of them.
  int64_t last = std::stoll(server.Call({"PTTL", kLease}).text);
  for (int renewals = 0; renewals < 2;) {
    const int64_t left = std::stoll(server.Call({"PTTL", kLease}).text);
    if (left > last) ++renewals;
    last = left;
    ASSERT_GT(left, 0) << "the lease has lapsed";
  }
  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy);
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
}

TEST_F(TierFaultTest, Lease_LapsesWhenItsProcessStops) {
  TcpProxy proxy(server.port());
  TierNode a(RedisUrl(proxy.port()), PatientTier([](auto& o) { o.lease = absl::Milliseconds(200); }));
  TierNode b(server.url());
  const TierAnswer granted = a.Ask("k");
  proxy.Freeze();  // For Redis, that is a process that stops.
  TierAnswer next;
  Await("the end of the lease", [&] { return (next = b.Ask("k")).kind == Answer::kGranted; });
  ASSERT_EQ(b.Fill("k", next.lease, "new").kind, Filled::kStored);
  proxy.Thaw();
  EXPECT_EQ(a.Fill("k", granted.lease, "old").kind, Filled::kRefused);
  EXPECT_EQ(b.Ask("k").record->bytes, "new");
}

TEST_F(TierFaultTest, Ask_TimesOutAndIsGrantedLate_TheLeaseIsGivenBack) {
  auto [a, b] = TwoNodes(server.url(), Hasty(), PatientTier());
  ASSERT_EQ(b.Load("warm", "v").kind, Filled::kStored);
  server.Pause();
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway);
  server.Resume();
  // Long before the lease of a minute ends.
  Await("the end of the lease", [&] { return Grants(b, "k"); });
  Await("the end of being away", [&] { return Grants(a, "k"); });
}

TEST_F(TierFaultTest, Put_TimesOutAndIsGrantedLate_DecaysToAnInvalidation) {
  auto [a, b] = TwoNodes(server.url(), Hasty(), PatientTier());
  ASSERT_TRUE(b.InvalidateKey("warm").accepted);
  ASSERT_EQ(b.Load("k", "old").kind, Filled::kStored);
  server.Pause();
  const TierInvalidated put = a.Invalidate(Target::kKey, "k", true);
  EXPECT_FALSE(put.accepted);
  EXPECT_TRUE(put.lease.token.empty());
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway);
  server.Resume();
  ASSERT_TRUE(a.AwaitAccepted());
  Await("the end of the lease", [&] { return Grants(b, "k"); });
  EXPECT_EQ(server.Call({"XLEN", kJournal}).text, "2") << "one for each invalidation";
}

TEST_F(TierFaultTest, Put_ItsFillIsDelayedBeyondAnInvalidation_IsRefused) {
  TcpProxy proxy(server.port());
  TierNode a(RedisUrl(proxy.port()), QuietTier());
  TierNode b(server.url());
  const TierInvalidated put = a.Invalidate(Target::kKey, "k", true);
  ASSERT_FALSE(put.lease.token.empty());
  proxy.Freeze();
  std::latch filling(1);
  std::thread filler([&] {
    filling.count_down();
    EXPECT_EQ(a.Fill("k", put.lease, "late").kind, Filled::kRefused);
  });
  filling.wait();
  ASSERT_TRUE(b.InvalidateKey("k").accepted);
  proxy.Thaw();
  filler.join();
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
}

TEST_F(TierFaultTest, AwaitAll_WaitsAreCancelled_ReturnsWhileRedisIsAway) {
  TierNode a(server.url(), Hasty());
  server.Pause();
  EXPECT_FALSE(a.InvalidateKey("k").accepted);
  std::future<bool> before =
      std::async(std::launch::async, [&] { return a.cache->AwaitAll(Instant::InfiniteFuture()); });
  a.cache->CancelWaits();
  EXPECT_FALSE(before.get());
  EXPECT_FALSE(a.cache->AwaitAll(Instant::InfiniteFuture()));
}

TEST_F(TierFaultTest, Invalidate_WhileRedisIsAway_IsQueuedAtOnceAndSentLater) {
  auto [a, b] = TwoNodes(server.url(), Hasty(), PatientTier());
  ASSERT_EQ(b.Load("k", "old").kind, Filled::kStored);
  ASSERT_EQ(b.Load("tagged", {.bytes = "old", .tags = {"tag"}}).kind, Filled::kStored);
  ASSERT_EQ(b.Load("other", "v").kind, Filled::kStored);
  server.Pause();
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway);
  EXPECT_FALSE(a.InvalidateKey("k").accepted);
  EXPECT_FALSE(a.InvalidateKey("k").accepted);
  EXPECT_FALSE(a.InvalidateTag("tag").accepted);
  EXPECT_FALSE(a.cache->AwaitAll(a.tier->clock()->Now()));
  server.Resume();
  ASSERT_TRUE(a.AwaitAccepted());
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
  EXPECT_EQ(b.Ask("tagged").kind, Answer::kGranted);
  EXPECT_EQ(b.Ask("other").kind, Answer::kHit);
  Await("the end of being away", [&] { return a.Ask("other").kind == Answer::kHit; });
}

// A pause of Redis, for a fork for example, must not make each process load all that it uses.
TEST_F(TierFaultTest, Ask_RedisPausesForLessThanTheTimeout_IsAnswered) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", "v").kind, Filled::kStored);
  server.Pause();
  std::latch asking(8);
  std::vector<std::thread> askers;
  for (int n = 0; n < 8; ++n) {
    askers.emplace_back([&] {
      asking.count_down();
      EXPECT_EQ(a.Ask("k").kind, Answer::kHit);
    });
  }
  asking.wait();
  server.Resume();
  for (std::thread& asker : askers) asker.join();
  EXPECT_FALSE(a.tier->Stats().away);
}

TEST_F(TierFaultTest, Ask_WhileItsInvalidationIsOnItsWay_WaitsForIt) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
  const uint64_t queued = a.cache->Queue({.kind = Target::kKey, .text = "k"});
  TierAnswer answer;
  std::latch asking(1);
  std::thread asker([&] {
    asking.count_down();
    answer = a.Ask("k");
  });
  asking.wait();
  EXPECT_EQ(a.Ask("other").kind, Answer::kGranted) << "other keys do not wait";
  const TierInvalidated done = a.cache->Await(queued, false);
  ASSERT_TRUE(done.accepted);
  asker.join();
  EXPECT_EQ(answer.kind, Answer::kGranted);
  EXPECT_GE(answer.lease.position, done.position);
}

TEST_F(TierFaultTest, Ask_WhileItsInvalidationIsNeverSent_IsAway) {
  RedisCacheTierOptions options = Hasty();
  options.heartbeat = absl::Minutes(2);
  TierNode a(server.url(), options);
  a.cache->Queue({.kind = Target::kTag, .text = "any"});
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway);
}

// Without memory Redis refuses to write, but what is invalidated goes, and heartbeats give trust.
TEST_F(TierFaultTest, OutOfMemory_InvalidationsAreAcceptedAndHitsGoOn) {
  auto [a, b] = TwoNodes(server.url(), PatientTier([](auto& o) { o.max_staleness = absl::Seconds(2); }), PatientTier());
  ASSERT_EQ(a.Load("k", "old").kind, Filled::kStored);
  ASSERT_EQ(a.Load("tagged", {.bytes = "old", .tags = {"tag"}}).kind, Filled::kStored);
  ASSERT_EQ(a.Load("kept", "v").kind, Filled::kStored);
  const TierAnswer granted = a.Ask("loading");
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "1"}).text, "OK");
  EXPECT_EQ(a.Fill("loading", granted.lease, "v").kind, Filled::kUnstored);
  EXPECT_EQ(a.Ask("kept").kind, Answer::kHit);
  for (int n = 0; n < 20; ++n) EXPECT_EQ(a.Ask("missing").kind, Answer::kAway) << "no memory for the lease";
  EXPECT_FALSE(a.tier->Stats().away) << "Redis answers, although with errors";
  EXPECT_TRUE(a.InvalidateKey("k").accepted);
  EXPECT_TRUE(a.InvalidateTag("tag").accepted);
  EXPECT_TRUE(b.InvalidateAll().accepted);
  const Instant before = a.cache->trusted_until();
  Await("a heartbeat", [&] { return a.cache->trusted_until() > before; });
  EXPECT_NE(b.Ask("k").kind, Answer::kHit);
  EXPECT_NE(b.Ask("tagged").kind, Answer::kHit);
  EXPECT_NE(b.Ask("kept").kind, Answer::kHit);
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "0"}).text, "OK");
  EXPECT_EQ(b.Ask("missing").kind, Answer::kGranted);
}

TEST_F(TierFaultTest, OutOfMemory_StateIsLost_ANewReignBegins) {
  TierNode a(server.url());
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "1"}).text, "OK");
  ASSERT_EQ(server.Call({"FLUSHALL"}).text, "OK");
  ASSERT_TRUE(a.ear->AwaitResets(1));
  Await("trust", [&] { return a.trusted(); });
  ASSERT_EQ(server.Call({"CONFIG", "SET", "maxmemory", "0"}).text, "OK");
  EXPECT_EQ(a.Load("k", "v").kind, Filled::kStored);
}

TEST_F(TierFaultTest, Journal_Trimmed_ResetsWhoHasMissedIt) {
  auto [a, b] = TwoNodes(server.url(), PatientTier([](auto& o) { o.pubsub = false; }), PatientTier());
  std::latch first(1);
  std::latch go_on(1);
  bool once = false;
  a.ear->during = [&] {
    if (std::exchange(once, true)) return;
    first.count_down();
    go_on.wait();
  };
  ASSERT_EQ(b.Load("kept", "v").kind, Filled::kStored);
  const uint64_t before = b.InvalidateKey("1").position;
  first.wait();
  for (const char* key : {"2", "3", "4"}) ASSERT_TRUE(b.InvalidateKey(key).accepted);
  ASSERT_EQ(server.Call({"XTRIM", kJournal, "MAXLEN", "=", "2"}).text, "2");
  go_on.count_down();
  ASSERT_TRUE(a.ear->AwaitResets(1));
  Await("trust", [&] { return a.trusted(); });
  ASSERT_TRUE(a.ear->AwaitPosition(b.InvalidateKey("5").position));
  EXPECT_THAT(a.ear->lines(), ::testing::ElementsAre("key 1", "reset", "key 5"));
  EXPECT_EQ(a.ear->heard().back().position, before + 4);
  EXPECT_EQ(a.Ask("kept").kind, Answer::kHit) << "Redis has lost nothing";
}

TEST_F(TierFaultTest, Journal_MoreThanOneCallReads_IsAppliedCompletely) {
  auto [a, b] = TwoNodes(server.url());
  std::latch go_on(1);
  bool once = false;
  a.ear->during = [&] {
    if (!std::exchange(once, true)) go_on.wait();
  };
  constexpr int kEntries = 2500;
  uint64_t last = 0;
  for (int n = 0; n < kEntries; ++n) last = b.InvalidateKey(std::to_string(n)).position;
  go_on.count_down();
  ASSERT_TRUE(a.ear->AwaitPosition(last));
  EXPECT_EQ(a.ear->lines(), NumberedKeys(kEntries));
}

// A network may be too slow for what a heartbeat asks for.
TEST_F(TierFaultTest, Heartbeat_IsNotAnswered_TheNextOnesAskForLess) {
  server.Call({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
  server.Call({"CONFIG", "SET", "slowlog-max-len", "100000"});
  // What the heartbeats have asked for, oldest first.
  const auto asked = [&] {
    std::vector<std::string> bytes;
    for (const RawReply& entry : server.Call({"SLOWLOG", "GET", "-1"}).items) {
      const std::vector<RawReply>& words = entry.items[3].items;
      const bool is_sync = words.size() == 10 && words[4].text == kJournal && words[5].text.size() == 16;
      if (is_sync) bytes.insert(bytes.begin(), words[7].text);
    }
    return bytes;
  };
  TcpProxy proxy(server.port());
  RedisCacheTierOptions options = PatientTier();
  options.timeout = absl::Milliseconds(100);
  options.pubsub = false;
  TierNode a(RedisUrl(proxy.port()), options);
  proxy.Hold();
  Await("failures", [&] { return a.tier->Stats().heartbeats_failed >= 8; });
  proxy.Release();
  Await("success", [&] { return !asked().empty() && asked().back() == "1048576" && a.tier->Stats().heartbeats >= 2; });
  std::vector<std::string> sizes = asked();
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  ASSERT_GE(sizes.size(), 3u);
  EXPECT_EQ(sizes[0], "1048576");
  EXPECT_EQ(sizes[1], "262144");
  for (const std::string& one : sizes) EXPECT_GE(std::stoll(one), 2048);
}

TEST_F(TierFaultTest, Tags_TooMany_BecomeOneInvalidationOfAll) {
  TierNode a(server.url());
  ASSERT_EQ(a.Load("k", {.bytes = "v", .tags = {"kept"}}).kind, Filled::kStored);
  RawRedis raw(server.port());
  for (int batch = 0; batch < 100; ++batch) {
    std::vector<std::string> set = {"HSET", kState};
    for (int n = 0; n < 1000; ++n) {
      set.push_back("t:products:" + std::to_string(batch * 1000 + n));
      set.emplace_back("1");
    }
    ASSERT_EQ(raw.Call(set).text, "1000");
  }
  EXPECT_EQ(a.Ask("k").kind, Answer::kHit);
  const TierAnswer loading = a.Ask("loading");
  const TierInvalidated done = a.InvalidateTag("one more");
  ASSERT_TRUE(done.accepted);
  EXPECT_LT(std::stoll(server.Call({"HLEN", kState}).text), 20);
  EXPECT_EQ(a.Fill("loading", loading.lease, "v").kind, Filled::kRefused);
  EXPECT_EQ(a.Load("k", "new").kind, Filled::kStored);
  EXPECT_EQ(a.Ask("k").record->bytes, "new");
  ASSERT_TRUE(a.InvalidateTag("again").accepted);
  EXPECT_EQ(a.Ask("k").record->bytes, "new");
  EXPECT_EQ(a.ear->resets(), 0) << "the reign goes on";
  EXPECT_EQ(a.tier->Stats().tags_dropped, 1u);
}

// Each loss between each two steps of: A gets the lease, B invalidates, A fills, C loads and fills, A fills once more.
TEST_F(TierFaultTest, KeysAreLost_BetweenAnyTwoSteps_NothingOldIsServed) {
  const std::vector<std::vector<std::string>> losses = {
      {"FLUSHALL"}, {"DEL", kState}, {"DEL", kJournal}, {"DEL", kRecord}, {"DEL", kLease}};
  for (const std::vector<std::string>& loss : losses) {
    for (int lost_before = 0; lost_before <= 5; ++lost_before) {
      SCOPED_TRACE(loss.back() + " before step " + std::to_string(lost_before));
      ASSERT_EQ(server.Call({"FLUSHALL"}).text, "OK");
      auto [a, b] = TwoNodes(server.url());
      TierNode c(server.url());
      TierAnswer granted;
      const std::function<void()> steps[] = {
          [&] {
            granted = a.Ask("k");
            EXPECT_EQ(granted.kind, Answer::kGranted);
          },
          [&] { EXPECT_TRUE(b.InvalidateKey("k").accepted); },
          [&] { EXPECT_EQ(a.Fill("k", granted.lease, "old").kind, Filled::kRefused); },
          [&] { EXPECT_EQ(c.Load("k", "new").kind, Filled::kStored); },
          [&] { EXPECT_EQ(a.Fill("k", granted.lease, "old").kind, Filled::kRefused); },
      };
      for (int step = 0; step < 5; ++step) {
        if (step == lost_before) server.Call(loss);
        steps[step]();
      }
      if (lost_before == 5) server.Call(loss);
      for (TierNode* node : {&a, &b, &c}) {
        const TierAnswer answer = node->Ask("k");
        if (answer.kind == Answer::kHit) {
          EXPECT_EQ(answer.record->bytes, "new");
        } else {
          EXPECT_NE(answer.kind, Answer::kAway);
        }
      }
      const bool all = loss[0] == "FLUSHALL" || loss.back() == kState;
      const bool journal = loss.back() == kJournal && lost_before > 1;
      if (!all && !journal) continue;
      // All processes notice it, also those that have not called.
      if (journal) {
        ASSERT_TRUE(b.InvalidateKey("other").accepted);
      }
      for (TierNode* node : {&a, &b, &c}) {
        if (all) {
          ASSERT_TRUE(node->ear->AwaitResets(1));
        }
        Await("trust", [&] { return node->trusted(); });
      }
    }
  }
}

TEST_F(TierFaultTest, StateIsLost_ManyAdoptAtOnce_OneReignBeginsForAll) {
  std::vector<std::unique_ptr<TierNode>> nodes(6);
  RunThreads(6, [&](int n) { nodes[static_cast<size_t>(n)] = std::make_unique<TierNode>(server.url()); });
  std::string before = server.Call({"HGET", kState, "i"}).text;
  for (int round = 0; round < 10; ++round) {
    ASSERT_EQ(server.Call({"FLUSHALL"}).text, "OK");
    std::atomic<int> granted{0};
    std::atomic<int> busy{0};
    RunThreads(6, [&](int n) {
      const TierAnswer answer = nodes[static_cast<size_t>(n)]->Ask("k");
      if (answer.kind == Answer::kGranted) ++granted;
      if (answer.kind == Answer::kBusy) ++busy;
    });
    EXPECT_EQ(granted, 1);
    EXPECT_EQ(busy, 5);
    const std::string incarnation = server.Call({"HGET", kState, "i"}).text;
    EXPECT_NE(incarnation, before);
    before = incarnation;
    for (const auto& node : nodes) ASSERT_TRUE(node->ear->AwaitResets(round + 1));
  }
  EXPECT_EQ(server.Call({"HGET", kState, "i"}).text, before);
  for (const auto& node : nodes) EXPECT_EQ(node->ear->resets(), 10);
}

TEST_F(TierFaultTest, Destruction_WithPendingInvalidations_IsLogged) {
  RedisCacheTierOptions options = Hasty();
  TierNode a(server.url(), options);
  server.Pause();
  EXPECT_EQ(a.Ask("k").kind, Answer::kAway);
  EXPECT_FALSE(a.InvalidateKey("k").accepted);
  std::string logged;
  SetLogSink([&](LogSeverity, std::string_view message) { logged += message; });
  a.cache.reset();
  SetLogSink({});
  EXPECT_THAT(logged, ::testing::HasSubstr("'products' was destroyed before Redis accepted 1 of its invalidations"));
  server.Resume();
}

TEST_F(TierFaultTest, Destruction_WaitsForACallOfTheListener) {
  auto [a, b] = TwoNodes(server.url());
  std::latch called(1);
  std::latch go_on(1);
  a.ear->during = [&] {
    called.count_down();
    go_on.wait();
  };
  ASSERT_TRUE(b.InvalidateKey("k").accepted);
  called.wait();
  std::thread destroyer([&] { a.cache.reset(); });
  go_on.count_down();
  destroyer.join();
  const size_t heard = a.ear->heard().size();
  ASSERT_TRUE(b.ear->AwaitPosition(b.InvalidateKey("k").position));
  EXPECT_EQ(a.ear->heard().size(), heard);
}

// Redis expires keys by the wall clock of its machine, so what it has would outlive its time by the step.
TEST_F(TierFaultTest, ServerClockIsSetBack_ValuesAreVoidAndLeasesBeginAgain) {
  ServerClock clock;
  const RedisServer stepping({.environment = clock.environment()});
  auto [a, b] = TwoNodes(stepping.url());
  const TierAnswer granted = a.Ask("k");
  ASSERT_EQ(granted.kind, Answer::kGranted);
  ASSERT_EQ(a.Load("stored", {.bytes = "value", .ttl = absl::Hours(1), .grace = absl::Hours(1)}).kind, Filled::kStored);
  clock.Step(-absl::Hours(3));
  EXPECT_EQ(b.Ask("stored").kind, Answer::kGranted) << "it would be fresh for 4 hours";

  EXPECT_EQ(b.Ask("k").kind, Answer::kBusy);
  const RawReply life = stepping.Call({"PTTL", kLease});
  EXPECT_LE(std::stoll(life.text), absl::ToInt64Milliseconds(PatientTier().lease)) << "if the loader is killed now";
  EXPECT_EQ(a.Fill("k", granted.lease, "loaded").kind, Filled::kStored) << "its lease is the same one";
  EXPECT_EQ(b.Ask("k").kind, Answer::kHit);
}

}  // namespace
}  // namespace stockade::testing
