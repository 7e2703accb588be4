// What each tier does, as its caches see it, and what these do together, whichever tier it is. See tier_contract.h.
#include "cache/tier/tier_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "stockade/base/executor.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;

TEST_P(TierContractTest, Ask_TwoProcessesMiss_OneLoadsAValueOrAnAbsenceForBoth) {
  auto [a, b] = NewClients();
  for (const bool absent : {false, true}) {
    const std::string key = absent ? "absent" : "present";
    const TierAnswer granted = a.Ask(key);
    ASSERT_EQ(granted.kind, Answer::kGranted);
    EXPECT_FALSE(granted.record.has_value());
    const TierAnswer busy = b.Ask(key);
    ASSERT_EQ(busy.kind, Answer::kBusy);
    EXPECT_FALSE(busy.record.has_value());
    EXPECT_GT(busy.retry_after, absl::ZeroDuration());
    EXPECT_LT(busy.retry_after, absl::Seconds(1));

    const std::vector<std::string> tags = {"brand:x", "", std::string("\0\xff{}:", 5)};
    const TierFilled filled = a.Fill(key, granted.lease, {.bytes = "value or message", .tags = tags, .absent = absent});
    ASSERT_EQ(filled.kind, Filled::kStored);
    EXPECT_NE(filled.version, 0u);
    for (TierClient* client : {&a, &b}) {
      const TierAnswer hit = client->Ask(key);
      ASSERT_EQ(hit.kind, Answer::kHit);
      EXPECT_EQ(hit.record->bytes, "value or message");
      EXPECT_EQ(hit.record->absent, absent);
      EXPECT_EQ(hit.record->tags, tags);
      EXPECT_EQ(hit.record->ttl, absl::Hours(1));
      EXPECT_LE(hit.record->left, absl::Hours(1));
      EXPECT_GT(hit.record->left, absl::Minutes(55));
      EXPECT_EQ(hit.record->load_time, absl::Milliseconds(7));
      EXPECT_EQ(hit.record->version, filled.version);
      EXPECT_EQ(hit.record->position, filled.position);
    }
  }
}

TEST_P(TierContractTest, Ask_AnyBytesAsKeyAndValue_ComeBack) {
  TierClient a = NewClient();
  const std::string bytes("\0\r\n{}\xff:", 7);
  const TierAsk asks[] = {{.key = bytes}, {.key = ""}, {.key = std::string_view(bytes).substr(0, 1)}};
  for (const TierAsk& ask : asks) ASSERT_EQ(a.Load(ask.key, bytes).kind, Filled::kStored);
  for (const TierAnswer& answer : a.cache->Ask(asks)) {
    ASSERT_EQ(answer.kind, Answer::kHit);
    EXPECT_EQ(answer.record->bytes, bytes);
  }
}

TEST_P(TierContractTest, Ask_ManyKeys_AreAnsweredInOrder) {
  auto [a, b] = NewClients();
  ASSERT_EQ(a.Load("hit", "value").kind, Filled::kStored);
  ASSERT_EQ(b.Ask("busy").kind, Answer::kGranted);
  const std::vector<TierAsk> asks = {{.key = "busy"}, {.key = "hit"}, {.key = "granted"}};
  const std::vector<TierAnswer> answers = a.cache->Ask(asks);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].kind, Answer::kBusy);
  EXPECT_EQ(answers[1].kind, Answer::kHit);
  EXPECT_EQ(answers[2].kind, Answer::kGranted);
}

TEST_P(TierContractTest, Ask_ExpiredWithinItsGrace_ComesWithTheLease) {
  auto [a, b] = NewClients();
  ASSERT_EQ(a.Load("k", {.bytes = "old", .ttl = absl::Milliseconds(1), .grace = absl::Hours(1)}).kind, Filled::kStored);
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

TEST_P(TierContractTest, Fill_LongLife_IsLimitedToMaxTtl) {
  TierClient a = NewClient();
  const absl::Duration most = a.cache->max_ttl();
  const TierClient::Value values[] = {{.bytes = "v", .ttl = absl::InfiniteDuration(), .grace = absl::Hours(1)},
                                      {.bytes = "v", .grace = absl::InfiniteDuration()}};
  for (const TierClient::Value& value : values) {
    const std::string key = absl::FormatDuration(value.ttl);
    ASSERT_EQ(a.Load(key, value).kind, Filled::kStored);
    const TierAnswer hit = a.Ask(key);
    ASSERT_EQ(hit.kind, Answer::kHit);
    EXPECT_EQ(hit.record->ttl, std::min(value.ttl, most));
    EXPECT_LE(hit.record->left, hit.record->ttl);
  }
}

TEST_P(TierContractTest, Ask_Refresh_OneProcessLoadsAndTheOtherGetsItsRecord) {
  auto [a, b] = NewClients();
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

TEST_P(TierContractTest, Fill_AfterAnInvalidation_IsRefused) {
  auto [a, b] = NewClients();
  const TierAnswer key = a.Ask("key");
  const TierAnswer tagged = a.Ask("tagged");
  const TierAnswer other = a.Ask("other");
  ASSERT_TRUE(b.InvalidateKey("key").accepted);
  ASSERT_TRUE(b.InvalidateTag("tag").accepted);
  EXPECT_EQ(a.Fill("key", key.lease, "old").kind, Filled::kRefused);
  EXPECT_EQ(a.Fill("tagged", tagged.lease, {.bytes = "old", .tags = {"x", "tag"}}).kind, Filled::kRefused);
  EXPECT_EQ(a.Fill("other", other.lease, {.bytes = "new", .tags = {"x", "tags"}}).kind, Filled::kStored);
  const TierAnswer all = a.Ask("all");
  ASSERT_TRUE(b.InvalidateAll().accepted);
  EXPECT_EQ(a.Fill("all", all.lease, "old").kind, Filled::kRefused);
  for (const char* name : {"key", "tagged", "other", "all"}) EXPECT_EQ(b.Ask(name).kind, Answer::kGranted) << name;
}

TEST_P(TierContractTest, Ask_AfterAnInvalidation_MissesWhatItConcerns) {
  auto [a, b] = NewClients();
  for (const char* key : {"key", "kept"}) ASSERT_EQ(a.Load(key, "v").kind, Filled::kStored);
  ASSERT_EQ(a.Load("tagged", {.bytes = "v", .tags = {"tag"}}).kind, Filled::kStored);
  ASSERT_TRUE(b.InvalidateKey("key").accepted);
  ASSERT_TRUE(b.InvalidateTag("tag").accepted);
  EXPECT_EQ(a.Ask("key").kind, Answer::kGranted);
  EXPECT_EQ(a.Ask("tagged").kind, Answer::kGranted);
  EXPECT_EQ(a.Ask("kept").kind, Answer::kHit);
  ASSERT_TRUE(b.InvalidateAll().accepted);
  EXPECT_EQ(a.Ask("kept").kind, Answer::kGranted);
}

TEST_P(TierContractTest, Invalidate_IsReportedToAllProcessesInOrder) {
  auto [a, b] = NewClients();
  const TierAnswer before = a.Ask("k");
  const TierInvalidated key = a.InvalidateKey("k");
  const TierInvalidated tag = b.InvalidateTag("t");
  const TierInvalidated all = a.InvalidateAll();
  ASSERT_TRUE(key.accepted && tag.accepted && all.accepted);
  EXPECT_LT(before.lease.position, key.position);
  EXPECT_LT(key.position, tag.position);
  EXPECT_LT(tag.position, all.position);
  EXPECT_EQ(a.Ask("k").lease.position, all.position);
  fleet->AwaitHeartbeats();
  for (const TierClient* client : {&a, &b}) {
    ASSERT_EQ(client->ear->lines(), (std::vector<std::string>{"key k", "tag t", "all"}));
    EXPECT_EQ(client->ear->heard()[0].position, key.position);
    EXPECT_EQ(client->ear->heard()[1].position, tag.position);
    EXPECT_EQ(client->ear->heard()[2].position, all.position);
    EXPECT_TRUE(client->trusted());
  }
}

TEST_P(TierContractTest, Invalidate_WithLease_VoidsOtherLoadsAndStoresItsValue) {
  auto [a, b] = NewClients();
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

TEST_P(TierContractTest, Invalidate_TwoPuts_OnlyTheLaterOneIsStored) {
  auto [a, b] = NewClients();
  const TierInvalidated first = a.Invalidate(Target::kKey, "k", true);
  const TierInvalidated second = b.Invalidate(Target::kKey, "k", true);
  EXPECT_EQ(b.Fill("k", second.lease, "second").kind, Filled::kStored);
  EXPECT_EQ(a.Fill("k", first.lease, "first").kind, Filled::kRefused);
  EXPECT_EQ(a.Ask("k").record->bytes, "second");
}

TEST_P(TierContractTest, AwaitMany_AllAreAcceptedAndReported) {
  auto [a, b] = NewClients();
  for (const char* key : {"0", "1", "2", "kept"}) ASSERT_EQ(b.Load(key, "v").kind, Filled::kStored);
  EXPECT_TRUE(a.cache->AwaitMany({}, false).empty());
  std::vector<uint64_t> queued;
  for (const char* key : {"0", "1", "2", "1"}) queued.push_back(a.cache->Queue({Target::kKey, key}));
  uint64_t last = 0;
  for (const bool again : {false, true}) {
    const std::vector<TierInvalidated> results = a.cache->AwaitMany(queued, false);
    ASSERT_EQ(results.size(), queued.size());
    for (const TierInvalidated& result : results) {
      EXPECT_TRUE(result.accepted && result.lease.token.empty()) << again;
      last = std::max(last, result.position);
    }
  }
  for (const char* key : {"0", "1", "2"}) EXPECT_EQ(b.Ask(key).kind, Answer::kGranted) << key;
  EXPECT_EQ(b.Ask("kept").kind, Answer::kHit);
  fleet->AwaitHeartbeats();
  EXPECT_LE(b.ear->heard().back().position, last);
  const std::vector<std::string> lines = b.ear->lines();
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), (std::set<std::string>{"key 0", "key 1", "key 2"}));
}

// An invalidation that comes after that of a key voids its lease.
TEST_P(TierContractTest, AwaitMany_WithLeases_EachFillsItsKeyUnlessItIsInvalidatedAgain) {
  auto [a, b] = NewClients();
  const TierAnswer loading = b.Ask("0");
  std::vector<uint64_t> queued;
  for (const char* key : {"0", "1"}) queued.push_back(a.cache->Queue({Target::kKey, key}));
  const std::vector<TierInvalidated> results = a.cache->AwaitMany(queued, true);
  ASSERT_TRUE(results[0].accepted && results[1].accepted);
  EXPECT_LT(results[0].position, results[1].position);
  ASSERT_TRUE(b.InvalidateKey("1").accepted);
  EXPECT_EQ(b.Fill("0", loading.lease, "loaded").kind, Filled::kRefused);
  EXPECT_EQ(a.Fill("0", results[0].lease, "put").kind, Filled::kStored);
  EXPECT_EQ(a.Fill("1", results[1].lease, "put").kind, Filled::kRefused);
  EXPECT_EQ(b.Ask("0").record->bytes, "put");
  EXPECT_EQ(b.Ask("1").kind, Answer::kGranted);
}

TEST_P(TierContractTest, PutAll_ManyKeys_BothProcessesHaveThemWithoutALoad) {
  Open();
  std::vector<std::pair<int, std::string>> entries;
  for (int key = 0; key < 300; ++key) entries.emplace_back(key, Concat(key, " put"));
  a->PutAll(entries, {.ttl = absl::Minutes(1), .tags = {"tag"}});
  for (const auto& [key, text] : entries) {
    ASSERT_TRUE(Has(*a, key)) << key;
    EXPECT_EQ(Get(*b, key), text);
  }
  EXPECT_EQ(db.reads(), 0);
  AwaitNoLease();
  b->InvalidateTag("tag");
  fleet->AwaitHeartbeats();
  EXPECT_EQ(Get(*a, 7), "7 v0");
}

// The loader's value may be older than that of the PutAll().
TEST_P(TierContractTest, PutAll_WhileBothProcessesLoad_TheirCallersGetItAndItIsStored) {
  Door door;
  Open(ReadsBehind(door));
  std::jthread own([&] { EXPECT_EQ(Get(*a, 1), "put"); });
  door.AwaitArrivals(1);
  a->PutAll({{1, "put"}});
  EXPECT_TRUE(Has(*a, 1));
  door.Open();
  own.join();
  EXPECT_EQ(Get(*b, 1), "put");
  EXPECT_EQ(Get(*a, 1), "put");
}

TEST_P(TierContractTest, Fail_EndsTheLease) {
  auto [a, b] = NewClients();
  const TierAnswer granted = a.Ask("k");
  a.cache->Fail("k", granted.lease);
  Await("the end of the lease", [&] { return b.Ask("k").kind == Answer::kGranted; });
  EXPECT_EQ(a.Fill("k", granted.lease, "late").kind, Filled::kRefused);
}

TEST_P(TierContractTest, Fill_WhatTheTierDoesNotTake_EndsTheLeaseAndDropsTheOldValue) {
  auto [a, b] = NewClients();
  const std::string largest(TierFleet::kMaxValueBytes, 'v');
  const std::string too_large = largest + "v";
  const std::vector<std::string> too_many(65, "tag");
  const TierClient::Value values[] = {{.bytes = too_large},
                                      {.bytes = "v", .tags = too_many},
                                      {.bytes = "v", .tags = {std::string(256, 't')}},
                                      {.bytes = "v", .ttl = absl::ZeroDuration()},
                                      {.bytes = "v", .ttl = absl::Seconds(-1)}};
  for (const TierClient::Value& value : values) {
    const uint64_t version = a.Load("k", largest).version;
    const TierAnswer granted = a.Ask("k", version);
    const TierFilled filled = a.Fill("k", granted.lease, value);
    EXPECT_EQ(filled.kind, Filled::kUnstored);
    EXPECT_EQ(filled.position, granted.lease.position);
    const TierAnswer next = b.Ask("k");
    ASSERT_EQ(next.kind, Answer::kGranted);
    EXPECT_FALSE(next.record.has_value());
    EXPECT_EQ(a.Fill("k", granted.lease, value).kind, Filled::kRefused) << "the lease is no longer its own";
    b.cache->Fail("k", next.lease);
    AwaitNoLease();
  }
  const std::vector<std::string> most(64, std::string(255, 't'));
  EXPECT_EQ(a.Load("most", {.bytes = largest, .tags = most}).kind, Filled::kStored);
  EXPECT_EQ(b.Ask("most").record->tags, most);
}

TEST_P(TierContractTest, Fill_WithoutALease_IsRefused) {
  TierClient a = NewClient();
  EXPECT_EQ(a.Fill("k", {}, "v").kind, Filled::kRefused);
  const TierAnswer granted = a.Ask("k");
  EXPECT_EQ(a.Fill("other", granted.lease, "v").kind, Filled::kRefused);
  EXPECT_EQ(a.Fill("k", granted.lease, "v").kind, Filled::kStored);
}

TEST_P(TierContractTest, Destruction_OfTheTierBeforeItsCaches_KeepsTheseUsable) {
  auto [a, b] = NewClients();
  a.tier.reset();
  EXPECT_EQ(a.Load("k", "v").kind, Filled::kStored);
  const TierInvalidated done = a.InvalidateKey("k");
  fleet->AwaitHeartbeats();
  EXPECT_TRUE(a.ear->AwaitPosition(done.position));
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
}

TEST_P(TierContractTest, Destruction_EndsLeasesAndListening) {
  auto [a, b] = NewClients();
  ASSERT_EQ(a.Ask("k").kind, Answer::kGranted);
  a.cache.reset();
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
  const size_t heard = a.ear->heard().size();
  const TierClient other(a.tier, "orders");
  ASSERT_TRUE(b.InvalidateKey("k").accepted);
  fleet->AwaitHeartbeats();
  EXPECT_FALSE(b.ear->heard().empty());
  EXPECT_EQ(a.ear->heard().size(), heard);
}

TEST_P(TierContractTest, Queue_NotAccepted_TheOutdatedRecordIsNoAnswer) {
  TierClient a = NewClient();
  const Target kinds[] = {Target::kKey, Target::kTag, Target::kAll};
  for (const Target kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    ASSERT_EQ(a.Load("k", {.bytes = "old", .tags = {"t"}}).kind, Filled::kStored);
    const uint64_t queued = a.cache->Queue({.kind = kind, .text = kind == Target::kKey ? "k" : "t"});
    std::jthread accepting([&] { a.cache->Await(queued, false); });  // A tier may let the question wait for it.
    const TierAnswer answer = a.Ask("k");
    EXPECT_NE(answer.kind, Answer::kHit);
    EXPECT_FALSE(answer.record.has_value());
    accepting.join();
    EXPECT_TRUE(a.AwaitAccepted());
    if (answer.kind == Answer::kGranted) a.cache->Fail("k", answer.lease);
    AwaitNoLease();
  }
}

TEST_P(TierContractTest, Queue_NobodyAwaitsIt_IsSentAllTheSame) {
  auto [a, b] = NewClients();
  ASSERT_EQ(b.Load("k", "old").kind, Filled::kStored);
  const uint64_t queued = a.cache->Queue({.kind = Target::kKey, .text = "k"});
  ASSERT_TRUE(a.AwaitAccepted());
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted);
  const TierInvalidated done = a.cache->Await(queued, false);
  EXPECT_TRUE(done.accepted);
  EXPECT_GT(done.position, 0u);
}

// Caches.

TEST_P(TierContractTest, Get_LoadedByAnotherProcess_IsNotLoadedAgain) {
  Open();
  for (Cache* const cache : {a.get(), b.get()}) {
    EXPECT_EQ(Get(*cache, 1), "1 v0");
    EXPECT_TRUE(Has(*cache, 1));
  }
  EXPECT_EQ(db.reads(), 1);
  AwaitNoLease();
}

TEST_P(TierContractTest, Get_AbsenceFoundByAnotherProcess_IsNotLoadedAgain) {
  std::atomic<int> loads{0};
  Open({.negative_ttl = absl::Minutes(1)}, [&](int) -> Loaded {
    ++loads;
    return absl::NotFoundError("no such product");
  });
  EXPECT_EQ(Get(*a, 1), "NOT_FOUND");
  EXPECT_EQ(b->Get(1).status().message(), "no such product");
  EXPECT_EQ(loads, 1);
}

TEST_P(TierContractTest, Get_LoadOfAnotherProcessHasFailed_Loads) {
  std::atomic<int> loads{0};
  Open([&](int) -> Loaded {
    if (++loads == 1) return absl::InternalError("first");
    return "second";
  });
  EXPECT_EQ(Get(*a, 1), "INTERNAL");
  AwaitNoLease();
  EXPECT_EQ(Get(*b, 1), "second");
}

TEST_P(TierContractTest, ChangeOfAKey_IsSeenByTheOwnProcessAtOnceAndByOthersAfterAHeartbeat) {
  const std::function<void(int key)> changes[] = {
      [&](int key) {
        db.Write(key);
        a->Invalidate(key);
      },
      [&](int key) { EXPECT_TRUE(Update(*a, key).ok()); },
      [&](int key) {
        db.Write(key);
        a->InvalidateKeys({100, key, key});
      },
      [&](int key) { a->Put(key, Concat(key, " v1")); },
      [&](int key) {
        a->PutAll({{100, "100 v1"}, {key, "old"}, {key, Concat(key, " v1")}});
      },
  };
  Open();
  for (int key = 0; key < 5; ++key) {
    ExpectBoth(key, Concat(key, " v0"));
    const int reads = db.reads();
    changes[key](key);
    EXPECT_EQ(Get(*a, key), Concat(key, " v1"));
    fleet->AwaitHeartbeats();
    ExpectBoth(key, Concat(key, " v1"));
    EXPECT_EQ(db.reads() - reads, key < 3 ? 1 : 0) << "a Put is not loaded";
    EXPECT_EQ(fleet->leases(), 0u);
  }
  a->Put(3, "gone", absl::ZeroDuration());
  EXPECT_EQ(Get(*a, 3), "3 v0") << "the tier has not kept what the Put has replaced";
  a->PutAll({{4, "gone"}}, {.ttl = absl::ZeroDuration()});
  EXPECT_EQ(Get(*a, 4), "4 v0");
}

TEST_P(TierContractTest, InvalidateTagAndAll_ReachOtherProcesses) {
  Open([&](int key, LoadContext& load) -> Loaded {
    if (key % 2 == 0) load.AddTag("even");
    return db.Read(key);
  });
  for (const int key : {1, 2, 3, 4}) Get(*b, key);
  for (const int key : {1, 2, 3, 4}) db.Write(key);
  a->InvalidateTag("even");
  fleet->AwaitHeartbeats();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(Get(*b, 2), "2 v1");
  EXPECT_EQ(Get(*b, 4), "4 v1");
  EXPECT_EQ(Get(*a, 3), "3 v0");
  a->InvalidateAll();
  fleet->AwaitHeartbeats();
  EXPECT_FALSE(Has(*b, 2));
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(Get(*b, 3), "3 v1");
  EXPECT_EQ(db.reads(), 4 + 2 + 2);
}

TEST_P(TierContractTest, Fill_AfterAnInvalidation_AnswersItsWaitersOnceAndIsStoredInNoProcess) {
  Door door;
  MetricsRegistry registry;
  a = NewCache({.metrics = &registry}, FirstPasses(door));
  b = NewCache();
  std::vector<std::jthread> callers;
  std::atomic<int> answers{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      EXPECT_EQ(Get(*a, 1), "1 v0");
      ++answers;
    });
  }
  door.AwaitArrivals(1);
  AwaitWaiters(registry, 3);
  db.Write(1);
  b->Invalidate(1);
  door.Open();
  callers.clear();
  EXPECT_EQ(answers, 4);
  EXPECT_FALSE(Has(*a, 1));
  EXPECT_FALSE(Has(*b, 1));
  EXPECT_EQ(db.reads(), 1);
  EXPECT_EQ(Get(*a, 1), "1 v1") << "not from the tier";
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
  Close();
}

TEST_P(TierContractTest, Fill_AfterItsLeaseHasLapsedAndOthersHaveFilled_LeavesTheirValue) {
  Door door;
  a = NewCache(FirstPasses(door));
  b = NewCache();
  const std::unique_ptr<Cache> c = NewCache();
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  fleet->LapseLeases();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  db.Write(1);
  b->Invalidate(1);
  EXPECT_EQ(Get(*c, 1), "1 v1");
  door.Open();
  loading.join();
  ExpectBoth(1, "1 v1");
  EXPECT_EQ(db.reads(), 3);
  AwaitNoLease();
}

TEST_P(TierContractTest, OtherProcessLoads_CallsWaitForItsValue) {
  ThreadPool answers(1);
  int key = 0;
  for (const bool executor : {false, true}) {
    for (const bool async : {false, true}) {
      SCOPED_TRACE(Concat("executor ", executor, ", async ", async));
      const std::string value = Concat(++key, " v0");
      ThreadPool pool(2);
      MetricsRegistry registry;
      Executor* const loads = executor ? &pool : nullptr;
      Door door;
      a = NewCache({.load_executor = loads}, ReadsBehind(door));
      b = NewCache({.load_executor = loads, .metrics = &registry}, Reads());
      std::vector<std::jthread> callers;
      callers.emplace_back([&] { EXPECT_EQ(Get(*a, key), value); });
      door.AwaitArrivals(1);
      std::future<std::string> later;
      if (async) later = GetLater(*b, key, answers);
      for (int i = 0; i < 8 && !async; ++i) callers.emplace_back([&] { EXPECT_EQ(Get(*b, key), value); });
      AwaitWaiters(registry, async ? 1 : 8);
      EXPECT_EQ(TextOf(b->Get(key, {.timeout = absl::Milliseconds(20)})), "DEADLINE_EXCEEDED");
      door.Open();
      EXPECT_EQ(async ? later.get() : value, value);
      callers.clear();
      EXPECT_EQ(db.reads(), key);
      Close();
    }
  }
}

TEST_P(TierContractTest, LoadersOfTwoProcessesThatNeedEachOthersKeys_End) {
  Door door;
  const auto load = [&](std::unique_ptr<Cache>& cache, int first, int key) {
    if (key == first) door.Pass();
    const auto nested = cache->Get(3 - key);
    return Concat(db.Read(key), nested.ok() ? " with the other" : "");
  };
  a = NewCache([&](int key) { return load(a, 1, key); });
  b = NewCache([&](int key) { return load(b, 2, key); });
  std::jthread one([&] { EXPECT_EQ(Get(*a, 1), "1 v0 with the other"); });
  std::jthread two([&] { EXPECT_EQ(Get(*b, 2), "2 v0 with the other"); });
  door.AwaitArrivals(2);
  door.Open();
  one.join();
  two.join();
  AwaitNoLease();
}

TEST_P(TierContractTest, FailingLoader_OneLoadAtATimeInTheFleetAndOneInEachProcess) {
  constexpr int kProcesses = 8;
  constexpr int kCallers = 4;
  Door door;
  std::atomic<int> loads{0};
  std::atomic<int> running{0};
  std::vector<std::unique_ptr<MetricsRegistry>> registries;
  std::vector<std::unique_ptr<Cache>> caches;
  std::vector<std::jthread> callers;
  for (int i = 0; i < kProcesses; ++i) {
    caches.push_back(
        NewCache({.metrics = registries.emplace_back(std::make_unique<MetricsRegistry>()).get()}, [&](int) -> Loaded {
          EXPECT_EQ(++running, 1);
          ++loads;
          door.Pass();
          --running;
          return absl::UnavailableError("the database is away");
        }));
    for (int j = 0; j < kCallers; ++j) {
      callers.emplace_back([&cache = *caches.back()] { EXPECT_EQ(Get(cache, 1), "UNAVAILABLE"); });
    }
  }
  SpinUntil([&] {
    double waiters = 0;
    for (const auto& registry : registries) waiters += Metric(*registry, "stockade_cache_waiters");
    return waiters == kProcesses * kCallers - 1;
  });
  door.Open();
  callers.clear();
  EXPECT_EQ(loads, kProcesses);
  AwaitNoLease();
}

TEST_P(TierContractTest, TagOrAllInvalidatedByAnotherProcessDuringALoad_JoinersLookAgain) {
  for (const bool all : {false, true}) {
    SCOPED_TRACE(all);
    const int key = all ? 4 : 2;
    Door door;
    MetricsRegistry registry;
    a = NewCache({.metrics = &registry}, [load = FirstPasses(door)](int k, ValueLoadContext<std::string>& context) {
      Loaded read = load(k, context);
      context.AddTag("even");
      return read;
    });
    b = NewCache(ReadsWithTag("even"));
    std::jthread loading([&] { EXPECT_EQ(Get(*a, key), Concat(key, " v0")); });
    door.AwaitArrivals(1);
    db.Write(key);
    all ? b->InvalidateAll() : b->InvalidateTag("even");
    fleet->AwaitHeartbeats();
    std::jthread joiner([&] { EXPECT_EQ(Get(*a, key), Concat(key, " v1")); });
    AwaitWaiters(registry, 1);
    door.Open();
    loading.join();
    joiner.join();
    EXPECT_EQ(Get(*b, key), Concat(key, " v1"));
    EXPECT_EQ(db.reads(), all ? 4 : 2);
    Close();
  }
}

TEST_P(TierContractTest, Get_LoadExceedsItsHardTimeout_GivesTheLeaseBack) {
  ThreadPool pool(1);
  Door door;
  a = NewCache({.load_hard_timeout = absl::Milliseconds(20), .load_executor = &pool}, ReadsBehind(door));
  EXPECT_EQ(Get(*a, 1), "DEADLINE_EXCEEDED");
  AwaitNoLease();  // Other processes must not wait for a load whose result is discarded.
  door.Open();
  Close();
}

TEST_P(TierContractTest, NewReign_EverythingIsLoadedOnceAgain) {
  OpenAndLoad();
  db.Write(1);
  fleet->BeginReign();
  fleet->AwaitHeartbeats();
  ExpectBoth(1, "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

TEST_P(TierContractTest, NewReign_DuringALoad_ItsResultIsNotStored) {
  Door door;
  Open(FirstPasses(door));
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  db.Write(1);
  fleet->BeginReign();
  fleet->AwaitHeartbeats();
  EXPECT_EQ(Get(*a, 1), "1 v1") << "does not join the old load";
  door.Open();
  loading.join();
  ExpectBoth(1, "1 v1");
  EXPECT_EQ(db.reads(), 2);
  Close();
}

TEST_P(TierContractTest, TrimmedJournal_EntriesAreAskedForAndNotLoaded) {
  Open();
  for (int key = 0; key < 10; ++key) Get(*b, key);
  db.Write(3);
  a->Invalidate(3);
  a->Invalidate(4);
  fleet->TrimJournal();
  fleet->AwaitHeartbeats();
  for (int key = 0; key < 10; ++key) EXPECT_EQ(Get(*b, key), Concat(key, key == 3 ? " v1" : " v0"));
  EXPECT_EQ(db.reads(), 12);
}

// Marks of updates.

TEST_P(TierContractTest, Hold_UntilReleased_QuestionsAreBusyAndNothingIsStored) {
  auto [a, b] = NewClients();
  const TierAnswer granted = a.Ask("k");
  ASSERT_EQ(granted.kind, Answer::kGranted);
  const TierMark held = b.Hold("k", 1);
  ASSERT_EQ(held.kind, Mark::kStands);
  EXPECT_EQ(held.bound, b.cache->max_staleness());
  EXPECT_GT(held.position, granted.lease.position);
  EXPECT_EQ(a.Fill("k", granted.lease, "old").kind, Filled::kRefused);
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(a.Ask("k").kind, Answer::kBusy) << step;
    EXPECT_EQ(b.Ask("k").kind, Answer::kBusy) << step;
    if (step == 0) EXPECT_TRUE(a.InvalidateKey("k").accepted);
    if (step == 1) {
      const TierInvalidated put = b.Invalidate(Target::kKey, "k", /*with_lease=*/true);
      EXPECT_TRUE(put.accepted);
      EXPECT_EQ(put.lease.token, "") << "a Put stores nothing";
    }
    if (step == 2) EXPECT_TRUE(a.InvalidateAll().accepted);
  }
  EXPECT_EQ(a.Load("other", "v").kind, Filled::kStored);
  const TierMark released = b.Release("k", held);
  EXPECT_EQ(released.kind, Mark::kStands);
  EXPECT_EQ(released.bound, b.cache->max_staleness());
  EXPECT_GT(released.position, held.position);
  EXPECT_EQ(a.Load("k", "new").kind, Filled::kStored);
  fleet->AwaitHeartbeats();
  EXPECT_EQ(a.ear->heard().front().position, held.position);
  EXPECT_EQ(a.ear->heard().back().position, released.position);
}

TEST_P(TierContractTest, Hold_RemovesTheValue) {
  auto [a, b] = NewClients();
  ASSERT_EQ(a.Load("k", {.bytes = "old", .tags = {"t"}}).kind, Filled::kStored);
  const TierMark held = b.Hold("k", 1);
  EXPECT_FALSE(a.Ask("k").record.has_value());
  EXPECT_EQ(b.Release("k", held).kind, Mark::kStands);
  EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
}

// The largest tokens differ by less than a double shows.
TEST_P(TierContractTest, Hold_WhileAnotherMarkStands_TheLargerTokenWins) {
  auto [a, b] = NewClients();
  for (const int64_t first : {int64_t{1}, int64_t{255}, int64_t{0xffffffff}, int64_t{1} << 53, INT64_MAX - 1}) {
    const TierMark older = a.Hold("k", first);
    ASSERT_EQ(older.kind, Mark::kStands);
    const TierMark newer = b.Hold("k", first + 1);
    ASSERT_EQ(newer.kind, Mark::kStands) << first;
    EXPECT_EQ(a.Hold("k", first).kind, Mark::kRefused) << first;
    EXPECT_EQ(a.Release("k", older).kind, Mark::kLost);
    EXPECT_EQ(a.Ask("k").kind, Answer::kBusy) << "the other update's mark stands";
    EXPECT_EQ(b.Release("k", newer).kind, Mark::kStands) << first;
    EXPECT_EQ(a.Ask("k").kind, Answer::kGranted);
    EXPECT_TRUE(a.InvalidateKey("k").accepted);
  }
  EXPECT_EQ(fleet->leases(), 0u);
}

TEST_P(TierContractTest, Release_TheMarkHasLapsed_IsLost) {
  auto [a, b] = NewClients();
  const TierMark held = a.Hold("k", 1);
  ASSERT_EQ(held.kind, Mark::kStands);
  fleet->LapseLeases();
  EXPECT_EQ(b.Load("k", "old").kind, Filled::kStored);
  EXPECT_EQ(a.Release("k", held).kind, Mark::kLost);
  EXPECT_EQ(b.Ask("k").kind, Answer::kGranted) << "the value is gone";
}

TEST_P(TierContractTest, Release_InANewReign_IsLost) {
  TierClient a = NewClient();
  const TierMark held = a.Hold("k", 1);
  ASSERT_EQ(held.kind, Mark::kStands);
  fleet->BeginReign();
  fleet->AwaitHeartbeats();
  EXPECT_EQ(a.Release("k", held).kind, Mark::kLost);
}

TEST_P(TierContractTest, Locks_NotGiven_ThereAreNoUpdates) {
  TierClient a = NewClient();
  EXPECT_FALSE(a.tier->has_locks());
  EXPECT_EQ(CodeOf(a.cache->Lock("k", absl::Seconds(1), {}).status()), "UNIMPLEMENTED");
  LoadingCacheOptions options = InTier({.strict = true});
  const auto refused = Cache::Create(options, Reads());
  EXPECT_EQ(CodeOf(refused.status()), "INVALID_ARGUMENT");
  EXPECT_NE(refused.status().message().find("strict = true: needs a tier with locks"), std::string_view::npos);
}

}  // namespace
}  // namespace stockade::testing
