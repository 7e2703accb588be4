#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

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

// Updates of keys, each on a thread of its own, that stand at a door until it is opened.
class Writers {
 public:
  explicit Writers(IntCache& cache) : cache_(cache) {}
  ~Writers() { door.Open(); }

  void Begin(int key) {
    threads_.emplace_back([this, key] {
      EXPECT_EQ(cache_.UpdateThrough(key,
                                     [this] {
                                       door.Pass();
                                       return Ok();
                                     }),
                Ok());
    });
    door.AwaitArrivals(static_cast<int>(threads_.size()));
  }

  Door door;

 private:
  IntCache& cache_;
  std::vector<std::jthread> threads_;
};

TEST(StrictPoolTest, GetAsync_ManyWaitForWriters_OtherKeysAreServedAndLoaded) {
  MetricsRegistry registry;
  AsyncAnswers waiting, others;
  InlineExecutor here;
  IntCache cache({.strict = true, .metrics = &registry}, ItsKey);
  cache.Put(5, 5);
  Writers writers(cache);
  for (int key = 1; key <= 4; ++key) writers.Begin(key);
  for (int i = 0; i < 40; ++i) cache.GetAsync(1 + i % 4, here, waiting.Callback());
  cache.GetAsync(5, here, others.Callback());
  EXPECT_EQ(others.count(), 1u) << "a hit is answered within the call";
  for (int key = 6; key < 10; ++key) cache.GetAsync(key, here, others.Callback());
  Texts answers = others.Await(5);
  std::sort(answers.begin(), answers.end());
  EXPECT_EQ(answers, (Texts{"5", "6", "7", "8", "9"}));
  EXPECT_EQ(waiting.count(), 0u);
  writers.door.Open();
  answers = waiting.Await(40);
  EXPECT_EQ(std::count(answers.begin(), answers.end(), "3"), 10);
  EXPECT_EQ(Requests(registry, "hit") + Requests(registry, "miss") + Requests(registry, "coalesced"), 45);
}

TEST(StrictPoolTest, GetAsync_WaitsForAWriter_ItsDeadlineOrStopTokenAnswersIt) {
  ManualClock clock;
  MetricsRegistry registry;
  AsyncAnswers answers;
  InlineExecutor here;
  IntCache cache({.strict = true, .clock = &clock, .metrics = &registry}, ItsKey);
  Writers writers(cache);
  writers.Begin(1);
  for (int i = 0; i < 3; ++i) cache.GetAsync(1, here, answers.Callback(), {.timeout = absl::Seconds(1)});
  std::stop_source stop;
  cache.GetAsync(1, here, answers.Callback(), {.timeout = absl::Hours(1), .stop = stop.get_token()});
  clock.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_EQ(answers.count(), 0u);
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(answers.Await(3), Texts(3, "DEADLINE_EXCEEDED"));
  stop.request_stop();
  EXPECT_EQ(answers.Await(4)[3], "CANCELLED");
  writers.door.Open();
  EXPECT_EQ(Text(cache.Get(1)), "1");
  EXPECT_EQ(answers.count(), 4u);
  EXPECT_EQ(Requests(registry, "miss"), 5);
}

// The two threads that the cache has for such calls run loaders.
TEST(StrictPoolTest, GetAsync_WaitsForAThread_ItsDeadlineOrStopTokenAnswersIt) {
  ManualClock clock;
  Door door;
  AsyncAnswers answers;
  InlineExecutor here;
  IntCache cache({.strict = true, .clock = &clock, .metrics = nullptr}, [&](const int& key, LoadContext&) {
    door.Pass();
    return absl::StatusOr<int>(key);
  });
  for (const int key : {1, 2}) cache.GetAsync(key, here, answers.Callback());
  door.AwaitArrivals(2);
  cache.GetAsync(3, here, answers.Callback(), {.timeout = absl::Seconds(1)});
  std::stop_source stop;
  cache.GetAsync(4, here, answers.Callback(), {.stop = stop.get_token()});
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(answers.Await(1), Texts{"DEADLINE_EXCEEDED"});
  stop.request_stop();
  EXPECT_EQ(answers.Await(2)[1], "CANCELLED");
  door.Open();
  EXPECT_EQ(answers.Await(4).size(), 4u);
}

TEST(StrictPoolTest, GetAsync_NoTimeAtAll_IsAnsweredWithinTheCall) {
  AsyncAnswers answers;
  InlineExecutor here;
  IntCache cache({.strict = true, .metrics = nullptr}, ItsKey);
  cache.Put(2, 2);
  Writers writers(cache);
  writers.Begin(1);
  std::stop_source stopped;
  stopped.request_stop();
  for (const int key : {1, 2, 3}) cache.GetAsync(key, here, answers.Callback(), {.timeout = absl::ZeroDuration()});
  cache.GetAsync(1, here, answers.Callback(), {.stop = stopped.get_token()});
  EXPECT_EQ(answers.count(), 4u);
  EXPECT_EQ(answers.Await(4), (Texts{"DEADLINE_EXCEEDED", "2", "DEADLINE_EXCEEDED", "CANCELLED"}));
}

// The next writer has the lock when the first one has ended.
TEST(StrictPoolTest, GetAsync_WriterAfterWriter_IsAnsweredAtTheEnd) {
  AsyncAnswers answers;
  InlineExecutor here;
  IntCache cache({.strict = true, .metrics = nullptr}, ItsKey);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 3; ++i) {
      writers.emplace_back([&, i] {
        const absl::Status written =
            cache.UpdateThrough(1, Ok, i == 0 ? absl::ZeroDuration() : absl::InfiniteDuration());
        EXPECT_TRUE(written.ok() || absl::IsDeadlineExceeded(written)) << written;
      });
      cache.GetAsync(1, here, answers.Callback());
    }
  }
  EXPECT_EQ(answers.Await(300), Texts(300, "1"));
}

TEST(StrictPoolTest, Destructor_CallsWaitForAWriterOrAThread_CancelledAtOnce) {
  Door door;
  AsyncAnswers answers;
  InlineExecutor here;
  std::stop_source stop;
  auto cache = std::make_unique<IntCache>(LoadingCacheOptions{.max_weight = 60, .strict = true, .metrics = nullptr},
                                          [&](const int& key, LoadContext&) {
                                            door.Pass();
                                            return absl::StatusOr<int>(key);
                                          });
  Writers writers(*cache);
  writers.Begin(1);
  for (const int key : {2, 3}) cache->GetAsync(key, here, answers.Callback());
  door.AwaitArrivals(2);
  for (const int key : {1, 4}) {
    cache->GetAsync(key, here, answers.Callback(), {.timeout = absl::Hours(1), .stop = stop.get_token()});
  }
  std::jthread destroyer([&] { cache.reset(); });
  EXPECT_EQ(answers.Await(2), Texts(2, "CANCELLED"));
  writers.door.Open();
  door.Open();
  destroyer.join();
  EXPECT_EQ(answers.Await(4), Texts(4, "CANCELLED"));
  stop.request_stop();
}

}  // namespace
}  // namespace stockade::testing
