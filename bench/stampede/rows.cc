// All callers ask for one cold key at once. A load ends only after all of them have come, and some time more in which
// they reach their wait.
#include "stampede/rows.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "stampede/caches.h"
#include "stockade/base/log.h"

namespace stockade::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr uint64_t kKey = 7;
constexpr uint64_t kValue = 42;

struct Outcome {
  int64_t loads = 0;
  double last_answer_ms = 0;  // After the end of the first load.
};

template <typename Cache>
Outcome Stampede(int64_t callers, std::chrono::milliseconds load_time) {
  std::latch arrived(callers);
  std::atomic<int64_t> loads = 0;
  SteadyClock::time_point load_end;  // Written by the first load, before its end.
  Cache cache([&] {
    const bool first = loads.fetch_add(1) == 0;
    arrived.wait();
    std::this_thread::sleep_for(load_time);
    if (first) load_end = SteadyClock::now();
    return kValue;
  });

  std::vector<SteadyClock::time_point> answered(static_cast<size_t>(callers));
  std::vector<std::thread> threads;
  threads.reserve(answered.size());
  for (auto& moment : answered) {
    threads.emplace_back([&] {
      arrived.count_down();
      const uint64_t value = cache.Get(kKey);
      moment = SteadyClock::now();
      if (value != kValue) internal::Fatal("bench: a caller got another value than was loaded");
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto last = *std::max_element(answered.begin(), answered.end());
  return {.loads = loads, .last_answer_ms = std::chrono::duration<double, std::milli>(last - load_end).count()};
}

template <typename Cache>
Measurement Loads(int64_t callers, std::chrono::milliseconds load_time) {
  return [=] { return static_cast<double>(Stampede<Cache>(callers, load_time).loads); };
}

template <typename Cache>
Measurement LastAnswer(int64_t callers, std::chrono::milliseconds load_time) {
  return [=] { return Stampede<Cache>(callers, load_time).last_answer_ms; };
}

template <typename Peer>
void AddLoads(Suite& suite, const char* peer) {
  suite.Add({.name = "loads, 1,000 callers of a cold key",
             .unit = "loads",
             .peer = peer,
             .target = Target::ValueExactly(1),
             .prepare = [](const Scale& scale) -> Contestants {
               const int64_t callers = scale.Sized(20, 1000);
               const std::chrono::milliseconds load_time(scale.Sized(1, 20));
               return {Loads<OurCache>(callers, load_time), Loads<Peer>(callers, load_time)};
             }});
}

}  // namespace

void AddStampedeRows(Suite& suite) {
  AddLoads<UnprotectedCache>(suite, "no protection");
  AddLoads<MutexCache>(suite, "one mutex around the cache");
  suite.Add({.name = "last answer after the load, 10,000 waiters",
             .unit = "ms",
             .peer = "one mutex around the cache",
             .target = Target::ValueAtMost(50),
             .prepare = [](const Scale& scale) -> Contestants {
               const int64_t callers = scale.Sized(20, 10'000);
               const std::chrono::milliseconds load_time(scale.Sized(1, 200));
               return {LastAnswer<OurCache>(callers, load_time), LastAnswer<MutexCache>(callers, load_time)};
             }});
}

}  // namespace stockade::bench
