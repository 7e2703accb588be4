// What each call does in each state of a key, and what callers get when a load ends: the tables of docs/CACHE.md.

#include <gtest/gtest.h>

#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cache/subject.h"
#include "docs/document_table.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

constexpr int kOld = 40;
constexpr int kPut = 50;
CacheGetOptions AtOnce() { return {.timeout = absl::ZeroDuration()}; }

class AnswersTest : public ShapeTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, AnswersTest, ::testing::ValuesIn(Shapes()), NameOf);

// A call runs its own load.
class OwnThreadTest : public ShapeTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, OwnThreadTest, ::testing::ValuesIn(Shapes({false})), NameOf);

// Loads run on a load_executor.
class PooledTest : public ShapeTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, PooledTest, ::testing::ValuesIn(Shapes({true})), NameOf);

// A key in one of the states of the table. Values live for 10 s, are served stale for 10 s more while they are
// revalidated, and for 10 s more if loads fail. Loads are held.
struct Stage {
  Stage(const Shape& shape, absl::Duration idle_ttl)
      : subject(shape, {.ttl = absl::Seconds(10),
                        .idle_ttl = idle_ttl,
                        .refresh_ahead = 0.8,
                        .negative_ttl = absl::Seconds(10),
                        .stale_while_revalidate = absl::Seconds(10),
                        .stale_if_error = absl::Seconds(20),
                        .retry_backoff = absl::Seconds(5)}) {}
  ~Stage() { EndLoads(); }

  void PutAndAdvance(int seconds) {
    subject.Put(1, kOld);
    subject.Advance(absl::Seconds(seconds));
  }
  void LoadEnds(const absl::Status& error) {
    subject.outcome = error;
    (void)subject.Ask();
    subject.outcome = absl::OkStatus();
  }
  // A load with one caller that runs it, or has it run, and one that joins it.
  void StartLoad() {
    subject.Hold(++running);
    for (const int calls : {1, 2}) {
      pending.push_back(subject.AskLater());
      if (calls == 1) subject.AwaitLoad(running);
      subject.AwaitParked(2 * running - 2 + calls, running);
    }
  }
  double Refreshes() { return subject.Refreshes("ahead") + subject.Refreshes("stale") + subject.Refreshes("manual"); }
  double Flights() { return Metric(subject.registry, "stockade_cache_flights"); }
  double Waiting() { return Metric(subject.registry, "stockade_cache_waiters"); }
  void EndLoads() {
    for (int number = 1; number <= 5; ++number) subject.Release(number);
    SpinUntil([&] {
      subject.background.RunAll();
      return Flights() == 0;
    });
    if (background.valid()) background.get();
  }

  Subject subject;
  int running = 0;
  bool current = false;  // The last load that runs is the key's current one.
  std::vector<Pending> pending;
  std::future<void> background;
};

struct State {
  const char* row;
  void (*make)(Stage&);
  absl::Duration idle_ttl = absl::InfiniteDuration();
};

constexpr State kStates[] = {
    {"nothing", [](Stage&) {}},
    {"a fresh value", [](Stage& s) { s.PutAndAdvance(1); }},
    {"a fresh value, due for refresh", [](Stage& s) { s.PutAndAdvance(9); }},
    {"a value expired, within `stale_while_revalidate`", [](Stage& s) { s.PutAndAdvance(15); }},
    {"a value expired, within `stale_if_error`", [](Stage& s) { s.PutAndAdvance(25); }},
    {"the same, after a failed load, within `retry_backoff`",
     [](Stage& s) {
       s.PutAndAdvance(25);
       s.LoadEnds(absl::UnavailableError("down"));
     }},
    {"a value expired for good", [](Stage& s) { s.PutAndAdvance(40); }},
    {"anything, idle for `idle_ttl`",
     [](Stage& s) {
       s.PutAndAdvance(3);
       s.subject.AskNeighbours();
       s.subject.Advance(absl::Seconds(2));
     },
     absl::Seconds(4)},
    {"a cached absence", [](Stage& s) { s.LoadEnds(absl::NotFoundError("none")); }},
    {"nothing, a load runs",
     [](Stage& s) {
       s.StartLoad();
       s.current = true;
     }},
    {"a fresh value, a load runs",
     [](Stage& s) {
       s.PutAndAdvance(1);
       s.subject.Hold(s.running = 1);
       s.subject.Refresh();
       s.background = s.subject.RunBackground();
       s.subject.AwaitLoad(1);
       s.current = true;
     }},
    {"a detached load runs",
     [](Stage& s) {
       s.StartLoad();
       s.subject.Invalidate();
     }},
    {"two detached loads run",
     [](Stage& s) {
       for (int i = 0; i < 2; ++i) {
         s.StartLoad();
         s.subject.Invalidate();
       }
     }},
};

std::string Word(const Answer& answer) {
  if (answer.text == "NOT_FOUND") return "NotFound";
  return answer.text == "DEADLINE_EXCEEDED" ? "DeadlineExceeded" : answer.text;
}

// What a lookup that does not wait did, in the table's words.
std::string Looked(Stage& stage, const std::function<Answer()>& look) {
  const double stale = stage.subject.Requests("stale");
  const double refreshes = stage.Refreshes();
  std::string word = Word(look());
  if (word == std::to_string(kOld)) word = stage.subject.Requests("stale") > stale ? "stale value" : "value";
  return stage.Refreshes() > refreshes ? word + ", loads in background" : word;
}

std::string Get(Stage& stage) {
  const double flights = stage.Flights(), waiting = stage.Waiting();
  const int loads = stage.subject.Loads();
  stage.subject.Hold(loads + 1);
  Pending answer;
  const auto answered = [&] { return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  const std::string word = Looked(stage, [&]() -> Answer {
    answer = stage.subject.AskLater();
    SpinUntil([&] { return answered() || stage.Waiting() > waiting || stage.subject.Loads() > loads; });
    return answered() ? answer.get() : Answer{.text = "waits"};
  });
  if (word != "waits") return word;
  const bool joins = stage.Flights() == flights;
  EXPECT_FALSE(joins && stage.subject.Loads() > loads);
  stage.EndLoads();
  EXPECT_EQ(answer.get(), joins ? loads : loads + 1);
  EXPECT_EQ(stage.subject.Present(), joins ? loads : loads + 1);
  EXPECT_EQ(stage.subject.Loads(), joins ? loads : loads + 1);
  return joins ? "joins" : stage.running == 2 ? "waits for one to end, loads" : "loads";
}

std::string GetAtOnce(Stage& stage) {
  return Looked(stage, [&] { return stage.subject.Ask(1, AtOnce()); });
}

std::string GetIfPresent(Stage& stage) {
  return Looked(stage, [&] { return stage.subject.Present(); });
}

std::string Peek(Stage& stage) {
  const double hits = stage.subject.Requests("hit"), misses = stage.subject.Requests("miss");
  const double refreshes = stage.Refreshes(), flights = stage.Flights();
  const auto [answer, source] = stage.subject.Peek();
  EXPECT_EQ(stage.subject.Requests("hit"), hits);
  EXPECT_EQ(stage.subject.Requests("miss"), misses);
  EXPECT_EQ(stage.Refreshes(), refreshes);
  EXPECT_EQ(stage.Flights(), flights);
  if (answer != kOld) return answer.text;
  return source == CacheSource::kStale ? "stale value" : "value";
}

std::string Refresh(Stage& stage) {
  const double refreshes = stage.Refreshes();
  const int loads = stage.subject.Loads();
  for (int i = 0; i < 3; ++i) stage.subject.Refresh();
  EXPECT_LE(stage.Refreshes(), refreshes + 1) << "one load for all";
  const bool refreshed = stage.Refreshes() > refreshes;
  EXPECT_EQ(stage.subject.Loads(), loads);
  stage.EndLoads();
  EXPECT_EQ(stage.subject.Loads(), loads + refreshed);
  EXPECT_EQ(stage.subject.Present(), loads + refreshed);
  if (!refreshed) return "-";
  return stage.running == 2 ? "loads in background, after one ends" : "loads in background";
}

std::string Put(Stage& stage, bool many) {
  const std::string word = stage.subject.size() > 0 ? "replaces" : "stores";
  many ? stage.subject.PutAll({{1, kOld}, {1, kPut}}) : stage.subject.Put(1, kPut);
  EXPECT_EQ(stage.subject.size(), 1);
  EXPECT_EQ(stage.subject.Ask(1, AtOnce()), kPut);
  // The last caller has joined the load and does not run it.
  if (stage.current && !stage.pending.empty()) {
    EXPECT_EQ(stage.pending.back().get(), kPut);
    stage.pending.pop_back();
  }
  stage.EndLoads();
  for (size_t i = 0; i < stage.pending.size(); ++i) {
    EXPECT_EQ(stage.pending[i].get(), stage.current ? kPut : static_cast<int>(i / 2) + 1);
  }
  EXPECT_EQ(stage.subject.Present(), kPut);
  return stage.current ? word + ", answers the load" : word;
}

std::string Invalidated(Stage& stage, void (*invalidate)(Subject& subject)) {
  const bool had = stage.subject.size() > 0;
  invalidate(stage.subject);
  EXPECT_EQ(stage.subject.size(), 0);
  EXPECT_EQ(stage.subject.Ask(1, AtOnce()), "DEADLINE_EXCEEDED");
  stage.EndLoads();
  for (size_t i = 0; i < stage.pending.size(); ++i) EXPECT_EQ(stage.pending[i].get(), static_cast<int>(i / 2) + 1);
  EXPECT_EQ(stage.subject.Present(), "nothing");
  EXPECT_EQ(stage.subject.weight(), 0);
  EXPECT_EQ(stage.subject.Ask(), stage.subject.Loads());
  if (!stage.current) return had ? "removes" : "-";
  return had ? "removes, detaches the load" : "detaches the load";
}

TEST_P(AnswersTest, EachCall_InEachState_DoesWhatItsTableSays) {
  const std::function<std::string(Stage&)> calls[] = {
      Get,
      GetAtOnce,
      GetIfPresent,
      Peek,
      Refresh,
      [](Stage& stage) { return Put(stage, false); },
      [](Stage& stage) { return Invalidated(stage, [](Subject& subject) { subject.Invalidate(); }); },
  };
  const std::function<std::string(Stage&)> variants[] = {
      [](Stage& stage) { return Put(stage, true); },
      [](Stage& stage) { return Invalidated(stage, [](Subject& subject) {
                           subject.InvalidateKeys({7, 1, 1});
                         }); },
      [](Stage& stage) { return Invalidated(stage, [](Subject& subject) { subject.InvalidateAll(); }); },
  };
  std::vector<std::string> found = {
      "| the key has | `Get` | `Get`, timeout 0 | `GetIfPresent` | `Peek` | `Refresh` | `Put` | `Invalidate` |",
      "| --- | --- | --- | --- | --- | --- | --- | --- |"};
  for (const State& state : kStates) {
    std::string row = std::string("| ") + state.row + " |";
    for (const auto& call : calls) {
      SCOPED_TRACE(row);
      Stage stage(GetParam(), state.idle_ttl);
      state.make(stage);
      row += " " + call(stage) + " |";
    }
    found.push_back(row);
    const std::vector<std::string> cells = absl::StrSplit(row, " | ");
    const std::string put = cells[cells.size() - 2];
    const std::string invalidate(absl::StripSuffix(cells.back(), " |"));
    const std::string expected[] = {put, invalidate, invalidate};
    for (size_t i = 0; i < std::size(variants); ++i) {
      Stage stage(GetParam(), state.idle_ttl);
      state.make(stage);
      EXPECT_EQ(variants[i](stage), expected[i]) << "PutAll(), InvalidateKeys() and InvalidateAll() do the same";
    }
  }
  EXPECT_EQ(found, DocumentedTable("docs/CACHE.md", "| the key has"));
}

TEST_P(AnswersTest, Get_MissingAndThenThere_OneLoadAndEachCallCountsOnce) {
  Subject subject(GetParam());
  EXPECT_EQ(subject.Ask(), 1);
  EXPECT_EQ(subject.Ask(), 1);
  EXPECT_EQ(subject.Present(), 1);
  EXPECT_EQ(subject.Loads(), 1);
  EXPECT_EQ(subject.Requests("miss"), 1);
  EXPECT_EQ(subject.Requests("hit"), 2);
  subject.AwaitNoFlights();
  EXPECT_EQ(subject.Ended("success"), 1);
}

TEST_P(AnswersTest, Get_LoaderFailsOrThrows_AllWaitersGetTheErrorAndTheNextCallLoads) {
  for (const bool throws : {false, true}) {
    Subject subject(GetParam(), {.name = "broken"});
    subject.load = [&](const Load& load) -> absl::StatusOr<int> {
      if (load.number > 1) return load.number;
      if (throws) throw std::runtime_error("no such table");
      return absl::UnavailableError("no such table");
    };
    subject.Hold(1);
    std::vector<Pending> callers;
    for (int i = 0; i < 10; ++i) callers.push_back(subject.AskLater());
    subject.AwaitParked(10);
    subject.Release(1);
    for (Pending& caller : callers) {
      const Answer answer = caller.get();
      EXPECT_EQ(answer, throws ? "INTERNAL" : "UNAVAILABLE");
      EXPECT_NE(answer.status.ToString().find("no such table"), std::string::npos);
    }
    EXPECT_EQ(subject.Loads(), 1);
    EXPECT_EQ(subject.size(), 0);
    EXPECT_EQ(subject.Ask(), 2);
    subject.AwaitNoFlights();
    EXPECT_EQ(subject.Ended("error"), 1);
  }
}

TEST_P(AnswersTest, Get_WhileAnotherCallsLoadRuns_JoinsIt) {
  Subject subject(GetParam());
  subject.Hold(1);
  Pending leader = subject.AskLater();
  subject.AwaitLoad(1);
  std::vector<Pending> waiters;
  for (const Asker asker : kAskers) waiters.push_back(subject.AskLaterAs(asker, 1));
  subject.AwaitParked(1 + std::ssize(kAskers));
  EXPECT_EQ(subject.Present(), "nothing");
  subject.Release(1);
  EXPECT_EQ(leader.get(), 1);
  for (Pending& waiter : waiters) EXPECT_EQ(waiter.get(), 1);
  EXPECT_EQ(subject.Loads(), 1);
  EXPECT_EQ(subject.Requests("coalesced"), std::size(kAskers));
  EXPECT_EQ(Metric(subject.registry, "stockade_cache_wait_seconds"), std::size(kAskers) + (GetParam().pooled ? 1 : 0));
  EXPECT_EQ(Metric(subject.registry, "stockade_cache_waiters"), 0);
}

// The weigher runs after the loader has returned and before its result is stored.
TEST(FlightTest, Get_BetweenTheLoadsReturnAndItsPublication_JoinsTheFlight) {
  MetricsRegistry registry;
  Door weighing;
  std::atomic<int> loads{0};
  IntCache cache(
      {.metrics = &registry}, [&](const int&, LoadContext&) -> absl::StatusOr<int> { return ++loads; },
      [&](const int&, const int&) -> int64_t {
        weighing.Pass();
        return 1;
      });
  std::jthread leader([&] { EXPECT_EQ(**cache.Get(1), 1); });
  weighing.AwaitArrivals(1);
  std::jthread late([&] { EXPECT_EQ(**cache.Get(1), 1); });
  AwaitWaiters(registry, 1);
  weighing.Open();
  late.join();
  leader.join();
  EXPECT_EQ(loads, 1);
}

TEST(FlightTest, Get_OfDifferentKeys_LoadsThemAtTheSameTime) {
  Subject subject({});
  subject.load = [](const Load& load) { return load.key; };
  std::vector<Pending> callers;
  for (int number = 1; number <= 8; ++number) subject.Hold(number);
  for (int key = 1; key <= 8; ++key) callers.push_back(subject.AskLater(key));
  subject.AwaitLoad(8);
  for (int number = 1; number <= 8; ++number) subject.Release(number);
  for (int key = 1; key <= 8; ++key) EXPECT_EQ(callers[key - 1].get(), key);
}

TEST(FlightTest, Get_AThousandCallersOnAColdKey_OneLoadAndEqualAnswers) {
  const int calls = static_cast<int>(Scaled(1'000, 1'000));
  for (const Shape shape : {Shape{Asker::kGet}, Shape{Asker::kGetAsync, false, true}}) {
    Subject subject(shape);
    subject.Hold(1);
    std::vector<Pending> callers;
    for (int i = 0; i < calls; ++i) callers.push_back(subject.AskLater(7));
    subject.AwaitParked(calls);
    subject.Release(1);
    for (Pending& caller : callers) EXPECT_EQ(caller.get(), 1);
    EXPECT_EQ(Metric(subject.registry, "stockade_cache_waiters"), 0);
    EXPECT_EQ(subject.Loads(), 1);
    EXPECT_EQ(subject.Requests("miss"), 1);
    EXPECT_EQ(subject.Requests("coalesced"), calls - 1);
    subject.AwaitNoFlights();
  }
}

TEST_P(AnswersTest, Get_NoTimeAtAll_AnswersFromTheCacheAndLoadsNothing) {
  Subject subject(GetParam());
  for (const absl::Duration timeout : {absl::ZeroDuration(), -absl::Seconds(1)}) {
    EXPECT_EQ(subject.Ask(1, {.timeout = timeout}), "DEADLINE_EXCEEDED");
  }
  subject.Put(1, kPut);
  EXPECT_EQ(subject.Ask(1, AtOnce()), kPut);
  EXPECT_EQ(subject.Loads(), 0);
}

TEST_P(AnswersTest, Get_StoppedBefore_CancelledWithoutALoadUnlessItIsThere) {
  Subject subject(GetParam());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(subject.Ask(1, {.stop = stop.get_token()}), "CANCELLED");
  subject.Put(1, kPut);
  EXPECT_EQ(subject.Ask(1, {.stop = stop.get_token()}), kPut);
  EXPECT_EQ(subject.Loads(), 0);
}

// By its deadline, or because it is stopped.
TEST_P(AnswersTest, Get_WaiterGivesUp_LeavesAndTheLoadIsStored) {
  for (const bool stops : {false, true}) {
    Subject subject(GetParam());
    std::stop_source stop;
    subject.Hold(1);
    Pending leader = subject.AskLater();
    subject.AwaitLoad(1);
    Pending waiter = subject.AskLater(1, {.timeout = absl::Seconds(1), .stop = stop.get_token()});
    subject.AwaitParked(2);
    subject.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
    EXPECT_EQ(waiter.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    stops ? stop.request_stop() : (subject.Advance(absl::Nanoseconds(1)), true);
    EXPECT_EQ(waiter.get(), stops ? "CANCELLED" : "DEADLINE_EXCEEDED");
    subject.AwaitParked(1);
    EXPECT_EQ(subject.Loads(), 1);
    subject.Release(1);
    EXPECT_EQ(leader.get(), 1);
    EXPECT_EQ(subject.Present(), 1);
    EXPECT_EQ(subject.Loads(), 1);
  }
}

TEST_P(PooledTest, Get_LeaderGivesUp_LeavesAndTheLoadGoesOnForOthers) {
  for (const bool stops : {false, true}) {
    Subject subject(GetParam());
    std::stop_source stop;
    const std::thread::id self = std::this_thread::get_id();
    subject.load = [&](const Load& load) {
      EXPECT_NE(std::this_thread::get_id(), self);
      EXPECT_EQ(load.terms.deadline(), Instant::InfiniteFuture()) << "later callers may join";
      EXPECT_FALSE(load.terms.stop_token().stop_possible());
      return load.number;
    };
    subject.Hold(1);
    Pending leader = subject.AskLater(1, {.timeout = absl::Seconds(1), .stop = stop.get_token()});
    subject.AwaitLoad(1);
    Pending patient = subject.AskLater();
    subject.AwaitParked(2);
    stops ? stop.request_stop() : (subject.Advance(absl::Seconds(1)), true);
    EXPECT_EQ(leader.get(), stops ? "CANCELLED" : "DEADLINE_EXCEEDED");
    subject.Release(1);
    EXPECT_EQ(patient.get(), 1);
    EXPECT_EQ(subject.Ask(1, AtOnce()), 1);
    EXPECT_EQ(subject.Loads(), 1);
  }
}

TEST_P(OwnThreadTest, Get_ItsDeadlineAndStopToken_ReachTheLoader) {
  Subject subject(GetParam(), {.load_hard_timeout = absl::Seconds(5)});
  std::stop_source stop;
  absl::Duration wanted = absl::Seconds(3);
  const std::thread::id self = std::this_thread::get_id();
  subject.load = [&](const Load& load) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(load.terms.deadline(), subject.clock.Now() + wanted);
    EXPECT_EQ(load.terms.stop_token(), stop.get_token());
    subject.Advance(absl::Seconds(1));
    EXPECT_EQ(load.terms.time_left(), wanted - absl::Seconds(1));
    return load.number;
  };
  EXPECT_EQ(subject.Ask(1, {.timeout = absl::Seconds(3), .stop = stop.get_token()}), 1);
  wanted = absl::Seconds(5);
  EXPECT_EQ(subject.Ask(2, {.stop = stop.get_token()}), 2);
}

// Only the loader itself can end a load on the caller's thread early.
TEST_P(OwnThreadTest, Get_LeaderGivesUpButItsLoaderHasAValue_AllCallersGetIt) {
  Subject subject(GetParam());
  std::stop_source stop;
  subject.load = [&](const Load& load) {
    stop.request_stop();
    EXPECT_TRUE(load.terms.stop_token().stop_requested());
    return load.number;
  };
  EXPECT_EQ(subject.Ask(1, {.stop = stop.get_token()}), 1);
  EXPECT_EQ(subject.Present(), 1);
}

TEST_P(AnswersTest, Loader_AsksForItsOwnKey_FailedPreconditionAndForAnotherWorks) {
  for (const Asker asker : kAskers) {
    if (IsAsync(asker) && !GetParam().pooled) continue;  // Its load would wait in the background.
    Subject subject(GetParam());
    subject.load = [&](const Load& load) {
      if (load.key == 1) {
        EXPECT_EQ(subject.AskAs(asker, 1), "FAILED_PRECONDITION");
        EXPECT_EQ(subject.AskAs(asker, 2), 2);
      }
      return load.key;
    };
    EXPECT_EQ(subject.Ask(), 1);
    EXPECT_EQ(subject.Loads(), 2);
  }
}

TEST(NoLoaderTest, EachCall_WouldLoad_FailedPreconditionOrNothing) {
  ManualClock clock;
  MetricsRegistry registry;
  AsyncAnswers answers;
  ThreadPool pool(1);
  IntCache cache(
      {.name = "bare", .ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = &registry});
  const absl::Status refused = cache.Get(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.ToString().find("bare"), std::string::npos);
  cache.GetAsync(1, pool, answers.Callback());
  EXPECT_EQ(answers.Await(1), Texts{"FAILED_PRECONDITION"});
  cache.Put(1, 10);
  EXPECT_EQ(TextsOf(cache.GetAll({1, 2})), (Texts{"10", "FAILED_PRECONDITION"}));
  EXPECT_EQ(Text(cache.Get(1)), "10");
  cache.Refresh(1);
  cache.Refresh(2);
  clock.Advance(absl::Seconds(6));
  EXPECT_EQ(Text(cache.Get(1)), "10") << "due for a refresh, but no loader";
  EXPECT_EQ(Metric(registry, "stockade_cache_flights"), 0);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "manual"), 0);
  EXPECT_EQ(Metric(registry, "stockade_cache_refreshes_total", "ahead"), 0);
}

TEST(RefreshTest, Refresh_ByManyAtOnce_LoadsOnce) {
  Subject subject({});
  subject.Put(1, kOld);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 50; ++n) subject.Refresh();
      });
    }
  }
  subject.background.RunAll();
  EXPECT_EQ(subject.Loads(), 1);
  EXPECT_EQ(subject.Refreshes("manual"), 1);
  EXPECT_EQ(subject.Refreshes("ahead"), 0);
  EXPECT_EQ(subject.Ask(), 1);
}

TEST_P(AnswersTest, Refresh_Fails_TheOldValueStaysForItsTimeAndTheNextCallLoads) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(10)});
  const absl::Status down = absl::UnavailableError("down");
  subject.outcome = down;
  subject.Put(1, kOld);
  subject.Advance(absl::Seconds(5));
  for (const int key : {1, 2}) subject.Refresh(key);
  subject.background.RunAll();
  EXPECT_EQ(subject.Loads(), 2);
  EXPECT_EQ(subject.size(), 1);
  subject.Advance(absl::Seconds(5) - absl::Nanoseconds(1));
  EXPECT_EQ(subject.Ask(), kOld);
  subject.Advance(absl::Nanoseconds(1));  // The failure has not made it live longer.
  EXPECT_EQ(subject.Ask(), down);
  subject.outcome = absl::OkStatus();
  EXPECT_EQ(subject.Ask(2), 4);
}

TEST_P(AnswersTest, Refresh_OfAnAbsence_LoadsAndItIsServedMeanwhile) {
  Subject subject(GetParam(), {.negative_ttl = absl::Hours(1)});
  subject.outcome = absl::NotFoundError("no row");
  EXPECT_EQ(subject.Ask(), subject.outcome);
  subject.Refresh();
  EXPECT_EQ(subject.Ask(), subject.outcome);
  subject.outcome = absl::OkStatus();
  subject.background.RunAll();
  EXPECT_EQ(subject.Ask(), 2);
}

// A load that has not begun will see what is new.
TEST_P(AnswersTest, Refresh_HasNotBegunWhenItsKeyIsInvalidated_ItsResultIsStored) {
  for (int way = 0; way < 3; ++way) {
    Subject subject(GetParam());
    subject.entry.tags = {"shoes"};
    subject.Put(1, kOld, {.tags = {"shoes"}});
    subject.Refresh();
    if (way == 0) subject.Invalidate();
    if (way == 1) subject.InvalidateTag("shoes");
    if (way == 2) subject.InvalidateAll();
    EXPECT_EQ(subject.Loads(), 0);
    EXPECT_EQ(subject.Present(), "nothing");
    subject.background.RunAll();
    EXPECT_EQ(subject.Present(), 1);
  }
}

// No call waits for the refresh, so only the log has the error.
TEST(RefreshTest, Refresh_LoaderThrows_IsLogged) {
  std::string log;  // The sink is called by one thread at a time, and not after it has been replaced.
  SetLogSink([&](LogSeverity, std::string_view message) { log += std::string(message) + "\n"; });
  for (const bool batch : {false, true}) {
    ManualExecutor executor;
    IntCache::Callbacks callbacks;
    if (batch) {
      callbacks.load_all = [](const std::vector<int>&, IntBatch&) -> absl::Status { throw std::runtime_error("lost"); };
    } else {
      callbacks.load = [](const int&, LoadContext&) -> absl::StatusOr<int> { throw std::runtime_error("gone"); };
    }
    IntCache cache({.name = "r", .refresh_executor = &executor, .metrics = nullptr}, callbacks);
    // The log leaves out what is too much a second, of other tests too.
    const std::string thrown = std::string("the loader of LoadingCache 'r' threw: ") + (batch ? "lost" : "gone");
    SpinUntil([&] {
      cache.Refresh(1);
      executor.RunAll();
      return log.find(thrown + "; a refresh fails\n") != log.npos;
    });
  }
  SetLogSink({});
}

}  // namespace
}  // namespace stockade::testing
