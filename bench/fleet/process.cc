// The processes of the rows of several processes, and the one whose instructions are counted.
//
//   bench_fleet_process hits COUNT URL     COUNT hits of one key
//   bench_fleet_process strict-hits COUNT URL
//                                          the same of a strict cache
//   bench_fleet_process cold THREADS URL   for each line "KEY LOAD_MS": THREADS threads get the key at once. Answers
//                                          "LOADS END ANSWERED": the number of loads, and when the last load ended and
//                                          the last thread was answered, in nanoseconds of the clock of the machine
//   bench_fleet_process locked THREADS URL the same by hand in place of a cache: hiredis, a lock by SET NX, and polling
//   bench_fleet_process watch 1 URL        for each line "KEY": gets the key and answers 0, and when the value is
//                                          invalidated it answers with the time; 0 in place of 1: without messages
//   bench_fleet_process keep COUNT URL     for each line "VALUE", which is what the source has from now on: answers 0
//                                          when COUNT keys are in memory, and every (COUNT / 10)th has this value
//   bench_fleet_process many COUNT URL     for each line "FIRST": gets COUNT keys from FIRST on by one call, with the
//                                          default time-out of a tier. Answers "LOADS ENDED"
//   bench_fleet_process leased THREADS URL LEASE_MS
//                                          for each line "KEY 0": THREADS threads get the key. Answers with the time at
//                                          which this process began to load it, or 0. "KEY 1": answers when the load
//                                          begins, and never ends it
//   bench_fleet_process leased-lock THREADS URL LEASE_MS
//                                          the same by hand, as `locked`
// An empty URL: a cache without a second level.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fleet/hiredis_pool.h"
#include "fleet/tier_cache.h"
#include "measure/threads.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr int64_t kRoom = 10'000;

int64_t Now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Hit(int64_t count, const std::string& url) {
  const auto cache = MakeNumberCache(url, kRoom, {.load = [](uint64_t key) { return key; }});
  for (int64_t i = 0; i < count; ++i) KeepAlive(*cache->Get(7).value());
}

void HitStrict(int64_t count, const std::string& url) {
  const StrictNumbers strict(url, absl::Seconds(10), {.load = [](uint64_t key) { return key; }});
  for (int64_t i = 0; i < count; ++i) KeepAlive(*strict.cache->Get(7).value());
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
void AnswerCold(size_t threads, Source& source, const std::function<void(size_t thread, uint64_t key)>& get) {
  uint64_t key = 0;
  int64_t ms = 0;
  while (std::cin >> key >> ms) {
    source.load_ms = ms;
    source.loads = 0;
    source.load_end = 0;
    std::mt19937 random(std::random_device{}());
    std::vector<int64_t> answered(threads);
    std::vector<std::jthread> callers;
    for (size_t i = 0; i < threads; ++i) {
      callers.emplace_back([&, i, key, pause = std::chrono::microseconds(random() % 50'000)] {
        std::this_thread::sleep_for(pause);
        get(i, key);
        answered[i] = Now();
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
  AnswerCold(threads, source, [&](size_t, uint64_t key) { Require(cache->Get(key).status(), "Get"); });
}

// What programs do by hand: one thread of the fleet gets a lock and loads, the others look for the value every 50 ms.
class PolledLock {
 public:
  PolledLock(const std::string& url, int64_t lease_ms) : pool_(url, 64), lease_ms_(std::to_string(lease_ms)) {}

  // `thread` is one of at most 64.
  void Get(size_t thread, uint64_t key, const std::function<uint64_t(uint64_t key)>& load) {
    const std::string value = base_internal::Concat("{bench}:value:", key);
    const std::string lock = base_internal::Concat("{bench}:lock:", key);
    for (;;) {
      if (!HiredisPool::TextOf(pool_.Run(thread, "GET", value)).empty()) return;
      if (!HiredisPool::TextOf(pool_.Run(thread, "SET", lock, "1", "NX", "PX", lease_ms_)).empty()) {
        pool_.Run(thread, "SET", value, std::to_string(load(key)), "PX", "3600000");
        pool_.Run(thread, "DEL", lock);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

 private:
  HiredisPool pool_;
  const std::string lease_ms_;
};

void AnswerColdByLock(size_t threads, const std::string& url) {
  Source source;
  PolledLock lock(url, 10'000);
  AnswerCold(threads, source, [&](size_t thread, uint64_t key) {
    lock.Get(thread, key, [&](uint64_t one) { return source.Load(one); });
  });
}

// A load that begins says so, and if it is to stay it never ends.
struct LeasedSource {
  uint64_t Load(uint64_t key) {
    begun = Now();
    if (!stays) return key;
    std::cout << begun << std::endl;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  std::atomic<bool> stays{false};
  std::atomic<int64_t> begun{0};
};

void AnswerLeased(size_t threads, LeasedSource& source, const std::function<void(size_t thread, uint64_t key)>& get) {
  uint64_t key = 0;
  bool stays = false;
  while (std::cin >> key >> stays) {
    source.stays = stays;
    source.begun = 0;
    std::vector<std::jthread> callers;
    for (size_t i = 0; i < threads; ++i) callers.emplace_back([&, i, key] { get(i, key); });
    callers.clear();
    std::cout << source.begun << std::endl;
  }
}

void AnswerLeasedByCache(size_t threads, const std::string& url, int64_t lease_ms) {
  LeasedSource source;
  const auto cache = MakeNumberCache(url, kRoom, {.load = [&](uint64_t key) { return source.Load(key); }}, true,
                                     absl::Milliseconds(lease_ms));
  AnswerLeased(threads, source, [&](size_t, uint64_t key) { Require(cache->Get(key).status(), "Get"); });
}

void AnswerLeasedByLock(size_t threads, const std::string& url, int64_t lease_ms) {
  LeasedSource source;
  PolledLock lock(url, lease_ms);
  AnswerLeased(threads, source, [&](size_t thread, uint64_t key) {
    lock.Get(thread, key, [&](uint64_t one) { return source.Load(one); });
  });
}

void Keep(uint64_t count, const std::string& url) {
  constexpr uint64_t kThreads = 16;  // One would wait for each of the first loads.
  std::atomic<uint64_t> version{0};
  std::atomic<int64_t> loads{0};
  const auto cache = MakeNumberCache(url, static_cast<int64_t>(4 * count), {.load = [&](uint64_t) {
                                       ++loads;
                                       return version.load();
                                     }});
  for (uint64_t value = 0; std::cin >> value;) {
    version = value;
    for (std::atomic<bool> done{false}; !done;) {
      done = true;
      const int64_t loaded = loads;
      {
        std::vector<std::jthread> readers;
        for (uint64_t first = 0; first < kThreads; ++first) {
          readers.emplace_back([&, first] {
            for (uint64_t key = first; key < count; key += kThreads) {
              const uint64_t got = *Require(cache->Get(key), "Get");
              if (key % (count / 10) == 0 && got != value) done = false;
            }
          });
        }
      }
      if (loads != loaded) done = false;
      if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::cout << 0 << std::endl;
  }
}

void AnswerMany(uint64_t count, const std::string& url) {
  int64_t loads = 0;
  NumberCache::Callbacks callbacks;
  callbacks.load_all = [&](const std::vector<uint64_t>& keys, NumberCache::Callbacks::Batch& load) {
    loads += static_cast<int64_t>(keys.size());
    for (const uint64_t key : keys) load.Add(key, key);
    return absl::OkStatus();
  };
  const auto cache = MakeNumberCache(url, static_cast<int64_t>(2 * count), std::move(callbacks), true,
                                     RedisCacheTierOptions().lease, RedisCacheTierOptions().timeout);
  for (uint64_t first = 0; std::cin >> first;) {
    loads = 0;
    std::vector<uint64_t> keys(count);
    std::iota(keys.begin(), keys.end(), first);
    for (const auto& found : cache->GetAll(keys)) Require(found.status(), "GetAll");
    std::cout << loads << ' ' << Now() << std::endl;
  }
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
  using namespace stockade::bench;
  if (argc != 4 && argc != 5) return 2;
  const int64_t number = std::atoll(argv[2]);
  const auto threads = static_cast<size_t>(number);
  const int64_t lease_ms = argc == 5 ? std::atoll(argv[4]) : 0;
  const std::string_view what = argv[1];
  if (what == "hits") Hit(number, argv[3]);
  if (what == "strict-hits") HitStrict(number, argv[3]);
  if (what == "cold") AnswerColdByCache(threads, argv[3]);
  if (what == "locked") AnswerColdByLock(threads, argv[3]);
  if (what == "watch") Watch(number == 1, argv[3]);
  if (what == "keep") Keep(static_cast<uint64_t>(number), argv[3]);
  if (what == "many") AnswerMany(static_cast<uint64_t>(number), argv[3]);
  if (what == "leased") AnswerLeasedByCache(threads, argv[3], lease_ms);
  if (what == "leased-lock") AnswerLeasedByLock(threads, argv[3], lease_ms);
  return 0;
}
