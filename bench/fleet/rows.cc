// A cache with a second level in Redis: what a hit in memory costs more than without, what a hit in Redis costs beside
// a bare script, how many processes load a cold key, and how soon an invalidation reaches all processes.
#include "fleet/rows.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "fleet/fleets.h"
#include "fleet/peer_rows.h"
#include "fleet/tier_cache.h"
#include "measure/threads.h"
#include "peers/peer_process.h"
#include "servers/redis_process.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {
namespace {

constexpr char kWithout[] = "the cache without a tier";
constexpr int64_t kTierRoom = 1 << 16;
constexpr int64_t kBatch = 256;
constexpr uint64_t kTierKeys = 1024;

// The instructions of all threads of a process that gets one key `hits` times. `what`: its kind of hits.
double Instructions(const std::string& what, const std::string& url, int64_t hits) {
  const std::string out = base_internal::Concat(STOCKADE_BENCH_DIR, "/fleet_instructions");
  const std::string command =
      base_internal::Concat("valgrind --tool=callgrind --callgrind-out-file=/dev/null '", STOCKADE_BENCH_FLEET_PROCESS,
                            "' ", what, " ", hits, " '", url, "' 2>'", out, "'");
  if (std::system(command.c_str()) != 0) base_internal::Fatal("bench: this failed: " + command);
  std::ifstream in(out);
  constexpr std::string_view kLabel = "Collected : ";
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(kLabel);
    if (at != std::string::npos) return std::atof(line.c_str() + at + kLabel.size());
  }
  base_internal::Fatal("bench: valgrind counted nothing: " + command);
}

// Without what the process does besides. Counted once; the least of several, because the tier's thread runs, too.
double InstructionsPerHit(const std::string& what, const std::string& url) {
  constexpr int64_t kHits = 1'000'000;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    best = std::min(best,
                    (Instructions(what, url, 2 * kHits) - Instructions(what, url, kHits)) / static_cast<double>(kHits));
  }
  return best;
}

void AddInstructionRow(Suite& suite) {
  if (suite.quick()) return suite.LeaveOut("instructions per hit", "a smoke test does not count them");
  if (std::system("valgrind --version >/dev/null 2>&1") != 0) {
    return suite.LeaveOut("instructions per hit", "valgrind is not installed");
  }
  suite.Add({.name = "hit in memory, 1 key, instructions", .unit = "instr", .peer = kWithout, .target = "<= 1.1"},
            {.prepare = [](const Scale&) -> Contestants {
              const RedisProcess redis;
              return {[ours = InstructionsPerHit("hits", redis.url())](Worker&) { return ours; },
                      [without = InstructionsPerHit("hits", "")](Worker&) { return without; }};
            }});
  suite.Add({.name = "strict hit in memory, 1 key, instructions",
             .unit = "instr",
             .peer = "a cache with a tier that is not strict",
             .target = "<= 1.02"},
            {.prepare = [](const Scale&) -> Contestants {
              const RedisProcess redis;
              const RedisProcess other;
              return {[strict = InstructionsPerHit("strict-hits", redis.url())](Worker&) { return strict; },
                      [hit = InstructionsPerHit("hits", other.url())](Worker&) { return hit; }};
            }});
}

absl::StatusOr<uint64_t> LoadKey(uint64_t key) { return key; }

Measurement MeasureHits(std::shared_ptr<RedisProcess> redis, const std::string& url, absl::Duration span) {
  std::shared_ptr<NumberCache> cache = MakeNumberCache(url, kTierRoom, {.load = LoadKey});
  for (uint64_t key = 0; key < kTierKeys; ++key) Require(cache->Get(key).status(), "Get");
  return [keep = std::move(redis), cache, span](Worker& worker) {
    return worker
        .RunFor(span, kBatch,
                [&](size_t thread, int64_t ops) {
                  uint64_t state = 0x9E3779B97F4A7C15u * (thread + 1);
                  for (int64_t i = 0; i < ops; ++i) {
                    state = state * 6364136223846793005u + 1442695040888963407u;
                    KeepAlive(*cache->Get((state >> 33) % kTierKeys).value());
                  }
                })
        .NsPerOp();
  };
}

void AddHitRow(Suite& suite) {
  suite.Add({.name = "hit in memory, 1,024 keys, alone", .unit = "ns/op", .peer = kWithout, .target = "<= 1.1"},
            {.prepare = [](const Scale& scale) -> Contestants {
              const auto redis = std::make_shared<RedisProcess>();
              return {MeasureHits(redis, redis->url(), scale.span), MeasureHits(redis, "", scale.span)};
            }});
}

// A cache that has room for one entry in memory, and all its values in Redis; and a script of a client beside it.
struct SecondLevel {
  explicit SecondLevel(size_t threads)
      : cache(MakeNumberCache(redis.url(), 1, {.load = LoadKey})),
        client(Require(RedisClient::Connect(redis.url()), "RedisClient")),
        turns(threads) {
    for (uint64_t key = 0; key < kTierKeys; ++key) Require(cache->Get(key).status(), "Get");
    RunScript();
  }

  // Each thread has keys of its own, so that no lookup waits for another one's.
  void Get(size_t thread) {
    uint64_t& turn = turns[thread].value;
    turn = (turn + 1) % (kTierKeys / turns.size());
    KeepAlive(*Require(cache->Get(turn * turns.size() + thread), "Get"));
  }
  void RunScript() { Require(client->Run(command).status(), "EVALSHA"); }

  struct alignas(128) Turn {
    uint64_t value = 0;
  };
  RedisProcess redis;
  std::unique_ptr<NumberCache> cache;
  std::unique_ptr<RedisClient> client;
  const RedisScript script{"return 1"};
  const RedisCommand command{script, {"key"}};
  std::vector<Turn> turns;
};

void AddSecondLevelRow(Suite& suite, size_t threads) {
  suite.Add(
      {.name = threads == 1 ? "hit in Redis, alone" : base_internal::Concat("hit in Redis, ", threads, " threads"),
       .unit = "us",
       .peer = "EVALSHA of a trivial script",
       .target = "<= 1.3"},
      {.threads = threads, .prepare = [threads](const Scale& scale) -> Contestants {
         const auto world = std::make_shared<SecondLevel>(threads);
         const auto measure = [span = 4 * scale.span, threads](auto body) {
           return [=](Worker& worker) {
             const Throughput run = worker.RunFor(span, 1, [&](size_t thread, int64_t) { body(thread); });
             return run.NsPerOp() * static_cast<double>(threads) / 1000;
           };
         };
         return {measure([world](size_t thread) { world->Get(thread); }),
                 measure([world](size_t) { world->RunScript(); })};
       }});
}

void AddGetAllRow(Suite& suite) {
  constexpr uint64_t kKeys = 100;
  suite.Add({.name = "GetAll of 100 hits in Redis, per key",
             .unit = "us",
             .peer = "100 times Get, one thread",
             .target = "<= 0.3"},
            {.prepare = [](const Scale& scale) -> Contestants {
              const auto world = std::make_shared<SecondLevel>(1);
              const auto measure = [span = 4 * scale.span](auto body) {
                return [=](Worker& worker) {
                  return worker.RunFor(span, 1, [&](size_t, int64_t) { body(); }).NsPerOp() / 1000 / kKeys;
                };
              };
              std::vector<uint64_t> keys(kKeys);
              std::iota(keys.begin(), keys.end(), 1);
              return {measure([world, keys] {
                        for (const auto& found : world->cache->GetAll(keys)) KeepAlive(*Require(found, "GetAll"));
                      }),
                      measure([world] {
                        for (uint64_t n = 0; n < kKeys; ++n) world->Get(0);
                      })};
            }});
}

// So few that the tier's pace, a quarter of the journal in the time of a heartbeat, does not count.
void AddBulkRows(Suite& suite) {
  static constexpr uint64_t kKeys = 300;
  using Change = std::function<void(NumberCache & cache, const std::vector<uint64_t>& keys)>;
  const auto add = [&](const std::string& name, const std::string& peer, const Change& ours, const Change& theirs) {
    suite.Add({.name = base_internal::Concat(name, " of ", kKeys, ", per key"), .unit = "us", .peer = peer},
              {.prepare = [=](const Scale&) -> Contestants {
                const auto world = std::make_shared<SecondLevel>(1);
                const auto measure = [world](const Change& change) {
                  return [=](Worker&) {
                    std::vector<uint64_t> keys(kKeys);
                    std::iota(keys.begin(), keys.end(), 1);
                    const Instant begun = Clock::System()->Now();
                    change(*world->cache, keys);
                    return absl::ToDoubleMicroseconds(Clock::System()->Now() - begun) / kKeys;
                  };
                };
                return {measure(ours), measure(theirs)};
              }});
  };
  add(
      "InvalidateKeys", "Invalidate",
      [](NumberCache& cache, const std::vector<uint64_t>& keys) { cache.InvalidateKeys(keys); },
      [](NumberCache& cache, const std::vector<uint64_t>& keys) {
        for (const uint64_t key : keys) cache.Invalidate(key);
      });
  add(
      "PutAll", "Put",
      [](NumberCache& cache, const std::vector<uint64_t>& keys) {
        std::vector<std::pair<uint64_t, uint64_t>> entries;
        for (const uint64_t key : keys) entries.emplace_back(key, key);
        cache.PutAll(std::move(entries));
      },
      [](NumberCache& cache, const std::vector<uint64_t>& keys) {
        for (const uint64_t key : keys) cache.Put(key, key);
      });
}

void AddColdRows(Suite& suite) {
  const std::string of = base_internal::Concat(kFleetProcesses, " processes x ", kFleetThreads, " threads");
  const Comparison loads = {.name = "loads of a cold key, " + of,
                            .unit = "loads",
                            .peer = "a cache in each process",
                            .target = "= 1 loads",
                            .counter = "loads"};
  const Comparison last = {
      .name = "last answer after the load, " + of, .unit = "ms", .peer = "a cache in each process", .counter = "last"};
  suite.AddRows({loads, last}, {.prepare = [](const Scale& scale) -> Contestants {
                  const auto redis = std::make_shared<RedisProcess>();
                  const auto start = [](const std::string& url) {
                    return std::make_shared<ColdFleet>(
                        FleetCommand{STOCKADE_BENCH_FLEET_PROCESS, "cold", std::to_string(kFleetThreads), url}, url);
                  };
                  const auto ours = start(redis->url());
                  const auto without = start("");
                  const int64_t load_ms = scale.Sized(50, 200);
                  return {[=, keep = redis](Worker&) { return ours->Run(load_ms); },
                          [=](Worker&) { return without->Run(load_ms); }};
                }});
}

void AddManyKeysRows(Suite& suite) {
  const auto count = static_cast<uint64_t>(suite.quick() ? 2'000 : 20'000);
  const std::string name =
      base_internal::Concat(suite.quick() ? "2,000" : "20,000", " cold keys by GetAll, ", ManyKeysFleet::kProcesses,
                            " processes beside ", ManyKeysFleet::kSpinning, " busy threads");
  constexpr char kPeer[] = "a cache in each process";
  suite.AddRows({{.name = name + ": loads",
                  .unit = "loads",
                  .peer = kPeer,
                  .target = base_internal::Concat("= ", count, " loads"),
                  .counter = "loads"},
                 {.name = name, .unit = "ms", .peer = kPeer, .counter = "time"}},
                {.prepare = [count](const Scale&) -> Contestants {
                  const auto redis = std::make_shared<RedisProcess>();
                  const auto start = [count](const std::string& url) {
                    return std::make_shared<ManyKeysFleet>(
                        FleetCommand{STOCKADE_BENCH_FLEET_PROCESS, "many", std::to_string(count), url}, count);
                  };
                  const auto ours = start(redis->url());
                  const auto without = start("");
                  return {[=, keep = redis](Worker&) { return ours->Run(); }, [=](Worker&) { return without->Run(); }};
                }});
}

void AddInvalidationRow(Suite& suite) {
  suite.Add({.name = base_internal::Concat("invalidation until the last of ", kFleetProcesses, " processes, p99"),
             .unit = "ms",
             .peer = "heartbeats of 250 ms",
             .target = "<= 5 ms",
             .counter = "last"},
            {.prepare = [](const Scale& scale) -> Contestants {
              const auto redis = std::make_shared<RedisProcess>();
              const auto other = std::make_shared<RedisProcess>();
              const auto start = [](const std::string& url, bool messages) {
                const std::shared_ptr<NumberCache> cache = MakeNumberCache(url, kTierRoom, {.load = LoadKey}, messages);
                return std::make_shared<WatchingFleet>(
                    FleetCommand{STOCKADE_BENCH_FLEET_PROCESS, "watch", messages ? "1" : "0", url}, url,
                    [cache](uint64_t key) { cache->Invalidate(key); });
              };
              const auto ours = start(redis->url(), true);
              const auto polling = start(other->url(), false);
              const int64_t count = scale.Sized(10, 200);
              const int64_t polled = scale.Sized(2, 20);
              return {[=, keep = redis](Worker&) { return ours->Run(count); },
                      [=, keep = other](Worker&) { return polling->Run(polled); }};
            }});
}

// The median of updates of strict caches whose write returns at once, beside the wait that they consist of.
void AddStrictUpdateRows(Suite& suite) {
  static constexpr absl::Duration kStaleness = absl::Milliseconds(500);
  struct World {
    RedisProcess redis;
    StrictNumbers strict{redis.url(), kStaleness, {.load = LoadKey}};
    std::unique_ptr<RedisClient> client = Require(RedisClient::Connect(redis.url()), "RedisClient");
  };
  const auto add = [&suite](const std::string& name, absl::Duration wait, const std::string& target, bool loses_mark) {
    const std::string peer = base_internal::Concat("a wait of ", absl::FormatDuration(wait));
    suite.Add({.name = name, .unit = "ms", .peer = peer, .target = target},
              {.prepare = [wait, loses_mark](const Scale& scale) -> Contestants {
                const auto world = std::make_shared<World>();
                const auto measure = [count = scale.Sized(2, 10)](auto body) {
                  return [=](Worker&) {
                    std::vector<double> took;
                    for (int64_t n = 0; n < count; ++n) {
                      const Instant begin = Clock::System()->Now();
                      body();
                      took.push_back(absl::ToDoubleMilliseconds(Clock::System()->Now() - begin));
                    }
                    std::nth_element(took.begin(), took.begin() + count / 2, took.end());
                    return took[static_cast<size_t>(count / 2)];
                  };
                };
                return {measure([=] {
                          const auto write = [&](const LockLease&) {
                            if (!loses_mark) return absl::OkStatus();
                            const RedisScript forget(
                                "for _, key in ipairs(redis.call('keys', 'sc1:{bench}:l:*')) do redis.call('del', key) "
                                "end return 1");
                            return world->client->Run(RedisCommand(forget, {"sc1:{bench}:s"})).status();
                          };
                          if (!Require(world->strict.cache->UpdateThrough(7, write), "UpdateThrough").settled) {
                            base_internal::Fatal("bench: an update is not settled");
                          }
                        }),
                        measure([wait] { absl::SleepFor(wait); })};
              }});
  };
  add("strict update, max_staleness of 500 ms, p50", kStaleness, "<= 1.04", false);
  add("strict update whose mark is lost, p50", 2 * kStaleness, "<= 1.04", true);
}

}  // namespace

void AddFleetRows(Suite& suite) {
  if (const absl::Status there = RedisProcess::Check(); !there.ok()) {
    suite.LeaveOut("all rows", std::string(there.message()));
    return;
  }
  AddInstructionRow(suite);
  AddHitRow(suite);
  AddSecondLevelRow(suite, 1);
  AddSecondLevelRow(suite, 16);
  AddGetAllRow(suite);
  AddBulkRows(suite);
  AddColdRows(suite);
  AddManyKeysRows(suite);
  AddInvalidationRow(suite);
  AddStrictUpdateRows(suite);
  AddFleetPeerRows(suite);
  AddFleetCrowdRows(suite);
}

}  // namespace stockade::bench
