// All callers ask for one key at once, which is cold, or has just expired. A load ends only after all of them have
// come, and some time more in which they reach their wait.
#include "stampede/rows.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stampede/caches.h"
#include "stockade/base/log.h"

namespace stockade::bench {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kKey = 7;
constexpr uint64_t kOtherKey = 8;
constexpr uint64_t kPrice = 42;
constexpr milliseconds kLong = std::chrono::hours(1);

enum class Key { kCold, kExpired };

struct Stampede {
  Key key;
  int64_t callers;
  milliseconds load_time;
};

struct Outcome {
  int64_t loads = 0;
  double last_answer_ms = 0;  // After the end of the first load.
};

template <typename Cache>
Outcome Run(const Stampede& stampede) {
  bool warming = true;
  bool expires = false;
  std::latch warmed(stampede.callers);
  std::latch arrived(stampede.callers);
  std::atomic<int64_t> answers = 0;
  std::mutex leaving;  // Held until all are answered.
  std::atomic<int64_t> loads = 0;
  SteadyClock::time_point load_end;  // Written by the first load, before its end.
  Cache cache([&]() -> Product {
    if (warming) return {kPrice, expires ? milliseconds(1) : kLong};
    const bool first = loads.fetch_add(1) == 0;
    arrived.wait();
    std::this_thread::sleep_for(stampede.load_time);
    if (first) load_end = SteadyClock::now();
    return {kPrice, kLong};
  });
  cache.Get(kOtherKey);
  if (stampede.key == Key::kExpired) {
    expires = true;
    cache.Get(kKey);
    std::this_thread::sleep_for(milliseconds(3));
  }
  warming = false;

  std::vector<SteadyClock::time_point> answered(static_cast<size_t>(stampede.callers));
  std::unique_lock staying(leaving);
  std::vector<std::thread> threads;
  threads.reserve(answered.size());
  for (auto& moment : answered) {
    threads.emplace_back([&] {
      cache.Get(kOtherKey);
      warmed.arrive_and_wait();  // One mutex would hold up the other key, too.
      arrived.count_down();
      const uint64_t price = cache.Get(kKey);
      moment = SteadyClock::now();
      if (price != kPrice) base_internal::Fatal("bench: a caller got another value than was loaded");
      ++answers;
      const std::lock_guard left(leaving);
    });
  }
  while (answers < stampede.callers) std::this_thread::sleep_for(milliseconds(1));
  staying.unlock();
  for (std::thread& thread : threads) thread.join();
  const auto last = *std::max_element(answered.begin(), answered.end());
  return {.loads = loads, .last_answer_ms = std::chrono::duration<double, std::milli>(last - load_end).count()};
}

template <typename Cache>
Measurement Measure(const Stampede& stampede) {
  return [=](Worker&) -> Figures {
    const Outcome outcome = Run<Cache>(stampede);
    return {{"loads", static_cast<double>(outcome.loads)}, {"last_answer", outcome.last_answer_ms}};
  };
}

template <typename Peer>
void AddRows(Suite& suite, Key key, const std::string& of, const char* peer) {
  const Comparison loads = {.name = "loads, 10,000 callers of " + of,
                            .unit = "loads",
                            .peer = peer,
                            .target = "= 1 loads",
                            .counter = "loads"};
  const Comparison last_answer = {.name = "last answer after the load, 10,000 waiters on " + of,
                                  .unit = "ms",
                                  .peer = peer,
                                  .target = "<= 50 ms",
                                  .counter = "last_answer"};
  suite.AddRows({loads, last_answer}, {.prepare = [=](const Scale& scale) -> Contestants {
                  const Stampede stampede = {key, scale.Sized(20, 10'000), milliseconds(scale.Sized(1, 200))};
                  return {Measure<OurCache>(stampede), Measure<Peer>(stampede)};
                }});
}

}  // namespace

void AddStampedeRows(Suite& suite) {
  for (const auto& [key, of] : {std::pair{Key::kCold, "a cold key"}, std::pair{Key::kExpired, "an expired key"}}) {
    AddRows<UnprotectedCache>(suite, key, of, "no protection");
    AddRows<MutexCache>(suite, key, of, "one mutex around the cache");
  }
}

}  // namespace stockade::bench
