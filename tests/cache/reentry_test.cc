#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/test_cache.h"

// User code that the cache runs calls the cache again. If the cache had an unfinished flight or a locked mutex at that
// moment, the test would hang.
namespace stockade::testing {
namespace {

TEST(ReentryTest, Listener_AsksForTheOtherKeyOfTheBatchThatReplacesIts_GetsIt) {
  ManualClock clock;
  IntCache* self = nullptr;
  Texts seen;
  IntCache cache({.ttl = absl::Seconds(1), .clock = &clock, .metrics = nullptr},
                 IntCache::Callbacks{.load_all = AddTenfold,
                                     .on_removal = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
                                       seen.push_back(Text(self->Get(3 - key)));
                                     }});
  self = &cache;
  cache.Put(1, 1);
  cache.Put(2, 2);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"10", "20"}));
  EXPECT_EQ(seen, (Texts{"20", "10"}));
}

// The refresh runs within GetAll(), when that has claimed 1 and not begun to load it.
TEST(ReentryTest, InlineRefresh_AsksForAKeyThatItsGetAllIsGoingToLoad_LoadsItItself) {
  ManualClock clock;
  InlineExecutor here;
  IntCache* self = nullptr;
  Texts seen;
  int batches = 0;
  IntCache cache(
      {.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .refresh_executor = &here, .metrics = nullptr},
      IntCache::Callbacks{.load = [&](const int& key, ValueLoadContext<int>&) -> absl::StatusOr<int> {
                            if (key == 2) seen.push_back(Text(self->Get(1)));
                            return key;
                          },
                          .load_all =
                              [&](const std::vector<int>& keys, IntBatch& batch) {
                                ++batches;
                                return AddTenfold(keys, batch);
                              }});
  self = &cache;
  cache.Put(2, 2);
  clock.Advance(absl::Seconds(6));
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"1", "2"}));
  EXPECT_EQ(seen, Texts{"1"});
  EXPECT_EQ(batches, 0);
}

// 2's load has hung: GetAll() times it out and tells of its old value, when it has claimed 1.
TEST(ReentryTest, Listener_AsksForAKeyThatItsGetAllIsGoingToLoad_LoadsItItself) {
  ManualClock clock;
  Door hung;
  IntCache* self = nullptr;
  Texts seen;
  IntCache cache({.ttl = absl::Seconds(1), .load_hard_timeout = absl::Seconds(5), .clock = &clock, .metrics = nullptr},
                 IntCache::Callbacks{.load = [&](const int& key, ValueLoadContext<int>&) -> absl::StatusOr<int> {
                                       if (key == 2) hung.Pass();
                                       return key;
                                     },
                                     .load_all = AddTenfold,
                                     .on_removal = [&](const int&, const CacheHandle<int>&,
                                                       RemovalCause) { seen.push_back(Text(self->Get(1))); }});
  self = &cache;
  cache.Put(2, 2);
  clock.Advance(absl::Seconds(2));
  std::jthread first([&] { EXPECT_EQ(Text(cache.Get(2)), "DEADLINE_EXCEEDED"); });
  hung.AwaitArrivals(1);
  clock.Advance(absl::Seconds(6));
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"1", "20"}));
  EXPECT_EQ(seen, Texts{"1"});
  hung.Open();
}

// The listener is notified when the update has released its lock: it may update, and so may other threads.
TEST(ReentryTest, ListenerOfAnUpdate_UpdatesAnotherKeyWhileAThreadUpdatesThisOne_BothDo) {
  for (const bool strict : {false, true}) {
    IntCache* self = nullptr;
    Texts seen;
    const auto update = [&](int key) {
      seen.push_back(absl::StatusCodeToString(self->UpdateThrough(key, Ok, absl::ZeroDuration()).code()));
    };
    IntCache cache({.strict = strict, .metrics = nullptr},
                   IntCache::Callbacks{.on_removal = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
                     update(key + 1);
                     std::jthread([&] { update(key); }).join();
                   }});
    self = &cache;
    cache.Put(1, 1);
    EXPECT_EQ(cache.UpdateThrough(1, Ok), Ok());
    EXPECT_EQ(seen, Texts(2, "OK"));
  }
}

// Two updates whose listeners, told of the old values, each do something with the other's key.
void UpdateInACircle(bool strict, const std::function<void(IntCache&, int)>& with_other) {
  IntCache* self = nullptr;
  std::latch both(2);
  std::atomic<int> told{0};
  IntCache cache(
      {.strict = strict, .metrics = nullptr},
      IntCache::Callbacks{.load = ItsKey, .on_removal = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
                            ++told;
                            both.arrive_and_wait();
                            with_other(*self, 3 - key);
                          }});
  self = &cache;
  cache.Put(1, 1);
  cache.Put(2, 2);
  std::jthread one([&] { EXPECT_EQ(cache.UpdateThrough(1, Ok), Ok()); });
  std::jthread two([&] { EXPECT_EQ(cache.UpdateThrough(2, Ok), Ok()); });
  one.join();
  two.join();
  EXPECT_EQ(told, 2);
}

TEST(ReentryTest, ListenersOfTwoUpdates_UpdateEachOthersKey_BothDo) {
  for (const bool strict : {false, true}) {
    std::atomic<int> updated{0};
    UpdateInACircle(strict, [&](IntCache& cache, int other) {
      if (cache.UpdateThrough(other, Ok).ok()) ++updated;
    });
    EXPECT_EQ(updated, 2);
  }
}

TEST(ReentryTest, ListenersOfTwoStrictUpdates_ReadEachOthersKey_BothDo) {
  std::atomic<int> read{0};
  UpdateInACircle(true, [&](IntCache& cache, int other) {
    if (cache.Get(other).ok()) ++read;
  });
  EXPECT_EQ(read, 2);
}

TEST(ReentryTest, Weigher_AsksForTheKeyThatItWeighs_FailedPrecondition) {
  IntCache* self = nullptr;
  Texts seen;
  const auto weigh = [&](const int& key, const int&) -> int64_t {
    seen.push_back(Text(self->Get(key)));
    return 1;
  };
  IntCache single({.metrics = nullptr}, IntCache::Callbacks{.load = ItsKey, .weigh = weigh});
  IntCache batch({.metrics = nullptr}, IntCache::Callbacks{.load_all = AddTenfold, .weigh = weigh});
  self = &single;
  EXPECT_EQ(Text(single.Get(1)), "1");
  self = &batch;
  EXPECT_EQ(TextsOf(batch.GetAll({1, 2})), (Texts{"10", "20"}));
  EXPECT_EQ(seen, Texts(3, "FAILED_PRECONDITION"));
  EXPECT_EQ(single.size() + batch.size(), 3);
}

TEST(ReentryTest, Writes_UpdateEachOthersCache_AreRefused) {
  IntCache left(LoadingCacheOptions{.metrics = nullptr}), right(LoadingCacheOptions{.metrics = nullptr});
  std::latch both(2);
  const auto update = [&](IntCache& outer, IntCache& inner) {
    const absl::Status updated = outer.UpdateThrough(1, [&] {
      both.arrive_and_wait();
      return inner.UpdateThrough(1, Ok);
    });
    EXPECT_EQ(updated.code(), absl::StatusCode::kFailedPrecondition);
  };
  std::jthread a([&] { update(left, right); });
  std::jthread b([&] { update(right, left); });
}

// The listener runs at the end of the call that removes the entry, which no longer reads it then.
TEST(ReentryTest, ListenerOfAStrictRead_UpdatesTheKey_DoesSoHereAndByAnotherThread) {
  ManualClock clock;
  IntCache* self = nullptr;
  std::vector<std::string> updated;
  IntCache cache(
      {.ttl = absl::Seconds(10), .strict = true, .clock = &clock, .metrics = nullptr},
      IntCache::Callbacks{.load = ItsKey, .on_removal = [&](const int& key, const CacheHandle<int>&, RemovalCause) {
                            updated.push_back(CodeOf(self->UpdateThrough(key, Ok)));
                            std::jthread([&] { updated.push_back(CodeOf(self->UpdateThrough(key, Ok))); });
                          }});
  self = &cache;
  cache.Put(1, 1);
  clock.Advance(absl::Seconds(20));
  EXPECT_FALSE(cache.GetIfPresent(1).has_value());
  EXPECT_EQ(updated, (std::vector<std::string>{"OK", "OK"}));
}

// The call that finds the load hung tells the listener.
TEST(ReentryTest, ListenerOfACallThatHasWaited_SeesNoWaiters) {
  MetricsRegistry registry;
  ManualClock clock;
  Door door;
  double waiters = -1;
  IntCache cache(
      {.ttl = absl::Seconds(10), .load_hard_timeout = absl::Seconds(5), .clock = &clock, .metrics = &registry},
      IntCache::Callbacks{.load = [&](const int&, ValueLoadContext<int>&) -> absl::StatusOr<int> {
                            door.Pass();
                            return 2;
                          },
                          .on_removal = [&](const int&, const CacheHandle<int>&,
                                            RemovalCause) { waiters = Metric(registry, "stockade_cache_waiters"); }});
  cache.Put(1, 1);
  clock.Advance(absl::Seconds(20));
  std::jthread leader([&] { (void)cache.Get(1); });
  door.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_EQ(Text(cache.Get(1)), "DEADLINE_EXCEEDED"); });
  AwaitWaiters(registry, 1);
  clock.Advance(absl::Seconds(20));
  waiter.join();
  EXPECT_EQ(waiters, 0);
  door.Open();
}

// A value, or what a loader has captured, whose end reads the key 1.
class EndTest : public ::testing::Test {
 protected:
  struct Held {
    std::shared_ptr<void> last = nullptr;
  };
  using Cache = LoadingCache<int, Held>;

  Held ThatReads() {
    return {std::shared_ptr<void>(static_cast<void*>(nullptr), [this](void*) {
      ++ended;
      (void)cache->GetIfPresent(1);
    })};
  }

  MetricsRegistry registry;
  ManualClock clock;
  Door first, second;
  std::atomic<int> loads{0}, ended{0};
  std::unique_ptr<Cache> cache;
};

// The answer is invalid for the call that checks again, and that call is the last to hold it.
TEST_F(EndTest, Value_DroppedByACallThatLooksAgain_EndsWithoutALock) {
  cache = std::make_unique<Cache>(LoadingCacheOptions{.metrics = nullptr},
                                  [&](const int& key, LoadContext& load) -> absl::StatusOr<Held> {
                                    if (key == 3) second.Pass();
                                    if (key == 3 || ++loads > 1) return Held{};
                                    load.AddTag("t");
                                    first.Pass();
                                    return ThatReads();
                                  });
  std::jthread before([&] { EXPECT_TRUE(cache->Get(1).ok()); });
  first.AwaitArrivals(1);
  cache->InvalidateTag("t");
  std::jthread after([&] { EXPECT_TRUE(cache->GetAll({3, 1})[1].ok()); });
  second.AwaitArrivals(1);
  first.Open();
  before.join();
  EXPECT_EQ(ended, 0);
  second.Open();
  after.join();
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(ended, 1);
}

// Evicted meanwhile, the old value is held by the load alone, which begins a second time.
TEST_F(EndTest, PreviousValue_OfALoadThatIsHandedOn_EndsWithoutALock) {
  cache = std::make_unique<Cache>(LoadingCacheOptions{.max_weight = 1,
                                                      .ttl = absl::Seconds(1),
                                                      .stale_if_error = absl::Hours(1),
                                                      .clock = &clock,
                                                      .metrics = &registry},
                                  [&](const int&, LoadContext&) -> absl::StatusOr<Held> {
                                    if (++loads > 1) return Held{};
                                    first.Pass();
                                    return absl::CancelledError("");
                                  });
  cache->Put(1, ThatReads());
  clock.Advance(absl::Seconds(2));
  std::stop_source stop;
  std::jthread leader([&] { EXPECT_FALSE(cache->Get(1, {.stop = stop.get_token()}).ok()); });
  first.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_TRUE(cache->Get(1).ok()); });
  AwaitWaiters(registry, 1);
  cache->Put(2, Held{});
  EXPECT_EQ(cache->size(), 1);
  EXPECT_EQ(ended, 0);
  stop.request_stop();
  first.Open();
  leader.join();
  waiter.join();
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(ended, 1);
}

// With two detached loads the refresh has to wait; Put() drops it, and with it the only copy of its loader.
TEST_F(EndTest, LoaderOfABlockedRefresh_DroppedByPut_EndsWithoutALock) {
  cache = std::make_unique<Cache>(
      LoadingCacheOptions{.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = nullptr},
      [&](const int&, LoadContext&) -> absl::StatusOr<Held> {
        first.Pass();
        return Held{};
      });
  std::jthread a([&] { EXPECT_TRUE(cache->Get(1).ok()); });
  first.AwaitArrivals(1);
  cache->Invalidate(1);
  std::jthread b([&] { EXPECT_TRUE(cache->Get(1).ok()); });
  first.AwaitArrivals(2);
  cache->Invalidate(1);
  cache->Put(1, Held{});
  clock.Advance(absl::Seconds(6));
  EXPECT_TRUE(
      cache->GetOrLoad(1, [held = ThatReads()](const int&, LoadContext&) -> absl::StatusOr<Held> { return Held{}; })
          .ok());
  EXPECT_EQ(ended, 0);
  cache->Put(1, Held{});
  EXPECT_EQ(ended, 1);
  first.Open();
}

// Another call starts the refresh between the moment at which the loader is copied and that at which it is needed.
TEST_F(EndTest, LoaderOfARefreshThatHasBegun_EndsWithoutALock) {
  ManualExecutor executor;
  cache = std::make_unique<Cache>(LoadingCacheOptions{.ttl = absl::Seconds(10),
                                                      .refresh_ahead = 0.5,
                                                      .clock = &clock,
                                                      .refresh_executor = &executor,
                                                      .metrics = nullptr},
                                  [](const int&, LoadContext&) -> absl::StatusOr<Held> { return Held{}; });
  cache->Put(1, Held{});
  clock.Advance(absl::Seconds(6));
  // Only the copy that the cache makes has what reads the key.
  struct Loader {
    std::function<std::shared_ptr<void>()> on_copy;
    std::shared_ptr<void> held = nullptr;

    explicit Loader(std::function<std::shared_ptr<void>()> f) : on_copy(std::move(f)) {}
    Loader(const Loader& other) : on_copy(other.on_copy), held(on_copy()) {}
    absl::StatusOr<Held> operator()(const int&, LoadContext&) const { return Held{}; }
  };
  const Loader loader([this] {
    cache->Refresh(1);
    return ThatReads().last;
  });
  EXPECT_TRUE(cache->GetOrLoad(1, loader).ok());
  EXPECT_GE(ended, 1);
  EXPECT_EQ(executor.scheduled(), 1);
  executor.RunAll();
}

}  // namespace
}  // namespace stockade::testing
