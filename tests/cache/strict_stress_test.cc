#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

// What a strict cache refuses, and that nobody ever reads what is older than a write that has returned.

namespace stockade::testing {
namespace {

TEST(StrictRefusalTest, UpdateThrough_InALoader_FailedPreconditionAndTheWriteDoesNotRun) {
  for (const bool strict : {false, true}) {
    IntCache* self = nullptr;
    Texts refusals;
    IntCache cache({.strict = strict, .metrics = nullptr}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
      for (const int other : {key, key + 1}) {
        refusals.push_back(CodeOf(self->UpdateThrough(other, [] {
          ADD_FAILURE() << "ran";
          return absl::OkStatus();
        })));
      }
      return key;
    });
    self = &cache;
    EXPECT_EQ(Text(cache.Get(1)), "1");
    EXPECT_EQ(TextsOf(cache.GetAll({5})), Texts{"5"});
    EXPECT_EQ(refusals, Texts(4, "FAILED_PRECONDITION"));
  }
}

TEST(StrictRefusalTest, UpdateThrough_WithinAnotherUpdate_FailedPreconditionAndTheWriteDoesNotRun) {
  IntCache cache(LoadingCacheOptions{.metrics = nullptr});
  int writes = 0;
  const auto count = [&] {
    ++writes;
    return Ok();
  };
  const auto nested = [&] {
    EXPECT_EQ(CodeOf(cache.UpdateThrough(1, count)), "FAILED_PRECONDITION");
    EXPECT_EQ(CodeOf(cache.UpdateThrough(2, count)), "FAILED_PRECONDITION");
    return Ok();
  };
  EXPECT_EQ(CodeOf(cache.UpdateThrough(1, nested)), "OK");
  EXPECT_EQ(writes, 0);
  EXPECT_EQ(CodeOf(cache.UpdateThrough(2, count)), "OK") << "not nested any more";
}

// A strict read replaces an expired value, and the listener is notified while the key's read lock is held.
TEST(StrictRefusalTest, UpdateThrough_InAListenerThatAStrictReadRuns_FailedPrecondition) {
  ManualClock clock;
  IntCache* self = nullptr;
  Texts refusals;
  IntCache cache({.ttl = absl::Seconds(1), .strict = true, .clock = &clock, .metrics = nullptr},
                 IntCache::Callbacks{.load = [](const int&, LoadContext&) -> absl::StatusOr<int> { return 2; },
                                     .on_removal =
                                         [&](const int& key, const CacheHandle<int>&, RemovalCause) {
                                           refusals.push_back(CodeOf(self->UpdateThrough(key + 1, Ok)));
                                         }});
  self = &cache;
  cache.Put(1, 1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(Text(cache.Get(1)), "2");
  EXPECT_EQ(refusals, Texts{"FAILED_PRECONDITION"});
}

TEST(StrictStressTest, Reads_AmidWritesInvalidationsAndRefreshes_NeverSeeWhatIsOlderThanAReturnedWrite) {
  constexpr int kKeys = 3;
  const int64_t rounds = Scaled(3'000, 100'000);
  struct Row {
    std::atomic<int> version{0};  // Of the database.
    std::atomic<int> settled{0};  // Its write has returned.
  };
  Row rows[kKeys];
  const auto load = [&](int key) {
    const int version = rows[key].version;
    std::this_thread::yield();
    return version;
  };
  IntCache cache(
      {.strict = true, .metrics = nullptr},
      IntCache::Callbacks{.load = [&](const int& key, LoadContext&) -> absl::StatusOr<int> { return load(key); },
                          .load_all =
                              [&](const std::vector<int>& keys, IntBatch& found) {
                                for (const int key : keys) found.Add(key, load(key));
                                return absl::OkStatus();
                              }});
  std::atomic<int64_t> writes{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {  // A writer and invalidator. A key has one writer only.
      std::minstd_rand random(thread + 1);
      for (int64_t i = 0; i < rounds; ++i) {
        const int key = static_cast<int>(random() % kKeys);
        if (key % 2 != thread) {
          i % 3 == 0 ? cache.Invalidate(key) : cache.Refresh(key);
          continue;
        }
        int next = 0;
        const absl::Status written = cache.UpdateThrough(key, [&]() -> absl::Status {
          next = ++rows[key].version;
          if (next % 5 == 0) return absl::UnavailableError("written all the same");
          return absl::OkStatus();
        });
        EXPECT_EQ(written.ok(), next % 5 != 0);
        rows[key].settled = next;
        ++writes;
      }
    });
    threads.emplace_back([&, thread] {  // A reader.
      std::minstd_rand random(thread + 10);
      int last[kKeys] = {};
      for (int64_t i = 0; i < rounds; ++i) {
        const int key = static_cast<int>(random() % kKeys);
        const int other = (key + 1) % kKeys;
        const int oldest = rows[key].settled, others_oldest = rows[other].settled;
        const std::vector<IntAnswer> answers =
            i % 2 == 0 ? std::vector<IntAnswer>{cache.Get(key)} : cache.GetAll({key, other});
        const auto check = [&](int of, const IntAnswer& answer, int at_least) {
          ASSERT_TRUE(answer.ok());
          ASSERT_GE(**answer, at_least);
          ASSERT_GE(**answer, last[of]) << "a read went back";
          last[of] = **answer;
        };
        check(key, answers[0], oldest);
        if (answers.size() > 1) check(other, answers[1], others_oldest);
      }
    });
  }
  threads.clear();
  EXPECT_GT(writes, 0);
  for (int key = 0; key < kKeys; ++key) EXPECT_EQ(Text(cache.Get(key)), std::to_string(rows[key].version));
}

}  // namespace
}  // namespace stockade::testing
