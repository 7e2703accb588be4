// Calls that end before their load does, and loads that are handed on because the call that ran them gave up.

#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/subject.h"

namespace stockade::testing {
namespace {

constexpr absl::Duration kOneSecond = absl::Seconds(1);

class EndsTest : public ShapeTest {
 protected:
  // The value of the key 1, which was 50, has just expired. Refreshes run on threads of their own.
  std::unique_ptr<Subject> MakeExpired(LoadingCacheOptions options) {
    options.ttl = absl::Seconds(100);
    options.stale_if_error = absl::Hours(1);
    options.refresh_executor = &refreshes;
    auto subject = std::make_unique<Subject>(GetParam(), options);
    subject->Put(1, 50);
    subject->Advance(absl::Seconds(100));
    return subject;
  }

  ThreadPool refreshes{2};
};
INSTANTIATE_TEST_SUITE_P(Shapes, EndsTest, ::testing::ValuesIn(Shapes()), NameOf);

// Loads run on an executor that the test may hold up.
class QueuedTest : public ShapeTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, QueuedTest, ::testing::ValuesIn(Shapes({true})), NameOf);

// The leader is alone, or another call waits, or a third call asks before the load ends.
TEST_P(EndsTest, HardTimeout_LoadTakesTooLong_KeyIsFreeAndWhatComesLateIsRefused) {
  for (const int asks : {1, 2, 3}) {
    Subject subject(GetParam(), {.load_hard_timeout = kOneSecond});
    const Instant begun = subject.clock.Now();
    subject.load = [&](const Load& load) {  // Load 2 begins one second after load 1.
      EXPECT_EQ(load.terms.deadline(), begun + load.number * kOneSecond);
      return load.number;
    };
    subject.Hold(1);
    Pending leader = subject.AskLater(), waiter;
    subject.AwaitLoad(1);
    if (asks > 1) waiter = subject.AskLater();
    subject.AwaitParked(asks > 1 ? 2 : 1);
    subject.Advance(kOneSecond);
    if (asks > 1) EXPECT_EQ(waiter.get(), "DEADLINE_EXCEEDED");
    if (GetParam().pooled) EXPECT_EQ(leader.get(), "DEADLINE_EXCEEDED");
    if (asks > 2) EXPECT_EQ(subject.Ask(), 2);
    subject.Release(1);
    if (!GetParam().pooled) EXPECT_EQ(leader.get(), "DEADLINE_EXCEEDED");
    subject.AwaitNoFlights();
    EXPECT_EQ(subject.Present(), asks > 2 ? "2" : "nothing");
    EXPECT_EQ(subject.size(), asks > 2);
    EXPECT_EQ(subject.Loads(), asks > 2 ? 2 : 1);
    EXPECT_EQ(subject.Ended("timeout"), 1);
    EXPECT_EQ(subject.Ended("success"), asks > 2);
  }
}

TEST_P(EndsTest, HardTimeout_LoadEndsJustInTime_IsStored) {
  Subject subject(GetParam(), {.load_hard_timeout = kOneSecond});
  subject.Hold(1);
  Pending leader = subject.AskLater();
  subject.AwaitLoad(1);
  subject.Advance(kOneSecond - absl::Nanoseconds(1));
  subject.Release(1);
  EXPECT_EQ(leader.get(), 1);
  EXPECT_EQ(subject.Present(), 1);
}

TEST_P(EndsTest, HardTimeout_OldValueForAnOutage_StandsInAndTheNextTryWaitsForTheBackoff) {
  const auto subject = MakeExpired({.retry_backoff = absl::Seconds(10), .load_hard_timeout = kOneSecond});
  subject->Hold(1);
  Pending leader = subject->AskLater();
  subject->AwaitLoad(1);
  Pending waiter = subject->AskLater();
  subject->AwaitParked(2);
  subject->Advance(kOneSecond);
  EXPECT_EQ(waiter.get(), 50);
  EXPECT_EQ(subject->Ask(), 50);
  EXPECT_EQ(subject->Loads(), 1) << "not before the back-off is over";
  subject->Release(1);
  EXPECT_EQ(leader.get(), 50);
  subject->Advance(absl::Seconds(10));
  EXPECT_EQ(subject->Ask(), 2);
  EXPECT_EQ(subject->Requests("stale"), 3);
}

TEST_P(EndsTest, HardTimeout_TwoLoadsHang_TheThirdWaitsAndIsGivenUpAfterTheSameTime) {
  Subject subject(GetParam(), {.load_hard_timeout = kOneSecond});
  for (const int number : {1, 2, 3}) subject.Hold(number);
  std::vector<Pending> hung;
  for (const int number : {1, 2}) {
    hung.push_back(subject.AskLater());
    subject.AwaitLoad(number);
    subject.Advance(kOneSecond);
    AwaitWaiters(subject.registry, 0);
  }
  Pending third = subject.AskLater();
  AwaitWaiters(subject.registry, 1);
  EXPECT_EQ(subject.Loads(), 2);
  subject.Advance(kOneSecond);
  EXPECT_EQ(third.get(), "DEADLINE_EXCEEDED");
  EXPECT_EQ(subject.Loads(), 2);
  // As soon as one of them has ended there is room for the next.
  Instant deadline;
  subject.load = [&](const Load& load) {
    if (load.number == 3) deadline = load.terms.deadline();
    return load.number;
  };
  Pending fourth = subject.AskLater();
  AwaitWaiters(subject.registry, 1);
  subject.Release(1);
  subject.AwaitLoad(3);
  subject.Release(3);
  EXPECT_EQ(fourth.get(), 3);
  EXPECT_EQ(deadline, subject.clock.Now() + kOneSecond);
  subject.Release(2);
  for (Pending& call : hung) EXPECT_EQ(call.get(), "DEADLINE_EXCEEDED");
  subject.AwaitNoFlights();
  EXPECT_EQ(subject.Ask(), 3);
  EXPECT_EQ(subject.Ended("timeout"), 2);
}

TEST_P(EndsTest, HardTimeout_OfARefresh_TheOldValueStaysAndTheKeyIsFree) {
  Subject subject(GetParam(), {.load_hard_timeout = kOneSecond, .refresh_executor = &refreshes});
  subject.Hold(1);
  subject.Put(1, 50);
  subject.Refresh();
  subject.AwaitLoad(1);
  subject.Advance(kOneSecond);
  EXPECT_EQ(subject.Ask(), 50);
  subject.Refresh();
  SpinUntil([&] { return subject.Ask() == 2; });
  subject.Release(1);
  subject.AwaitNoFlights();
  EXPECT_EQ(subject.Ask(), 2);
}

TEST_P(QueuedTest, HardTimeout_ExecutorIsFull_GivenUpAfterTheSameTime) {
  ManualExecutor full;
  int loads = 0;
  {
    Subject subject(GetParam(), {.load_hard_timeout = kOneSecond, .load_executor = &full});
    subject.load = [&](const Load&) { return ++loads; };
    Pending caller = subject.AskLater();
    subject.AwaitParked(1);
    subject.Advance(kOneSecond);
    EXPECT_EQ(caller.get(), "DEADLINE_EXCEEDED");
  }
  full.RunAll();
  EXPECT_EQ(loads, 0);
}

TEST_P(EndsTest, SoftTimeout_OldValueForAnOutage_IsTheAnswerAndTheLoadIsStored) {
  const auto subject = MakeExpired({.load_soft_timeout = kOneSecond});
  subject->Hold(1);
  Pending leader = subject->AskLater();
  subject->AwaitLoad(1);
  Pending waiter = subject->AskLater();
  AwaitWaiters(subject->registry, 2);
  subject->Advance(kOneSecond - absl::Nanoseconds(1));
  EXPECT_EQ(Metric(subject->registry, "stockade_cache_waiters"), 2);
  subject->Advance(absl::Nanoseconds(1));
  EXPECT_EQ(leader.get(), 50);
  EXPECT_EQ(waiter.get(), 50);
  EXPECT_EQ(subject->Requests("stale"), 2);
  subject->Release(1);
  subject->AwaitNoFlights();
  EXPECT_EQ(subject->Ask(), 1);
  EXPECT_EQ(subject->Loads(), 1);
}

TEST_P(EndsTest, SoftTimeout_LoadIsInTime_ItsResultIsTheAnswer) {
  const auto subject = MakeExpired({.load_soft_timeout = kOneSecond});
  EXPECT_EQ(subject->Ask(), 1);
}

TEST_P(EndsTest, SoftTimeout_OwnDeadlineIsFirst_DeadlineExceeded) {
  const auto subject = MakeExpired({.load_soft_timeout = absl::Seconds(5)});
  subject->Hold(1);
  Pending leader = subject->AskLater(1, {.timeout = kOneSecond});
  subject->AwaitLoad(1);
  AwaitWaiters(subject->registry, 1);
  subject->Advance(kOneSecond);
  EXPECT_EQ(leader.get(), "DEADLINE_EXCEEDED");
  subject->Release(1);
}

// There is none, or it was invalidated.
TEST_P(EndsTest, SoftTimeout_NoOldValue_WaitsForTheLoad) {
  for (const bool invalidated : {false, true}) {
    const auto subject = MakeExpired({.load_soft_timeout = kOneSecond});
    const int key = invalidated ? 1 : 2;
    subject->Hold(1);
    Pending leader = subject->AskLater(key);
    subject->AwaitLoad(1);
    Pending waiter = subject->AskLater(key, {.timeout = absl::Seconds(3)});
    AwaitWaiters(subject->registry, invalidated || GetParam().pooled ? 2 : 1);
    subject->Invalidate();
    subject->Advance(absl::Seconds(2));
    EXPECT_EQ(waiter.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    subject->Advance(kOneSecond);
    EXPECT_EQ(waiter.get(), "DEADLINE_EXCEEDED");
    subject->Release(1);
    EXPECT_EQ(leader.get(), 1);
  }
}

TEST_P(EndsTest, Get_ManyDeadlines_EachLeavesOnItsOwn) {
  Subject subject(GetParam());
  subject.Hold(1);
  Pending leader = subject.AskLater();
  subject.AwaitLoad(1);
  std::vector<Pending> callers;
  for (const int seconds : {3, 1, 2}) callers.push_back(subject.AskLater(1, {.timeout = absl::Seconds(seconds)}));
  subject.AwaitParked(4);
  int parked = 4;
  for (const int first : {1, 2, 0}) {
    subject.Advance(kOneSecond);
    EXPECT_EQ(callers[first].get(), "DEADLINE_EXCEEDED");
    subject.AwaitParked(--parked);
  }
  subject.Release(1);
  EXPECT_EQ(leader.get(), 1);
}

// By its deadline, or because it is stopped.
TEST_P(QueuedTest, QueuedLoad_AllWaitersHaveLeft_IsNotRun) {
  for (const bool stops : {false, true}) {
    ManualExecutor queue;
    Subject subject(GetParam(), {.load_executor = &queue});
    std::stop_source stop;
    Pending caller = subject.AskLater(1, {.timeout = kOneSecond, .stop = stop.get_token()});
    subject.AwaitParked(1);
    stops ? stop.request_stop() : (subject.Advance(kOneSecond), true);
    EXPECT_EQ(caller.get(), stops ? "CANCELLED" : "DEADLINE_EXCEEDED");
    queue.RunAll();
    EXPECT_EQ(subject.Loads(), 0) << "no caller waits for it";
    EXPECT_EQ(Metric(subject.registry, "stockade_cache_flights"), 0);
    const size_t before = queue.scheduled();
    Pending next = subject.AskLater();
    SpinUntil([&] { return queue.scheduled() > before; });
    queue.RunAll();
    EXPECT_EQ(next.get(), 1);
  }
}

// Load n returns errors[n] if that is set, the reason if its caller gave up, and otherwise n. Each test holds the next
// load until the leader has its answer, because a leader that is late may return the next load's value.
class RelayTest : public ShapeTest {
 protected:
  void Make(LoadingCacheOptions options = {}) {
    subject = std::make_unique<Subject>(GetParam(), options);
    subject->load = [this](const Load& load) -> absl::StatusOr<int> {
      deadlines.at(load.number) = load.terms.deadline();
      if (!errors.at(load.number).ok()) return errors[load.number];
      if (load.terms.stop_token().stop_requested()) return absl::CancelledError("requested a stop");
      if (load.terms.time_left() == absl::ZeroDuration()) return absl::DeadlineExceededError("no time left");
      return load.number;
    };
  }
  // Its load is held.
  Pending Lead(const CacheGetOptions& options) {
    subject->Hold(1);
    Pending leader = subject->AskLater(1, options);
    subject->AwaitLoad(1);
    return leader;
  }

  std::vector<Instant> deadlines{5};
  std::vector<absl::Status> errors{5};
  std::stop_source stop;
  std::unique_ptr<Subject> subject;
};
INSTANTIATE_TEST_SUITE_P(Shapes, RelayTest, ::testing::ValuesIn(Shapes({false})), NameOf);

TEST_P(RelayTest, Get_LeaderIsStopped_ItAloneIsCancelledAndTheWaiterLoads) {
  for (const Asker asker : kAskers) {
    for (const bool invalidated : {false, true}) {
      Make();
      stop = std::stop_source();
      Pending leader = Lead({.stop = stop.get_token()});
      Pending waiter = subject->AskLaterAs(asker, 1);
      subject->AwaitParked(2);
      if (invalidated) subject->Invalidate();
      stop.request_stop();
      subject->Hold(2);
      subject->Release(1);
      EXPECT_EQ(leader.get(), "CANCELLED");
      subject->Release(2);
      subject->background.RunAll();  // The load of a GetAsync().
      EXPECT_EQ(waiter.get(), 2);
      EXPECT_EQ(subject->Ask(), 2);
      EXPECT_EQ(subject->Loads(), 2);
      // The waiter of an invalidated load starts the next one.
      EXPECT_EQ(subject->Requests("coalesced"), !invalidated);
      EXPECT_EQ(subject->Requests("miss"), 1 + invalidated);
      EXPECT_EQ(Metric(subject->registry, "stockade_cache_wait_seconds"), 1);
    }
  }
}

TEST_P(RelayTest, Get_LeadersDeadlinePasses_ItAloneGetsThatAndTheLongestWaiterLoads) {
  Make({.load_hard_timeout = absl::Hours(1)});
  const Instant begun = subject->clock.Now();
  Pending leader = Lead({.timeout = kOneSecond});
  std::vector<Pending> waiters;
  for (const int seconds : {5, 60, 10, 2}) {
    waiters.push_back(subject->AskLater(1, {.timeout = absl::Seconds(seconds)}));
  }
  subject->AwaitParked(5);
  subject->Advance(kOneSecond);
  subject->Hold(2);
  subject->Release(1);
  EXPECT_EQ(leader.get(), "DEADLINE_EXCEEDED");
  subject->Release(2);
  for (Pending& waiter : waiters) EXPECT_EQ(waiter.get(), 2);
  EXPECT_EQ(deadlines[2], begun + absl::Seconds(60));
  EXPECT_EQ(subject->Loads(), 2);
}

TEST_P(RelayTest, Get_TwentyWaitersOfDifferentDeadlines_OneMoreLoadServesAllThatStillWait) {
  Make();
  Pending leader = Lead({.timeout = kOneSecond});
  std::vector<Pending> short_ones, long_ones;
  for (int i = 0; i < 10; ++i) short_ones.push_back(subject->AskLater(1, {.timeout = absl::Seconds(2 + i)}));
  for (int i = 0; i < 10; ++i) long_ones.push_back(subject->AskLater(1, {.timeout = absl::Seconds(20 + i)}));
  subject->AwaitParked(21);
  subject->Advance(kOneSecond);
  subject->Hold(2);
  subject->Release(1);
  EXPECT_EQ(leader.get(), "DEADLINE_EXCEEDED");
  subject->AwaitLoad(2);
  subject->Advance(absl::Seconds(10));
  for (Pending& waiter : short_ones) EXPECT_EQ(waiter.get(), "DEADLINE_EXCEEDED");
  subject->Release(2);
  for (Pending& waiter : long_ones) EXPECT_EQ(waiter.get(), 2);
  EXPECT_EQ(subject->Loads(), 2);
}

TEST_P(RelayTest, Get_NextRunnerGivesUpToo_TheOneAfterItLoads) {
  Make();
  std::stop_source second_stop;
  Pending first = Lead({.stop = stop.get_token()});
  Pending second = subject->AskLater(1, {.stop = second_stop.get_token()});
  subject->AwaitParked(2);
  Pending third = subject->AskLater(1, {.timeout = absl::Hours(1)});
  subject->AwaitParked(3);
  stop.request_stop();
  subject->Hold(2);
  subject->Release(1);
  EXPECT_EQ(first.get(), "CANCELLED");
  subject->AwaitLoad(2);
  second_stop.request_stop();
  subject->Hold(3);
  subject->Release(2);
  EXPECT_EQ(second.get(), "CANCELLED");
  subject->Release(3);
  EXPECT_EQ(third.get(), 3);
  EXPECT_EQ(subject->Loads(), 3);
}

// The call gets its own error and no stale value, and the next call does not have to wait for a back-off.
TEST_P(RelayTest, Get_NoOtherCallWaits_TheErrorIsItsAnswerAndTheNextCallLoads) {
  for (const bool expired : {false, true}) {
    for (const bool stops : {false, true}) {
      Make({.ttl = kOneSecond, .stale_if_error = absl::Hours(1), .retry_backoff = absl::Minutes(1)});
      stop = std::stop_source();
      if (expired) subject->Put(1, 50);
      subject->Advance(absl::Seconds(2));
      Pending leader = Lead({.timeout = kOneSecond, .stop = stop.get_token()});
      stops ? stop.request_stop() : (subject->Advance(kOneSecond), true);
      subject->Release(1);
      EXPECT_EQ(leader.get(), stops ? "CANCELLED" : "DEADLINE_EXCEEDED");
      EXPECT_EQ(Metric(subject->registry, "stockade_cache_flights"), 0);
      EXPECT_EQ(subject->Ask(), 2);
    }
  }
}

TEST_P(RelayTest, Get_LoaderFailsForAnotherReason_AllCallersGetTheErrorAndItIsNotRunAgain) {
  struct OtherError {
    absl::Status error;
    bool gives_up;  // The caller gives up, but the loader fails for another reason.
  };
  for (const OtherError& other : {OtherError{absl::UnavailableError(""), true},
                                  {absl::InternalError(""), true},
                                  {absl::CancelledError(""), false},
                                  {absl::DeadlineExceededError(""), false}}) {
    Make();
    stop = std::stop_source();
    errors[1] = other.error;
    Pending leader = Lead({.timeout = kOneSecond, .stop = stop.get_token()});
    Pending waiter = subject->AskLater();
    subject->AwaitParked(2);
    if (other.gives_up) stop.request_stop();
    subject->Release(1);
    EXPECT_EQ(waiter.get(), other.error);
    EXPECT_EQ(leader.get(), other.error);
    EXPECT_EQ(subject->Loads(), 1);
  }
}

TEST(HandedOnTest, GetAll_BatchOfACallerThatGivesUp_WhoWaitsForAKeyLoadsIt) {
  Door door;
  std::stop_source stop;
  BatchCache batch({}, [&](const std::vector<int>& keys, IntBatch& found) {
    door.Pass();
    if (found.stop_token().stop_requested()) return absl::CancelledError("requested a stop");
    return AddTenfold(keys, found);
  });
  // It may return what other calls have loaded meanwhile for 2 and 3.
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

// When the refresh's task runs, a caller's thread runs the load. Then both callers give up, so only the executor can
// run the load.
TEST(HandedOnTest, Refresh_BegunByACallThatGaveUp_IsRunByItsExecutor) {
  MetricsRegistry registry;
  ManualClock clock;
  Door busy, one, three, passed;
  passed.Open();
  std::atomic<int> ones{0};
  ThreadPool pool(1);
  IntCache cache({.clock = &clock, .refresh_executor = &pool, .metrics = &registry},
                 [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
                   if (key == 3) three.Pass();
                   if (key == 3 || ++ones > 1) return key;
                   one.Pass();
                   return absl::DeadlineExceededError("");
                 });
  pool.Schedule([&] { busy.Pass(); });
  busy.AwaitArrivals(1);
  cache.Refresh(1);
  std::jthread leader([&] { EXPECT_EQ(Text(cache.Get(1, {.timeout = absl::Seconds(1)})), "DEADLINE_EXCEEDED"); });
  one.AwaitArrivals(1);
  std::jthread other([&] { (void)cache.GetAll({3, 1}, {.timeout = absl::Seconds(1)}); });
  three.AwaitArrivals(1);
  busy.Open();
  pool.Schedule([&] { passed.Pass(); });
  passed.AwaitArrivals(1);
  clock.Advance(absl::Seconds(2));
  one.Open();
  leader.join();
  three.Open();
  other.join();
  SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
  EXPECT_EQ(ones, 2);
  EXPECT_TRUE(cache.GetIfPresent(1).has_value());
}

// The executor is full. A loader of another cache runs the load on its own thread, with a deadline, and gives up.
TEST(HandedOnTest, HardTimeout_OfALoadThatWaitsAgainForItsExecutor_EndsTheWait) {
  MetricsRegistry registry;
  ManualClock clock;
  Door busy, loading;
  ThreadPool pool(1);
  pool.Schedule([&] { busy.Pass(); });
  IntCache cache({.load_hard_timeout = absl::Seconds(5), .clock = &clock, .load_executor = &pool, .metrics = &registry},
                 [&](const int&, LoadContext&) -> absl::StatusOr<int> {
                   loading.Pass();
                   return absl::DeadlineExceededError("");
                 });
  IntCache outer({.clock = &clock, .metrics = nullptr}, [&](const int&, LoadContext&) -> absl::StatusOr<int> {
    return cache.Get(1, {.timeout = absl::Seconds(1)}).status();
  });
  std::jthread waiter([&] { EXPECT_EQ(Text(cache.Get(1)), "DEADLINE_EXCEEDED"); });
  AwaitWaiters(registry, 1);
  std::jthread runner([&] { EXPECT_EQ(Text(outer.Get(1)), "DEADLINE_EXCEEDED"); });
  loading.AwaitArrivals(1);
  clock.Advance(absl::Seconds(2));
  loading.Open();
  runner.join();
  clock.Advance(absl::Seconds(5));
  waiter.join();
  busy.Open();
}

// GetAll() waits for the load of 2 without a deadline, but cannot run it while it loads 1.
TEST(HandedOnTest, Load_HandedOnWhileAGetAllLoadsAnotherKey_IsRunByWhoIsFree) {
  MetricsRegistry registry;
  ManualClock clock;
  Door one, two;
  std::atomic<int> twos{0};
  IntCache cache({.clock = &clock, .metrics = &registry}, [&](const int& key, LoadContext&) -> absl::StatusOr<int> {
    if (key == 1) one.Pass();
    if (key == 1 || ++twos > 1) return key;
    two.Pass();
    return absl::CancelledError("");
  });
  std::stop_source stop;
  std::jthread leader([&] { EXPECT_EQ(Text(cache.Get(2, {.stop = stop.get_token()})), "CANCELLED"); });
  two.AwaitArrivals(1);
  std::jthread all([&] { EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"1", "2"})); });
  one.AwaitArrivals(1);
  std::jthread waiter([&] { EXPECT_EQ(Text(cache.Get(2, {.timeout = absl::Hours(1)})), "2"); });
  AwaitWaiters(registry, 1);
  stop.request_stop();
  two.Open();
  leader.join();
  waiter.join();
  EXPECT_EQ(twos, 2);
  one.Open();
}

}  // namespace
}  // namespace stockade::testing
