// Expired entries leave without being asked for: with what is stored after them, or by a walk in the background.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

struct Swept {
  explicit Swept(LoadingCacheOptions options)
      : cache(With(std::move(options), &clock),
              {.load = [](const int& key, ValueLoadContext<int>&) -> absl::StatusOr<int> { return key; },
               .on_removal = [this](const int&, const CacheHandle<int>&,
                                    RemovalCause cause) { ++(cause == RemovalCause::kExpired ? expired : others); }}) {}

  static LoadingCacheOptions With(LoadingCacheOptions options, ManualClock* clock) {
    options.clock = clock;
    options.metrics = nullptr;
    return options;
  }
  void PutAll(int first, int count, EntryOptions entry = {}) {
    for (int key = first; key < first + count; ++key) cache.Put(key, key, entry);
  }

  ManualClock clock;
  std::atomic<int> expired = 0;
  std::atomic<int> others = 0;
  IntCache cache;
};

const EntryOptions kEternal = {.ttl = absl::InfiniteDuration()};

TEST(SweepTest, Stores_TakeExpiredOnesWithThem) {
  Swept swept({.max_weight = 200, .ttl = absl::Seconds(10)});
  swept.PutAll(0, 100);
  swept.clock.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
  swept.PutAll(100, 50, kEternal);
  EXPECT_EQ(swept.cache.size(), 150);
  swept.clock.Advance(absl::Nanoseconds(1));
  swept.PutAll(150, 50, kEternal);
  EXPECT_EQ(swept.cache.size(), 100);
  EXPECT_EQ(swept.expired, 100);
  EXPECT_EQ(swept.others, 0);
}

// Such stores take a shorter way through the cache if nothing else is to be done.
TEST(SweepTest, StoresOverAnEternalValue_TakeExpiredOnesWithThem) {
  ManualClock clock;
  IntCache cache({.max_weight = 60, .clock = &clock, .metrics = nullptr});
  cache.Put(0, 0);
  for (int key = 1; key <= 40; ++key) cache.Put(key, key, {.ttl = absl::Seconds(10)});
  clock.Advance(absl::Seconds(10));
  for (int value = 1; value <= 10; ++value) cache.Put(0, value);
  EXPECT_EQ(cache.size(), 1);
  EXPECT_EQ(**cache.GetIfPresent(0), 10);
}

TEST(SweepTest, Loads_TakeExpiredOnesWithThem) {
  Swept swept({.max_weight = 200, .ttl = absl::Seconds(10)});
  swept.PutAll(0, 60);
  swept.clock.Advance(absl::Seconds(10));
  for (int key = 100; key < 160; ++key) EXPECT_TRUE(swept.cache.Get(key).ok());
  EXPECT_EQ(swept.cache.size(), 60);
  EXPECT_EQ(swept.expired, 60);
}

TEST(SweepTest, DifferentTtls_EachLeavesInItsTime) {
  Swept swept({.max_weight = 10'000});
  for (int key = 0; key < 1'000; ++key) swept.cache.Put(key, key, absl::Seconds(1 + key % 10));
  for (int second = 1; second <= 10; ++second) {
    swept.clock.Advance(absl::Seconds(1));
    swept.PutAll(10'000, 1'600, kEternal);
    EXPECT_EQ(swept.expired, 100 * second);
  }
  EXPECT_EQ(swept.cache.size(), 1'600);
}

TEST(SweepTest, WhatMayStillStandInForALoad_Stays) {
  Swept swept({.max_weight = 200, .ttl = absl::Seconds(10), .stale_if_error = absl::Seconds(5)});
  swept.PutAll(0, 50);
  swept.clock.Advance(absl::Seconds(14));
  swept.PutAll(100, 50, kEternal);
  EXPECT_EQ(swept.cache.size(), 100);
  swept.clock.Advance(absl::Seconds(1));
  swept.PutAll(150, 50, kEternal);
  EXPECT_EQ(swept.cache.size(), 100);
}

TEST(SweepTest, Absences_LeaveByTheirOwnTtl) {
  ManualClock clock;
  IntCache cache({.max_weight = 200, .negative_ttl = absl::Seconds(1), .clock = &clock, .metrics = nullptr},
                 [](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   if (key < 50) return absl::NotFoundError("none");
                   return key;
                 });
  for (int key = 0; key < 50; ++key) EXPECT_TRUE(absl::IsNotFound(cache.Get(key).status()));
  EXPECT_EQ(cache.size(), 50);
  clock.Advance(absl::Seconds(1));
  for (int key = 50; key < 100; ++key) EXPECT_TRUE(cache.Get(key).ok());
  EXPECT_EQ(cache.size(), 50);
}

// Until then nobody has compared anything; from then on there is a use for what has expired.
TEST(SweepTest, OnceALoaderAskedForThePreviousValue_ExpiredOnesStayForIt) {
  ManualClock clock;
  IntCache cache({.max_weight = 200, .ttl = absl::Seconds(10), .clock = &clock, .metrics = nullptr},
                 {.load = [](const int& key, ValueLoadContext<int>& load) -> absl::StatusOr<int> {
                   if (load.previous() != nullptr) return load.NotModified();
                   return key;
                 }});
  for (int key = 0; key < 50; ++key) EXPECT_EQ(**cache.Get(key), key);
  clock.Advance(absl::Seconds(10));
  for (int key = 100; key < 150; ++key) cache.Put(key, key, kEternal);
  EXPECT_EQ(cache.size(), 100);
  for (int key = 0; key < 50; ++key) EXPECT_EQ(**cache.Get(key), key);
}

TEST(SweepTest, NothingIsStored_AWalkTakesThem_AndGoesOnWhileAnyAreLeft) {
  Swept swept({.ttl = absl::Seconds(10), .sweep_interval = absl::Minutes(1)});
  swept.PutAll(0, 1'000);
  swept.PutAll(1'000, 500, {.ttl = absl::Seconds(100)});
  swept.PutAll(2'000, 300, kEternal);
  swept.clock.AwaitWaiters(1);
  swept.clock.Advance(absl::Minutes(1));
  SpinUntil([&] { return swept.expired == 1'000; });
  EXPECT_EQ(swept.cache.size(), 800);
  swept.clock.AwaitWaiters(1);
  swept.clock.Advance(absl::Minutes(1));
  SpinUntil([&] { return swept.expired == 1'500; });
  EXPECT_EQ(swept.cache.size(), 300);
  swept.PutAll(3'000, 100);
  swept.clock.AwaitWaiters(1);
  swept.clock.Advance(absl::Minutes(1));
  SpinUntil([&] { return swept.expired == 1'600; });
}

TEST(SweepTest, SystemClock_AWalkTakesThem) {
  IntCache cache({.ttl = absl::Milliseconds(1), .sweep_interval = absl::Milliseconds(2), .metrics = nullptr});
  for (int key = 0; key < 1'000; ++key) cache.Put(key, key);
  SpinUntil([&] { return cache.size() == 0; });
}

class CountingExecutor final : public Executor {
 public:
  void Schedule(Task task) override {
    ++tasks;
    task();
  }
  std::atomic<int> tasks = 0;
};

TEST(SweepTest, WithARefreshExecutor_WalksRunThere) {
  CountingExecutor executor;
  Swept swept({.ttl = absl::Seconds(1), .sweep_interval = absl::Minutes(1), .refresh_executor = &executor});
  swept.PutAll(0, 10);
  swept.clock.AwaitWaiters(1);
  swept.clock.Advance(absl::Minutes(1));
  SpinUntil([&] { return swept.expired == 10; });
  EXPECT_EQ(executor.tasks, 1);
}

// The destructor does not wait for the time of the walk.
TEST(SweepTest, DestroyedWithAWalkPlanned_Ends) {
  Swept swept({.ttl = absl::Seconds(1), .sweep_interval = absl::Hours(1)});
  swept.PutAll(0, 10);
  swept.clock.AwaitWaiters(1);
}

TEST(SweepTest, IntervalOfZero_IsRefused) {
  const absl::Status status = LoadingCacheOptions{.name = "c", .sweep_interval = absl::ZeroDuration()}.Validate();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("sweep_interval = 0"), std::string::npos) << status;
}

}  // namespace
}  // namespace stockade::testing
