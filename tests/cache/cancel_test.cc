#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/test_cache.h"

// Callers that leave, and loads whose runner's caller gave up: they are the next one's.

namespace stockade::testing {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);

// The n-th load, from 0, stands at the n-th door. Then, if its caller gave up, it says so; otherwise it brings n + 1.
struct Cancel : ::testing::Test {
  void Make(LoadingCacheOptions options) {
    options.clock = &clock;
    options.metrics = &registry;
    cache = std::make_unique<IntCache>(options, [this](const int&, LoadContext& load) -> absl::StatusOr<int> {
      const int run = loads++;
      deadlines.at(run) = load.deadline();
      doors.at(run).Pass();
      if (!errors.at(run).ok()) return errors[run];
      if (load.stop_token().stop_requested()) return absl::CancelledError("requested a stop");
      if (load.time_left() == absl::ZeroDuration()) return absl::DeadlineExceededError("no time left");
      return run + 1;
    });
  }
  std::jthread Get(const char* expected, const CacheGetOptions& options = {}) {
    return std::jthread([=, this] { EXPECT_EQ(Text(cache->Get(1, options)), expected); });
  }

  ManualClock clock;
  MetricsRegistry registry;
  std::vector<Door> doors{4};
  std::vector<Instant> deadlines{4};
  std::vector<absl::Status> errors{4};
  std::stop_source stop;
  std::atomic<int> loads{0};
  std::unique_ptr<IntCache> cache;
};
using CancelTest = Cancel;
using RelayTest = Cancel;

TEST_F(CancelTest, Get_StoppedBefore_CancelledWithoutALoadUnlessItIsThere) {
  Make({});
  stop.request_stop();
  EXPECT_EQ(Text(cache->Get(1, {.stop = stop.get_token()})), "CANCELLED");
  cache->Put(1, 5);
  EXPECT_EQ(Text(cache->Get(1, {.stop = stop.get_token()})), "5");
  EXPECT_EQ(loads, 0);
}

TEST_F(CancelTest, Get_WaiterIsStopped_LeavesAndTheLoadGoesOn) {
  Make({});
  std::jthread leader = Get("1");
  doors[0].AwaitArrivals(1);
  std::jthread waiter = Get("CANCELLED", {.stop = stop.get_token()});
  AwaitWaiters(registry, 1);
  stop.request_stop();
  waiter.join();
  doors[0].Open();
  leader.join();
  EXPECT_EQ(Text(cache->Get(1)), "1");
  EXPECT_EQ(loads, 1);
}

TEST_F(CancelTest, Get_LeaderOnALoadExecutorIsStopped_LeavesAndTheLoadIsStored) {
  ThreadPool pool(1);
  Make({.load_executor = &pool});
  std::jthread leader = Get("CANCELLED", {.stop = stop.get_token()});
  doors[0].AwaitArrivals(1);
  stop.request_stop();
  leader.join();
  doors[0].Open();
  EXPECT_EQ(Text(cache->Get(1)), "1");
  EXPECT_EQ(loads, 1);
  cache.reset();
}

TEST_F(CancelTest, GetAll_WaitsAndIsStopped_LeavesWithWhatItHas) {
  Make({});
  std::jthread leader = Get("1");
  doors[0].AwaitArrivals(1);
  cache->Put(2, 22);
  std::jthread all([&] {
    EXPECT_EQ(TextsOf(cache->GetAll({1, 2}, {.stop = stop.get_token()})), (Texts{"CANCELLED", "22"}));
  });
  AwaitWaiters(registry, 1);
  stop.request_stop();
  all.join();
  doors[0].Open();
}

// Nothing but its loader cuts a load on the caller's own thread short.
TEST_F(CancelTest, Get_LeaderGivesUpButItsLoaderHasAValue_ItIsEverybodys) {
  IntCache loads_on({.metrics = &registry}, [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
    stop.request_stop();
    EXPECT_TRUE(load.stop_token().stop_requested());
    return 7;
  });
  EXPECT_EQ(Text(loads_on.Get(1, {.stop = stop.get_token()})), "7");
  EXPECT_TRUE(loads_on.GetIfPresent(1).has_value());
}

TEST_F(RelayTest, Get_LeaderIsStopped_ItAloneIsCancelledAndTheWaiterLoads) {
  Make({});
  std::jthread leader = Get("CANCELLED", {.stop = stop.get_token()});
  doors[0].AwaitArrivals(1);
  std::jthread waiter = Get("2");
  AwaitWaiters(registry, 1);
  stop.request_stop();
  doors[0].Open();
  leader.join();
  doors[1].Open();
  waiter.join();
  EXPECT_EQ(Text(cache->Get(1)), "2");
  EXPECT_EQ(loads, 2);
}

TEST_F(RelayTest, Get_LeadersDeadlinePasses_ItAloneGetsThatAndTheLongestWaiterLoads) {
  Make({.load_hard_timeout = absl::Hours(1)});
  const Instant begun = clock.Now();
  std::jthread leader = Get("DEADLINE_EXCEEDED", {.timeout = kSecond});
  doors[0].AwaitArrivals(1);
  std::vector<std::jthread> waiters;
  for (const int seconds : {5, 60, 10, 2}) waiters.push_back(Get("2", {.timeout = absl::Seconds(seconds)}));
  AwaitWaiters(registry, 4);
  clock.Advance(kSecond);
  doors[0].Open();
  leader.join();
  doors[1].AwaitArrivals(1);
  EXPECT_EQ(deadlines[1], begun + absl::Seconds(60));
  doors[1].Open();
  waiters.clear();
  EXPECT_EQ(loads, 2);
}

TEST_F(RelayTest, Get_TwentyWaitersOfDifferentDeadlines_OneMoreLoadServesAllWhoStillWait) {
  Make({});
  std::jthread leader = Get("DEADLINE_EXCEEDED", {.timeout = kSecond});
  doors[0].AwaitArrivals(1);
  std::vector<std::jthread> short_ones, long_ones;
  for (int i = 0; i < 10; ++i) short_ones.push_back(Get("DEADLINE_EXCEEDED", {.timeout = absl::Seconds(2 + i)}));
  for (int i = 0; i < 10; ++i) long_ones.push_back(Get("2", {.timeout = absl::Seconds(20 + i)}));
  AwaitWaiters(registry, 20);
  clock.Advance(kSecond);
  doors[0].Open();
  doors[1].AwaitArrivals(1);
  clock.Advance(absl::Seconds(10));
  short_ones.clear();
  doors[1].Open();
  long_ones.clear();
  EXPECT_EQ(loads, 2);
}

TEST_F(RelayTest, Get_NextRunnerGivesUpToo_TheOneAfterItLoads) {
  Make({});
  std::stop_source second_stop;
  std::jthread first = Get("CANCELLED", {.stop = stop.get_token()});
  doors[0].AwaitArrivals(1);
  std::jthread second = Get("CANCELLED", {.stop = second_stop.get_token()});
  AwaitWaiters(registry, 1);
  std::jthread third = Get("3", {.timeout = absl::Hours(1)});
  AwaitWaiters(registry, 2);
  stop.request_stop();
  doors[0].Open();
  doors[1].AwaitArrivals(1);
  second_stop.request_stop();
  doors[1].Open();
  second.join();
  doors[2].Open();
  third.join();
  EXPECT_EQ(loads, 3);
}

TEST_F(RelayTest, Get_NobodyElseWaits_TheErrorIsItsAnswerAndTheNextCallLoads) {
  Make({});
  std::jthread leader = Get("CANCELLED", {.stop = stop.get_token()});
  doors[0].AwaitArrivals(1);
  stop.request_stop();
  doors[0].Open();
  leader.join();
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
  doors[1].Open();
  EXPECT_EQ(Text(cache->Get(1)), "2");
}

struct OtherError {
  const char* name;
  absl::Status error;
  bool gives_up;  // Its caller did, but that is not what the loader says.
};
class OtherErrorTest : public Cancel, public ::testing::WithParamInterface<OtherError> {};
INSTANTIATE_TEST_SUITE_P(Errors, OtherErrorTest,
                         ::testing::Values(OtherError{"Unavailable", absl::UnavailableError(""), true},
                                           OtherError{"Internal", absl::InternalError(""), true},
                                           OtherError{"CancelledThoughNobodyAsked", absl::CancelledError(""), false},
                                           OtherError{"DeadlineExceededBeforeTheDeadline",
                                                      absl::DeadlineExceededError(""), false}),
                         [](const auto& error) { return error.param.name; });

TEST_P(OtherErrorTest, Get_LoaderFailsWithAnErrorOfItsOwn_IsEverybodysAndNotRunAgain) {
  Make({});
  errors[0] = GetParam().error;
  const std::string text = absl::StatusCodeToString(errors[0].code());
  std::jthread leader = Get(text.c_str(), {.timeout = kSecond, .stop = stop.get_token()});
  doors[0].AwaitArrivals(1);
  std::jthread waiter = Get(text.c_str());
  AwaitWaiters(registry, 1);
  if (GetParam().gives_up) stop.request_stop();
  doors[0].Open();
  waiter.join();
  leader.join();
  EXPECT_EQ(loads, 1);
}

TEST_F(RelayTest, GetAsync_WaitsForALeaderThatGivesUp_IsLoadedInTheBackground) {
  AsyncAnswers answers;
  ThreadPool pool(1);
  Make({});
  std::jthread leader = Get("CANCELLED", {.stop = stop.get_token()});
  doors[0].AwaitArrivals(1);
  cache->GetAsync(1, pool, answers.Callback());
  AwaitWaiters(registry, 1);
  stop.request_stop();
  doors[0].Open();
  leader.join();
  doors[1].Open();
  EXPECT_EQ(answers.Await(1), Texts{"2"});
  cache.reset();  // Before the pool: one of its threads may still be within Schedule().
}

TEST_F(RelayTest, Get_InvalidatedLoadWhoseLeaderGivesUp_TheWaiterLoads) {
  Make({});
  std::jthread leader = Get("CANCELLED", {.stop = stop.get_token()});
  doors[0].AwaitArrivals(1);
  std::jthread waiter = Get("2");
  AwaitWaiters(registry, 1);
  cache->Invalidate(1);
  stop.request_stop();
  doors[0].Open();
  leader.join();
  doors[1].Open();
  waiter.join();
  EXPECT_EQ(Text(cache->Get(1)), "2");
}

TEST_F(RelayTest, GetAll_BatchOfACallerThatGivesUp_WhoWaitsForAKeyLoadsIt) {
  Door door;
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    door.Pass();
    if (found.stop_token().stop_requested()) return absl::CancelledError("requested a stop");
    return AddTenfold(keys, found);
  });
  // It may still take what the others have loaded by the time that it looks.
  std::jthread all([&] { EXPECT_EQ(batch.GetAll({1, 2, 3}, {.stop = stop.get_token()})[0], "CANCELLED"); });
  door.AwaitArrivals(1);
  std::jthread two([&] { EXPECT_EQ(Text(batch.cache.Get(2)), "20"); });
  std::jthread three([&] { EXPECT_EQ(batch.GetAll({3, 2}), (Texts{"30", "20"})); });
  AwaitWaiters(batch.registry, 2);
  stop.request_stop();
  door.Open();
  all.join();
  two.join();
  three.join();
  EXPECT_FALSE(batch.cache.GetIfPresent(1).has_value());
}

// The other caller has all the time there is, but is busy with another key.
TEST_F(RelayTest, Get_LeaderGivesUpAndTheLongestWaiterIsBusy_AnotherOneLoads) {
  Door busy;
  IntCache mixed({.clock = &clock, .metrics = &registry},
                 [&](const int& key, LoadContext& load) -> absl::StatusOr<int> {
                   if (key == 2) {
                     busy.Pass();
                     return 2;
                   }
                   doors[loads++].Pass();
                   if (load.stop_token().stop_requested()) return absl::CancelledError("requested a stop");
                   return 1;
                 });
  std::jthread leader([&] { EXPECT_EQ(Text(mixed.Get(1, {.stop = stop.get_token()})), "CANCELLED"); });
  doors[0].AwaitArrivals(1);
  std::jthread all([&] { EXPECT_EQ(TextsOf(mixed.GetAll({2, 1})), (Texts{"2", "1"})); });
  busy.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_EQ(Text(mixed.Get(1, {.timeout = kSecond})), "1"); });
  AwaitWaiters(registry, 1);
  stop.request_stop();
  doors[0].Open();
  doors[1].Open();
  waiter.join();
  busy.Open();
}

}  // namespace
}  // namespace stockade::testing
