// One process of a fleet, which does what its input says:
//
//   get      all threads begin to get the key; each prints "answered VALUE"
//   watch    gets the key until its value changes; prints "changed BEGIN", when the last call that returned the old
//            value began
//   waiters  prints "waiters N" and "polls N": how many threads wait, and how often this process has asked for the key
//            while another one was loading it
//
// The loader prints "load BEGIN" and returns what FILE has, but not while that is "hang". Moments are those of
// FleetNow().
//
//   cache_fleet_caller URL FILE THREADS LEASE_MS STALENESS_MS
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "cache/test_cache.h"
#include "stockade/base/log.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"

namespace stockade::testing {
namespace {

using Cache = LoadingCache<std::string, std::string>;

// In one write, so that a line is whole.
void Print(const std::string& line) {
  if (write(STDOUT_FILENO, (line + "\n").data(), line.size() + 1) < 0) base_internal::Fatal("cannot print " + line);
}

absl::StatusOr<std::string> Load(const std::string& path) {
  Print("load " + std::to_string(FleetNow()));
  for (;;) {
    poll(nullptr, 0, 20);
    std::ifstream in(path);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text != "hang") return text;
  }
}

std::string Get(Cache& cache) {
  const absl::StatusOr<Cache::Handle> found = cache.Get("k");
  return found.ok() ? **found : found.status().ToString();
}

void Run(const std::string& url, const std::string& path, size_t threads, int64_t lease_ms, int64_t staleness_ms) {
  MetricsRegistry registry;
  RedisCacheTierOptions options = {.prefix = "fleet"};
  options.lease = absl::Milliseconds(lease_ms);
  options.max_staleness = absl::Milliseconds(staleness_ms);
  options.heartbeat = options.max_staleness / 8;
  options.timeout = absl::Seconds(30);
  options.metrics = &registry;
  options.redis.connect_timeout = absl::Seconds(30);
  const absl::StatusOr<std::shared_ptr<CacheTier>> tier = RedisCacheTier::Connect(url, options);
  if (!tier.ok()) base_internal::Fatal(tier.status().ToString());
  Cache cache({.name = "keys", .ttl = absl::Hours(1), .tier = *tier, .metrics = &registry},
              [&path](const std::string&) { return Load(path); });
  std::vector<std::jthread> callers;
  Print("ready");
  for (std::string call; std::cin >> call;) {
    if (call == "get") {
      for (size_t n = 0; n < threads; ++n) callers.emplace_back([&] { Print("answered " + Get(cache)); });
    } else if (call == "watch") {
      const std::string first = Get(cache);
      Print("watches " + first);
      int64_t last = 0;
      for (int64_t begin = FleetNow(); Get(cache) == first; begin = FleetNow()) last = begin;
      Print("changed " + std::to_string(last));
    } else if (call == "waiters") {
      Print("waiters " + std::to_string(static_cast<int64_t>(Metric(registry, "stockade_cache_waiters"))));
      Print("polls " + std::to_string((*tier)->Stats().caches[0].busy));
    }
  }
}

}  // namespace
}  // namespace stockade::testing

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  stockade::testing::Run(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10), std::atoll(argv[4]),
                         std::atoll(argv[5]));
  return 0;
}
