// GetAwait().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "cache/test_cache.h"
#include "coroutine/coroutines.h"
#include "stockade/base/clock.h"
#include "stockade/cache/coroutine.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;
using MaybeAnswer = std::optional<IntAnswer>;

Routine Gets(IntCache& cache, int key, AwaitOn on, MaybeAnswer& answer, Duration timeout = absl::InfiniteDuration()) {
  answer = co_await GetAwait(cache, key, on, timeout);
}

class CacheCoroutineTest : public ::testing::Test {
 protected:
  Door door_;  // Loads of negative keys wait for it.
  TaskQueue queue_;
  const AwaitOn on_ = AwaitOn(queue_);
  MetricsRegistry registry_;
  ThreadPool loads_{2};
  std::unique_ptr<IntCache> cache_ =
      std::make_unique<IntCache>(LoadingCacheOptions{.load_executor = &loads_, .metrics = &registry_},
                                 [this](const int& key, LoadContext&) -> absl::StatusOr<int> {
                                   if (key < 0) door_.Pass();
                                   if (key == 404) return absl::NotFoundError("none");
                                   return 10 * key;
                                 });
};

TEST_F(CacheCoroutineTest, Hit_DoesNotSuspendAndLooksAtNeitherStopNorDeadline) {
  cache_->Put(1, 7);
  std::stop_source stop;
  stop.request_stop();
  MaybeAnswer answer;
  const Routine routine = Gets(*cache_, 1, AwaitOn(queue_, stop.get_token(), Instant::InfinitePast()), answer);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(**answer.value(), 7);
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(CacheCoroutineTest, Miss_IsLoadedAndGoesOnByTheExecutor) {
  MaybeAnswer answer;
  const Routine routine = Gets(*cache_, 2, on_, answer);
  queue_.AwaitTask();
  EXPECT_FALSE(answer.has_value());
  queue_.RunOne();
  EXPECT_EQ(**answer.value(), 20);
  EXPECT_EQ(Requests(registry_, "miss") + Requests(registry_, "hit"), 1);
}

TEST_F(CacheCoroutineTest, LoaderFails_ItsErrorIsTheAnswer) {
  MaybeAnswer answer;
  const Routine routine = Gets(*cache_, 404, on_, answer);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsNotFound(answer->status())) << answer->status();
}

TEST_F(CacheCoroutineTest, StopIsRequested_IsCancelledAtOnceAndTheLoadGoesOn) {
  std::stop_source stop;
  MaybeAnswer answer;
  const Routine routine = Gets(*cache_, -1, AwaitOn(queue_, stop.get_token()), answer);
  door_.AwaitArrivals(1);
  stop.request_stop();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(answer->status())) << answer->status();
  door_.Open();
  EXPECT_EQ(**cache_->Get(-1), -10);
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(CacheCoroutineTest, DeadlineOrTimeoutPasses_IsDeadlineExceededAndTheLoadGoesOn) {
  MaybeAnswer deadline, timeout;
  const Routine one = Gets(*cache_, -1, on_.By(Clock::System()->Now() + absl::Milliseconds(20)), deadline);
  const Routine other = Gets(*cache_, -1, on_, timeout, absl::Milliseconds(20));
  queue_.RunOne();
  queue_.RunOne();
  EXPECT_TRUE(absl::IsDeadlineExceeded(deadline->status())) << deadline->status();
  EXPECT_THAT(std::string(deadline->status().message()), HasSubstr("GetAwait(): the deadline has passed"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(timeout->status())) << timeout->status();
  door_.Open();
  EXPECT_EQ(**cache_->Get(-1), -10);
}

TEST_F(CacheCoroutineTest, TooLateBefore_LoadsNothing) {
  std::stop_source stop;
  stop.request_stop();
  MaybeAnswer stopped, late, only_cached;
  const Routine one = Gets(*cache_, 1, AwaitOn(queue_, stop.get_token()), stopped);
  const Routine two = Gets(*cache_, 2, on_.By(Clock::System()->Now()), late);
  const Routine three = Gets(*cache_, 3, on_, only_cached, absl::ZeroDuration());
  while (queue_.size() > 0) queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(stopped->status())) << stopped->status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->status())) << late->status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(only_cached->status())) << only_cached->status();
  EXPECT_EQ(Metric(registry_, "stockade_cache_flights"), 0);
  for (const int key : {1, 2, 3}) EXPECT_FALSE(cache_->GetIfPresent(key).has_value()) << key;
}

TEST_F(CacheCoroutineTest, TwoBegunBeforeTheFirstIsAwaited_LoadAtTheSameTime) {
  MaybeAnswer first, second;
  const auto gets = [&]() -> Routine {
    auto one = GetAwait(*cache_, -1, on_);
    auto two = GetAwait(*cache_, -2, on_);
    first = co_await std::move(one);
    second = co_await std::move(two);
  };
  const Routine routine = gets();
  door_.AwaitArrivals(2);
  door_.Open();
  queue_.RunOne();
  queue_.RunOne();
  EXPECT_EQ(**first.value(), -10);
  EXPECT_EQ(**second.value(), -20);
}

TEST_F(CacheCoroutineTest, AnsweredBeforeItIsAwaited_GoesOnByTheExecutor) {
  MaybeAnswer answer;
  const auto gets = [&]() -> Routine {
    auto get = GetAwait(*cache_, 5, on_);
    EXPECT_EQ(**cache_->Get(5), 50);  // The same flight, or after it.
    answer = co_await std::move(get);
  };
  const Routine routine = gets();
  if (!answer.has_value()) queue_.RunOne();
  EXPECT_EQ(**answer.value(), 50);
}

TEST_F(CacheCoroutineTest, DestroyedWhileItLoads_TheCallEndsAndTheLoadGoesOn) {
  MaybeAnswer answer;
  Routine routine = Gets(*cache_, -1, on_, answer);
  door_.AwaitArrivals(1);
  EXPECT_EQ(Metric(registry_, "stockade_cache_waiters"), 1);
  routine.Destroy();
  Await("the call's end", [&] { return Metric(registry_, "stockade_cache_waiters") == 0; });
  door_.Open();
  EXPECT_EQ(**cache_->Get(-1), -10);
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(CacheCoroutineTest, NeverAwaited_TheCallEnds) {
  { [[maybe_unused]] const auto get = GetAwait(*cache_, -1, on_); }
  Await("the call's end", [&] { return Metric(registry_, "stockade_cache_waiters") == 0; });
  door_.Open();
}

// A handle that nobody takes would keep its value.
TEST_F(CacheCoroutineTest, DestroyedAfterTheAnswer_NoHandleIsLeftInTheQueue) {
  using Shared = std::shared_ptr<int>;
  const auto value = std::make_shared<int>(1);
  LoadingCache<int, Shared> cache({.load_executor = &loads_, .metrics = nullptr},
                                  [&](const int&, LoadContext&) -> absl::StatusOr<Shared> { return value; });
  const auto gets = [&]() -> Routine { (void)co_await GetAwait(cache, 1, on_); };
  Routine routine = gets();
  queue_.AwaitTask();
  routine.Destroy();
  cache.Invalidate(1);
  Await("the value's end", [&] { return value.use_count() == 1; });
  EXPECT_EQ(queue_.size(), 1);
}

TEST_F(CacheCoroutineTest, CacheIsDestroyedWhileItWaits_IsCancelled) {
  MaybeAnswer answer;
  const Routine routine = Gets(*cache_, -1, on_, answer);
  door_.AwaitArrivals(1);
  std::thread destroys([this] { cache_.reset(); });
  queue_.RunOne();
  EXPECT_TRUE(absl::IsCancelled(answer->status())) << answer->status();
  door_.Open();
  destroys.join();
}

TEST_F(CacheCoroutineTest, StrictCache_WaitsForAnUpdateWithoutAThread) {
  IntCache strict({.strict = true, .load_executor = &loads_, .metrics = nullptr}, ItsKey);
  Door update;
  std::thread updates([&] {
    (void)strict.UpdateThrough(1, [&] {
      update.Pass();
      return absl::OkStatus();
    });
  });
  update.AwaitArrivals(1);
  MaybeAnswer answer, late;
  const Routine routine = Gets(strict, 1, on_, answer);
  const Routine gives_up = Gets(strict, 1, on_.By(Clock::System()->Now() + absl::Milliseconds(20)), late);
  queue_.RunOne();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->status())) << late->status();
  update.Open();
  queue_.RunOne();
  EXPECT_EQ(**answer.value(), 1);
  updates.join();
}

TEST_F(CacheCoroutineTest, FramesAreDestroyedAtAnyTime_NoCallIsLeft) {
  std::mt19937 random(Seed());
  door_.Open();
  const auto rounds = static_cast<int>(Scaled(500, 50'000));
  for (int i = 0; i < rounds; ++i) {
    ThreadPool pool(1);
    std::stop_source stop;
    MaybeAnswer answer;
    Routine routine = Gets(*cache_, -i, AwaitOn(pool, stop.get_token()), answer);
    Spin(random() % 300);
    if (random() % 3 == 0) stop.request_stop();
    std::latch destroyed(1);
    pool.Schedule([&] {
      routine.Destroy();
      answer.reset();
      destroyed.count_down();
    });
    destroyed.wait();
  }
  Await("the calls' end", [&] { return Metric(registry_, "stockade_cache_waiters") == 0; });
}

}  // namespace
}  // namespace stockade::testing
