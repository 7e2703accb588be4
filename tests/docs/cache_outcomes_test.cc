// The table of docs/CACHE.md, "what each call does", found out from the cache itself: each state is made, each call
// made in it, and what came of it put into the table's words.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/test_cache.h"
#include "docs/document_table.h"

namespace stockade::testing {
namespace {

constexpr int kKey = 1;
constexpr int kOld = 10;
constexpr int kPut = 20;
constexpr int kLoaded = 30;

// A cache whose loader waits at a door; 10 s to live, then 10 s stale while revalidated, then 10 s more if loads fail.
class Bench {
 public:
  ~Bench() { door.Open(); }

  double Count(const char* name) const { return Metric(registry, name); }
  double Refreshes() const {
    return Metric(registry, "stockade_cache_refreshes_total", "ahead") +
           Metric(registry, "stockade_cache_refreshes_total", "stale") +
           Metric(registry, "stockade_cache_refreshes_total", "manual");
  }
  void StartLoad() {
    cache.GetAsync(kKey, inline_executor, [this](auto answer) {
      const std::lock_guard lock(mutex);
      answers.push_back(Word(answer));
    });
    door.AwaitArrivals(++started);
  }
  std::vector<std::string> Answers() {
    const std::lock_guard lock(mutex);
    return answers;
  }
  static std::string Word(const absl::StatusOr<CacheHandle<int>>& answer) {
    if (!answer.ok()) return absl::IsNotFound(answer.status()) ? "NotFound" : "DeadlineExceeded";
    return std::to_string(**answer);
  }

  Door door;
  bool fails = false;
  bool absent = false;
  int started = 0;
  std::mutex mutex;
  std::vector<std::string> answers;  // Of the loads that were started. Guarded by mutex.
  ManualClock clock;
  MetricsRegistry registry;
  InlineExecutor inline_executor;
  ThreadPool pool{4};
  IntCache cache{{.ttl = absl::Seconds(10),
                  .refresh_ahead = 0.8,
                  .negative_ttl = absl::Seconds(10),
                  .stale_while_revalidate = absl::Seconds(10),
                  .stale_if_error = absl::Seconds(20),
                  .retry_backoff = absl::Seconds(5),
                  .clock = &clock,
                  .load_executor = &pool,
                  .refresh_executor = &pool,
                  .metrics = &registry},
                 [this](const int&, LoadContext&) -> absl::StatusOr<int> {
                   if (fails) return absl::UnavailableError("down");
                   if (absent) return absl::NotFoundError("none");
                   door.Pass();
                   return kLoaded;
                 }};
};

struct State {
  const char* row;
  std::function<void(Bench&)> make;
  int running = 0;       // Loads that do.
  bool current = false;  // The last of them still counts.
};

void PutAndWait(Bench& bench, int seconds) {
  bench.cache.Put(kKey, kOld);
  bench.clock.Advance(absl::Seconds(seconds));
}

std::vector<State> States() {
  return {
      {"nothing", [](Bench&) {}},
      {"a fresh value", [](Bench& b) { PutAndWait(b, 1); }},
      {"a fresh value, due for refresh", [](Bench& b) { PutAndWait(b, 9); }},
      {"a value expired, within `stale_while_revalidate`", [](Bench& b) { PutAndWait(b, 15); }},
      {"a value expired, within `stale_if_error`", [](Bench& b) { PutAndWait(b, 25); }},
      {"the same, after a failed load, within `retry_backoff`",
       [](Bench& b) {
         PutAndWait(b, 25);
         b.fails = true;
         (void)b.cache.Get(kKey);
         b.fails = false;
       }},
      {"a value expired for good", [](Bench& b) { PutAndWait(b, 40); }},
      {"a cached absence",
       [](Bench& b) {
         b.absent = true;
         (void)b.cache.Get(kKey);
         b.absent = false;
       }},
      {"nothing, a load runs", [](Bench& b) { b.StartLoad(); }, 1, true},
      {"a fresh value, a load runs",
       [](Bench& b) {
         PutAndWait(b, 1);
         b.cache.Refresh(kKey);
         b.door.AwaitArrivals(++b.started);
       },
       1, true},
      {"a detached load runs",
       [](Bench& b) {
         b.StartLoad();
         b.cache.Invalidate(kKey);
       },
       1},
      {"two detached loads run",
       [](Bench& b) {
         for (int i = 0; i < 2; ++i) {
           b.StartLoad();
           b.cache.Invalidate(kKey);
         }
       },
       2},
  };
}

// What a lookup did, in the table's words.
std::string Looked(Bench& bench, const State& state, const std::function<std::string()>& look) {
  const double stale = Requests(bench.registry, "stale");
  const double flights = bench.Count("stockade_cache_flights");
  const double refreshes = bench.Refreshes();
  std::string word = look();
  if (word == std::to_string(kOld)) word = Requests(bench.registry, "stale") > stale ? "stale value" : "value";
  if (bench.Refreshes() > refreshes) return word + ", loads in background";
  if (!word.empty()) return word;
  if (bench.Count("stockade_cache_flights") == flights) return "joins";
  return state.running == 2 ? "waits for one to end, loads" : "loads";
}

std::string Get(Bench& bench, const State& state, absl::Duration timeout) {
  auto word = std::make_shared<std::string>();
  return Looked(bench, state, [&] {
    bench.cache.GetAsync(kKey, bench.inline_executor, [word](auto answer) { *word = Bench::Word(answer); },
                         {.timeout = timeout});
    return *word;
  });
}

std::string GetIfPresent(Bench& bench, const State& state) {
  return Looked(bench, state, [&]() -> std::string {
    const auto present = bench.cache.GetIfPresent(kKey);
    return present.has_value() ? std::to_string(**present) : "nothing";
  });
}

std::string Refresh(Bench& bench, const State& state) {
  const double refreshes = bench.Refreshes();
  bench.cache.Refresh(kKey);
  if (bench.Refreshes() == refreshes) return "-";
  return state.running == 2 ? "loads in background, after one ends" : "loads in background";
}

// Lets all loads end; what the cache has then.
std::string InTheEnd(Bench& bench) {
  bench.door.Open();
  SpinUntil([&] { return bench.Count("stockade_cache_flights") == 0; });
  const auto present = bench.cache.GetIfPresent(kKey);
  return present.has_value() ? std::to_string(**present) : "nothing";
}

std::string Put(Bench& bench, const State& state) {
  const std::string word = bench.cache.size() > 0 ? "replaces" : "stores";
  bench.cache.Put(kKey, kPut);
  for (const std::string& answer : bench.Answers()) EXPECT_EQ(answer, std::to_string(kPut));
  EXPECT_EQ(InTheEnd(bench), std::to_string(kPut));
  return state.current ? word + ", answers the load" : word;
}

std::string Invalidate(Bench& bench, const State& state) {
  const bool had = bench.cache.size() > 0;
  bench.cache.Invalidate(kKey);
  EXPECT_EQ(bench.cache.size(), 0);
  EXPECT_EQ(InTheEnd(bench), "nothing");
  if (!state.current) return had ? "removes" : "-";
  return had ? "removes, detaches the load" : "detaches the load";
}

std::string Row(const State& state) {
  using Call = std::function<std::string(Bench&)>;
  const std::vector<Call> calls = {
      [&](Bench& b) { return Get(b, state, absl::InfiniteDuration()); },
      [&](Bench& b) { return Get(b, state, absl::ZeroDuration()); },
      [&](Bench& b) { return GetIfPresent(b, state); },
      [&](Bench& b) { return Refresh(b, state); },
      [&](Bench& b) { return Put(b, state); },
      [&](Bench& b) { return Invalidate(b, state); },
  };
  std::string row = std::string("| ") + state.row + " |";
  for (const Call& call : calls) {
    Bench bench;
    state.make(bench);
    row += " " + call(bench) + " |";
  }
  return row;
}

TEST(CacheDocumentTest, OutcomeTable_EachCallInEachState_IsWhatTheCacheDoes) {
  std::vector<std::string> found = {
      "| the key has | `Get` | `Get`, timeout 0 | `GetIfPresent` | `Refresh` | `Put` | `Invalidate` |",
      "| --- | --- | --- | --- | --- | --- | --- |"};
  for (const State& state : States()) found.push_back(Row(state));
  EXPECT_EQ(found, DocumentedTable("docs/CACHE.md", "| the key has"));
}

}  // namespace
}  // namespace stockade::testing
