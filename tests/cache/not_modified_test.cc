#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// A database row with a version, and a loader that asks only for what is newer than what the cache has.
struct VersionedCache {
  explicit VersionedCache(LoadingCacheOptions options)
      : cache(With(std::move(options), this), [this](const int&, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
          ++loads;
          seen = load.previous() == nullptr ? std::nullopt : std::optional<int>(*load.previous());
          if (loader_ttl.has_value()) load.set_ttl(*loader_ttl);
          if (!outcome.ok()) return outcome;
          if (load.previous() != nullptr && *load.previous() == row) return LoadContext::NotModified();
          return row;
        }) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, VersionedCache* self) {
    options.ttl = absl::Seconds(10);
    options.clock = &self->clock;
    options.metrics = &self->registry;
    options.refresh_executor = &self->executor;
    return options;
  }

  double Loads(std::string_view result) const { return Metric(registry, "stockade_cache_loads_total", result); }

  ManualClock clock;
  MetricsRegistry registry;
  InlineExecutor executor;
  int row = 50;
  int loads = 0;
  absl::Status outcome;
  std::optional<absl::Duration> loader_ttl;
  std::optional<int> seen;  // What previous() was in the last load.
  IntCache cache;
};

TEST(NotModifiedTest, Previous_OfAFirstLoad_IsNull) {
  VersionedCache versioned({});
  versioned.seen = 1;
  EXPECT_EQ(**versioned.cache.Get(1), 50);
  EXPECT_EQ(versioned.seen, std::nullopt);
}

// There is no window of any kind: the expired value is not served, and known to the loader all the same.
TEST(NotModifiedTest, Previous_AfterExpiry_IsTheOldValue) {
  VersionedCache versioned({});
  versioned.cache.Put(1, 40);
  versioned.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**versioned.cache.Get(1), 50);
  EXPECT_EQ(versioned.seen, 40);
  versioned.clock.Advance(absl::Hours(1'000));
  versioned.row = 60;
  EXPECT_EQ(**versioned.cache.Get(1), 60);
  EXPECT_EQ(versioned.seen, 50);
}

TEST(NotModifiedTest, Previous_InARefresh_IsTheOldValue) {
  VersionedCache versioned({.refresh_ahead = 0.5});
  versioned.cache.Put(1, 40);
  versioned.clock.Advance(absl::Seconds(5));
  EXPECT_EQ(**versioned.cache.Get(1), 40);
  EXPECT_EQ(versioned.seen, 40);
  EXPECT_EQ(**versioned.cache.Get(1), 50);
}

TEST(NotModifiedTest, Previous_AfterInvalidation_IsNull) {
  for (int way = 0; way < 5; ++way) {
    VersionedCache versioned({});
    versioned.cache.Put(1, 50, {.tags = {"shoes"}});
    versioned.clock.Advance(way % 2 == 0 ? absl::Seconds(10) : absl::Seconds(1));
    versioned.seen = 1;
    switch (way) {
      case 0: versioned.cache.Invalidate(1); break;
      case 1: versioned.cache.InvalidateTag("shoes"); break;
      case 2: versioned.cache.InvalidateAll(); break;
      case 3: versioned.cache.Put(1, 50, absl::ZeroDuration()); break;
      default: EXPECT_TRUE(versioned.cache.UpdateThrough(1, [] { return absl::OkStatus(); }).ok());
    }
    EXPECT_EQ(**versioned.cache.Get(1), 50);
    EXPECT_EQ(versioned.seen, std::nullopt) << way;
  }
}

TEST(NotModifiedTest, Previous_AfterEvictionOrAnAbsence_IsNull) {
  VersionedCache versioned({.max_weight = 1, .negative_ttl = absl::Seconds(1)});
  versioned.cache.Put(1, 50);
  versioned.cache.Put(2, 50);
  versioned.seen = 1;
  EXPECT_EQ(**versioned.cache.Get(1), 50);
  EXPECT_EQ(versioned.seen, std::nullopt);

  versioned.cache.Invalidate(1);
  versioned.outcome = absl::NotFoundError("no row");
  EXPECT_FALSE(versioned.cache.Get(1).ok());
  versioned.clock.Advance(absl::Seconds(1));
  versioned.outcome = absl::OkStatus();
  versioned.seen = 1;
  EXPECT_EQ(**versioned.cache.Get(1), 50);
  EXPECT_EQ(versioned.seen, std::nullopt);
}

TEST(NotModifiedTest, Previous_InANestedLoaderAndGetOrLoad_IsOfItsOwnKey) {
  VersionedCache versioned({});
  versioned.cache.Put(1, 40);
  versioned.cache.Put(2, 50);
  versioned.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**versioned.cache.GetOrLoad(1,
                                        [&](const int&, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
                                          EXPECT_EQ(**versioned.cache.Get(2), 50);
                                          EXPECT_EQ(*load.previous(), 40);
                                          return LoadContext::NotModified();
                                        }),
            40);
  EXPECT_EQ(versioned.seen, 50);
}

TEST(NotModifiedTest, NotModified_RenewsTheTtl) {
  VersionedCache versioned({});
  EXPECT_EQ(**versioned.cache.Get(1), 50);
  for (int renewal = 1; renewal <= 3; ++renewal) {
    versioned.clock.Advance(absl::Seconds(10));
    EXPECT_EQ(**versioned.cache.Get(1), 50);
    versioned.clock.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
    EXPECT_EQ(**versioned.cache.GetIfPresent(1), 50);
    versioned.clock.Advance(absl::Nanoseconds(1));
    EXPECT_EQ(**versioned.cache.Get(1), 50);
    EXPECT_EQ(versioned.loads, 1 + 2 * renewal);
  }
  EXPECT_EQ(versioned.Loads("success"), 1);
  EXPECT_EQ(versioned.Loads("not_modified"), 6);
  EXPECT_EQ(versioned.Loads("error"), 0);
  EXPECT_EQ(versioned.cache.size(), 1);
  EXPECT_EQ(versioned.cache.weight(), 1);
}

// One that is not copied: handles, loaders and the cache share it.
TEST(NotModifiedTest, NotModified_OfALargeValue_KeepsTheValueItself) {
  ManualClock clock;
  LoadingCache<int, std::string> cache(
      {.ttl = absl::Seconds(10), .clock = &clock},
      [](const int&, ValueLoadContext<std::string>& load) -> absl::StatusOr<std::string> {
        if (load.previous() != nullptr) return LoadContext::NotModified();
        return "value";
      });
  const std::string* const value = cache.Get(1)->get();
  for (int renewal = 0; renewal < 3; ++renewal) {
    clock.Advance(absl::Seconds(10));
    EXPECT_EQ(cache.Get(1)->get(), value);
  }
}

TEST(NotModifiedTest, NotModified_WithATtlOfTheLoaders_LivesAsLong) {
  VersionedCache versioned({});
  versioned.cache.Put(1, 50);
  versioned.loader_ttl = absl::Seconds(100);
  versioned.clock.Advance(absl::Seconds(10));
  EXPECT_EQ(**versioned.cache.Get(1), 50);
  versioned.clock.Advance(absl::Seconds(100) - absl::Nanoseconds(1));
  EXPECT_TRUE(versioned.cache.GetIfPresent(1).has_value());
  versioned.loader_ttl = absl::ZeroDuration();
  versioned.clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(**versioned.cache.Get(1), 50);  // Handed out, and not stored.
  EXPECT_EQ(versioned.cache.size(), 0);
}

TEST(NotModifiedTest, NotModified_InARefresh_TheNextOneIsDueAnewLater) {
  VersionedCache versioned({.refresh_ahead = 0.5});
  EXPECT_EQ(**versioned.cache.Get(1), 50);
  for (int second = 0; second < 100; ++second) {
    EXPECT_EQ(**versioned.cache.Get(1), 50);
    versioned.clock.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(versioned.Loads("not_modified"), 19);  // At 5, 10, .. 95 s.
  EXPECT_EQ(Requests(versioned.registry, "hit"), 100);
}

TEST(NotModifiedTest, NotModified_WithoutAPrevious_IsInternalAndNamesTheCache) {
  MetricsRegistry registry;
  int loads = 0;
  IntCache cache({.name = "unconditional", .stale_if_error = absl::Hours(1), .metrics = &registry},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   ++loads;
                   return LoadContext::NotModified();
                 });
  for (int i = 1; i <= 2; ++i) {
    const absl::Status status = cache.Get(1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_NE(status.message().find("unconditional"), status.message().npos) << status;
    EXPECT_EQ(loads, i);
  }
  EXPECT_EQ(cache.size(), 0);
}

TEST(NotModifiedTest, NotModified_TheKeyIsInvalidatedDuringTheLoad_TheOldCallerGetsTheOldValueAndItIsNotStored) {
  ManualClock clock;
  Door door;
  std::atomic<int> loads{0};
  IntCache cache({.ttl = absl::Seconds(10), .clock = &clock, .metrics = nullptr},
                 [&](const int&, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
                   ++loads;
                   if (load.previous() == nullptr) return 60;
                   door.Pass();
                   return LoadContext::NotModified();
                 });
  cache.Put(1, 50);
  clock.Advance(absl::Seconds(10));
  std::jthread old([&] { EXPECT_EQ(**cache.Get(1), 50); });
  door.AwaitArrivals(1);
  cache.Invalidate(1);
  EXPECT_EQ(**cache.Get(1), 60);
  door.Open();
  old.join();
  EXPECT_EQ(**cache.GetIfPresent(1), 60);
  EXPECT_EQ(loads, 2);
}

TEST(NotModifiedTest, Batch_EachKeyHasItsPrevious_AndMayKeepIt) {
  ManualClock clock;
  MetricsRegistry registry;
  IntCache cache({.name = "batched", .ttl = absl::Seconds(10), .clock = &clock, .metrics = &registry},
                 {.load_all = [&](const std::vector<int>& keys, BatchLoad<int, int>& batch) -> absl::Status {
                   EXPECT_EQ(keys.size(), 3U);
                   EXPECT_EQ(*batch.previous(1), 10);
                   EXPECT_EQ(*batch.previous(2), 20);
                   EXPECT_EQ(batch.previous(3), nullptr);
                   EXPECT_EQ(batch.previous(4), nullptr);  // Not asked for.
                   batch.Fail(1, LoadTerms::NotModified());
                   batch.Add(2, 21);
                   batch.Fail(3, LoadTerms::NotModified());
                   return absl::OkStatus();
                 }});
  cache.Put(1, 10);
  cache.Put(2, 20);
  clock.Advance(absl::Seconds(10));
  const std::vector<IntAnswer> answers = cache.GetAll({1, 2, 3});
  EXPECT_EQ(**answers[0], 10);
  EXPECT_EQ(**answers[1], 21);
  EXPECT_EQ(answers[2].status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(**cache.GetIfPresent(1), 10);
  EXPECT_EQ(cache.size(), 2);
}

TEST(NotModifiedTest, AnAbortedErrorOfTheUsers_IsAnError) {
  VersionedCache versioned({});
  versioned.cache.Put(1, 50);
  versioned.clock.Advance(absl::Seconds(10));
  versioned.outcome = absl::AbortedError("not modified");
  EXPECT_EQ(versioned.cache.Get(1).status(), versioned.outcome);
  EXPECT_EQ(versioned.Loads("not_modified"), 0);
  EXPECT_EQ(versioned.Loads("error"), 1);
}

}  // namespace
}  // namespace stockade::testing
