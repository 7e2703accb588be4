// Handles and the ends of threads: a thread's pins outlive it, and a later thread gets the same row.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cache/counted_value.h"
#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using TextCache = LoadingCache<uint64_t, CountedText>;
using TextHandle = CacheHandle<CountedText>;

class HandleThreadsTest : public ::testing::Test {
 protected:
  static constexpr int kPins = 6;  // Of a thread; past them, a handle has a share.

  // So small that what leaves is freed at once.
  HandleThreadsTest()
      : cache_(std::make_unique<TextCache>(LoadingCacheOptions{.name = "c", .max_weight = 50},
                                           [this](const uint64_t& key, LoadContext&) -> absl::StatusOr<CountedText> {
                                             return CountedText(key, live_);
                                           })) {}

  // Hits, so that they are pins as long as there are some.
  std::vector<TextHandle> Hits(uint64_t first, int count) {
    std::vector<TextHandle> handles;
    for (uint64_t key = first; handles.size() < static_cast<size_t>(count); ++key) {
      EXPECT_TRUE(cache_->Get(key).ok());
      handles.push_back(*cache_->Get(key));
    }
    return handles;
  }

  static void ExpectRight(const std::vector<TextHandle>& handles, uint64_t first) {
    for (size_t i = 0; i < handles.size(); ++i) EXPECT_TRUE(handles[i]->Right(first + i)) << first + i;
  }

  std::atomic<int64_t> live_ = 0;
  std::unique_ptr<TextCache> cache_;
};

template <typename Work>
void OnAnotherThread(Work work) {
  std::thread(work).join();
}

TEST_F(HandleThreadsTest, ThreadEnded_ItsHandlesHoldAndAreDroppedElsewhere) {
  std::vector<TextHandle> handles;
  OnAnotherThread([&] { handles = Hits(0, 2 * kPins); });
  cache_->InvalidateAll();
  EXPECT_EQ(live_, 2 * kPins);
  ExpectRight(handles, 0);
  OnAnotherThread([&] { handles.resize(kPins, handles[0]); });
  EXPECT_EQ(live_, kPins);
  OnAnotherThread([&, taken = std::move(handles)] { ExpectRight(taken, 0); });
  EXPECT_EQ(live_, 0);
}

TEST_F(HandleThreadsTest, ThreadEnded_ItsPinsAreDroppedBeforeTheEntriesLeave) {
  std::vector<TextHandle> handles;
  OnAnotherThread([&] { handles = Hits(0, kPins); });
  OnAnotherThread([&] { handles.clear(); });
  EXPECT_EQ(live_, kPins);
  cache_->InvalidateAll();
  EXPECT_EQ(live_, 0);
}

// Each thread finds the pins of those before it, who are gone, set in the row that it takes over.
TEST_F(HandleThreadsTest, ThreadsOneAfterTheOther_EachLeavesHandles_AllHold) {
  constexpr uint64_t kGenerations = 5;
  std::vector<std::vector<TextHandle>> left(kGenerations);
  for (uint64_t generation = 0; generation < kGenerations; ++generation) {
    OnAnotherThread([&] { left[generation] = Hits(generation * kPins, kPins - 2); });
  }
  cache_->InvalidateAll();
  EXPECT_EQ(live_, kGenerations * (kPins - 2));
  for (uint64_t generation : {3, 0, 4, 1, 2}) {
    ExpectRight(left[generation], generation * kPins);
    left[generation].clear();
  }
  EXPECT_EQ(live_, 0);
}

TEST_F(HandleThreadsTest, AssignedOverHandlesOfOtherThreads_EachLetsGoOfItsOldValue) {
  std::vector<TextHandle> mine = Hits(0, kPins);
  OnAnotherThread([&] {
    std::vector<TextHandle> theirs = Hits(100, kPins);
    for (int i = 0; i < kPins; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i % 2 == 0) {
        mine[at] = std::move(theirs[at]);
      } else {
        std::swap(mine[at], theirs[at]);
      }
    }
  });
  cache_->InvalidateAll();
  EXPECT_EQ(live_, kPins);
  for (uint64_t i = 0; i < kPins; ++i) EXPECT_TRUE(mine[i]->Right(100 + i));
  mine.clear();
  EXPECT_EQ(live_, 0);
}

TEST_F(HandleThreadsTest, CacheDestroyed_HandlesOfEndedThreadsHold) {
  std::vector<TextHandle> handles;
  OnAnotherThread([&] { handles = Hits(0, 2 * kPins); });
  cache_.reset();
  EXPECT_EQ(live_, 2 * kPins);
  ExpectRight(handles, 0);
  OnAnotherThread([taken = std::move(handles)]() mutable { taken.clear(); });
  EXPECT_EQ(live_, 0);
}

// A few of the first are kept, by threads that have ended, while two others bring ever new entries.
TEST_F(HandleThreadsTest, Stress_HandlesKeptWhileManyEntriesComeAndGo_HoldBackTheirValuesOnly) {
  std::vector<TextHandle> handles;
  OnAnotherThread([&] { handles = Hits(0, kPins + 2); });
  cache_->InvalidateAll();
  const auto others = static_cast<uint64_t>(Scaled(100'000, 1'000'000));
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t key = 1'000 + thread; key < 1'000 + others; key += 2) {
          ASSERT_TRUE((*cache_->Get(key))->Right(key));
        }
      });
    }
  }
  ExpectRight(handles, 0);
  cache_->InvalidateAll();
  EXPECT_EQ(live_, kPins + 2);
  handles.clear();
  EXPECT_EQ(live_, 0);
}

}  // namespace
}  // namespace stockade::testing
