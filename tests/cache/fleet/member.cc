// One process of the fleet under test: reads and writes keys at random until the checker stops it, and checks each
// answer.
//
//   cache_fleet_member FILE PROCESS URL SEED BREAKAGE SIZES
//
// SIZES is 0, or 1: then keys, tags and values have sizes around each bound and far above, there are calls for 20,000
// keys, and one call of the codec in some throws, each of its functions in turn.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "cache/fleet/observed_tier.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"

namespace stockade::testing {
namespace {

using Cache = LoadingCache<std::string, int64_t>;
using Many = LoadingCache<int, int>;

constexpr int kThreads = 4;  // The first one only reads: a write waits until Redis has accepted its invalidation.
constexpr int kBatch = 16;
constexpr int kProcessesPerOwner = 4;  // Processes whose numbers differ by this are one after the other.

// With SIZES 1, by key.
constexpr size_t kMaxValue = 64 << 10;
constexpr std::array<size_t, kFleetKeys> kKeyBytes = {4, 1023, 1024, 1025, 100'000, 1 << 20, 1024, 1025};
constexpr std::array<size_t, kFleetKeys> kTagBytes = {10, 254, 255, 256, 1024, 1025, 1 << 20, 256};
constexpr std::array<size_t, kFleetKeys> kValueBytes = {20, kMaxValue - 1, kMaxValue, kMaxValue + 1, 20,
                                                        20, kMaxValue + 1, 20};
constexpr int kManyTags = 70;  // Of key 0.
constexpr int kManyKeys = 20'000;
constexpr int kLookupsPerMany = 20'000;
constexpr uint64_t kCallsPerThrow = 97;  // A prime, so that it is the turn of each function.

std::string Padded(std::string text, size_t bytes) {
  text.resize(std::max(text.size(), bytes), '.');
  return text;
}

class Member {
 public:
  Member(FleetTables* tables, int process, std::string url, uint64_t seed, Breakage breakage, bool sizes)
      : tables_(*tables), process_(process), seed_(seed), sizes_(sizes) {
    RedisCacheTierOptions options = {.prefix = "fleet"};
    options.heartbeat = absl::Milliseconds(25);
    options.max_staleness = absl::Nanoseconds(kFleetStaleness);
    options.timeout = absl::Nanoseconds(kFleetTimeout);
    options.lease = absl::Nanoseconds(kFleetLease);
    options.max_load = absl::Seconds(10);
    options.metrics = nullptr;
    options.redis.metrics = nullptr;
    options.redis.max_backoff = absl::Milliseconds(100);
    if (sizes_) options.max_value_bytes = kMaxValue;
    absl::StatusOr<std::shared_ptr<CacheTier>> tier = absl::UnavailableError("");
    while (!tier.ok() && !tables_.stop) tier = RedisCacheTier::Connect(url, options);
    if (!tier.ok()) return;
    if (sizes_) OpenMany(*tier);
    tier_ = std::make_shared<ObservedTier>(*std::move(tier), tables, process, breakage,
                                           [this](const std::string& what) { Violation(what); });
    LoadingCacheOptions cache_options = {.name = "keys", .ttl = absl::Nanoseconds(tables_.settings.ttl)};
    cache_options.tier = tier_;
    cache_options.metrics = nullptr;
    Cache::Callbacks callbacks{
        .load = [this](const std::string& key, LoadContext& load) { return Load(FleetKeyOf(key), load); }};
    if (sizes_) callbacks.codec = ThrowingCodec();
    cache_ = std::make_unique<Cache>(std::move(cache_options), std::move(callbacks));
  }

  void Run() {
    if (cache_ == nullptr) return;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back(
          [this, thread] { Work(std::mt19937_64(seed_ + static_cast<uint64_t>(thread)), thread > 0); });
    }
    ++tables_.ready;
    threads.clear();
    // What is queued yet would be lost.
    if (!tier_->observed->AwaitAll(tier_->clock()->Now() + absl::Minutes(1)))
      Violation("invalidations are still queued");
  }

 private:
  void Violation(const std::string& what) {
    if (++tables_.violations <= 20) std::fprintf(stderr, "VIOLATION in process %d: %s\n", process_, what.c_str());
  }

  // A cache of its own for calls for many keys, beside the lookups of the other one.
  void OpenMany(const std::shared_ptr<CacheTier>& tier) {
    LoadingCacheOptions options = {.name = "many", .max_weight = kManyKeys, .ttl = absl::Nanoseconds(kFleetTtl)};
    options.tier = tier;
    options.metrics = nullptr;
    Many::Callbacks callbacks;
    callbacks.load_all = [](const std::vector<int>& keys, Many::Callbacks::Batch& load) {
      for (const int key : keys) load.Add(key, key);
      return absl::OkStatus();
    };
    many_ = std::make_unique<Many>(std::move(options), std::move(callbacks));
  }

  void PerhapsThrow() {
    if (++codec_calls_ % kCallsPerThrow == 0) throw std::runtime_error("codec");
  }
  CacheCodec<std::string, int64_t> ThrowingCodec() {
    return {.id = "sizes/1",
            .encode_key =
                [this](const std::string& key, std::string* bytes) {
                  PerhapsThrow();
                  *bytes = key;
                  return absl::OkStatus();
                },
            .decode_key = [this](std::string_view bytes) -> absl::StatusOr<std::string> {
              PerhapsThrow();
              return std::string(bytes);
            },
            .encode_value =
                [this](const int64_t& value, std::string* bytes) {
                  PerhapsThrow();
                  const size_t key = static_cast<size_t>(value) % kFleetKeys;
                  *bytes = Padded(std::to_string(value), kValueBytes[key]);
                  return absl::OkStatus();
                },
            .decode_value = [this](std::string_view bytes) -> absl::StatusOr<int64_t> {
              PerhapsThrow();
              int64_t value = 0;
              std::from_chars(bytes.data(), bytes.data() + bytes.size(), value);
              return value;
            }};
  }

  // What the cache has for a version of a key: the codec finds the key in it.
  int64_t ValueOf(int key, int64_t version) const { return sizes_ ? version * kFleetKeys + key : version; }
  int64_t VersionOf(int64_t value) const { return sizes_ ? value / kFleetKeys : value; }

  std::string TagOf(int key) const {
    if (!sizes_) return key % 2 == 0 ? "t0" : "t1";
    return Padded("t" + std::to_string(key), kTagBytes[static_cast<size_t>(key)]);
  }

  absl::StatusOr<int64_t> Load(int key, LoadContext& load) {
    ++tables_.loads;
    // A codec that throws has a key loaded more often.
    if (!sizes_) tier_->observed->NoteLoad(key);
    const int64_t version = tables_.version[key];
    load.AddTag(TagOf(key));
    for (int n = 0; sizes_ && key == 0 && n < kManyTags; ++n) load.AddTag("tag" + std::to_string(n));
    // Most answers of the database come at once, some late: the version is as old as the beginning of the query.
    poll(nullptr, 0, (version + key) % 8 == 0 ? 50 : 1);
    return ValueOf(key, version);
  }

  void Work(std::mt19937_64 random, bool writes) {
    while (!tables_.stop) {
      for (int n = 0; n < kBatch; ++n) Read(random);
      tables_.operations += kBatch;
      if (writes && random() % tables_.settings.batches_per_write == 0) Write(random);
      poll(nullptr, 0, 1);
    }
  }

  void Read(std::mt19937_64& random) {
    const int key = static_cast<int>(random() % kFleetKeys);
    std::array<int64_t, kFleetKeys> floor;
    for (int i = 0; i < kFleetKeys; ++i) floor[static_cast<size_t>(i)] = own_floor_[static_cast<size_t>(i)];
    const int64_t begin = lookup_began = FleetNow();
    const auto check = [&](int of, const absl::StatusOr<Cache::Handle>& answer) {
      if (!answer.ok()) return Violation("k" + std::to_string(of) + ": " + answer.status().ToString());
      const int64_t seen = VersionOf(**answer);
      if (seen < floor[static_cast<size_t>(of)]) {
        return Violation("k" + std::to_string(of) + ": version " + std::to_string(seen) +
                         " although this process had invalidated it after " +
                         std::to_string(floor[static_cast<size_t>(of)]));
      }
      const int64_t age = tables_.AgeOf(of, seen, begin);
      if (!tables_.NoteAge(age)) {
        Violation("k" + std::to_string(of) + ": version " + std::to_string(seen) +
                  ", but a newer one was invalidated " + std::to_string(age / kMillisecond) + " ms before");
      }
    };
    if (sizes_ && random() % kLookupsPerMany == 0) ReadMany();
    switch (random() % 32) {
      case 0: {
        const int other = (key + 3) % kFleetKeys;
        const auto answers = cache_->GetAll({Name(key), Name(other)});
        check(key, answers[0]);
        check(other, answers[1]);
        break;
      }
      case 1:
        if (const auto present = cache_->GetIfPresent(Name(key)); present.has_value()) check(key, *present);
        break;
      default: check(key, cache_->Get(Name(key)));
    }
  }

  void ReadMany() {
    std::vector<int> keys(kManyKeys);
    std::iota(keys.begin(), keys.end(), 0);
    const auto answers = many_->GetAll(keys);
    for (int key = 0; key < kManyKeys; ++key) {
      const auto& answer = answers[static_cast<size_t>(key)];
      if (!answer.ok() || **answer != key) return Violation("one of many keys: " + answer.status().ToString());
    }
  }

  void Write(std::mt19937_64& random) {
    const int key = static_cast<int>(random() % kFleetKeys);
    invalidations_accepted = true;
    int64_t version = 0;
    const auto write = [&] {
      version = ++tables_.version[key];
      if (version >= kFleetVersions) base_internal::Fatal("too many versions for one run");
      return absl::OkStatus();
    };
    const std::string tag = TagOf(key);
    if (key >= kFleetKeys - 2) {
      // A Put must not overtake a later write, so one process at a time writes these keys.
      if (key % kProcessesPerOwner != process_ % kProcessesPerOwner) return;
      const std::lock_guard lock(put_mutex_);
      write().IgnoreError();
      cache_->Put(Name(key), ValueOf(key, version), EntryOptions{.tags = {tag}});
    } else {
      switch (random() % 16) {
        case 0:
          write().IgnoreError();
          cache_->InvalidateAll();
          break;
        case 1:
        case 2:
          write().IgnoreError();
          cache_->InvalidateTag(tag);
          break;
        case 3:
        case 4:
          if (!cache_->UpdateThrough(Name(key), write).ok()) Violation("an update failed");
          break;
        default: write().IgnoreError(); cache_->Invalidate(Name(key));
      }
    }
    std::atomic<int64_t>& floor = own_floor_[static_cast<size_t>(key)];
    for (int64_t old = floor; old < version && !floor.compare_exchange_weak(old, version);) {
    }
    ++tables_.operations;
    if (!invalidations_accepted && !tier_->observed->AwaitAll(tier_->clock()->Now() + absl::Seconds(30))) return;
    tables_.invalidated_at[key][version] = FleetNow();
  }

  std::string Name(int key) const {
    const std::string name = "k" + std::to_string(key);
    return sizes_ ? Padded(name, kKeyBytes[static_cast<size_t>(key)]) : name;
  }

  FleetTables& tables_;
  const int process_;
  const uint64_t seed_;
  const bool sizes_;
  std::atomic<uint64_t> codec_calls_{0};
  std::unique_ptr<Many> many_;
  std::shared_ptr<ObservedTier> tier_;
  std::unique_ptr<Cache> cache_;
  std::mutex put_mutex_;
  // What this process has invalidated: it never sees older versions, without any delay.
  std::array<std::atomic<int64_t>, kFleetKeys> own_floor_ = {};
};

}  // namespace
}  // namespace stockade::testing

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // It does not outlive the test.
  using namespace stockade::testing;
  if (argc != 7) return 2;
  Member(FleetTables::Map(argv[1]), std::atoi(argv[2]), argv[3], std::strtoull(argv[4], nullptr, 10),
         static_cast<Breakage>(std::atoi(argv[5])), std::atoi(argv[6]) == 1)
      .Run();
  return 0;
}
