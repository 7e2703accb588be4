// A cache with a tier, and what its processes see. The tier is in memory (fake_tier.h); tests/cache/redis has the same
// on Redis.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"
#include "cache/tier/fake_tier.h"

namespace stockade::testing {
namespace {

using Cache = LoadingCache<int, std::string>;

// What all processes load from: each write of a key is a new version.
class Database {
 public:
  std::string Read(int key) {
    const std::lock_guard lock(mutex_);
    ++reads_;
    return base_internal::Concat(key, " v", versions_[key]);
  }
  void Write(int key) {
    const std::lock_guard lock(mutex_);
    ++versions_[key];
  }
  int reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  std::mutex mutex_;
  std::map<int, int> versions_;
  int reads_ = 0;
};

// Two processes with one tier.
class TierTest : public ::testing::Test {
 protected:
  LoadingCacheOptions Options() {
    LoadingCacheOptions options;
    options.name = "products";
    options.ttl = absl::Minutes(1);
    options.clock = tier->clock();
    options.tier = tier;
    options.metrics = nullptr;
    return options;
  }
  std::unique_ptr<Cache> NewCache(LoadingCacheOptions options, std::function<std::string(int key)> load) {
    return Cache::Create(std::move(options),
                         [load = std::move(load)](const int& key, LoadContext&) -> absl::StatusOr<std::string> {
                           return load(key);
                         })
        .value();
  }
  std::unique_ptr<Cache> NewCache(LoadingCacheOptions options) {
    return NewCache(std::move(options), [this](int key) { return db.Read(key); });
  }
  // For tests in which a call waits for another process.
  void UseSystemClock() { tier = std::make_shared<FakeTier>(Clock::System()); }
  void Open(const LoadingCacheOptions& options) {
    a = NewCache(options);
    b = NewCache(options);
  }
  static std::string Get(Cache& cache, int key) {
    const absl::StatusOr<CacheHandle<std::string>> found = cache.Get(key);
    return found.ok() ? **found : CodeOf(found.status());
  }
  void BeatAll() {
    tier->process(0).Beat();
    tier->process(1).Beat();
  }

  ManualClock clock;
  Database db;
  std::shared_ptr<FakeTier> tier = std::make_shared<FakeTier>(&clock);
  std::unique_ptr<Cache> a;
  std::unique_ptr<Cache> b;
};

TEST_F(TierTest, Get_LoadedByAnotherProcess_IsNotLoadedAgain) {
  Open(Options());
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(db.reads(), 1);
  const int64_t asks = tier->asks();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(tier->asks(), asks) << "both have it";
  EXPECT_EQ(tier->leases(), 0u);
}

TEST_F(TierTest, Invalidate_IsSeenByTheOwnProcessAtOnceAndByOthersAfterAHeartbeat) {
  Open(Options());
  Get(*a, 1);
  Get(*b, 1);
  db.Write(1);
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v0") << "trusts its heartbeat";
  tier->process(1).Beat();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, Message_BeforeTheHeartbeat_TakesEffectAtOnceAndOnce) {
  Open(Options());
  for (Cache* const cache : {a.get(), b.get()}) {
    for (const int key : {1, 2}) Get(*cache, key);
  }
  db.Write(1);
  a->Invalidate(1);
  tier->process(1).HearEntry();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  const int64_t asks = tier->asks();
  tier->process(1).HearEntry();
  BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(Get(*b, 2), "2 v0");
  EXPECT_EQ(tier->asks(), asks);
}

// A message gives no trust.
TEST_F(TierTest, Message_WithoutAHeartbeatForMaxStaleness_EveryHitIsAskedFor) {
  Open(Options());
  Get(*b, 1);
  clock.Advance(FakeTier::kMaxStaleness);
  a->Invalidate(2);
  tier->process(1).HearEntry();
  const int64_t asks = tier->asks();
  Get(*b, 1);
  EXPECT_EQ(tier->asks(), asks + 1);
}

TEST_F(TierTest, Heartbeat_AfterTheOwnInvalidation_LeavesTheNewValue) {
  Open(Options());
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  const int64_t asks = tier->asks();
  BeatAll();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(tier->asks(), asks);
}

TEST_F(TierTest, NoHeartbeatForMaxStaleness_EveryHitIsAskedFor) {
  Open(Options());
  Get(*a, 1);
  Get(*b, 1);
  db.Write(1);
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  clock.Advance(FakeTier::kMaxStaleness - absl::Nanoseconds(1));
  EXPECT_EQ(Get(*b, 1), "1 v0");
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

TEST_F(TierTest, Hit_ReadBeforeAHeartbeatAppliesAnInvalidation_IsNotServedForTheTrustThatFollows) {
  const auto load = [this](const int& key, LoadContext&) -> absl::StatusOr<std::string> { return db.Read(key); };
  LoadingCache<int, std::string, std::hash<int>, HookedEq> reader(Options(), load);
  const std::unique_ptr<Cache> writer = NewCache(Options());
  ASSERT_TRUE(reader.Get(1).ok());
  for (int step = 0; step < 3; ++step) {  // Later comparisons are made with the shard's mutex held.
    ASSERT_TRUE(reader.Get(1).ok());
    db.Write(1);
    writer->Invalidate(1);
    clock.Advance(FakeTier::kMaxStaleness);  // From here on no call may return the old value.
    HookedEq::skipped = step;
    HookedEq::hook = [this] { std::thread([this] { tier->process(0).Beat(); }).join(); };
    EXPECT_EQ(**reader.Get(1), base_internal::Concat("1 v", step + 1)) << "comparison " << step;
    HookedEq::hook = nullptr;
    tier->process(1).Beat();
  }
}

TEST_F(TierTest, InvalidateTagAndAll_ReachOtherProcesses) {
  LoadingCacheOptions options = Options();
  const auto load = [this](const int& key, LoadContext& load) -> absl::StatusOr<std::string> {
    if (key % 2 == 0) load.AddTag("even");
    return db.Read(key);
  };
  a = Cache::Create(options, load).value();
  b = Cache::Create(options, load).value();
  for (const int key : {1, 2, 3, 4}) Get(*b, key);
  for (const int key : {1, 2, 3, 4}) db.Write(key);
  a->InvalidateTag("even");
  tier->process(1).Beat();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(Get(*b, 2), "2 v1");
  EXPECT_EQ(Get(*b, 4), "4 v1");
  EXPECT_EQ(Get(*a, 3), "3 v0");
  a->InvalidateAll();
  tier->process(1).Beat();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(Get(*b, 3), "3 v1");
  EXPECT_EQ(db.reads(), 4 + 2 + 2);
  tier->process(0).Beat();
  const int64_t asks = tier->asks();
  EXPECT_EQ(Get(*b, 2), "2 v1");
  EXPECT_GT(tier->asks(), asks) << "InvalidateAll() has removed it";
}

TEST_F(TierTest, Put_ReachesOtherProcessesWithoutALoad) {
  Open(Options());
  Get(*a, 1);
  Get(*b, 1);
  a->Put(1, "put");
  EXPECT_EQ(Get(*a, 1), "put");
  tier->process(1).Beat();
  EXPECT_EQ(Get(*b, 1), "put");
  EXPECT_EQ(db.reads(), 1);
  EXPECT_EQ(tier->leases(), 0u);
  a->Put(1, "gone", absl::ZeroDuration());
  EXPECT_FALSE(tier->HasRecord("1"));
  EXPECT_EQ(Get(*a, 1), "1 v0");
}

TEST_F(TierTest, Fill_AfterAnInvalidationByAnotherProcess_IsRefusedAndStoredNowhere) {
  Door door;
  std::atomic<bool> slow{true};
  const auto load = [&](const int& key, LoadContext&) -> absl::StatusOr<std::string> {
    std::string read = db.Read(key);
    if (slow.exchange(false)) door.Pass();
    return read;
  };
  a = Cache::Create(Options(), load).value();
  b = Cache::Create(Options(), load).value();
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  db.Write(1);
  b->Invalidate(1);
  door.Open();
  loading.join();
  EXPECT_FALSE(tier->HasRecord("1"));
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, OtherProcessLoads_CallsWaitForItsValue) {
  Clock* const system = Clock::System();
  tier = std::make_shared<FakeTier>(system);
  LoadingCacheOptions options = Options();
  options.clock = system;
  for (const bool executor : {false, true}) {
    SCOPED_TRACE(executor);
    ThreadPool pool(2);
    options.load_executor = executor ? &pool : nullptr;
    const int key = executor ? 2 : 1;
    const int before = db.reads();
    Door door;
    const auto load = [&](const int& k, LoadContext&) -> absl::StatusOr<std::string> {
      door.Pass();
      return db.Read(k);
    };
    a = Cache::Create(options, load).value();
    b = Cache::Create(options, load).value();
    std::vector<std::jthread> callers;
    callers.emplace_back([&] { EXPECT_EQ(Get(*a, key), base_internal::Concat(key, " v0")); });
    door.AwaitArrivals(1);
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] { EXPECT_EQ(Get(*b, key), base_internal::Concat(key, " v0")); });
    }
    const int64_t asks = tier->asks();
    SpinUntil([&] { return tier->asks() > asks + 3; });
    EXPECT_EQ(CodeOf(b->Get(key, {.timeout = absl::Milliseconds(20)}).status()), "DEADLINE_EXCEEDED");
    door.Open();
    callers.clear();
    EXPECT_EQ(db.reads() - before, 1);
    a.reset();
    b.reset();
  }
}

TEST_F(TierTest, GetAsync_OtherProcessLoads_IsAnsweredByIt) {
  Clock* const system = Clock::System();
  tier = std::make_shared<FakeTier>(system);
  LoadingCacheOptions options = Options();
  options.clock = system;
  Door door;
  const auto load = [&](const int& k, LoadContext&) -> absl::StatusOr<std::string> {
    door.Pass();
    return db.Read(k);
  };
  a = Cache::Create(options, load).value();
  b = Cache::Create(options, load).value();
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  ThreadPool pool(1);
  std::promise<std::string> answer;
  b->GetAsync(1, pool, [&](absl::StatusOr<CacheHandle<std::string>> found) { answer.set_value(**found); });
  const int64_t asks = tier->asks();
  SpinUntil([&] { return tier->asks() > asks + 3; });
  door.Open();
  EXPECT_EQ(answer.get_future().get(), "1 v0");
  EXPECT_EQ(db.reads(), 1);
}

// Without the message, the calls would wait for an hour.
TEST_F(TierTest, LeaseEnded_CallsThatWaitForAnotherProcess_AskAtOnce) {
  Clock* const system = Clock::System();
  tier = std::make_shared<FakeTier>(system, FakeTier::Spans{.retry_after = absl::Hours(1)}, [](const auto&) {});
  LoadingCacheOptions options = Options();
  options.clock = system;
  ThreadPool answers(1);
  for (const bool executor : {false, true}) {
    for (const bool async : {false, true}) {
      SCOPED_TRACE(base_internal::Concat("executor ", executor, ", async ", async));
      ThreadPool pool(1);
      options.load_executor = executor ? &pool : nullptr;
      Door door;
      a = NewCache(Options(), [&](int key) {
        door.Pass();
        return db.Read(key);
      });
      b = NewCache(options);
      const size_t opened = tier->opened();
      std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
      door.AwaitArrivals(1);
      const int64_t asks = tier->asks();
      std::promise<std::string> answer;
      std::vector<std::jthread> callers;
      if (async) {
        b->GetAsync(1, answers, [&](absl::StatusOr<CacheHandle<std::string>> found) { answer.set_value(**found); });
      } else {
        answer.set_value("1 v0");
        for (int i = 0; i < 4; ++i) callers.emplace_back([&] { EXPECT_EQ(Get(*b, 1), "1 v0"); });
      }
      SpinUntil([&] { return tier->asks() > asks; });
      door.Open();
      loading.join();
      const int reads = db.reads();
      tier->process(opened - 1).TellLeaseEnded("1");
      EXPECT_EQ(answer.get_future().get(), "1 v0");
      callers.clear();
      EXPECT_EQ(db.reads(), reads);
      EXPECT_EQ(tier->asks(), asks + 2);
      b->Invalidate(1);
      a.reset();
      b.reset();
    }
  }
}

TEST_F(TierTest, LeaseEnded_WhileTheAnswerIsOnItsWay_TheCallAsksAgainAtOnce) {
  tier =
      std::make_shared<FakeTier>(Clock::System(), FakeTier::Spans{.retry_after = absl::Hours(1)}, [](const auto&) {});
  Open(Options());
  const TierAsk question{"1"};
  const TierLease lease = tier->process(0).Ask({&question, 1}).front().lease;
  int replies = 0;
  tier->process(1).on_reply = [&] {
    if (++replies > 1) return;
    tier->process(0).Fail("1", lease);
    tier->process(1).TellLeaseEnded("1");
  };
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(replies, 2);
}

TEST_F(TierTest, LeaseEnded_NobodyWaits_DoesNothing) {
  Open(Options());
  Get(*a, 1);
  const int64_t asks = tier->asks();
  for (const char* key : {"1", "2", "not a number", ""}) tier->process(0).TellLeaseEnded(key);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(tier->asks(), asks);
  EXPECT_EQ(db.reads(), 1);
}

TEST_F(TierTest, GetAsync_WhileAnotherProcessLoads_DoesNotAskBeforeItsTime) {
  const std::string key = "1";
  Open(Options());
  ManualExecutor refreshes;
  LoadingCacheOptions options = Options();
  options.refresh_executor = &refreshes;
  const std::unique_ptr<Cache> c = NewCache(options);
  const TierAsk question{key};
  const std::vector<TierAnswer> granted = tier->process(0).Ask({&question, 1});  // The other process.
  ASSERT_EQ(granted.front().kind, TierAnswer::Kind::kGranted);
  InlineExecutor here;
  std::atomic<int> answers{0};
  const int64_t asks = tier->asks();
  const auto ask = [&] { c->GetAsync(1, here, [&](const auto&) { ++answers; }); };
  ask();
  refreshes.RunAll();
  EXPECT_EQ(tier->asks(), asks + 1);
  for (int i = 0; i < 10; ++i) ask();
  refreshes.RunAll();
  EXPECT_EQ(tier->asks(), asks + 1);
  tier->process(0).Fail(key, granted.front().lease);
  clock.Advance(absl::Milliseconds(5));
  SpinUntil([&] { return refreshes.scheduled() > 1; });
  refreshes.RunAll();
  EXPECT_EQ(tier->asks(), asks + 2);
  EXPECT_EQ(answers, 11);
}

TEST_F(TierTest, Away_EachProcessLoadsAndKeepsItForMaxStaleness) {
  Open(Options());
  Get(*a, 1);
  for (size_t i = 0; i < 2; ++i) tier->process(i).away = true;
  clock.Advance(FakeTier::kMaxStaleness);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(db.reads(), 3);
  db.Write(1);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(db.reads(), 3);
  clock.Advance(FakeTier::kMaxStaleness);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(db.reads(), 4);
}

TEST_F(TierTest, Away_ValueIsNotRevalidatedBeyondMaxStaleness) {
  for (const absl::Duration ttl : {FakeTier::kMaxStaleness / 2, FakeTier::kMaxStaleness * 2}) {
    SCOPED_TRACE(ttl);
    tier = std::make_shared<FakeTier>(&clock);
    LoadingCacheOptions options = Options();
    options.ttl = ttl;
    options.stale_while_revalidate = absl::Hours(1);
    Open(options);
    tier->process(0).away = true;
    const std::string loaded = Get(*a, 1);
    db.Write(1);
    clock.Advance(FakeTier::kMaxStaleness);
    EXPECT_NE(Get(*a, 1), loaded);
    a.reset();
    b.reset();
  }
}

TEST_F(TierTest, Away_InvalidationIsQueued_AndSentByAHeartbeat) {
  Open(Options());
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
  BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v2");
}

TEST_F(TierTest, AwaitInvalidations_SaysWhetherTheTierHasAcceptedThem) {
  Open(Options());
  tier->process(0).away = true;
  EXPECT_TRUE(a->UpdateThrough(1, [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(CodeOf(a->AwaitInvalidations(absl::ZeroDuration())), "DEADLINE_EXCEEDED");
  EXPECT_EQ(CodeOf(b->AwaitInvalidations(absl::ZeroDuration())), "OK");
  tier->process(0).away = false;
  EXPECT_EQ(CodeOf(a->AwaitInvalidations(absl::Seconds(1))), "OK");
  IntCache without(LoadingCacheOptions{});
  EXPECT_EQ(CodeOf(without.AwaitInvalidations(absl::ZeroDuration())), "OK");
}

TEST_F(TierTest, LostReplyOfAnInvalidation_IsRepeated) {
  Open(Options());
  Get(*a, 1);
  Get(*b, 1);
  db.Write(1);
  tier->process(0).replies_to_lose = 1;
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v1");
}

TEST_F(TierTest, LostReplies_OfAskAndFill_LoadWithoutALease) {
  Open(Options());
  tier->process(0).replies_to_lose = 1;
  EXPECT_EQ(Get(*a, 1), "1 v0");
  tier->LapseLeases();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, NewReign_EverythingIsLoadedOnceAgain) {
  Open(Options());
  Get(*a, 1);
  Get(*b, 1);
  db.Write(1);
  tier->BeginReign();
  BeatAll();
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, NewReign_DuringALoad_ItsResultIsNotStored) {
  Door door;
  std::atomic<bool> slow{true};
  const auto load = [&](const int& key, LoadContext&) -> absl::StatusOr<std::string> {
    std::string read = db.Read(key);
    if (slow.exchange(false)) door.Pass();
    return read;
  };
  a = Cache::Create(Options(), load).value();
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  db.Write(1);
  tier->BeginReign();
  tier->process(0).Beat();
  EXPECT_EQ(Get(*a, 1), "1 v1") << "does not join the old load";
  door.Open();
  loading.join();
  EXPECT_EQ(Get(*a, 1), "1 v1");
}

TEST_F(TierTest, TrimmedJournal_EntriesAreAskedForAndNotLoaded) {
  Open(Options());
  for (int key = 0; key < 10; ++key) Get(*b, key);
  db.Write(3);
  a->Invalidate(3);
  a->Invalidate(4);
  tier->TrimJournal();
  BeatAll();
  for (int key = 0; key < 10; ++key) EXPECT_EQ(Get(*b, key), base_internal::Concat(key, key == 3 ? " v1" : " v0"));
  EXPECT_EQ(db.reads(), 12);
}

TEST_F(TierTest, JoinedLoad_OfAProcessThatIsCutOff_IsNotOlderThanMaxStaleness) {
  Door door;
  std::atomic<bool> slow{true};
  const auto load = [&](const int& key, LoadContext&) -> absl::StatusOr<std::string> {
    std::string read = db.Read(key);
    if (slow.exchange(false)) door.Pass();
    return read;
  };
  a = Cache::Create(Options(), load).value();
  b = Cache::Create(Options(), load).value();
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  tier->process(0).away = true;
  db.Write(1);
  b->Invalidate(1);
  clock.Advance(FakeTier::kMaxStaleness);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  door.Open();
}

TEST_F(TierTest, GetAll_AsksOnceAndSharesTheLoads) {
  LoadingCacheOptions options = Options();
  const auto callbacks = [&](bool batch) {
    Cache::Callbacks made;
    if (batch) {
      made.load_all = [this](const std::vector<int>& keys, Cache::Callbacks::Batch& load) {
        for (const int key : keys) load.Add(key, db.Read(key));
        return absl::OkStatus();
      };
    } else {
      made.load = [this](const int& key, ValueLoadContext<std::string>&) -> absl::StatusOr<std::string> {
        return db.Read(key);
      };
    }
    return made;
  };
  for (const bool batch : {false, true}) {
    SCOPED_TRACE(batch);
    options.name = batch ? "batches" : "single";
    a = Cache::Create(options, callbacks(batch)).value();
    b = Cache::Create(options, callbacks(batch)).value();
    const int first = batch ? 100 : 0;
    const int before = db.reads();
    Get(*a, first);
    int64_t asks = tier->asks();
    std::vector<absl::StatusOr<CacheHandle<std::string>>> all = b->GetAll({first, first + 1, first + 2});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(**all[static_cast<size_t>(i)], base_internal::Concat(first + i, " v0"));
    EXPECT_EQ(tier->asks() - asks, 1);
    EXPECT_EQ(db.reads() - before, 3);
    EXPECT_TRUE(a->GetAll({first, first + 1, first + 2})[2].ok());
    EXPECT_EQ(db.reads() - before, 3);
    EXPECT_EQ(tier->leases(), 0u);
  }
}

TEST_F(TierTest, GetAll_Away_AsksOnce) {
  Open(Options());
  tier->process(0).away = true;
  const int64_t asks = tier->asks();
  for (const auto& found : a->GetAll({1, 2, 3})) EXPECT_TRUE(found.ok());
  EXPECT_EQ(tier->asks() - asks, 1);
  EXPECT_EQ(db.reads(), 3);
}

TEST_F(TierTest, StaleIfError_AwayAndTheLoaderFails_TriesOncePerBackoff) {
  LoadingCacheOptions options = Options();
  options.stale_if_error = absl::Hours(1);
  options.retry_backoff = absl::Seconds(5);
  std::atomic<int> loads{0};
  const auto load = [&](const int&, LoadContext&) -> absl::StatusOr<std::string> {
    if (++loads == 1) return "old";
    return absl::InternalError("down");
  };
  a = Cache::Create(options, load).value();
  EXPECT_EQ(Get(*a, 1), "old");
  tier->process(0).away = true;
  clock.Advance(FakeTier::kMaxStaleness);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Get(*a, 1), "old");
  EXPECT_EQ(loads, 2);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(Get(*a, 1), "old");
  EXPECT_EQ(loads, 3);
}

TEST_F(TierTest, NoStaleIfError_AwayAndTheLoaderFails_IsAnError) {
  std::atomic<int> loads{0};
  a = Cache::Create(Options(), [&](const int&, LoadContext&) -> absl::StatusOr<std::string> {
        if (++loads == 1) return "old";
        return absl::InternalError("down");
      }).value();
  EXPECT_EQ(Get(*a, 1), "old");
  tier->process(0).away = true;
  clock.Advance(FakeTier::kMaxStaleness);
  EXPECT_EQ(Get(*a, 1), "INTERNAL");
  EXPECT_FALSE(a->GetIfPresent(1).has_value());
}

TEST_F(TierTest, FailedLoad_LetsTheNextOneTry) {
  std::atomic<int> loads{0};
  const auto load = [&](const int&, LoadContext&) -> absl::StatusOr<std::string> {
    if (++loads == 1) return absl::InternalError("first");
    return "second";
  };
  a = Cache::Create(Options(), load).value();
  b = Cache::Create(Options(), load).value();
  EXPECT_EQ(Get(*a, 1), "INTERNAL");
  EXPECT_EQ(tier->leases(), 0u);
  EXPECT_EQ(Get(*b, 1), "second");
}

TEST_F(TierTest, Absence_IsShared) {
  LoadingCacheOptions options = Options();
  options.negative_ttl = absl::Seconds(5);
  std::atomic<int> loads{0};
  const auto load = [&](const int&, LoadContext&) -> absl::StatusOr<std::string> {
    ++loads;
    return absl::NotFoundError("no such product");
  };
  a = Cache::Create(options, load).value();
  b = Cache::Create(options, load).value();
  EXPECT_EQ(Get(*a, 1), "NOT_FOUND");
  EXPECT_EQ(b->Get(1).status().message(), "no such product");
  EXPECT_EQ(loads, 1);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(Get(*b, 1), "NOT_FOUND");
  EXPECT_EQ(loads, 2);
}

TEST_F(TierTest, Expiry_IsThatOfTheFirstProcess) {
  Open(Options());
  Get(*a, 1);
  clock.Advance(absl::Seconds(40));
  BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  db.Write(1);
  clock.Advance(absl::Seconds(19));
  BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, RefreshAhead_LoadsOnceInTheFleet) {
  LoadingCacheOptions options = Options();
  options.refresh_ahead = 0.5;
  Open(options);
  Get(*a, 1);
  Get(*b, 1);
  db.Write(1);
  clock.Advance(absl::Seconds(30));
  BeatAll();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  SpinUntil([&] { return Get(*a, 1) == "1 v1"; });
  SpinUntil([&] { return Get(*b, 1) == "1 v1"; });
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, StaleWhileRevalidate_IsServedWhileAnotherProcessLoads) {
  LoadingCacheOptions options = Options();
  options.stale_while_revalidate = absl::Minutes(1);
  Door door;
  std::atomic<int> loads{0};
  const auto load = [&](const int& key, LoadContext&) -> absl::StatusOr<std::string> {
    if (++loads == 2) door.Pass();
    return db.Read(key);
  };
  a = Cache::Create(options, load).value();
  b = Cache::Create(options, load).value();
  Get(*a, 1);
  clock.Advance(absl::Seconds(61));
  BeatAll();
  db.Write(1);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  door.AwaitArrivals(1);
  EXPECT_EQ(Get(*b, 1), "1 v0") << "this process had never seen it";
  door.Open();
  SpinUntil([&] { return Get(*a, 1) == "1 v1"; });
  SpinUntil([&] { return Get(*b, 1) == "1 v1"; });
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, StaleWhileRevalidate_ValueIsOnlyInTheTier_IsServedWhileThisProcessLoads) {
  LoadingCacheOptions options = Options();
  options.stale_while_revalidate = absl::Minutes(1);
  Door door;
  a = NewCache(options);
  b = NewCache(options, [&](int key) {
    door.Pass();
    return db.Read(key);
  });
  for (const int key : {1, 2}) Get(*a, key);
  clock.Advance(absl::Seconds(61));
  BeatAll();
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
  for (const int key : {1, 2}) {
    SpinUntil([&] { return Get(*b, key) == base_internal::Concat(key, " v1"); });
  }
  EXPECT_EQ(db.reads(), 4);
  EXPECT_EQ(tier->leases(), 0u);
}

TEST_F(TierTest, ValueThatCannotBeDecoded_IsLoadedAndOverwritten) {
  using Numbers = LoadingCache<std::string, int>;
  LoadingCacheOptions options = Options();
  std::atomic<int> loads{0};
  const auto load = [&](const std::string&, LoadContext&) -> absl::StatusOr<int> { return ++loads; };
  auto one = Numbers::Create(options, load).value();
  auto other = Numbers::Create(options, load).value();
  EXPECT_EQ(**one->Get("n"), 1);
  tier->Corrupt("n", "not a number");
  EXPECT_EQ(tier->undecodable(), 0);
  EXPECT_EQ(**other->Get("n"), 2);
  EXPECT_EQ(tier->undecodable(), 1);
  one->Invalidate("m");
  BeatAll();
  EXPECT_EQ(**one->Get("n"), 1);
  EXPECT_EQ(tier->leases(), 0u);
}

TEST_F(TierTest, CodecThatThrows_LoadsWithoutTheTier) {
  struct Thing {
    int number;
  };
  using Things = LoadingCache<int, Thing>;
  Things::Callbacks callbacks;
  callbacks.load = [](const int& key, ValueLoadContext<Thing>&) -> absl::StatusOr<Thing> { return Thing{key}; };
  EXPECT_EQ(Things::Create(Options(), callbacks).status().code(), absl::StatusCode::kInvalidArgument);
  callbacks.codec.encode_value = [](const Thing&, std::string*) -> absl::Status { throw std::runtime_error("codec"); };
  callbacks.codec.decode_value = [](std::string_view) -> absl::StatusOr<Thing> { throw std::runtime_error("codec"); };
  EXPECT_EQ(Things::Create(Options(), callbacks).status().code(), absl::StatusCode::kInvalidArgument) << "no id";
  callbacks.codec.id = "thing/1";
  auto things = Things::Create(Options(), callbacks).value();
  EXPECT_EQ((**things->Get(7)).number, 7);
  EXPECT_EQ((**things->Get(7)).number, 7);
  things->Put(7, Thing{8});
  EXPECT_EQ((**things->Get(7)).number, 7);
  EXPECT_EQ(tier->leases(), 0u);
}

TEST_F(TierTest, KeyThatCannotBeEncoded_IsLoadedWithoutTheTier) {
  for (const bool throws : {false, true}) {
    SCOPED_TRACE(throws);
    Cache::Callbacks callbacks;
    callbacks.load = [this](const int& key, ValueLoadContext<std::string>&) -> absl::StatusOr<std::string> {
      return db.Read(key);
    };
    callbacks.codec.encode_key = [throws](const int& key, std::string* bytes) -> absl::Status {
      if (key % 2 == 1 && throws) throw std::runtime_error("odd");
      if (key % 2 == 1) return absl::InvalidArgumentError("odd");
      *bytes = std::to_string(key);
      return absl::OkStatus();
    };
    LoadingCacheOptions options = Options();
    options.name = throws ? "throws" : "refuses";
    a = Cache::Create(options, callbacks).value();
    const auto found = a->GetAll({1, 2, 3, 4});
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(**found[i], base_internal::Concat(i + 1, " v0"));
    EXPECT_EQ(Get(*a, 5), "5 v0");
    a->Put(1, "put");
    a->Invalidate(3);
    EXPECT_TRUE(a->UpdateThrough(1, [] { return absl::OkStatus(); }).ok());
    a->Refresh(1);
    EXPECT_TRUE(a->WarmUp({1, 2, 3}).ok());
    EXPECT_EQ(tier->leases(), 0u);
  }
}

TEST_F(TierTest, RemovalListener_IsSlow_DelaysNoHeartbeat) {
  Door door;
  std::vector<std::string> removed;
  std::vector<std::thread::id> threads;
  Cache::Callbacks callbacks;
  callbacks.load = [this](const int& key, ValueLoadContext<std::string>&) -> absl::StatusOr<std::string> {
    return db.Read(key);
  };
  a = Cache::Create(Options(), callbacks).value();
  callbacks.on_removal = [&](const int&, const CacheHandle<std::string>& value, RemovalCause cause) {
    door.Pass();
    EXPECT_EQ(cause, RemovalCause::kInvalidated);
    removed.push_back(*value);
    threads.push_back(std::this_thread::get_id());
  };
  b = Cache::Create(Options(), callbacks).value();
  for (int key = 1; key <= 3; ++key) Get(*b, key);
  for (int key = 1; key <= 2; ++key) {
    a->Invalidate(key);
    tier->process(1).Beat();
    EXPECT_FALSE(b->GetIfPresent(key).has_value());
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

TEST_F(TierTest, UpdateThrough_ReachesOtherProcesses) {
  Open(Options());
  Get(*a, 1);
  Get(*b, 1);
  EXPECT_TRUE(a->UpdateThrough(1, [&] {
                 db.Write(1);
                 return absl::OkStatus();
               }).ok());
  tier->process(1).Beat();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(Get(*a, 1), "1 v1");
}

TEST_F(TierTest, GetIfPresent_WithoutTrust_FindsNothingAndAsks) {
  Open(Options());
  Get(*a, 1);
  EXPECT_TRUE(a->GetIfPresent(1).has_value());
  clock.Advance(FakeTier::kMaxStaleness);
  const int64_t asks = tier->asks();
  EXPECT_FALSE(a->GetIfPresent(1).has_value());
  SpinUntil([&] { return tier->asks() > asks; });
  tier->process(0).Beat();
  SpinUntil([&] { return a->GetIfPresent(1).has_value(); });
  EXPECT_EQ(db.reads(), 1);
}

TEST_F(TierTest, GetIfPresent_TrustReturnsBeforeTheCheckRuns_DoesNotLoad) {
  ManualExecutor refreshes;
  LoadingCacheOptions options = Options();
  options.refresh_executor = &refreshes;
  Open(options);
  Get(*a, 1);
  clock.Advance(FakeTier::kMaxStaleness);
  EXPECT_FALSE(a->GetIfPresent(1).has_value());
  tier->process(0).Beat();
  refreshes.RunAll();
  EXPECT_EQ(db.reads(), 1);
  EXPECT_TRUE(a->GetIfPresent(1).has_value());
}

TEST_F(TierTest, Options_ThatATierCannotServe_AreRefused) {
  LoadingCacheOptions options = Options();
  options.strict = true;
  EXPECT_THAT(std::string(options.Validate().message()), ::testing::HasSubstr("strict"));
  options.strict = false;
  options.clock = Clock::System();
  EXPECT_THAT(std::string(options.Validate().message()), ::testing::HasSubstr("clock"));
}

// Interleavings in which a fleet could serve what is outdated, or load too often.

TEST_F(TierTest, Fill_AfterAnInvalidation_AnswersItsWaitersOnceAndIsStoredInNoProcess) {
  UseSystemClock();
  Door door;
  std::atomic<bool> slow{true};
  MetricsRegistry registry;
  LoadingCacheOptions options = Options();
  options.metrics = &registry;
  a = NewCache(options, [&](int key) {
    std::string read = db.Read(key);
    if (slow.exchange(false)) door.Pass();
    return read;
  });
  b = NewCache(Options());
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
  EXPECT_FALSE(tier->HasRecord("1"));
  EXPECT_FALSE(a->GetIfPresent(1).has_value());
  EXPECT_FALSE(b->GetIfPresent(1).has_value());
  EXPECT_EQ(db.reads(), 1);
}

TEST_F(TierTest, Fill_AfterItsLeaseHasLapsedAndOthersHaveFilled_LeavesTheirValue) {
  Door door;
  std::atomic<bool> slow{true};
  a = NewCache(Options(), [&](int key) {
    std::string read = db.Read(key);
    if (slow.exchange(false)) door.Pass();
    return read;
  });
  b = NewCache(Options());
  const std::unique_ptr<Cache> c = NewCache(Options());
  std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  door.AwaitArrivals(1);
  tier->LapseLeases();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  db.Write(1);
  b->Invalidate(1);
  EXPECT_EQ(Get(*c, 1), "1 v1");
  door.Open();
  loading.join();
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 3);
  EXPECT_EQ(tier->leases(), 0u);
}

TEST_F(TierTest, AnswerOvertakenByAnInvalidation_IsNotStored) {
  Open(Options());
  Get(*a, 1);
  std::atomic<bool> overtakes{true};
  tier->process(1).on_reply = [&] {
    if (!overtakes.exchange(false)) return;
    db.Write(1);
    a->Invalidate(1);
    tier->process(1).Beat();
  };
  Get(*b, 1);  // It began before the invalidation, and may have either value.
  EXPECT_FALSE(overtakes);
  EXPECT_FALSE(b->GetIfPresent(1).has_value());
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, ExpiredCopyOvertakenByAnOwnTagInvalidation_IsNotStored) {
  LoadingCacheOptions options = Options();
  options.stale_if_error = absl::Hours(1);
  std::atomic<bool> fails{false};
  const auto load = [&](const int& key, LoadContext& context) -> absl::StatusOr<std::string> {
    if (fails) return absl::InternalError("down");
    context.AddTag("tag");
    return db.Read(key);
  };
  a = Cache::Create(options, load).value();
  b = Cache::Create(options, load).value();
  Get(*a, 1);
  clock.Advance(absl::Minutes(1));
  BeatAll();
  fails = true;
  std::atomic<bool> overtakes{true};
  tier->process(1).on_reply = [&] {
    if (overtakes.exchange(false)) b->InvalidateTag("tag");
  };
  Get(*b, 1);  // It began before the invalidation, and may have either answer.
  EXPECT_FALSE(overtakes);
  EXPECT_EQ(Get(*b, 1), "INTERNAL");
}

TEST_F(TierTest, NotModified_OfAnExpiredCopy_KeepsItsTags) {
  LoadingCacheOptions options = Options();
  options.stale_if_error = absl::Hours(1);
  std::atomic<bool> modified{true};
  const auto load = [&](const int& key, ValueLoadContext<std::string>& context) -> absl::StatusOr<std::string> {
    if (!modified && context.previous() != nullptr) return LoadContext::NotModified();
    context.AddTag("tag");
    return db.Read(key);
  };
  a = Cache::Create(options, load).value();
  b = Cache::Create(options, load).value();
  Get(*a, 1);
  clock.Advance(absl::Minutes(1));
  BeatAll();
  modified = false;
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(db.reads(), 1);
  db.Write(1);
  modified = true;
  a->InvalidateTag("tag");
  BeatAll();
  EXPECT_EQ(Get(*b, 1), "1 v1");
}

// The same, and the tier has not accepted the invalidation, so that no position can show that the answer is older.
TEST_F(TierTest, AnswerOvertakenByAnInvalidationThatIsQueued_IsAskedForAgain) {
  const auto load = [&](const int& key, LoadContext& context) -> absl::StatusOr<std::string> {
    context.AddTag("even");
    return db.Read(key);
  };
  const std::vector<std::function<void(Cache&)>> invalidations = {
      [](Cache& cache) { cache.Invalidate(2); },
      [](Cache& cache) { cache.InvalidateTag("even"); },
      [](Cache& cache) { cache.InvalidateAll(); },
  };
  for (size_t i = 0; i < invalidations.size(); ++i) {
    SCOPED_TRACE(i);
    tier = std::make_shared<FakeTier>(&clock);
    MetricsRegistry registry;
    LoadingCacheOptions options = Options();
    a = Cache::Create(options, load).value();
    options.metrics = &registry;
    b = Cache::Create(options, load).value();
    const std::string old = Get(*a, 2);
    std::atomic<bool> overtakes{true};
    std::atomic<bool> answered{false};
    std::jthread joiner;
    FakeTier::Process& process = tier->process(1);
    process.on_reply = [&] {
      if (!overtakes.exchange(false)) return;
      process.away = true;
      db.Write(2);
      invalidations[i](*b);
      joiner = std::jthread([&] {
        EXPECT_NE(Get(*b, 2), old);
        answered = true;
      });
      SpinUntil([&] { return answered || Metric(registry, "stockade_cache_waiters") == 1; });
    };
    Get(*b, 2);  // It began before the invalidation, and may have either value.
    EXPECT_FALSE(overtakes);
    joiner.join();
    EXPECT_NE(Get(*b, 2), old);
    a.reset();
    b.reset();
  }
}

TEST_F(TierTest, AnswerThatKnowsAnInvalidationBeforeTheHeartbeat_IsStoredAndStays) {
  Open(Options());
  Get(*a, 1);
  db.Write(1);
  a->Invalidate(1);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v1");
  const int64_t asks = tier->asks();
  tier->process(1).Beat();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(tier->asks(), asks);
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(TierTest, TagOrAllInvalidatedByAnotherProcessDuringALoad_JoinersLookAgain) {
  UseSystemClock();
  for (const bool all : {false, true}) {
    SCOPED_TRACE(all);
    const int key = all ? 4 : 2;
    Door door;
    std::atomic<bool> slow{true};
    MetricsRegistry registry;
    LoadingCacheOptions options = Options();
    options.metrics = &registry;
    const auto load = [&](const int& k, LoadContext& context) -> absl::StatusOr<std::string> {
      std::string read = db.Read(k);
      if (slow.exchange(false)) door.Pass();
      context.AddTag("even");
      return read;
    };
    tier = std::make_shared<FakeTier>(Clock::System());
    options.tier = tier;
    a = Cache::Create(options, load).value();
    options.metrics = nullptr;
    b = Cache::Create(options, load).value();
    std::jthread loading([&] { EXPECT_EQ(Get(*a, key), base_internal::Concat(key, " v0")); });
    door.AwaitArrivals(1);
    db.Write(key);
    all ? b->InvalidateAll() : b->InvalidateTag("even");
    tier->process(0).Beat();
    std::jthread joiner([&] { EXPECT_EQ(Get(*a, key), base_internal::Concat(key, " v1")); });
    AwaitWaiters(registry, 1);
    door.Open();
    loading.join();
    joiner.join();
    EXPECT_EQ(Get(*b, key), base_internal::Concat(key, " v1"));
    EXPECT_EQ(db.reads(), all ? 4 : 2);
    a.reset();
    b.reset();
  }
}

TEST_F(TierTest, GetAllOfTheSameKeysInTwoProcesses_BothEndAndLoadEachKeyOnce) {
  UseSystemClock();
  Door door;
  const auto load = [&](int key) {
    door.Pass();
    return db.Read(key);
  };
  // Each process has the lease of one of the two keys when it asks for both.
  a = NewCache(Options(), load);
  b = NewCache(Options(), load);
  std::vector<std::jthread> callers;
  callers.emplace_back([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  callers.emplace_back([&] { EXPECT_EQ(Get(*b, 2), "2 v0"); });
  door.AwaitArrivals(2);
  const int64_t asks = tier->asks();
  for (Cache* const cache : {a.get(), b.get()}) {
    callers.emplace_back([this, cache] {
      const std::vector<int> keys = cache == a.get() ? std::vector<int>{1, 2} : std::vector<int>{2, 1};
      const auto answers = cache->GetAll(keys);
      for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(**answers[i], base_internal::Concat(keys[i], " v0"));
    });
  }
  SpinUntil([&] { return tier->asks() >= asks + 2; });
  door.Open();
  callers.clear();
  EXPECT_EQ(db.reads(), 2);
  EXPECT_EQ(tier->leases(), 0u);
}

TEST_F(TierTest, LoadersOfTwoProcessesThatNeedEachOthersKeys_End) {
  UseSystemClock();
  Door door;
  const auto load = [&](std::unique_ptr<Cache>& cache, int first, int key) {
    if (key == first) door.Pass();
    const auto nested = cache->Get(3 - key);
    return base_internal::Concat(db.Read(key), nested.ok() ? " with the other" : "");
  };
  a = NewCache(Options(), [&](int key) { return load(a, 1, key); });
  b = NewCache(Options(), [&](int key) { return load(b, 2, key); });
  std::jthread one([&] { EXPECT_EQ(Get(*a, 1), "1 v0 with the other"); });
  std::jthread two([&] { EXPECT_EQ(Get(*b, 2), "2 v0 with the other"); });
  door.AwaitArrivals(2);
  door.Open();
  one.join();
  two.join();
  EXPECT_EQ(tier->leases(), 0u);
}

TEST_F(TierTest, FailingLoader_OneLoadAtATimeInTheFleetAndOneInEachProcess) {
  UseSystemClock();
  constexpr int kProcesses = 8;
  constexpr int kCallers = 4;
  Door door;
  std::atomic<int> loads{0};
  std::atomic<int> running{0};
  const auto load = [&](const int&, LoadContext&) -> absl::StatusOr<std::string> {
    EXPECT_EQ(++running, 1);
    ++loads;
    door.Pass();
    --running;
    return absl::UnavailableError("the database is away");
  };
  std::vector<std::unique_ptr<MetricsRegistry>> registries;
  std::vector<std::unique_ptr<Cache>> caches;
  std::vector<std::jthread> callers;
  for (int i = 0; i < kProcesses; ++i) {
    LoadingCacheOptions options = Options();
    options.metrics = registries.emplace_back(std::make_unique<MetricsRegistry>()).get();
    Cache& cache = *caches.emplace_back(Cache::Create(options, load).value());
    for (int j = 0; j < kCallers; ++j) {
      callers.emplace_back([&cache] { EXPECT_EQ(CodeOf(cache.Get(1).status()), "UNAVAILABLE"); });
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
  EXPECT_EQ(tier->leases(), 0u);
}

// A loader waits for a key that another process loads, and asks for it now and then. That must not hide from the
// circle that this process closes by loading the key on another thread.
TEST_F(TierTest, LoaderThatPolls_StaysPartOfACircle) {
  UseSystemClock();
  for (std::atomic<bool> closed{false}; !closed;) {  // Until the other thread gets the lease.
    tier = std::make_shared<FakeTier>(Clock::System());
    Door door;
    std::atomic<std::thread::id> other{};
    const auto nested = [this](int key) {
      const auto got = a->Get(key, {.timeout = absl::Minutes(1)});
      return got.ok() ? **got : CodeOf(got.status());
    };
    a = NewCache(Options(), [&](int key) {
      if (key == 1 && std::this_thread::get_id() == other.load()) closed = true;
      return nested(3 - key);
    });
    b = NewCache(Options(), [&](int) {
      door.Pass();
      return std::string("outdated");
    });
    std::jthread loading([&] { Get(*b, 1); });
    door.AwaitArrivals(1);
    std::jthread polling([&] { EXPECT_NE(Get(*a, 2), "DEADLINE_EXCEEDED"); });
    const int64_t asks = tier->asks();
    SpinUntil([&] { return tier->asks() > asks + 3; });
    std::jthread closing([&] {
      other = std::this_thread::get_id();
      EXPECT_NE(Get(*a, 1), "DEADLINE_EXCEEDED");
    });
    SpinUntil([&] { return tier->asks() > asks + 6; });
    b->Invalidate(1);
    door.Open();
    loading.join();
    polling.join();
    closing.join();
    a.reset();
    b.reset();
  }
}

TEST_F(TierTest, Get_LoadExceedsItsHardTimeout_GivesTheLeaseBack) {
  UseSystemClock();
  ThreadPool pool(1);
  Door door;
  LoadingCacheOptions options = Options();
  options.load_hard_timeout = absl::Milliseconds(20);
  options.load_executor = &pool;
  a = NewCache(options, [&](int) {
    door.Pass();
    return "late";
  });
  EXPECT_EQ(CodeOf(a->Get(1).status()), "DEADLINE_EXCEEDED");
  EXPECT_EQ(tier->leases(), 0u) << "other processes wait for a load whose result is discarded";
  door.Open();
  a.reset();
}

TEST_F(TierTest, Destruction_DuringEachStepOfAFlight_CancelsItsCallsAndLeavesNoLease) {
  UseSystemClock();
  for (const std::string step : {"asks", "waits for another process", "loads", "fills"}) {
    SCOPED_TRACE(step);
    tier = std::make_shared<FakeTier>(Clock::System());
    Door door;
    Door other;
    MetricsRegistry registry;
    LoadingCacheOptions options = Options();
    options.metrics = &registry;
    a = NewCache(options, [&](int key) {
      if (step == "loads") door.Pass();
      return db.Read(key);
    });
    b = NewCache(Options(), [&](int key) {
      other.Pass();
      return db.Read(key);
    });
    const auto pass = [&] { door.Pass(); };
    if (step == "asks") tier->process(0).on_reply = pass;
    if (step == "fills") tier->process(0).on_fill = pass;
    const bool waits = step == "waits for another process";
    std::jthread holder;
    if (waits) {
      holder = std::jthread([&] { EXPECT_EQ(Get(*b, 1), "1 v0"); });
      other.AwaitArrivals(1);
    }
    Cache& cache = *a;
    std::jthread first([&] { EXPECT_NE(Get(cache, 1), waits ? "1 v0" : ""); });
    if (!waits) door.AwaitArrivals(1);
    const int64_t asks = tier->asks();
    std::jthread second([&] { EXPECT_EQ(Get(cache, 1), "CANCELLED"); });
    AwaitWaiters(registry, waits ? 2 : 1);
    if (waits) SpinUntil([&] { return tier->asks() > asks; });
    std::jthread destroyer([&] { a.reset(); });
    second.join();
    door.Open();
    first.join();
    destroyer.join();
    other.Open();
    if (holder.joinable()) holder.join();
    EXPECT_EQ(tier->leases(), 0u);
    b.reset();
  }
}

// The loader of the other process hangs, and its cache has no hard time-out.
TEST_F(TierTest, HardTimeout_WhileAnotherProcessLoads_EndsTheWait) {
  tier = std::make_shared<FakeTier>(Clock::System(), FakeTier::Spans{.lease = absl::Hours(1)},
                                    [](const FakeTier::Event&) {});
  ThreadPool pool(2);
  for (const bool by_executor : {false, true}) {
    Door door;
    LoadingCacheOptions options = Options();
    a = NewCache(options, [&](int) {
      door.Pass();
      return "late";
    });
    options.load_hard_timeout = absl::Milliseconds(20);
    options.load_executor = by_executor ? &pool : nullptr;
    options.retry_backoff = absl::ZeroDuration();
    b = NewCache(options, [](int) { return "own"; });
    std::thread loading([&] { Get(*a, 1); });
    door.AwaitArrivals(1);
    EXPECT_EQ(Get(*b, 1), "DEADLINE_EXCEEDED") << by_executor;
    EXPECT_EQ(CodeOf(b->GetAll({1, 2})[0].status()), "DEADLINE_EXCEEDED") << by_executor;
    std::promise<std::string> answered;
    b->GetAsync(1, pool, [&](const absl::StatusOr<CacheHandle<std::string>>& got) {
      answered.set_value(got.ok() ? **got : CodeOf(got.status()));
    });
    EXPECT_EQ(answered.get_future().get(), "DEADLINE_EXCEEDED") << by_executor;
    door.Open();
    loading.join();
    EXPECT_EQ(Get(*b, 1), "late") << by_executor;
    b->InvalidateAll();
    a.reset();
    b.reset();
  }
}

TEST_F(TierTest, AwaitInvalidations_CacheIsDestroyed_IsCancelled) {
  Open(Options());
  FakeTier::Process& process = tier->process(0);
  std::promise<void> entered;
  process.on_await_all = [&] {
    entered.set_value();
    SpinUntil([&] { return process.waits_cancelled.load(); });
  };
  process.away = true;
  a->Invalidate(1);
  std::future<absl::Status> awaited =
      std::async(std::launch::async, [&cache = *a] { return cache.AwaitInvalidations(absl::InfiniteDuration()); });
  entered.get_future().wait();
  a.reset();
  EXPECT_TRUE(absl::IsCancelled(awaited.get()));
}

// A value that the tier does not take stays in the memory of its process, whatever else is invalidated meanwhile.
TEST_F(TierTest, ValueThatTheTierDoesNotTake_OnlyWhatConcernsItRemovesIt) {
  struct Case {
    const char* what;
    std::function<void(Cache&)> invalidate;
    bool concerns;
  };
  const Case cases[] = {
      {"nothing", [](Cache&) {}, false},
      {"another key", [](Cache& c) { c.Invalidate(2); }, false},
      {"another tag", [](Cache& c) { c.InvalidateTag("odd"); }, false},
      {"the key", [](Cache& c) { c.Invalidate(1); }, true},
      {"its tag", [](Cache& c) { c.InvalidateTag("mine"); }, true},
      {"all", [](Cache& c) { c.InvalidateAll(); }, true},
      {"a new reign", [this](Cache&) { tier->BeginReign(); }, true},
  };
  tier->max_value_bytes = 1;
  for (const auto& [what, invalidate, concerns] : cases) {
    for (const bool during : {true, false}) {
      SCOPED_TRACE(base_internal::Concat(what, during ? " during the load" : " after it"));
      int loads = 0;
      const size_t first = tier->opened();
      a = Cache::Create(Options(), [&, interfere = invalidate](const int& key, LoadContext& context) {
            if (key == 1) context.AddTag("mine");
            absl::StatusOr<std::string> read = db.Read(key);
            if (key == 1 && ++loads == 1 && during) {
              interfere(*b);
              tier->process(first).Beat();
            }
            return read;
          }).value();
      b = NewCache(Options());
      Get(*a, 1);
      tier->process(first).Beat();
      if (!during) {
        invalidate(*b);
        tier->process(first).Beat();
      }
      Get(*a, 1);
      EXPECT_EQ(loads, concerns ? 2 : 1);
      for (int n = 0; n < 3; ++n) {
        b->Invalidate(2);
        tier->process(first).Beat();
        Get(*a, 1);
      }
      EXPECT_EQ(loads, concerns ? 2 : 1);
      EXPECT_EQ(tier->leases(), 0u);
      a.reset();
      b.reset();
      tier->DropRecords();
    }
  }
}

// Each function of the codec throws at each of its calls in turn: no lease stays, and no value is outdated.
TEST_F(TierTest, CodecThatThrowsAtOneCall_LeavesNoLease) {
  for (const std::string function : {"encode_key", "decode_key", "encode_value", "decode_value"}) {
    for (int at = 1; at <= 20; ++at) {
      SCOPED_TRACE(base_internal::Concat(function, " ", at));
      int calls = 0;
      const auto perhaps_throw = [&](std::string_view name) {
        if (name == function && ++calls == at) throw std::runtime_error("codec");
      };
      Cache::Callbacks callbacks;
      bool fails = false;
      callbacks.load = [&](const int& key, ValueLoadContext<std::string>&) -> absl::StatusOr<std::string> {
        if (fails) return absl::InternalError("failed");
        return db.Read(key);
      };
      callbacks.codec.id = "text/1";
      callbacks.codec.encode_key = [&](const int& key, std::string* bytes) {
        perhaps_throw("encode_key");
        *bytes = std::to_string(key);
        return absl::OkStatus();
      };
      callbacks.codec.decode_key = [&](std::string_view bytes) -> absl::StatusOr<int> {
        perhaps_throw("decode_key");
        return std::stoi(std::string(bytes));
      };
      callbacks.codec.encode_value = [&](const std::string& value, std::string* bytes) {
        perhaps_throw("encode_value");
        *bytes = value;
        return absl::OkStatus();
      };
      callbacks.codec.decode_value = [&](std::string_view bytes) -> absl::StatusOr<std::string> {
        perhaps_throw("decode_value");
        return std::string(bytes);
      };
      tier = std::make_shared<FakeTier>(&clock);
      a = Cache::Create(Options(), callbacks).value();
      b = Cache::Create(Options(), callbacks).value();
      const auto check = [&](const char* step) {
        ASSERT_EQ(tier->leases(), 0u) << step;
        BeatAll();
        const std::string now = db.Read(1);
        EXPECT_EQ(Get(*b, 1), now) << step;
        EXPECT_EQ(Get(*a, 1), now) << step;
        ASSERT_EQ(tier->leases(), 0u) << step;
      };
      Get(*a, 1);
      check("a load");
      db.Write(1);
      a->Invalidate(1);
      check("an invalidation");
      EXPECT_TRUE(b->UpdateThrough(1, [&] {
                     db.Write(1);
                     return absl::OkStatus();
                   }).ok());
      check("an update");
      db.Write(1);
      a->Put(1, db.Read(1));
      check("a put");
      fails = true;
      a->Get(2).status().IgnoreError();
      fails = false;
      check("a failed load");
      const auto found = b->GetAll({1, 2, 3});
      EXPECT_EQ(**found[1], db.Read(2));
      check("a batch");
      a.reset();
      b.reset();
    }
  }
}

TEST_F(TierTest, RepeatedTags_CountOnce) {
  a = Cache::Create(Options(), [this](const int& key, LoadContext& load) -> absl::StatusOr<std::string> {
        for (int n = 0; n < 100; ++n) load.AddTag(n % 2 == 0 ? "even" : "odd");
        return db.Read(key);
      }).value();
  Get(*a, 1);
  EXPECT_EQ(tier->TagsOf("1"), (std::vector<std::string>{"even", "odd"}));
}

TEST_F(TierTest, Get_EncodesItsKeyOnce) {
  int encoded = 0;
  Cache::Callbacks callbacks;
  callbacks.load = [&](const int& key, ValueLoadContext<std::string>&) -> absl::StatusOr<std::string> {
    return db.Read(key);
  };
  callbacks.codec.encode_key = [&](const int& key, std::string* bytes) {
    ++encoded;
    *bytes = std::to_string(key);
    return absl::OkStatus();
  };
  a = Cache::Create(Options(), callbacks).value();
  Get(*a, 1);
  EXPECT_EQ(encoded, 1);
  a->Put(1, "put");
  EXPECT_EQ(encoded, 2);
  EXPECT_TRUE(a->GetAll({1, 2, 3})[2].ok());
  EXPECT_EQ(encoded, 4);
}

// Many keys go in pieces, and the batch loader is called once.
TEST_F(TierTest, GetAll_ManyKeys_AsksAndFillsInPieces) {
  for (const size_t value_bytes : {size_t{10}, size_t{1} << 20}) {
    SCOPED_TRACE(value_bytes);
    const size_t count = value_bytes == 10 ? 3000 : 30;
    tier = std::make_shared<FakeTier>(&clock);
    std::atomic<int> batches{0};
    Cache::Callbacks callbacks;
    callbacks.load_all = [&](const std::vector<int>& keys, Cache::Callbacks::Batch& load) {
      ++batches;
      for (const int key : keys) load.Add(key, std::string(value_bytes, 'v'));
      return absl::OkStatus();
    };
    a = Cache::Create(Options(), callbacks).value();
    b = Cache::Create(Options(), callbacks).value();
    std::vector<int> keys(count);
    std::iota(keys.begin(), keys.end(), 0);
    for (Cache* const cache : {a.get(), b.get()}) {
      for (const auto& found : cache->GetAll(keys)) ASSERT_EQ((**found).size(), value_bytes);
    }
    EXPECT_EQ(batches, 1);
    EXPECT_LE(tier->most_asked(), 256u);
    EXPECT_LE(tier->most_filled(), value_bytes == 10 ? 256u : 1u);
    EXPECT_EQ(tier->leases(), 0u);
    // A third process asks for large values by few at a time, once it has seen some.
    const size_t most = tier->most_asked();
    int64_t asks = tier->asks();
    const auto c = Cache::Create(Options(), callbacks).value();
    for (const auto& found : c->GetAll(keys)) ASSERT_TRUE(found.ok());
    asks = tier->asks() - asks;
    EXPECT_EQ(tier->most_asked(), most);
    EXPECT_GE(asks, value_bytes == 10 ? 12 : 5);
    EXPECT_LE(asks, value_bytes == 10 ? 20 : 12);
    a.reset();
    b.reset();
  }
}

// What a piece has brought is there for other calls, while the next pieces are on their way.
TEST_F(TierTest, GetAll_ManyKeys_PublishesPieceByPiece) {
  UseSystemClock();
  Open(Options());
  std::vector<int> keys(100);
  std::iota(keys.begin(), keys.end(), 0);
  for (const auto& found : b->GetAll(keys)) ASSERT_TRUE(found.ok());
  Door door;
  std::atomic<int> replies{0};
  tier->process(0).on_reply = [&] {
    if (++replies == 2) door.Pass();
  };
  std::jthread many([&] {
    for (const auto& found : a->GetAll(keys)) EXPECT_TRUE(found.ok());
  });
  door.AwaitArrivals(1);
  EXPECT_EQ(Get(*a, 0), "0 v0");
  door.Open();
}

// Nobody waits for pieces that a caller does not wait for any more.
TEST_F(TierTest, GetAll_ItsTimePassesBetweenTwoPieces_OtherCallsGoOn) {
  for (const bool batch : {false, true}) {
    SCOPED_TRACE(batch);
    tier = std::make_shared<FakeTier>(&clock);
    MetricsRegistry registry;
    LoadingCacheOptions options = Options();
    options.metrics = &registry;
    Cache::Callbacks callbacks;
    if (batch) {
      callbacks.load_all = [this](const std::vector<int>& keys, Cache::Callbacks::Batch& load) {
        for (const int key : keys) load.Add(key, db.Read(key));
        return absl::OkStatus();
      };
    } else {
      callbacks.load = [this](const int& key, ValueLoadContext<std::string>&) -> absl::StatusOr<std::string> {
        return db.Read(key);
      };
    }
    a = Cache::Create(options, callbacks).value();
    Door door;
    std::atomic<bool> slow{true};
    tier->process(0).on_reply = [&] {
      if (slow.exchange(false)) door.Pass();
    };
    std::vector<int> keys(100);
    std::iota(keys.begin(), keys.end(), 0);
    std::jthread many([&] {
      const auto found = a->GetAll(keys, {.timeout = absl::Seconds(1)});
      // The first and the last one may have been loaded for others by then.
      for (size_t n = 1; n < 99; ++n) EXPECT_EQ(CodeOf(found[n].status()), "DEADLINE_EXCEEDED");
    });
    door.AwaitArrivals(1);
    std::vector<std::jthread> others;
    for (const int key : {0, 99}) {
      others.emplace_back([&, key] { EXPECT_EQ(Get(*a, key), base_internal::Concat(key, " v0")); });
    }
    AwaitWaiters(registry, 2);
    clock.Advance(absl::Milliseconds(1500));
    door.Open();
    many.join();
    others.clear();
    EXPECT_EQ(tier->leases(), 0u);
    a.reset();
  }
}

// The loader is slow, so that an expired value is served: of two the later one.
TEST_F(TierTest, SoftTimeout_TheTierHasANewerExpiredValue_ServesThat) {
  LoadingCacheOptions options = Options();
  options.stale_if_error = absl::Hours(1);
  options.load_soft_timeout = absl::Seconds(1);
  Door door;
  std::atomic<bool> slow{false};
  const auto load = [&](const int& key, LoadContext&) -> absl::StatusOr<std::string> {
    if (slow) door.Pass();
    return db.Read(key);
  };
  a = Cache::Create(options, load).value();
  b = Cache::Create(options, load).value();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(Get(*b, 1), "1 v0");
  db.Write(1);
  clock.Advance(absl::Seconds(30));
  BeatAll();
  b->Refresh(1);
  SpinUntil([&] { return Get(*b, 1) == "1 v1"; });
  EXPECT_EQ(Get(*a, 1), "1 v0");
  clock.Advance(absl::Seconds(65));
  BeatAll();
  slow = true;
  std::future<std::string> served = std::async(std::launch::async, [&] { return Get(*a, 1); });
  door.AwaitArrivals(1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(served.get(), "1 v1");
  door.Open();
  a.reset();
}

}  // namespace
}  // namespace stockade::testing
