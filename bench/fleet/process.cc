// The processes of the rows of several processes, and the one whose instructions are counted.
//
//   bench_fleet_process hits COUNT URL     COUNT hits of one key
//   bench_fleet_process cold THREADS URL   for each line "KEY LOAD_MS": THREADS threads get the key at once. Answers
//                                          "LOADS END ANSWERED": the number of loads, and when the last load ended and
//                                          the last thread was answered, in nanoseconds of the clock of the machine
//   bench_fleet_process locked THREADS URL the same with a lock by SET NX in place of a cache, for which all poll
//   bench_fleet_process watch 1 URL        for each line "KEY": gets the key and answers 0, and when the value is
//                                          invalidated it answers with the time; 0 in place of 1: without messages
// An empty URL: a cache without a second level.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fleet/tier_cache.h"
#include "measure/threads.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {
namespace {

constexpr int64_t kRoom = 10'000;

int64_t Now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Hit(int64_t count, const std::string& url) {
  const auto cache = MakeNumberCache(url, kRoom, {.load = [](uint64_t key) { return key; }});
  for (int64_t i = 0; i < count; ++i) KeepAlive(*cache->Get(7).value());
}

// The database.
struct Source {
  uint64_t Load(uint64_t key) {
    ++loads;
    std::this_thread::sleep_for(std::chrono::milliseconds(load_ms));
    load_end = Now();
    return key;
  }
  std::atomic<int64_t> load_ms{0};
  std::atomic<int64_t> loads{0};
  std::atomic<int64_t> load_end{0};
};

// `get` is called by `threads` threads, which begin at random within 50 ms: else those that poll would all do so at
// once.
void AnswerCold(size_t threads, Source& source, const std::function<void(uint64_t key)>& get) {
  uint64_t key = 0;
  int64_t ms = 0;
  while (std::cin >> key >> ms) {
    source.load_ms = ms;
    source.loads = 0;
    source.load_end = 0;
    std::mt19937 random(std::random_device{}());
    std::vector<int64_t> answered(threads);
    std::vector<std::jthread> callers;
    for (int64_t& moment : answered) {
      callers.emplace_back([&, key, pause = std::chrono::microseconds(random() % 50'000)] {
        std::this_thread::sleep_for(pause);
        get(key);
        moment = Now();
      });
    }
    callers.clear();
    std::cout << source.loads << ' ' << source.load_end << ' ' << *std::max_element(answered.begin(), answered.end())
              << std::endl;
  }
}

void AnswerColdByCache(size_t threads, const std::string& url) {
  Source source;
  const auto cache = MakeNumberCache(url, kRoom, {.load = [&](uint64_t key) { return source.Load(key); }});
  AnswerCold(threads, source, [&](uint64_t key) { Require(cache->Get(key).status(), "Get"); });
}

// What programs do by hand: one thread of the fleet gets a lock and loads, the others look for the value every 50 ms.
void AnswerColdByLock(size_t threads, const std::string& url) {
  Source source;
  const auto client = Require(RedisClient::Connect(url), "RedisClient");
  AnswerCold(threads, source, [&](uint64_t key) {
    const std::string value = base_internal::Concat("{bench}:value:", key);
    const std::string lock = base_internal::Concat("{bench}:lock:", key);
    for (;;) {
      if (!Require(client->Run(RedisCommand("GET").Key(value)), "GET").is_nil()) return;
      if (!Require(client->Run(RedisCommand("SET").Key(lock).Arg(1).Arg("NX").Arg("PX").Arg(10'000)), "SET").is_nil()) {
        Require(client->Run(RedisCommand("SET").Key(value).Arg(source.Load(key)).Arg("PX").Arg(3'600'000)), "SET");
        Require(client->Run(RedisCommand("DEL").Key(lock)), "DEL");
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
}

void Watch(bool messages, const std::string& url) {
  const auto cache = MakeNumberCache(url, kRoom,
                                     {.load = [](uint64_t key) { return key; },
                                      .on_removal =
                                          [](uint64_t, const CacheHandle<uint64_t>&, RemovalCause) {
                                            const int64_t removed = Now();
                                            std::cout << removed << std::endl;
                                          }},
                                     messages);
  for (uint64_t key = 0; std::cin >> key;) {
    Require(cache->Get(key).status(), "Get");
    std::cout << 0 << std::endl;
  }
}

}  // namespace
}  // namespace stockade::bench

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int64_t number = std::atoll(argv[2]);
  const std::string_view what = argv[1];
  if (what == "hits") stockade::bench::Hit(number, argv[3]);
  if (what == "cold") stockade::bench::AnswerColdByCache(static_cast<size_t>(number), argv[3]);
  if (what == "locked") stockade::bench::AnswerColdByLock(static_cast<size_t>(number), argv[3]);
  if (what == "watch") stockade::bench::Watch(number == 1, argv[3]);
  return 0;
}
