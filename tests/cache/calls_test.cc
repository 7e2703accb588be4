// Stats, on_load_error, GetEntry, Peek, ForEach, GetCopy, lookup by view: what the tables of docs/CACHE.md do not say
// about them.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "cache/subject.h"
#include "stockade/cache/transparent_string_hash.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

class CallsTest : public ShapeTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, CallsTest, ::testing::ValuesIn(Shapes()), NameOf);

TEST_P(CallsTest, Stats_AfterEachResult_AreTheCountsOfTheMetrics) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10), .negative_ttl = absl::Seconds(10)});
  const CacheStats before = subject.Stats();
  EXPECT_EQ(subject.Ask(1), 1);
  EXPECT_EQ(subject.Ask(1), 1);
  subject.outcome = absl::NotFoundError("none");
  EXPECT_EQ(subject.Ask(2), "NOT_FOUND");
  EXPECT_EQ(subject.Ask(2), "NOT_FOUND");
  subject.outcome = absl::UnavailableError("down");
  EXPECT_EQ(subject.Ask(3), "UNAVAILABLE");
  subject.AwaitNoFlights();
  const CacheStats stats = subject.Stats().Since(before);
  EXPECT_EQ(stats.misses, 3u);
  EXPECT_EQ(stats.negative, 1u);
  EXPECT_EQ(static_cast<double>(stats.hits), Metric(subject.registry, "stockade_cache_requests_total", "hit"));
  EXPECT_EQ(stats.loads_succeeded + stats.loads_not_found, 2u) << "a batch that finds nothing succeeds";
  EXPECT_EQ(stats.loads_failed, 1u);
  EXPECT_EQ(stats.entries, subject.size() + 2);
  EXPECT_EQ(stats.flights, 0);
  EXPECT_EQ(stats.requests(), stats.hits + 4);
  EXPECT_DOUBLE_EQ(stats.hit_ratio(), static_cast<double>(stats.hits + 1) / static_cast<double>(stats.hits + 4));
  subject.Invalidate(1);
  EXPECT_EQ(subject.Stats().Since(before).invalidated, 1u);
  EXPECT_EQ(subject.Stats().Since(subject.Stats()).requests(), 0u);
  EXPECT_EQ(subject.Stats().Since(subject.Stats()).hit_ratio(), 1);
}

TEST(StatsTest, Stats_WithoutMetrics_OnlyTheState) {
  IntCache cache({.max_weight = 7, .metrics = nullptr}, ItsKey);
  EXPECT_EQ(**cache.Get(1), 1);
  const CacheStats stats = cache.Stats();
  EXPECT_EQ(stats.entries, 1);
  EXPECT_EQ(stats.max_weight, 7);
  EXPECT_EQ(stats.requests(), 0u);
  EXPECT_FALSE(stats.tier.has_value());
}

TEST(GetEntryTest, GetEntry_InEachState_SaysWhereFromAndHowLong) {
  ManualClock clock;
  MetricsRegistry registry;
  absl::Status outcome;
  const auto load = [&](const int& key, LoadContext& context) -> absl::StatusOr<int> {
    if (key == 5) context.set_ttl(absl::ZeroDuration());
    if (!outcome.ok()) return outcome;
    return key;
  };
  IntCache cache({.ttl = absl::Seconds(10), .stale_if_error = absl::Hours(1), .clock = &clock, .metrics = &registry},
                 load);
  const auto loaded = cache.GetEntry(1);
  EXPECT_EQ(*loaded->value, 1);
  EXPECT_EQ(loaded->source, CacheSource::kLoaded);
  EXPECT_EQ(loaded->expires_in, absl::Seconds(10));
  clock.Advance(absl::Seconds(3));
  const auto hit = cache.GetEntry(1);
  EXPECT_EQ(hit->source, CacheSource::kHit);
  EXPECT_EQ(hit->expires_in, absl::Seconds(7));
  clock.Advance(absl::Seconds(9));
  outcome = absl::UnavailableError("down");
  const auto failed = cache.GetEntry(1);
  EXPECT_EQ(failed->source, CacheSource::kStale);
  EXPECT_EQ(failed->expires_in, -absl::Seconds(2));
  const auto stale = cache.GetEntry(1);
  EXPECT_EQ(*stale->value, 1);
  EXPECT_EQ(stale->source, CacheSource::kStale);
  EXPECT_EQ(stale->expires_in, -absl::Seconds(2));
  outcome = absl::OkStatus();
  const auto not_stored = cache.GetEntry(5);
  EXPECT_EQ(*not_stored->value, 5);
  EXPECT_LE(not_stored->expires_in, absl::ZeroDuration());
  cache.Put(6, 6, absl::InfiniteDuration());
  EXPECT_EQ(cache.GetEntry(6)->expires_in, absl::InfiniteDuration());
  outcome = absl::NotFoundError("none");
  EXPECT_EQ(cache.GetEntry(7).status().code(), absl::StatusCode::kNotFound);
}

TEST(GetEntryTest, GetEntry_JoinsALoad_SaysSoAndWhenItsValueExpires) {
  MetricsRegistry registry;
  Door door;
  IntCache cache({.ttl = absl::Hours(1), .metrics = &registry}, [&](const int& key) -> absl::StatusOr<int> {
    door.Pass();
    return key;
  });
  std::jthread leader([&] { EXPECT_EQ(cache.GetEntry(1)->source, CacheSource::kLoaded); });
  door.AwaitArrivals(1);
  std::jthread joiner([&] {
    const auto entry = cache.GetEntry(1);
    EXPECT_EQ(entry->source, CacheSource::kJoined);
    EXPECT_GT(entry->expires_in, absl::Minutes(50));
  });
  AwaitWaiters(registry, 1);
  door.Open();
}

template <typename Cache>
std::map<int, std::string> Visited(const Cache& cache) {
  std::map<int, std::string> seen;
  EXPECT_EQ(cache.ForEach([&](const int& key, const auto& entry) {
    EXPECT_TRUE(
        seen.emplace(key, absl::StrCat(*entry.value, entry.source == CacheSource::kStale ? " stale" : "")).second);
    return true;
  }),
            absl::OkStatus());
  return seen;
}

TEST(PeekTest, Peek_IsNoUse_TheSameEntriesAreEvictedAsIfNobodyHadAsked) {
  const auto survivors = [](auto look) {
    IntCache cache({.max_weight = 100, .metrics = nullptr}, ItsKey);
    for (int key = 0; key < 100; ++key) cache.Put(key, key);
    for (int key = 0; key < 300; ++key) look(cache, key % 20);
    for (int key = 100; key < 300; ++key) cache.Put(key, key);
    return Visited(cache);
  };
  const auto untouched = survivors([](IntCache&, int) {});
  EXPECT_EQ(survivors([](IntCache& cache, int key) { EXPECT_EQ(*cache.Peek(key)->value, key); }), untouched);
  EXPECT_EQ(survivors([](IntCache& cache, int) { Visited(cache); }), untouched);
  EXPECT_NE(survivors([](IntCache& cache, int key) { EXPECT_EQ(**cache.Get(key), key); }), untouched);
}

TEST(PeekTest, Peek_DuringAStrictUpdate_NeitherWaitsNorShowsTheOldValue) {
  IntCache cache({.strict = true, .metrics = nullptr}, ItsKey);
  cache.Put(1, 10);
  EXPECT_TRUE(cache
                  .UpdateThrough(1,
                                 [&] {
                                   std::jthread([&] { EXPECT_FALSE(cache.Peek(1).has_value()); }).join();
                                   return absl::OkStatus();
                                 })
                  .ok());
}

// 16 values are a step, 256 slots another.
TEST(ForEachTest, ForEach_ManySizes_EachValueOnce) {
  for (const int count : {0, 1, 15, 16, 17, 255, 256, 257, 4'000}) {
    LoadingCache<int, int> copied({.max_weight = 10'000, .metrics = nullptr});
    LoadingCache<int, std::string> boxed({.max_weight = 10'000, .metrics = nullptr});
    std::map<int, std::string> expected;
    for (int key = 0; key < count; ++key) {
      copied.Put(key, key);
      boxed.Put(key, std::to_string(key));
      if (key % 3 == 0) {
        copied.Invalidate(key);
        boxed.Invalidate(key);
      } else {
        expected[key] = std::to_string(key);
      }
    }
    EXPECT_EQ(Visited(copied), expected);
    EXPECT_EQ(Visited(boxed), expected);
  }
}

TEST(ForEachTest, ForEach_ExpiredAndAbsent_TheFirstAreStaleAndTheOthersLeftOut) {
  ManualClock clock;
  IntCache cache({.ttl = absl::Seconds(1), .negative_ttl = absl::Hours(1), .clock = &clock, .metrics = nullptr},
                 [](const int&) -> absl::StatusOr<int> { return absl::NotFoundError("none"); });
  cache.Put(1, 10);
  cache.Put(2, 20, absl::InfiniteDuration());
  EXPECT_FALSE(cache.Get(3).ok());
  EXPECT_EQ(cache.size(), 3);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(Visited(cache), (std::map<int, std::string>{{1, "10 stale"}, {2, "20"}}));
}

TEST(ForEachTest, ForEach_VisitorStopsThrowsOrCallsTheCache) {
  IntCache cache({.metrics = nullptr}, ItsKey);
  for (int key = 0; key < 100; ++key) cache.Put(key, key);
  int visits = 0;
  EXPECT_EQ(cache.ForEach([&](const int&, const auto&) { return ++visits < 20; }), absl::OkStatus());
  EXPECT_EQ(visits, 20);
  const absl::Status thrown =
      cache.ForEach([](const int&, const auto&) -> bool { throw std::runtime_error("no more"); });
  EXPECT_EQ(thrown.code(), absl::StatusCode::kInternal);
  EXPECT_NE(thrown.ToString().find("no more"), std::string::npos);
  EXPECT_EQ(cache.ForEach([&](const int& key, const auto& entry) {
    cache.Invalidate(key);
    cache.Put(key + 1'000, *entry.value);
    return true;
  }),
            absl::OkStatus());
  EXPECT_EQ(cache.size(), 100);
}

TEST(ForEachTest, ForEach_BesideStoresAndInvalidations_WhatStaysIsSeenOnce) {
  LoadingCache<int, std::string> cache({.max_weight = 100'000, .metrics = nullptr});
  for (int key = 0; key < 1'000; ++key) cache.Put(key, std::to_string(key));
  std::atomic<bool> done{false};
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; !done; i = (i + 1) % 5'000) {
        const int key = 1'000 + writer + 2 * i;
        i % 3 == 0 ? cache.Invalidate(key + 4) : cache.Put(key, std::to_string(key));
      }
    });
  }
  for (int round = 0; round < 50; ++round) {
    std::set<int> seen;
    EXPECT_EQ(cache.ForEach([&](const int& key, const auto& entry) {
      EXPECT_EQ(*entry.value, std::to_string(key));
      if (key < 1'000) EXPECT_TRUE(seen.insert(key).second);
      return true;
    }),
              absl::OkStatus());
    EXPECT_EQ(seen.size(), 1'000u);
  }
  done = true;
}

struct Uncopyable {
  explicit Uncopyable(int n) : number(n) {}
  Uncopyable(const Uncopyable& other) : number(other.number) {
    if (number < 0) throw std::runtime_error("cannot copy");
  }
  Uncopyable(Uncopyable&&) = default;
  int number;
};

TEST(GetCopyTest, GetCopy_IsACopyOrTheErrorOrWhatTheCopyThrows) {
  LoadingCache<int, Uncopyable> cache({.metrics = nullptr}, [](const int& key) -> absl::StatusOr<Uncopyable> {
    if (key == 0) return absl::NotFoundError("none");
    return Uncopyable(key);
  });
  EXPECT_EQ(cache.GetCopy(1)->number, 1);
  EXPECT_EQ(cache.GetCopy(0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cache.GetCopy(-1).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(cache.GetCopy(2, {.timeout = absl::ZeroDuration()}).status().code(), absl::StatusCode::kDeadlineExceeded);
}

// A string that counts how often it is made.
struct Name {
  explicit Name(std::string_view view) : text(view) { ++made; }
  Name(const Name& other) : text(other.text) { ++made; }
  std::string text;
  static inline std::atomic<int> made{0};
};
struct NameHash {
  using is_transparent = void;
  size_t operator()(const Name& name) const { return (*this)(std::string_view(name.text)); }
  size_t operator()(std::string_view name) const { return TransparentStringHash()(name); }
};
struct NameEq {
  using is_transparent = void;
  bool operator()(const Name& a, const Name& b) const { return a.text == b.text; }
  bool operator()(const Name& a, std::string_view b) const { return a.text == b; }
};

TEST(ViewTest, EachLookup_ByAView_FindsTheKeysEntryAndAHitMakesNoKey) {
  ManualClock clock;
  LoadingCache<Name, int, NameHash, NameEq> cache(
      {.ttl = absl::Hours(1), .clock = &clock, .metrics = nullptr},
      [](const Name& name) -> absl::StatusOr<int> { return static_cast<int>(name.text.size()); });
  const std::string_view view = "four";
  EXPECT_EQ(**cache.Get(view), 4);
  EXPECT_GT(Name::made.exchange(0), 0);
  EXPECT_EQ(**cache.Get(view), 4);
  EXPECT_EQ(**cache.Get(view, {.timeout = absl::ZeroDuration()}), 4);
  EXPECT_EQ(**cache.GetIfPresent(view), 4);
  EXPECT_EQ(*cache.GetCopy(view), 4);
  EXPECT_EQ(**cache.GetOrLoad(view, [](const Name&) -> absl::StatusOr<int> { return 5; }), 4);
  EXPECT_EQ(Name::made, 0) << "a hit copies no key";
  EXPECT_EQ(*cache.GetEntry(view)->value, 4);
  EXPECT_EQ(*cache.Peek(view)->value, 4);
  EXPECT_FALSE(cache.GetIfPresent(std::string_view("other")).has_value());
  EXPECT_EQ(**cache.GetOrLoad(std::string_view("more"), [](const Name&) -> absl::StatusOr<int> { return 9; }), 9);
  EXPECT_EQ(cache.size(), 2);
}

TEST(ViewTest, TransparentStringHash_StringViewAndLiteral_AreTheSameKey) {
  LoadingCache<std::string, int, TransparentStringHash, std::equal_to<>> cache({.metrics = nullptr});
  cache.Put("key", 1);
  const std::string longer = "key2";
  EXPECT_EQ(**cache.GetIfPresent(std::string_view(longer).substr(0, 3)), 1);
  EXPECT_EQ(**cache.GetIfPresent("key"), 1);
  EXPECT_EQ(**cache.GetIfPresent(std::string("key")), 1);
  EXPECT_FALSE(cache.GetIfPresent(longer).has_value());
}

TEST(ViewTest, EachLookup_ByWhatConvertsToAKey_Compiles) {
  LoadingCache<std::string, int64_t> cache({.metrics = nullptr});
  cache.Put("key", 1);
  EXPECT_EQ(**cache.Get("key"), 1);
  EXPECT_EQ(*cache.GetCopy("key"), 1);
  EXPECT_EQ(*cache.GetEntry("key")->value, 1);
  EXPECT_EQ(*cache.Peek("key")->value, 1);
  EXPECT_EQ(**cache.GetIfPresent("key"), 1);
}

TEST(HandleTest, Handle_EmptyFullAndShared) {
  LoadingCache<int, int> copied({.metrics = nullptr});
  auto boxed = std::make_unique<LoadingCache<int, std::string>>(LoadingCacheOptions{.metrics = nullptr});
  CacheHandle<int> none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.ToShared(), nullptr);
  copied.Put(1, 10);
  boxed->Put(1, "ten");
  none = *copied.GetIfPresent(1);
  EXPECT_TRUE(none);
  CacheHandle<std::string> text;
  EXPECT_EQ(text.ToShared(), nullptr);
  text = *boxed->GetIfPresent(1);
  const std::shared_ptr<const int> number = none.ToShared();
  const std::shared_ptr<const std::string> shared = text.ToShared();
  EXPECT_EQ(shared.get(), text.get()) << "the same value";
  {
    const CacheHandle<std::string> moved = std::move(text);
    EXPECT_FALSE(text);  // NOLINT(bugprone-use-after-move)
  }
  none = CacheHandle<int>();
  boxed.reset();  // Only the shared pointers have the values now.
  EXPECT_EQ(*shared, "ten");
  EXPECT_EQ(*number, 10);
}

// Each failed load is reported once, whatever its callers got.
TEST_P(CallsTest, OnLoadError_EachFailure_OnceWithItsError) {
  Subject subject(GetParam(),
                  {.ttl = absl::Seconds(10), .stale_if_error = absl::Hours(1), .retry_backoff = absl::ZeroDuration()});
  EXPECT_EQ(subject.Ask(1), 1);
  EXPECT_EQ(subject.Told(0), Texts{});
  subject.Advance(absl::Seconds(10));
  subject.outcome = absl::UnavailableError("down");
  EXPECT_EQ(subject.Ask(1), 1) << "stale";
  subject.AwaitNoFlights();
  EXPECT_EQ(subject.Told(1), Texts{"1 UNAVAILABLE: down"});
  EXPECT_EQ(subject.Ask(2), subject.outcome);
  subject.AwaitNoFlights();
  EXPECT_EQ(subject.Told(2), (Texts{"1 UNAVAILABLE: down", "2 UNAVAILABLE: down"}));
  subject.Refresh(1);
  subject.RunBackground().get();
  EXPECT_EQ(subject.Told(3).size(), 3u) << "in the background";
  for (const absl::Status& no_failure : {absl::NotFoundError("none"), absl::OkStatus()}) {
    subject.outcome = no_failure;
    (void)subject.Ask(3);
    subject.AwaitNoFlights();
  }
  EXPECT_EQ(subject.Told(0).size(), 3u);
}

TEST(LoadErrorTest, OnLoadError_TimeOutThrowingLoaderAndThrowingListener) {
  ManualClock clock;
  MetricsRegistry registry;
  std::vector<std::string> told;
  Door door;
  ThreadPool pool(1);
  IntCache cache({.load_hard_timeout = absl::Seconds(5), .clock = &clock, .load_executor = &pool, .metrics = &registry},
                 {.load = [&](const int& key) -> absl::StatusOr<int> {
                    if (key == 2) throw std::runtime_error("no table");
                    door.Pass();
                    return key;
                  },
                  .on_load_error =
                      [&](const int& key, const absl::Status& error) {
                        told.push_back(absl::StrCat(key, " ", CodeOf(error)));
                        throw std::runtime_error("no log");
                      }});
  std::jthread caller([&] { EXPECT_EQ(Text(cache.Get(1)), "DEADLINE_EXCEEDED"); });
  door.AwaitArrivals(1);
  AwaitWaiters(registry, 1);
  clock.Advance(absl::Seconds(5));
  caller.join();
  door.Open();
  SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  EXPECT_EQ(told, Texts{"1 DEADLINE_EXCEEDED"});
  EXPECT_EQ(Text(cache.Get(2)), "INTERNAL");
  SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
}

TEST(LoadErrorTest, OnLoadError_CallersOwnDeadlineOrStop_IsNotTold) {
  ManualClock clock;
  std::stop_source stop;
  int told = 0;
  IntCache cache({.clock = &clock, .metrics = nullptr},
                 {.load = [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                    if (key == 1) {
                      clock.Advance(absl::Seconds(2));
                      return absl::DeadlineExceededError("late");
                    }
                    stop.request_stop();
                    return absl::CancelledError("stopped");
                  },
                  .on_load_error = [&](const int&, const absl::Status&) { ++told; }});
  EXPECT_EQ(Text(cache.Get(1, {.timeout = absl::Seconds(1)})), "DEADLINE_EXCEEDED");
  EXPECT_EQ(Text(cache.Get(2, {.stop = stop.get_token()})), "CANCELLED");
  EXPECT_EQ(told, 0);
}

// Each count of Stats() is that of its metric; all of them differ from zero, and most from each other.
TEST(StatsTest, Stats_EachCount_IsThatOfItsMetric) {
  ManualClock clock;
  MetricsRegistry registry;
  ManualExecutor background;
  absl::Status outcome;
  IntCache cache({.max_weight = 20,
                  .ttl = absl::Seconds(10),
                  .negative_ttl = absl::Seconds(1),
                  .stale_if_error = absl::Hours(1),
                  .retry_backoff = absl::Seconds(1),
                  .load_hard_timeout = absl::Seconds(5),
                  .clock = &clock,
                  .refresh_executor = &background,
                  .metrics = &registry},
                 [&](const int& key, auto& load) -> absl::StatusOr<int> {
                   clock.Advance(absl::Milliseconds(1));
                   if (key == 2) clock.Advance(absl::Seconds(6));
                   if (key == 3 && load.previous() != nullptr) return load.NotModified();
                   if (!outcome.ok()) return outcome;
                   return key;
                 });
  for (int key = 10; key < 40; ++key) cache.Put(key, key);
  for (int i = 0; i < 7; ++i) (void)cache.Get(39);
  for (int i = 0; i < 2; ++i) (void)cache.Get(3);
  (void)cache.Get(2);
  outcome = absl::NotFoundError("none");
  for (int i = 0; i < 4; ++i) (void)cache.Get(1);
  cache.Refresh(3);
  background.RunAll();
  clock.Advance(absl::Seconds(10));
  outcome = absl::UnavailableError("down");
  for (int i = 0; i < 3; ++i) (void)cache.Get(39);
  cache.Invalidate(39);
  clock.Advance(absl::Hours(2));
  for (int key = 10; key < 39; ++key) (void)cache.GetIfPresent(key);
  const CacheStats stats = cache.Stats();
  const std::tuple<uint64_t, const char*, const char*> counts[] = {
      {stats.hits, "requests_total", "hit"},
      {stats.stale, "requests_total", "stale"},
      {stats.misses, "requests_total", "miss"},
      {stats.negative, "requests_total", "negative"},
      {stats.loads_succeeded, "loads_total", "success"},
      {stats.loads_not_found, "loads_total", "not_found"},
      {stats.loads_not_modified, "loads_total", "not_modified"},
      {stats.loads_failed, "loads_total", "error"},
      {stats.loads_timed_out, "loads_total", "timeout"},
      {stats.evicted, "evictions_total", "size"},
      {stats.expired, "evictions_total", "expired"},
      {stats.invalidated, "evictions_total", "invalidated"},
      {stats.refreshes, "refreshes_total", "manual"},
  };
  for (const auto& [count, name, label] : counts) {
    EXPECT_EQ(static_cast<double>(count), Metric(registry, absl::StrCat("stockade_cache_", name), label)) << label;
    EXPECT_GT(count, 0u) << label;
  }
  EXPECT_GT(stats.load_time, absl::Seconds(6));
  EXPECT_EQ(stats.Since(stats).evicted, 0u);
  EXPECT_EQ(stats.Since(stats).load_time, absl::ZeroDuration());
}

TEST(GetEntryTest, GetEntry_APutAnswersTheLoad_SaysWhenThatExpires) {
  ManualClock clock;
  MetricsRegistry registry;
  Door door;
  ThreadPool pool(1);
  IntCache cache({.ttl = absl::Seconds(10), .clock = &clock, .load_executor = &pool, .metrics = &registry},
                 [&](const int& key) -> absl::StatusOr<int> {
                   door.Pass();
                   return key;
                 });
  std::jthread caller([&] {
    const auto entry = cache.GetEntry(1);
    EXPECT_EQ(*entry->value, 5);
    EXPECT_EQ(entry->expires_in, absl::Seconds(10));
  });
  door.AwaitArrivals(1);
  AwaitWaiters(registry, 1);
  cache.Put(1, 5);
  caller.join();
  door.Open();
}

}  // namespace
}  // namespace stockade::testing
