// A fleet's cache beside real peers: what programs do by hand with hiredis, and libraries in Go and Java in processes
// of their own. Each side has a server of its own, whose processor time is shown beside it.
#include "fleet/peer_rows.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fleet/fleets.h"
#include "fleet/hiredis_pool.h"
#include "fleet/tier_cache.h"
#include "measure/threads.h"
#include "peers/peer_driver.h"
#include "servers/redis_process.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {
namespace {

constexpr absl::Duration kPeerPatience = absl::Minutes(2);
constexpr char kProcess[] = STOCKADE_BENCH_FLEET_PROCESS;
constexpr char kByHand[] = "hiredis, SET NX, polling by 50 ms";
constexpr int64_t kRoom = 1 << 16;

const std::string& OfFleet() {
  static const std::string of = base_internal::Concat(kFleetProcesses, " processes x ", kFleetThreads, " threads");
  return of;
}

absl::StatusOr<uint64_t> Load(uint64_t key) { return key; }

// The driver of a peer, or an empty text: then `rows` are left out.
std::string DriverOf(Suite& suite, const std::string& peer, const std::string& rows) {
  absl::StatusOr<std::string> driver = FindPeerDriver(STOCKADE_BENCH_PEERS_DIR, peer);
  if (driver.ok()) return *std::move(driver);
  suite.LeaveOut(rows, std::string(driver.status().message()));
  return {};
}

// A server and its user, which is destroyed first.
template <typename User>
struct WithServer {
  RedisProcess server;
  std::unique_ptr<User> user;
};

template <typename User, typename Make>
std::shared_ptr<WithServer<User>> Serve(const Make& make) {
  auto both = std::make_shared<WithServer<User>>();
  both->user = make(both->server.url());
  return both;
}

// --- hits in Redis ---

constexpr size_t kCallers = 64;
constexpr uint64_t kKeys = 16 * kCallers;

std::string NameOf(uint64_t key) { return base_internal::Concat("bench:value:", key); }

// As the default codec of our cache.
uint64_t Decode(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc()) base_internal::Fatal("bench: hiredis got no value");
  return value;
}

struct HitRun {
  ServerMeter meter;
  std::function<void(size_t thread, uint64_t key)> get;

  Figures Run(Worker& worker, absl::Duration span) {
    worker.Once([&] { meter.Restart(); });
    const Throughput run = worker.RunFor(span, 1, [&](size_t thread, int64_t) {
      static thread_local uint64_t turn = 0;
      turn = (turn + 1) % (kKeys / kCallers);
      get(thread, turn * kCallers + thread);
    });
    double server_us = 0;
    worker.Once([&] { server_us = meter.Since().processor_us; });
    return {{"rate", run.PerSecond()}, {"server", server_us / static_cast<double>(run.ops)}};
  }
};

void AddHitRows(Suite& suite) {
  const std::string name = base_internal::Concat("hit in Redis, ", kCallers, " threads");
  const std::string peer = base_internal::Concat("hiredis, GET, a pool of ", kCallers);
  suite.AddRows(
      {{.name = name, .unit = "1/s", .peer = peer, .better = Better::kHigher, .target = ">= 2", .counter = "rate"},
       {.name = name + ": Redis' processor time", .unit = "us", .peer = peer, .counter = "server"}},
      {.threads = kCallers, .prepare = [](const Scale& scale) -> Contestants {
         const auto ours = Serve<HitRun>([](const std::string& url) {
           // It has room for one entry in memory.
           const std::shared_ptr<NumberCache> cache = MakeNumberCache(url, 1, {.load = Load});
           for (uint64_t key = 0; key < kKeys; ++key) Require(cache->Get(key).status(), "Get");
           return std::make_unique<HitRun>(
               ServerMeter(url), [cache](size_t, uint64_t key) { KeepAlive(*Require(cache->Get(key), "Get")); });
         });
         const auto plain = Serve<HitRun>([](const std::string& url) {
           const auto pool = std::make_shared<HiredisPool>(url, kCallers);
           for (uint64_t key = 0; key < kKeys; ++key)
             pool->Run(0, "SET", NameOf(key), std::to_string(key), "PX", "3600000");
           return std::make_unique<HitRun>(ServerMeter(url), [pool](size_t thread, uint64_t key) {
             KeepAlive(Decode(HiredisPool::TextOf(pool->Run(thread, "GET", NameOf(key)))));
           });
         });
         return {[=, span = 4 * scale.span](Worker& worker) { return ours->user->Run(worker, span); },
                 [=, span = 4 * scale.span](Worker& worker) { return plain->user->Run(worker, span); }};
       }});
}

// --- a cold key ---

std::shared_ptr<WithServer<ColdFleet>> ServeColdFleet(const std::string& program, const std::string& how) {
  return Serve<ColdFleet>([&](const std::string& url) {
    return std::make_unique<ColdFleet>(FleetCommand{program, how, std::to_string(kFleetThreads), url}, url);
  });
}

void AddColdRowsBeside(Suite& suite, const std::string& peer, const std::string& program, const std::string& how,
                       const std::string& last_target) {
  suite.AddRows(
      {{.name = "loads of a cold key, " + OfFleet(),
        .unit = "loads",
        .peer = peer,
        .target = "= 1 loads",
        .counter = "loads"},
       {.name = "last answer after the load, " + OfFleet(),
        .unit = "ms",
        .peer = peer,
        .target = last_target,
        .counter = "last"},
       {.name = "a cold key, " + OfFleet() + ": Redis' processor time",
        .unit = "ms",
        .peer = peer,
        .counter = "server"}},
      {.prepare = [=](const Scale& scale) -> Contestants {
        const auto ours = ServeColdFleet(kProcess, "cold");
        const auto other = ServeColdFleet(program, how);
        const int64_t load_ms = scale.Sized(60, 200);
        return {[=](Worker&) { return ours->user->Run(load_ms); }, [=](Worker&) { return other->user->Run(load_ms); }};
      }});
}

// --- a killed loader ---

void AddTakeOverRows(Suite& suite) {
  const auto serve = [](const std::string& how, int64_t lease_ms) {
    return Serve<TakeOverFleet>([&](const std::string& url) {
      return std::make_unique<TakeOverFleet>(
          FleetCommand{kProcess, how, std::to_string(kFleetThreads), url, std::to_string(lease_ms)}, url, lease_ms);
    });
  };
  const std::string name = "load after the loader was killed, " + OfFleet();
  suite.AddRows({{.name = name, .unit = "ms", .peer = kByHand, .target = "<= 0.5", .counter = "time"},
                 {.name = name + ", in leases",
                  .unit = "leases",
                  .peer = kByHand,
                  .target = "<= 1.1 leases",
                  .counter = "leases"},
                 {.name = name + ": Redis' processor time", .unit = "ms", .peer = kByHand, .counter = "server"}},
                {.prepare = [=](const Scale& scale) -> Contestants {
                  const int64_t lease_ms = scale.Sized(300, 2000);
                  const auto ours = serve("leased", lease_ms);
                  const auto by_hand = serve("leased-lock", lease_ms);
                  return {[=](Worker&) { return ours->user->Run(); }, [=](Worker&) { return by_hand->user->Run(); }};
                }});
}

// --- invalidation ---

std::shared_ptr<WithServer<WatchingFleet>> ServeOurWatchers() {
  return Serve<WatchingFleet>([](const std::string& url) {
    const std::shared_ptr<NumberCache> cache = MakeNumberCache(url, kRoom, {.load = Load});
    return std::make_unique<WatchingFleet>(FleetCommand{kProcess, "watch", "1", url}, url,
                                           [cache](uint64_t key) { cache->Invalidate(key); });
  });
}

// Redisson's maps are all in one process, which measures itself.
class JavaMaps {
 public:
  JavaMaps(const std::string& driver, const std::string& url)
      : meter_(url),
        process_(Require(PeerProcess::Start({driver, "maps", std::to_string(kFleetProcesses), url}), "Redisson")) {
    const std::string line = Require(process_->ReadLine(kPeerPatience), "Redisson");
    Require(line == "ready" ? absl::OkStatus() : absl::InternalError(line), "Redisson");
  }

  Figures Run(int64_t invalidations) {
    std::vector<double> times;
    meter_.Restart();
    for (int64_t i = 0; i < invalidations; ++i) {
      times.push_back(Require(process_->AskForRate(std::to_string(++key_), kPeerPatience), "Redisson") / 1e6);
    }
    const double server_us = meter_.Since().processor_us / static_cast<double>(invalidations);
    std::sort(times.begin(), times.end());
    return {{"last", times[(times.size() * 99 + 99) / 100 - 1]}, {"server", server_us}};
  }

 private:
  ServerMeter meter_;
  std::unique_ptr<PeerProcess> process_;
  uint64_t key_ = 0;
};

template <typename Peer>
void AddInvalidationRowsBeside(Suite& suite, const std::string& peer, const std::string& target, Peer serve) {
  const std::string name = base_internal::Concat("invalidation until the last of ", kFleetProcesses, " processes");
  suite.AddRows(
      {{.name = name + ", p99", .unit = "ms", .peer = peer, .target = target, .counter = "last"},
       {.name = base_internal::Concat(kFleetProcesses,
                                      " processes read a key that is then invalidated: Redis' processor time"),
        .unit = "us",
        .peer = peer,
        .counter = "server"}},
      {.prepare = [=](const Scale& scale) -> Contestants {
        const auto ours = ServeOurWatchers();
        const auto other = serve(scale);
        const int64_t count = scale.Sized(10, 200);
        return {[=](Worker&) { return ours->user->Run(count); }, [=](Worker&) { return other->user->Run(count); }};
      }});
}

void AddInvalidationRows(Suite& suite, const std::string& java, const std::string& go) {
  if (!java.empty()) {
    AddInvalidationRowsBeside(suite, "Redisson, RLocalCachedMap", "<= 1.0", [=](const Scale& scale) {
      auto maps = Serve<JavaMaps>([&](const std::string& url) { return std::make_unique<JavaMaps>(java, url); });
      maps->user->Run(scale.Sized(3, 1000));  // The JVM has compiled what it runs.
      return maps;
    });
  }
  if (!go.empty()) {
    AddInvalidationRowsBeside(suite, "rueidis, DoCache", "-", [=](const Scale&) {
      return Serve<WatchingFleet>([&](const std::string& url) {
        const std::shared_ptr<RedisClient> client = Require(RedisClient::Connect(url), "RedisClient");
        const auto set = [client](uint64_t key) {
          Require(client->Run(RedisCommand("SET").Key(base_internal::Concat("go:", key)).Arg("value")).status(), "SET");
        };
        for (uint64_t key = 0; key < 10'000; ++key) set(key);
        return std::make_unique<WatchingFleet>(FleetCommand{go, "watch", "1", url}, url, set);
      });
    });
  }
}

// --- cut connections ---

void AddCutRows(Suite& suite, const std::string& go) {
  constexpr char kPeer[] = "rueidis, DoCache";
  const int64_t count = suite.quick() ? 1000 : 100'000;
  const std::string name = base_internal::Concat("connections cut, ", suite.quick() ? "1,000" : "100,000",
                                                 " keys in memory, 10 invalidated");
  suite.AddRows(
      {{.name = name + ": commands", .unit = "commands", .peer = kPeer, .target = "<= 0.01", .counter = "commands"},
       {.name = name + ": until all are in memory", .unit = "ms", .peer = kPeer, .counter = "time"},
       {.name = name + ": Redis' processor time", .unit = "ms", .peer = kPeer, .counter = "server"}},
      {.prepare = [=](const Scale&) -> Contestants {
        const std::string keys = std::to_string(count);
        const auto number = static_cast<uint64_t>(count);
        const auto ours = Serve<CutProcess>([&](const std::string& url) {
          const std::shared_ptr<NumberCache> cache = MakeNumberCache(url, kRoom, {.load = Load});
          return std::make_unique<CutProcess>(
              FleetCommand{kProcess, "keep", keys, url + "?client_name=reader"}, url, number,
              [cache](ServerMeter&, const std::vector<uint64_t>& changed, uint64_t) {
                for (const uint64_t key : changed) cache->Invalidate(key);
                Require(cache->AwaitInvalidations(absl::Minutes(1)), "AwaitInvalidations");
              });
        });
        const auto other = Serve<CutProcess>([&](const std::string& url) {
          const auto set = [](ServerMeter& meter, const std::vector<uint64_t>& changed, uint64_t value) {
            RedisCommand command("MSET");
            for (const uint64_t key : changed) command.Key(base_internal::Concat("go:", key)).Arg(value);
            Require(meter.client().Run(command).status(), "MSET");
          };
          ServerMeter meter(url);
          for (uint64_t first = 0; first < number; first += 1000) {
            std::vector<uint64_t> batch(1000);
            std::iota(batch.begin(), batch.end(), first);
            set(meter, batch, 1);
          }
          return std::make_unique<CutProcess>(FleetCommand{go, "keep", keys, url}, url, number, set);
        });
        return {[=](Worker&) { return ours->user->Run(); }, [=](Worker&) { return other->user->Run(); }};
      }});
}

}  // namespace

void AddFleetPeerRows(Suite& suite) {
  AddHitRows(suite);
  AddColdRowsBeside(suite, kByHand, kProcess, "locked", "<= 0.1");
  if (const std::string go = DriverOf(suite, "go_redis_cache", "rows beside go-redis/cache"); !go.empty()) {
    AddColdRowsBeside(suite, "go-redis/cache", go, "cold", "-");
  }
  AddTakeOverRows(suite);
  const std::string java = DriverOf(suite, "redisson", "rows beside Redisson");
  const std::string go = DriverOf(suite, "rueidis", "rows beside rueidis");
  AddInvalidationRows(suite, java, go);
  if (!go.empty()) AddCutRows(suite, go);
}

}  // namespace stockade::bench
