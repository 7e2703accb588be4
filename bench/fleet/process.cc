// The processes of the rows of several processes, and the one whose instructions are counted.
//
//   bench_fleet_process hits COUNT URL     COUNT hits of one key
//   bench_fleet_process cold THREADS URL   for each line "KEY LOAD_MS": THREADS threads get the key at once. Answers
//                                          "LOADS END ANSWERED": the number of loads, and when the last load ended and
//                                          the last thread was answered, in nanoseconds of the clock of the machine
// An empty URL: a cache without a second level.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fleet/tier_cache.h"
#include "measure/threads.h"

namespace stockade::bench {
namespace {

constexpr int64_t kRoom = 10'000;

int64_t Now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Hit(int64_t count, const std::string& url) {
  const auto cache = MakeNumberCache(url, kRoom, [](uint64_t key) { return key; });
  for (int64_t i = 0; i < count; ++i) KeepAlive(*cache->Get(7).value());
}

void AnswerCold(size_t threads, const std::string& url) {
  std::atomic<int64_t> load_ms = 0;
  std::atomic<int64_t> loads = 0;
  std::atomic<int64_t> load_end = 0;
  const auto cache = MakeNumberCache(url, kRoom, [&](uint64_t key) {
    ++loads;
    std::this_thread::sleep_for(std::chrono::milliseconds(load_ms));
    load_end = Now();
    return key;
  });
  uint64_t key = 0;
  int64_t ms = 0;
  while (std::cin >> key >> ms) {
    load_ms = ms;
    loads = 0;
    load_end = 0;
    std::vector<int64_t> answered(threads);
    std::vector<std::jthread> callers;
    for (int64_t& moment : answered) {
      callers.emplace_back([&, key] {
        Require(cache->Get(key).status(), "Get");
        moment = Now();
      });
    }
    callers.clear();
    std::cout << loads << ' ' << load_end << ' ' << *std::max_element(answered.begin(), answered.end()) << std::endl;
  }
}

}  // namespace
}  // namespace stockade::bench

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int64_t number = std::atoll(argv[2]);
  if (std::string_view(argv[1]) == "hits") {
    stockade::bench::Hit(number, argv[3]);
  } else {
    stockade::bench::AnswerCold(static_cast<size_t>(number), argv[3]);
  }
  return 0;
}
