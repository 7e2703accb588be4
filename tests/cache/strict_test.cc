#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// Loads what the database says.
struct StrictTest : ::testing::Test {
  void Make(LoadingCacheOptions options, IntCache::RemovalListener listener = {}) {
    options.metrics = &registry;
    cache = std::make_unique<IntCache>(
        options, IntCache::Callbacks{.load = [this](const int& key, LoadContext&) -> absl::StatusOr<int> {
                                       ++loads;
                                       return 100 * key + version;
                                     },
                                     .on_removal = std::move(listener)});
  }
  absl::Status WriteNext() {
    ++version;
    return absl::OkStatus();
  }

  MetricsRegistry registry;
  std::atomic<int> version{1};
  std::atomic<int> loads{0};
  std::unique_ptr<IntCache> cache;
};

TEST_F(StrictTest, UpdateThrough_WriteSucceeds_LaterCallsSeeTheNewValue) {
  for (const bool strict : {false, true}) {
    version = 1;
    Make({.strict = strict});
    EXPECT_EQ(Text(cache->Get(1)), "101");
    EXPECT_EQ(CodeOf(cache->UpdateThrough(1, [&] { return WriteNext(); })), "OK");
    EXPECT_EQ(Text(cache->Get(1)), "102");
    EXPECT_EQ(TextsOf(cache->GetAll({1, 2})), (Texts{"102", "202"}));
  }
}

// One that failed may have written.
TEST_F(StrictTest, UpdateThrough_WriteFailsOrThrows_InvalidatedBeforeAndAfterAllTheSame) {
  for (const bool throws : {false, true}) {
    version = 1;
    int removals = 0;
    Make({.strict = true}, [&](const int&, const CacheHandle<int>&, RemovalCause cause) {
      EXPECT_EQ(cause, RemovalCause::kInvalidated);
      ++removals;
    });
    EXPECT_EQ(Text(cache->Get(1)), "101");
    const absl::Status written = cache->UpdateThrough(1, [&]() -> absl::Status {
      EXPECT_FALSE(cache->GetIfPresent(1).has_value()) << "before";
      EXPECT_EQ(Text(cache->Get(1)), "101");
      ++version;
      if (throws) throw std::runtime_error("lost the connection");
      return absl::UnavailableError("lost the connection");
    });
    EXPECT_EQ(CodeOf(written), throws ? "INTERNAL" : "UNAVAILABLE");
    EXPECT_NE(written.ToString().find("lost the connection"), std::string::npos);
    EXPECT_FALSE(cache->GetIfPresent(1).has_value()) << "after";
    EXPECT_EQ(removals, 2);
    EXPECT_EQ(Text(cache->Get(1)), "102");
  }
}

TEST_F(StrictTest, UpdateThrough_ARememberedAbsence_IsForgotten) {
  bool there = false;
  IntCache rows({.negative_ttl = absl::Hours(1), .strict = true, .metrics = nullptr},
                [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                  if (!there) return absl::NotFoundError("");
                  return 1;
                });
  EXPECT_EQ(Text(rows.Get(1)), "NOT_FOUND");
  EXPECT_TRUE(rows.UpdateThrough(1,
                                 [&] {
                                   there = true;
                                   return Ok();
                                 })
                  .ok());
  EXPECT_EQ(Text(rows.Get(1)), "1");
}

// Every kind of read parks until the write has ended, a cached value or not; reads of other keys do not.
TEST_F(StrictTest, Reads_WhileTheKeyIsWritten_ReturnAfterTheWriteWithTheNewValue) {
  Make({.strict = true});
  EXPECT_EQ(Text(cache->Get(1)), "101");
  Door writing;
  std::atomic<bool> written{false};
  std::jthread writer([&] {
    EXPECT_TRUE(cache
                    ->UpdateThrough(1,
                                    [&] {
                                      writing.Pass();
                                      written = true;
                                      return WriteNext();
                                    })
                    .ok());
  });
  writing.AwaitArrivals(1);
  EXPECT_FALSE(cache->GetIfPresent(1).has_value()) << "does not wait";
  EXPECT_EQ(Text(cache->Get(2)), "201");
  EXPECT_EQ(TextsOf(cache->GetAll({3, 2})), (Texts{"301", "201"}));
  EXPECT_EQ(Text(cache->Get(1, {.timeout = absl::ZeroDuration()})), "DEADLINE_EXCEEDED");
  EXPECT_EQ(Text(cache->Get(1, {.timeout = absl::Milliseconds(1)})), "DEADLINE_EXCEEDED");
  EXPECT_EQ(TextsOf(cache->GetAll({1, 2}, {.timeout = absl::Milliseconds(1)})), (Texts{"DEADLINE_EXCEEDED", "201"}));
  std::atomic<int> reading{0};
  std::vector<std::jthread> readers;
  const auto read = [&](auto get, const char* expected) {
    readers.emplace_back([&, get, expected] {
      ++reading;
      EXPECT_EQ(get(), expected);
      EXPECT_TRUE(written);
    });
  };
  read([&] { return Text(cache->Get(1)); }, "102");
  read([&] { return Text(cache->Get(1, {.timeout = absl::Hours(1)})); }, "102");
  read([&] { return Text(cache->GetOrLoad(1, [&](const int&, LoadContext&) -> absl::StatusOr<int> { return 102; })); },
       "102");
  read([&] { return Text(cache->GetAll({2, 1})[1]); }, "102");
  SpinUntil([&] { return reading == 4; });
  writing.Open();
}

// As a Get() of each key: only those that are being written fail, and of the others those that take a load.
TEST_F(StrictTest, GetAll_LocksOfSomeKeysAreNotHadInTime_OnlyTheseFail) {
  Make({.strict = true});
  EXPECT_EQ(TextsOf(cache->GetAll({1, 2, 3, 4, 5})), (Texts{"101", "201", "301", "401", "501"}));
  Door writing;
  std::vector<std::jthread> writers;
  for (const int key : {2, 4}) {
    writers.emplace_back([&, key] {
      EXPECT_TRUE(cache
                      ->UpdateThrough(key,
                                      [&] {
                                        writing.Pass();
                                        return absl::OkStatus();
                                      })
                      .ok());
    });
  }
  writing.AwaitArrivals(2);
  for (const absl::Duration timeout : {absl::Milliseconds(1), absl::ZeroDuration()}) {
    EXPECT_EQ(TextsOf(cache->GetAll({1, 2, 3, 4, 5, 6, 2}, {.timeout = timeout})),
              (Texts{"101", "DEADLINE_EXCEEDED", "301", "DEADLINE_EXCEEDED", "501", "DEADLINE_EXCEEDED",
                     "DEADLINE_EXCEEDED"}));
    EXPECT_EQ(TextsOf(cache->GetAll({4, 2, 1}, {.timeout = timeout})),
              (Texts{"DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "101"}));
  }
  EXPECT_EQ(loads, 5);
  writing.Open();
  writers.clear();
  EXPECT_EQ(TextsOf(cache->GetAll({1, 2}, {.timeout = absl::Minutes(1)})), (Texts{"101", "201"}));
}

TEST_F(StrictTest, UpdateThrough_WhileTheKeyIsRead_WaitsForTheEndOfTheLoad) {
  Door loading;
  std::atomic<bool> read{false};
  IntCache rows({.strict = true, .metrics = nullptr}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    loading.Pass();
    read = true;
    return 1;
  });
  std::jthread reader([&] { EXPECT_EQ(Text(rows.Get(1)), "1"); });
  loading.AwaitArrivals(1);
  bool ran = false;
  const auto write = [&] {
    ran = true;
    return Ok();
  };
  EXPECT_EQ(CodeOf(rows.UpdateThrough(1, write, absl::ZeroDuration())), "DEADLINE_EXCEEDED");
  EXPECT_EQ(CodeOf(rows.UpdateThrough(1, write, absl::Milliseconds(1))), "DEADLINE_EXCEEDED");
  EXPECT_FALSE(ran);
  std::jthread writer([&] {
    EXPECT_TRUE(rows.UpdateThrough(1,
                                   [&] {
                                     EXPECT_TRUE(read);
                                     return Ok();
                                   })
                    .ok());
  });
  loading.Open();
  writer.join();
  EXPECT_FALSE(rows.GetIfPresent(1).has_value());
}

// Updates exclude each other without options.strict as well.
TEST_F(StrictTest, UpdateThrough_TwoOfOneKey_OneAtATime) {
  Make({});
  Door writing;
  std::atomic<bool> written{false};
  std::jthread first([&] {
    EXPECT_TRUE(cache
                    ->UpdateThrough(1,
                                    [&] {
                                      writing.Pass();
                                      written = true;
                                      return Ok();
                                    })
                    .ok());
  });
  writing.AwaitArrivals(1);
  EXPECT_EQ(CodeOf(cache->UpdateThrough(1, Ok, absl::Milliseconds(1))), "DEADLINE_EXCEEDED");
  EXPECT_EQ(CodeOf(cache->UpdateThrough(2, Ok)), "OK");
  EXPECT_EQ(Text(cache->Get(1)), "101") << "not strict: reads do not wait";
  std::jthread second([&] {
    EXPECT_TRUE(cache
                    ->UpdateThrough(1,
                                    [&] {
                                      EXPECT_TRUE(written);
                                      return Ok();
                                    })
                    .ok());
  });
  writing.Open();
}

// In the background loads hold no lock.
TEST_F(StrictTest, UpdateThrough_WhileARefreshRuns_WhatThatLoadsIsNotStored) {
  for (const bool strict : {false, true}) {
    Door loading;
    std::atomic<int> row{1}, runs{0};
    IntCache rows({.strict = strict, .metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
      const int found = row;
      if (runs++ == 0) loading.Pass();
      return found;
    });
    rows.Refresh(1);
    loading.AwaitArrivals(1);
    EXPECT_TRUE(rows.UpdateThrough(1,
                                   [&] {
                                     row = 2;
                                     return Ok();
                                   })
                    .ok());
    EXPECT_EQ(Text(rows.Get(1)), "2");
    loading.Open();
    SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
    EXPECT_EQ(Text(rows.Get(1)), "2");
  }
}

// A load that begins within the write may see the old value: it goes away after the write.
TEST_F(StrictTest, Write_ReadsItsOwnAndOtherKeys_WorksAndNothingOldStays) {
  Make({.strict = true});
  EXPECT_TRUE(cache
                  ->UpdateThrough(1,
                                  [&] {
                                    EXPECT_EQ(Text(cache->Get(1)), "101");
                                    EXPECT_EQ(Text(cache->Get(2)), "201");
                                    EXPECT_EQ(TextsOf(cache->GetAll({1, 3})), (Texts{"101", "301"}));
                                    EXPECT_TRUE(cache->GetIfPresent(1).has_value());
                                    return WriteNext();
                                  })
                  .ok());
  EXPECT_EQ(Text(cache->Get(1)), "102");
}

}  // namespace
}  // namespace stockade::testing
