// What a cache with a tier may serve: while it trusts its memory, without heartbeats, without the tier, and of values
// that have expired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/tier/memory_tier_test.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;
using CacheTrustTest = MemoryTierTest;

TEST_F(CacheTrustTest, Message_BeforeTheHeartbeat_TakesEffectAtOnceAndOnce) {
  OpenAndLoad({1, 2});
  db.Write(1);
  a->Invalidate(1);
  tier->process(1).HearEntry();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  const int64_t asks = tier->asks();
  tier->process(1).HearEntry();
  tier->BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(Get(*b, 2), "2 v0");
  EXPECT_EQ(tier->asks(), asks);
}

// A message gives no trust.
TEST_F(CacheTrustTest, Message_WithoutAHeartbeatForMaxStaleness_EveryHitIsAskedFor) {
  Open();
  Get(*b, 1);
  PassMaxStaleness();
  a->Invalidate(2);
  tier->process(1).HearEntry();
  const int64_t asks = tier->asks();
  Get(*b, 1);
  EXPECT_EQ(tier->asks(), asks + 1);
}

TEST_F(CacheTrustTest, Heartbeat_AfterTheOwnInvalidation_LeavesTheNewValue) {
  Open();
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  const int64_t asks = tier->asks();
  tier->BeatAll();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(tier->asks(), asks);
}

TEST_F(CacheTrustTest, NoHeartbeatForMaxStaleness_EveryHitIsAskedFor) {
  OpenAndLoad();
  const int64_t asks = tier->asks();
  db.Write(1);
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  clock.Advance(MemoryCacheTierOptions().max_staleness - absl::Nanoseconds(1));
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(tier->asks(), asks + 1) << "both trust their heartbeats";
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

// Invokes `hook` once, in the comparison after `skipped` others.
struct HookedEq {
  static inline std::function<void()> hook;
  static inline int skipped = 0;

  bool operator()(int a, int b) const {
    if (hook != nullptr && skipped-- == 0) std::exchange(hook, nullptr)();
    return a == b;
  }
};

TEST_F(CacheTrustTest, Hit_ReadBeforeAHeartbeatAppliesAnInvalidation_IsNotServedForTheTrustThatFollows) {
  LoadingCache<int, std::string, std::hash<int>, HookedEq> reader(InTier({}), Reads());
  const std::unique_ptr<Cache> writer = NewCache();
  ASSERT_TRUE(reader.Get(1).ok());
  for (int step = 0; step < 3; ++step) {  // Later comparisons are made with the shard's mutex held.
    ASSERT_TRUE(reader.Get(1).ok());
    db.Write(1);
    writer->Invalidate(1);
    PassMaxStaleness();  // From here on no call may return the old value.
    HookedEq::skipped = step;
    HookedEq::hook = [this] { std::thread([this] { tier->process(0).Beat(); }).join(); };
    EXPECT_EQ(**reader.Get(1), Concat("1 v", step + 1)) << "comparison " << step;
    HookedEq::hook = nullptr;
    tier->process(1).Beat();
  }
}

TEST_F(CacheTrustTest, GetIfPresent_WithoutTrust_FindsNothingAndAsks) {
  Open();
  Get(*a, 1);
  EXPECT_TRUE(Has(*a, 1));
  PassMaxStaleness();
  const int64_t asks = tier->asks();
  EXPECT_FALSE(Has(*a, 1));
  SpinUntil([&] { return tier->asks() > asks; });
  tier->process(0).Beat();
  SpinUntil([&] { return Has(*a, 1); });
  EXPECT_EQ(db.reads(), 1);
}

TEST_F(CacheTrustTest, GetIfPresent_TrustReturnsBeforeTheCheckRuns_DoesNotLoad) {
  ManualExecutor refreshes;
  Open({.refresh_executor = &refreshes});
  Get(*a, 1);
  PassMaxStaleness();
  EXPECT_FALSE(Has(*a, 1));
  tier->process(0).Beat();
  refreshes.RunAll();
  EXPECT_EQ(db.reads(), 1);
  EXPECT_TRUE(Has(*a, 1));
  Close();
}

TEST_F(CacheTrustTest, Options_ThatATierCannotServe_AreRefused) {
  LoadingCacheOptions options = InTier({});
  options.strict = true;
  EXPECT_THAT(std::string(options.Validate().message()), ::testing::HasSubstr("strict"));
  options.strict = false;
  options.clock = Clock::System();
  EXPECT_THAT(std::string(options.Validate().message()), ::testing::HasSubstr("clock"));
}

TEST_F(CacheTrustTest, RemovalListener_IsSlow_DelaysNoHeartbeat) {
  Door door;
  std::vector<std::string> removed;
  std::vector<std::thread::id> threads;
  Callbacks callbacks{.load = Reads()};
  a = NewCache({}, callbacks);
  callbacks.on_removal = [&](const int&, const CacheHandle<std::string>& value, RemovalCause cause) {
    door.Pass();
    EXPECT_EQ(cause, RemovalCause::kInvalidated);
    removed.push_back(*value);
    threads.push_back(std::this_thread::get_id());
  };
  b = NewCache({}, callbacks);
  for (int key = 1; key <= 3; ++key) Get(*b, key);
  for (int key = 1; key <= 2; ++key) {
    a->Invalidate(key);
    tier->process(1).Beat();
    EXPECT_FALSE(Has(*b, key));
  }
  tier->BeginReign();
  tier->process(1).Beat();
  EXPECT_EQ(b->size(), 0);
  door.AwaitArrivals(1);
  door.Open();
  b.reset();
  EXPECT_EQ(removed, (std::vector<std::string>{"1 v0", "2 v0", "3 v0"}));
  for (const std::thread::id thread : threads) EXPECT_NE(thread, std::this_thread::get_id());
}

// Processes that are cut off, and replies that are lost.

TEST_F(CacheTrustTest, Away_EachProcessLoadsAndKeepsItForMaxStaleness) {
  Open();
  Get(*a, 1);
  for (size_t i = 0; i < 2; ++i) tier->process(i).away = true;
  PassMaxStaleness();
  ExpectBoth(1, "1 v0");
  EXPECT_EQ(db.reads(), 3);
  db.Write(1);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(db.reads(), 3);
  PassMaxStaleness();
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(db.reads(), 4);
}

TEST_F(CacheTrustTest, Away_LoadTakesTime_ValueIsKeptForMaxStalenessFromItsBeginning) {
  Door door;
  Open(FirstPasses(door));
  tier->process(0).away = true;
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  clock.Advance(MemoryCacheTierOptions().max_staleness / 2);
  door.Open();
  loading.join();
  db.Write(1);
  clock.Advance(MemoryCacheTierOptions().max_staleness / 2);
  EXPECT_EQ(Get(*a, 1), "1 v1");
}

TEST_F(CacheTrustTest, Away_ValueIsNotRevalidatedBeyondMaxStaleness) {
  for (const absl::Duration ttl :
       {MemoryCacheTierOptions().max_staleness / 2, MemoryCacheTierOptions().max_staleness * 2}) {
    SCOPED_TRACE(ttl);
    NewMemoryTier();
    Open({.ttl = ttl, .stale_while_revalidate = absl::Hours(1)});
    tier->process(0).away = true;
    const std::string loaded = Get(*a, 1);
    db.Write(1);
    PassMaxStaleness();
    EXPECT_NE(Get(*a, 1), loaded);
    Close();
  }
}

TEST_F(CacheTrustTest, Away_InvalidationIsQueued_AndSentByAHeartbeat) {
  Open();
  Get(*b, 1);
  db.Write(1);
  tier->process(0).away = true;
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v1") << "not what the tier still has";
  EXPECT_EQ(Get(*b, 1), "1 v0");
  tier->process(0).away = false;
  db.Write(1);
  EXPECT_EQ(Get(*a, 1), "1 v1") << "its own load is young";
  a->Invalidate(2);  // Sends both.
  tier->BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v2");
}

TEST_F(CacheTrustTest, AwaitInvalidations_SaysWhetherTheTierHasAcceptedThem) {
  Open();
  tier->process(0).away = true;
  EXPECT_TRUE(a->UpdateThrough(1, Ok).ok());
  EXPECT_EQ(CodeOf(a->AwaitInvalidations(absl::ZeroDuration())), "DEADLINE_EXCEEDED");
  EXPECT_EQ(CodeOf(b->AwaitInvalidations(absl::ZeroDuration())), "OK");
  tier->process(0).away = false;
  EXPECT_EQ(CodeOf(a->AwaitInvalidations(absl::Seconds(1))), "OK");
  IntCache without(LoadingCacheOptions{});
  EXPECT_EQ(CodeOf(without.AwaitInvalidations(absl::ZeroDuration())), "OK");
}

TEST_F(CacheTrustTest, LostReplyOfAnInvalidation_IsRepeated) {
  OpenAndLoad();
  db.Write(1);
  tier->process(0).replies_to_lose = 1;
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  tier->BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v1");
}

TEST_F(CacheTrustTest, LostReplies_OfAskAndFill_LoadWithoutALease) {
  Open();
  tier->process(0).replies_to_lose = 1;
  EXPECT_EQ(Get(*a, 1), "1 v0");
  tier->LapseLeases();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(CacheTrustTest, JoinedLoad_OfAProcessThatIsCutOff_IsNotOlderThanMaxStaleness) {
  Door door;
  Open(FirstPasses(door));
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  tier->process(0).away = true;
  db.Write(1);
  b->Invalidate(1);
  PassMaxStaleness();
  EXPECT_EQ(Get(*a, 1), "1 v1");
  door.Open();
}

TEST_F(CacheTrustTest, GetAll_Away_AsksOnce) {
  Open();
  tier->process(0).away = true;
  const int64_t asks = tier->asks();
  for (const auto& found : a->GetAll({1, 2, 3})) EXPECT_TRUE(found.ok());
  EXPECT_EQ(tier->asks() - asks, 1);
  EXPECT_EQ(db.reads(), 3);
}

TEST_F(CacheTrustTest, AwayAndTheLoaderFails_StaleIfErrorTriesOncePerBackoff_OthersFail) {
  for (const bool stale_if_error : {true, false}) {
    SCOPED_TRACE(stale_if_error);
    NewMemoryTier();
    int loads = 0;
    const absl::Duration span = stale_if_error ? absl::Hours(1) : absl::ZeroDuration();
    a = NewCache({.stale_if_error = span, .retry_backoff = absl::Seconds(5)}, [&](int) -> Loaded {
      if (++loads == 1) return "old";
      return absl::InternalError("down");
    });
    EXPECT_EQ(Get(*a, 1), "old");
    tier->process(0).away = true;
    PassMaxStaleness();
    if (stale_if_error) {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(Get(*a, 1), "old");
      EXPECT_EQ(loads, 2);
      clock.Advance(absl::Seconds(5));
      EXPECT_EQ(Get(*a, 1), "old");
      EXPECT_EQ(loads, 3);
    } else {
      EXPECT_EQ(Get(*a, 1), "INTERNAL");
      EXPECT_FALSE(Has(*a, 1));
    }
    Close();
  }
}

// Values that expire.

TEST_F(CacheTrustTest, Expiry_IsThatOfTheFirstProcess) {
  Open();
  Get(*a, 1);
  clock.Advance(absl::Seconds(40));
  tier->BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  db.Write(1);
  clock.Advance(absl::Seconds(19));
  tier->BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  clock.Advance(absl::Seconds(1));
  ExpectBoth(1, "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(CacheTrustTest, Absence_ExpiresInAllProcesses) {
  int loads = 0;
  Open({.negative_ttl = absl::Seconds(5)}, [&](int) -> Loaded {
    ++loads;
    return absl::NotFoundError("no such product");
  });
  ExpectBoth(1, "NOT_FOUND");
  EXPECT_EQ(loads, 1);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(Get(*b, 1), "NOT_FOUND");
  EXPECT_EQ(loads, 2);
}

TEST_F(CacheTrustTest, RefreshAhead_LoadsOnceInTheFleet) {
  Open({.refresh_ahead = 0.5});
  Get(*a, 1);
  Get(*b, 1);
  db.Write(1);
  clock.Advance(absl::Seconds(30));
  tier->BeatAll();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  for (Cache* const cache : {a.get(), b.get()}) SpinUntil([&] { return Get(*cache, 1) == "1 v1"; });
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(CacheTrustTest, StaleWhileRevalidate_IsServedWhileAnotherProcessLoads) {
  Door door;
  std::atomic<int> loads{0};
  Open({.stale_while_revalidate = absl::Minutes(1)}, [&](int key) {
    if (++loads == 2) door.Pass();
    return db.Read(key);
  });
  Get(*a, 1);
  clock.Advance(absl::Seconds(61));
  tier->BeatAll();
  db.Write(1);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  door.AwaitArrivals(1);
  EXPECT_EQ(Get(*b, 1), "1 v0") << "this process had never seen it";
  door.Open();
  for (Cache* const cache : {a.get(), b.get()}) SpinUntil([&] { return Get(*cache, 1) == "1 v1"; });
  EXPECT_EQ(db.reads(), 2);
  Close();
}

// stale_if_error keeps the value, which is for failed loads only.
TEST_F(CacheTrustTest, StaleWhileRevalidate_ItsTimeHasPassed_CallsWaitForTheLoad) {
  Door door;
  std::atomic<int> loads{0};
  Open({.stale_while_revalidate = absl::Seconds(1), .stale_if_error = absl::Hours(1)}, [&](int key) {
    if (++loads == 2) door.Pass();
    return db.Read(key);
  });
  Get(*a, 1);
  clock.Advance(absl::Seconds(90));
  tier->BeatAll();
  db.Write(1);
  std::future<std::string> loading = std::async(std::launch::async, [&] { return Get(*a, 1); });
  door.AwaitArrivals(1);
  std::future<std::string> waiting = std::async(std::launch::async, [&] { return Get(*b, 1); });
  SpinUntil([&] { return tier->asks() == 3; });
  door.Open();
  EXPECT_EQ(loading.get(), "1 v1");
  while (waiting.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    clock.Advance(absl::Milliseconds(5));
  }
  EXPECT_EQ(waiting.get(), "1 v1");
  EXPECT_EQ(db.reads(), 2);
  Close();
}

TEST_F(CacheTrustTest, StaleWhileRevalidate_ValueIsOnlyInTheTier_IsServedWhileThisProcessLoads) {
  Door door;
  a = NewCache({.stale_while_revalidate = absl::Minutes(1)}, Reads());
  b = NewCache({.stale_while_revalidate = absl::Minutes(1)}, ReadsBehind(door));
  for (const int key : {1, 2}) Get(*a, key);
  clock.Advance(absl::Seconds(61));
  tier->BeatAll();
  for (const int key : {1, 2}) db.Write(key);
  std::future<std::string> one = std::async(std::launch::async, [&] { return Get(*b, 1); });
  std::future<std::string> many = std::async(std::launch::async, [&] { return **b->GetAll({2})[0]; });
  for (const auto* const lookup : {&one, &many}) {
    EXPECT_EQ(lookup->wait_for(std::chrono::minutes(1)), std::future_status::ready) << "it waits for the load";
  }
  door.AwaitArrivals(2);
  EXPECT_EQ(tier->leases(), 2u);
  door.Open();
  EXPECT_EQ(one.get(), "1 v0");
  EXPECT_EQ(many.get(), "2 v0");
  for (const int key : {1, 2}) SpinUntil([&] { return Get(*b, key) == Concat(key, " v1"); });
  EXPECT_EQ(db.reads(), 4);
  ExpectNoLease();
  Close();
}

TEST_F(CacheTrustTest, NotModified_OfAnExpiredCopy_KeepsItsTags) {
  bool modified = true;
  Open({.stale_if_error = absl::Hours(1)}, [&](int key, ValueLoadContext<std::string>& load) -> Loaded {
    if (!modified && load.previous() != nullptr) return LoadContext::NotModified();
    load.AddTag("tag");
    return db.Read(key);
  });
  Get(*a, 1);
  clock.Advance(absl::Minutes(1));
  tier->BeatAll();
  modified = false;
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(db.reads(), 1);
  db.Write(1);
  modified = true;
  a->InvalidateTag("tag");
  tier->BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v1");
}

// The loader is slow, so that an expired value is served: of two the later one.
TEST_F(CacheTrustTest, SoftTimeout_TheTierHasANewerExpiredValue_ServesThat) {
  Door door;
  std::atomic<bool> slow{false};
  Open({.stale_if_error = absl::Hours(1), .load_soft_timeout = absl::Seconds(1)}, [&](int key) {
    if (slow) door.Pass();
    return db.Read(key);
  });
  ExpectBoth(1, "1 v0");
  db.Write(1);
  clock.Advance(absl::Seconds(30));
  tier->BeatAll();
  b->Refresh(1);
  SpinUntil([&] { return Get(*b, 1) == "1 v1"; });
  EXPECT_EQ(Get(*a, 1), "1 v0");
  clock.Advance(absl::Seconds(65));
  tier->BeatAll();
  slow = true;
  std::future<std::string> served = std::async(std::launch::async, [&] { return Get(*a, 1); });
  door.AwaitArrivals(1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(served.get(), "1 v1");
  door.Open();
  Close();
}

}  // namespace
}  // namespace stockade::testing
