// One process of a fleet whose cache is strict: reads and updates keys at random until the checker stops it, and checks
// each answer. The version of a value is the fencing token of its write.
//
//   cache_fleet_strict_member FILE PROCESS URL SEED BREAKAGE SIZES
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "cache/fleet/observed_tier.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/locks/lock_lease.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade::testing {
namespace {

using Cache = LoadingCache<std::string, int64_t>;

constexpr int kReaders = 3;
constexpr int kWriters = 2;
constexpr int kBatch = 16;

class Member {
 public:
  Member(FleetTables* tables, int process, const std::string& url, uint64_t seed, Breakage breakage)
      : tables_(*tables), process_(process), seed_(seed) {
    RedisLockOptions lock_options;
    lock_options.service = {.watchdog_lease = absl::Seconds(2), .engine_timeout = absl::Seconds(1), .metrics = nullptr};
    lock_options.redis.metrics = nullptr;
    RedisCacheTierOptions options = {.prefix = "fleet"};
    options.heartbeat = absl::Milliseconds(25);
    options.max_staleness = absl::Nanoseconds(tables_.settings.bound);
    options.timeout = absl::Nanoseconds(kFleetTimeout);
    options.lease = absl::Nanoseconds(kFleetLease);
    options.metrics = nullptr;
    options.redis.metrics = nullptr;
    options.redis.max_backoff = absl::Milliseconds(100);
    absl::StatusOr<std::shared_ptr<CacheTier>> tier = absl::UnavailableError("");
    while (!tier.ok() && !tables_.stop) {
      if (locks_ == nullptr) {
        absl::StatusOr<std::unique_ptr<LockService>> locks = RedisLockService::Connect(url, lock_options);
        if (!locks.ok()) continue;
        locks_ = *std::move(locks);
      }
      options.locks = locks_.get();
      tier = RedisCacheTier::Connect(url, options);
    }
    if (!tier.ok()) return;
    LoadingCacheOptions cache_options = {.name = "keys", .ttl = absl::Nanoseconds(tables_.settings.ttl)};
    cache_options.strict = true;
    cache_options.tier = std::make_shared<ObservedTier>(*std::move(tier), tables, process, breakage,
                                                        [this](const std::string& what) { Violation(what); });
    cache_options.metrics = nullptr;
    cache_ = std::make_unique<Cache>(std::move(cache_options),
                                     Cache::Callbacks{.load = [this](const std::string& key) { return Load(key); }});
  }

  void Run() {
    if (cache_ == nullptr) return;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kReaders + kWriters; ++thread) {
      threads.emplace_back([this, thread] {
        std::mt19937_64 random(seed_ + static_cast<uint64_t>(thread));
        while (!tables_.stop) thread < kReaders ? ReadBatch(random) : Write(random);
      });
    }
    ++tables_.ready;
  }

 private:
  static std::string NameOf(int key) { return "k" + std::to_string(key); }

  absl::StatusOr<int64_t> Load(const std::string& key) {
    ++tables_.loads;
    const int64_t version = tables_.version[FleetKeyOf(key)];
    // Some answers of the database are late: the version is as old as the beginning of the query.
    poll(nullptr, 0, version % 8 == 0 ? 50 : 1);
    return version;
  }

  void ReadBatch(std::mt19937_64& random) {
    for (int n = 0; n < kBatch; ++n) Read(random);
    tables_.operations += kBatch;
    poll(nullptr, 0, 1);
  }

  void Read(std::mt19937_64& random) {
    const int key = static_cast<int>(random() % kFleetKeys);
    const int64_t floor = tables_.settled[key];
    const std::string name = NameOf(key);
    int64_t seen = 0;
    switch (random() % 8) {
      case 0: {
        const auto answer = cache_->GetAll({name, NameOf((key + 3) % kFleetKeys)}).front();
        if (!answer.ok()) return Violation(name + ": " + answer.status().ToString());
        seen = **answer;
        break;
      }
      case 1: {
        const auto present = cache_->GetIfPresent(name);
        if (!present.has_value()) return;
        seen = **present;
        break;
      }
      default: {
        const auto answer = cache_->Get(name);
        if (!answer.ok()) return Violation(name + ": " + answer.status().ToString());
        seen = **answer;
      }
    }
    if (seen >= floor) return;
    ++tables_.old_reads;
    Violation(name + ": version " + std::to_string(seen) + " although the update to " + std::to_string(floor) +
              " was settled");
  }

  void Write(std::mt19937_64& random) {
    poll(nullptr, 0, static_cast<int>(random() % 1000));
    const int key = static_cast<int>(random() % kFleetKeys);
    int64_t token = 0;
    const absl::StatusOr<UpdateReport> report = cache_->UpdateThrough(
        NameOf(key),
        [&](const LockLease& lock) -> absl::Status {
          token = *lock.fencing_token();
          poll(nullptr, 0, static_cast<int>(random() % 20));
          for (int64_t old = tables_.version[key]; !tables_.version[key].compare_exchange_weak(old, token);) {
            if (old >= token) return absl::FailedPreconditionError("a later update has written");
          }
          return absl::OkStatus();
        },
        absl::Seconds(2));
    ++tables_.operations;
    if (!report.ok() || !report->settled) return;
    ++tables_.updates;
    for (int64_t old = tables_.settled[key]; old < token && !tables_.settled[key].compare_exchange_weak(old, token);) {
    }
  }

  void Violation(const std::string& what) {
    if (++tables_.violations <= 20) std::fprintf(stderr, "VIOLATION in process %d: %s\n", process_, what.c_str());
  }

  FleetTables& tables_;
  const int process_;
  const uint64_t seed_;
  std::unique_ptr<LockService> locks_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace
}  // namespace stockade::testing

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // It does not outlive the test.
  using namespace stockade::testing;
  if (argc != 7) return 2;
  Member(FleetTables::Map(argv[1]), std::atoi(argv[2]), argv[3], std::strtoull(argv[4], nullptr, 10),
         static_cast<Breakage>(std::atoi(argv[5])))
      .Run();
  return 0;
}
