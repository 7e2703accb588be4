#include <gtest/gtest.h>

#include "cache/test_cache.h"

// Strict caches that load and refresh on one small pool: what waits for a key's lock must not take its threads.
namespace stockade::testing {
namespace {

// A reader of 1 and 2 waits for 2's load, which the pool is to run; a writer of 1 waits for that reader, and the
// asynchronous calls wait for the writer.
TEST(StrictPoolTest, GetAsync_WaitsForAWriterThatWaitsForALoad_LeavesThePoolToTheLoad) {
  MetricsRegistry registry;
  Door hold;
  AsyncAnswers answers;
  InlineExecutor here;
  ThreadPool pool(2);
  IntCache cache({.strict = true, .load_executor = &pool, .refresh_executor = &pool, .metrics = &registry}, ItsKey);
  cache.Put(1, 1);
  for (int i = 0; i < 2; ++i) pool.Schedule([&] { hold.Pass(); });
  hold.AwaitArrivals(2);
  for (int i = 0; i < 2; ++i) cache.GetAsync(1, here, answers.Callback());
  std::jthread reader([&] { EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"1", "2"})); });
  AwaitWaiters(registry, 1);
  std::jthread writer([&] { EXPECT_EQ(cache.UpdateThrough(1, Ok), Ok()); });
  SpinUntil([&] { return !cache.GetIfPresent(1).has_value(); });  // No read lock for it: the writer waits.
  for (int i = 0; i < 2; ++i) cache.GetAsync(1, here, answers.Callback());
  hold.Open();
  reader.join();
  writer.join();
  EXPECT_EQ(answers.Await(4), Texts(4, "1"));
}

TEST(StrictPoolTest, GetAsync_WaitsForAWriterThatLoadsAnotherKey_LeavesThePoolToTheLoad) {
  AsyncAnswers answers;
  InlineExecutor here;
  ThreadPool pool(2);
  IntCache cache({.strict = true, .load_executor = &pool, .refresh_executor = &pool, .metrics = nullptr}, ItsKey);
  const absl::Status written = cache.UpdateThrough(1, [&] {
    for (int i = 0; i < 2; ++i) cache.GetAsync(1, here, answers.Callback());
    EXPECT_EQ(Text(cache.Get(2)), "2");
    return Ok();
  });
  EXPECT_EQ(written, Ok());
  EXPECT_EQ(answers.Await(2), Texts(2, "1"));
}

}  // namespace
}  // namespace stockade::testing
