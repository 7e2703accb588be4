// Caches over a real Redis: what a cache and its tier show only together. tests/cache/tier tests a cache's side with a
// tier in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cache/redis/tier_node.h"
#include "cache/test_cache.h"
#include "stockade/cache/loading_cache.h"
#include "support/await.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

class CacheOverRedisTest : public RedisTierTest {
 protected:
  using Cache = LoadingCache<int64_t, int64_t>;

  // A process.
  struct Process {
    std::unique_ptr<MetricsRegistry> registry = std::make_unique<MetricsRegistry>();
    std::shared_ptr<CacheTier> tier = {};
    std::unique_ptr<Cache> cache = {};
    std::unique_ptr<std::atomic<int64_t>> loads = std::make_unique<std::atomic<int64_t>>(0);

    TierCacheStats stats() const { return tier->Stats().caches.at(0); }
  };
  Process Start(RedisCacheTierOptions options, int64_t version = 0) {
    Process process;
    options.metrics = process.registry.get();
    process.tier = ConnectTier(server.url(), std::move(options));
    process.cache = std::make_unique<Cache>(
        LoadingCacheOptions{
            .name = "numbers", .max_weight = 1 << 20, .ttl = absl::Hours(1), .tier = process.tier, .metrics = nullptr},
        [loads = process.loads.get(), version](const int64_t& key, LoadContext&) -> absl::StatusOr<int64_t> {
          ++*loads;
          return key + version;
        });
    return process;
  }
};

TEST_F(CacheOverRedisTest, RedisIsSilent_HitsEndInTimeAndNoCallHangs) {
  RedisCacheTierOptions options = PatientTier();
  options.max_staleness = absl::Milliseconds(400);
  options.timeout = absl::Seconds(1);
  const Process a = Start(options);
  const Process b = Start(options, 1000);
  ASSERT_EQ(**a.cache->Get(1), 1);
  ASSERT_EQ(**b.cache->Get(1), 1) << "from Redis";
  ASSERT_EQ(*b.loads, 0);
  Clock* const clock = a.tier->clock();
  server.Pause();
  const Instant silent = clock->Now();
  Instant last_hit = silent;
  for (;;) {
    const Instant begin = clock->Now();
    ASSERT_TRUE(b.cache->Get(1).ok());
    EXPECT_LT(clock->Now() - begin, absl::Seconds(20)) << "its time-out is a second";
    if (*b.loads > 0) break;
    last_hit = begin;
  }
  EXPECT_LE(last_hit, silent + options.max_staleness + absl::Milliseconds(10)) << "a tick of the coarse clock";
  EXPECT_EQ(**b.cache->Get(1), 1001);
  server.Resume();
  Await("the value of the fleet", [&] { return **b.cache->Get(1) == 1; });
}

TEST_F(CacheOverRedisTest, JournalIsTrimmed_EverythingIsAskedForInBatchesAndNothingIsLoaded) {
  constexpr size_t kProcesses = 8;
  constexpr int64_t kPage = 500;
  const int64_t pages = std::max<int64_t>(Scaled(4, 100), 1);
  const int64_t entries = pages * kPage;
  std::vector<Process> processes;
  for (size_t n = 0; n < kProcesses; ++n) processes.push_back(Start(PatientTier()));
  const auto read_all = [&](const Process& process) {
    for (int64_t page = 0; page < pages; ++page) {
      std::vector<int64_t> keys(kPage);
      for (int64_t i = 0; i < kPage; ++i) keys[static_cast<size_t>(i)] = page * kPage + i;
      const auto found = process.cache->GetAll(keys);
      for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(**found[i], keys[i]);
    }
  };
  for (const Process& process : processes) read_all(process);
  EXPECT_EQ(*processes[0].loads, entries);
  server.Call({"EVAL", kTrimJournal, "2", kState, kJournal});
  for (const Process& process : processes) {
    Await("the gap", [&] { return process.tier->Stats().gaps == 1 && process.tier->Stats().trusted; });
  }
  for (const Process& process : processes) {
    const auto round_trips = [&] { return Metric(*process.registry, "stockade_cache_tier_round_trip_seconds", "ask"); };
    const uint64_t hits = process.stats().hits + static_cast<uint64_t>(entries);
    const double trips = round_trips() + static_cast<double>(2 * pages);  // Of at most 256 keys.
    for (const char* from : {"Redis", "memory"}) {
      read_all(process);
      EXPECT_EQ(process.stats().hits, hits) << from;
      EXPECT_EQ(round_trips(), trips) << from;
    }
  }
  EXPECT_EQ(*processes[0].loads, entries);
  for (size_t n = 1; n < kProcesses; ++n) EXPECT_EQ(*processes[n].loads, 0);
}

// More bytes than the connection may have unsent, in one call.
TEST_F(CacheOverRedisTest, ManyLargeValues_AreStoredInPieces) {
  using Pages = LoadingCache<int64_t, std::string>;
  constexpr int64_t kValues = 120;
  MetricsRegistry registry;
  const auto tier = ConnectTier(server.url(), PatientTier([&](auto& o) { o.metrics = &registry; }));
  LoadingCacheOptions options = {.name = "pages"};
  options.tier = tier;
  options.metrics = nullptr;
  Pages::Callbacks callbacks;
  callbacks.load_all = [](const std::vector<int64_t>& keys, Pages::Callbacks::Batch& load) {
    for (const int64_t key : keys) load.Add(key, std::string(1 << 20, static_cast<char>('a' + key % 26)));
    return absl::OkStatus();
  };
  Pages pages(options, callbacks);
  std::vector<int64_t> keys(kValues);
  std::iota(keys.begin(), keys.end(), 0);
  const auto report = pages.WarmUp(keys, {.batch_size = kValues});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->present, static_cast<size_t>(kValues));
  EXPECT_EQ(tier->Stats().caches[0].stored, static_cast<uint64_t>(kValues));
}

// Only what the journal says is dropped, however often connections are lost.
TEST_F(CacheOverRedisTest, ConnectionsAreLost_OnlyWhatWasInvalidatedIsAskedForAgain) {
  const int64_t entries = Scaled(2'000, 100'000);
  constexpr int64_t kInvalidated = 10;
  const Process a = Start(PatientTier());
  const Process b = Start(PatientTier());
  std::vector<int64_t> keys(static_cast<size_t>(entries));
  std::iota(keys.begin(), keys.end(), 0);
  const auto asked = [](const Process& process) {
    const TierCacheStats stats = process.stats();
    return stats.hits + stats.granted + stats.busy + stats.away;
  };
  const auto read_all = [&](const Process& process) {
    const auto found = process.cache->GetAll(keys);
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(**found[i], keys[i]);
  };
  read_all(a);
  read_all(b);
  uint64_t invalidated = 0;
  for (const char* lost : {"pubsub", "normal"}) {
    SCOPED_TRACE(lost);
    const uint64_t before = asked(b);
    AwaitSubscribed(b);
    for (int64_t key = 0; key < kInvalidated; ++key) {
      if (key == kInvalidated / 2) server.Call({"CLIENT", "KILL", "TYPE", lost});
      a.cache->Invalidate(key);
    }
    ASSERT_TRUE(a.cache->AwaitInvalidations(absl::Minutes(1)).ok());
    invalidated += kInvalidated;
    Await("the invalidations", [&] { return b.stats().invalidations_applied == invalidated; });
    read_all(b);
    EXPECT_EQ(asked(b) - before, static_cast<uint64_t>(kInvalidated));
    read_all(b);
    EXPECT_EQ(asked(b) - before, static_cast<uint64_t>(kInvalidated));
    EXPECT_EQ(b.tier->Stats().gaps, 0u);
    read_all(a);
  }
}

// The loading process sends messages, or sends none, as one of an older version. Then the waiting process polls.
TEST_F(CacheOverRedisTest, AnotherProcessLoads_WithAndWithoutMessages_ItsValueIsTaken) {
  for (const bool messages : {true, false}) {
    SCOPED_TRACE(messages);
    server.Call({"FLUSHALL"});
    const auto tier = ConnectTier(server.url(), PatientTier([&](auto& o) { o.pubsub = messages; }));
    Door door;
    Cache loader({.name = "numbers", .ttl = absl::Hours(1), .tier = tier, .metrics = nullptr},
                 [&](const int64_t& key, LoadContext&) -> absl::StatusOr<int64_t> {
                   door.Pass();
                   return key;
                 });
    const Process waiting = Start(PatientTier(), 1000);
    AwaitSubscribed(waiting);
    std::jthread loading([&] { EXPECT_EQ(**loader.Get(1), 1); });
    door.AwaitArrivals(1);
    std::vector<std::jthread> callers;
    for (int n = 0; n < 4; ++n) callers.emplace_back([&] { EXPECT_EQ(**waiting.cache->Get(1), 1); });
    Await("a question", [&] { return waiting.stats().busy > 0; });
    door.Open();
    callers.clear();
    EXPECT_EQ(*waiting.loads, 0);
    if (messages) {
      Await("the message", [&] { return waiting.tier->Stats().lease_messages == 1; });
    } else {
      EXPECT_EQ(waiting.tier->Stats().lease_messages, 0u);
    }
  }
}

// A message announces an invalidation that never comes. Values that are older than it are not stored, so hits would ask
// Redis until the next invalidation.
TEST_F(CacheOverRedisTest, MessageIsAheadOfTheJournal_HitsComeFromMemoryAfterAHeartbeat) {
  Process a = Start(PatientTier());
  AwaitSubscribed(a);
  server.Call({"PUBLISH", kChannel, server.Call({"HGET", kState, "i"}).text + " 2 k numbers 7"});
  Await("the message", [&] { return a.tier->Stats().invalidation_messages == 1; });
  const uint64_t beats = a.tier->Stats().heartbeats;
  Await("heartbeats", [&] { return a.tier->Stats().heartbeats >= beats + 2; });
  ASSERT_EQ(*a.cache->Get(2).value(), 2);
  const uint64_t asked = a.stats().hits;
  for (int n = 0; n < 10; ++n) EXPECT_EQ(*a.cache->Get(2).value(), 2);
  EXPECT_EQ(a.stats().hits, asked);
  EXPECT_EQ(*a.loads, 1);
}

std::vector<int64_t> KeysFrom(int64_t first, int64_t count) {
  std::vector<int64_t> keys(static_cast<size_t>(count));
  std::iota(keys.begin(), keys.end(), first);
  return keys;
}

// Nearly half of the journal by one call, with heartbeats as rare as the default max_staleness allows.
TEST_F(CacheOverRedisTest, InvalidateKeys_ManyKeysAndRareHeartbeats_NoProcessHasAGap) {
  const std::vector<int64_t> keys = KeysFrom(0, 4'900);
  for (const bool pubsub : {true, false}) {
    SCOPED_TRACE(pubsub);
    std::vector<Process> processes;
    for (int n = 0; n < 4; ++n) {
      processes.push_back(Start(PatientTier([&](RedisCacheTierOptions& options) {
        options.heartbeat = absl::Milliseconds(360);
        options.pubsub = pubsub;
      })));
      for (const auto& found : processes.back().cache->GetAll(keys)) ASSERT_TRUE(found.ok());
      ASSERT_TRUE(processes.back().cache->Get(10'000).ok());
    }
    processes[0].cache->InvalidateKeys(keys);
    EXPECT_EQ(processes[0].cache->AwaitInvalidations(absl::Minutes(1)), absl::OkStatus());
    EXPECT_EQ(processes[0].stats().invalidations_accepted, keys.size());
    for (const Process& process : processes) {
      Await("the invalidations", [&] { return process.cache->size() == 1; });
      EXPECT_TRUE(process.cache->Peek(10'000).has_value());
      EXPECT_EQ(process.tier->Stats().gaps, 0u);
    }
  }
}

TEST_F(CacheOverRedisTest, InvalidateKeys_BelowAtAndAboveHalfOfTheJournal_MoreAreOneOfAll) {
  const auto options = PatientTier([](RedisCacheTierOptions& change) { change.journal_length = 200; });
  const Process process = Start(options), other = Start(options);
  const auto position = [&] { return std::stoll(server.Call({"HGET", kState, "q"}).text); };
  for (const int64_t count : {99, 100, 101}) {
    for (const Process* of : {&process, &other}) {
      for (const auto& found : of->cache->GetAll(KeysFrom(0, count + 1))) ASSERT_TRUE(found.ok());
    }
    const int64_t before = position();
    std::vector<int64_t> twice = KeysFrom(0, count);
    for (const int64_t key : KeysFrom(0, count)) twice.push_back(key);
    process.cache->InvalidateKeys(twice);
    EXPECT_EQ(process.cache->AwaitInvalidations(absl::Minutes(1)), absl::OkStatus());
    EXPECT_EQ(position() - before, count <= 100 ? count : 1);
    const int64_t left = count <= 100 ? 1 : 0;
    for (const Process* of : {&process, &other}) {
      Await("the invalidations", [&] { return of->cache->size() == left; });
    }
  }
}

TEST_F(CacheOverRedisTest, InvalidateKeys_NoHeartbeatComes_AQuarterOfTheJournalIsSent) {
  RedisCacheTierOptions options = QuietTier();
  options.timeout = absl::Seconds(3);
  options.journal_length = 400;
  const Process process = Start(options);
  process.cache->InvalidateKeys(KeysFrom(0, 150));
  EXPECT_EQ(process.stats().invalidations_accepted, 100u);
  EXPECT_EQ(process.stats().invalidations_pending, 50);
  process.cache->Invalidate(0);
  EXPECT_EQ(process.stats().invalidations_accepted, 101u) << "a single one is not held up";
}

// The pace is the tier's own, so it is no time-out.
TEST_F(CacheOverRedisTest, PutAll_ItsPaceIsLongerThanTheTimeout_AllAreStored) {
  const Process process = Start(PatientTier([](RedisCacheTierOptions& options) {
    options.heartbeat = absl::Milliseconds(1'500);
    options.timeout = absl::Seconds(1);
    options.journal_length = 400;
    options.pubsub = false;
  }));
  std::vector<std::pair<int64_t, int64_t>> entries;
  for (const int64_t key : KeysFrom(0, 250)) entries.emplace_back(key, 7 * key);
  process.cache->PutAll(entries);
  if (process.tier->Stats().heartbeats_failed > 0) GTEST_SKIP() << "Redis was too slow";
  EXPECT_EQ(process.stats().stored, 250u);
  EXPECT_EQ(**process.cache->Get(249), 7 * 249);
  EXPECT_EQ(*process.loads, 0);
}

TEST_F(CacheOverRedisTest, Destructor_WhilePutAllWaitsForItsPace_DoesNotWaitForIt) {
  RedisCacheTierOptions options = QuietTier();
  options.journal_length = 400;
  options.timeout = absl::Seconds(1);
  Process process = Start(options);
  Cache* const cache = process.cache.get();
  std::vector<std::pair<int64_t, int64_t>> entries;
  for (const int64_t key : KeysFrom(0, 1'000)) entries.emplace_back(key, key);
  std::jthread put([&] { cache->PutAll(entries); });
  Await("the first part", [&] { return process.stats().invalidations_accepted == 100; });
  const uint64_t heartbeats = process.tier->Stats().heartbeats;
  process.cache.reset();
  EXPECT_EQ(process.tier->Stats().heartbeats, heartbeats) << "the next one would have ended its wait";
}

}  // namespace
}  // namespace stockade::testing
