// The fleet of fleet_checker_test.cc on hosts of their own, while the network between them loses packets. A member that
// is cut off from Redis still has the database.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "cache/fleet/fleet_run.h"
#include "cache/fleet/fleet_tables.h"
#include "redis/support/redis_server.h"
#include "redis/support/sentinel_set.h"
#include "stockade/base/strings.h"
#include "support/await.h"
#include "support/fault_driver.h"
#include "support/network.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

// The members are on the hosts that follow those of the servers.
std::vector<FleetPlace> PlacesOn(const Network& network, int servers, const std::string& url) {
  std::vector<FleetPlace> places;
  for (int member = 0; member < kFleetMembers; ++member) places.push_back({network.host(servers + member), url});
  return places;
}

// The server answers nothing for a while, and then finds what it was sent meanwhile.
FaultDriver::Kind Pausing(std::string name, int64_t longest, std::function<RedisServer&()> server) {
  return {std::move(name), {longest}, [server](std::span<const int64_t> numbers) {
            RedisServer& paused = server();
            paused.Pause();
            PassMilliseconds(numbers[0]);
            paused.Resume();
          }};
}

// Longer than any member may trust what it has.
constexpr int64_t kLongestCutOff = 3 * kFleetStaleness / kMillisecond;

class CachePartitionTest : public ::testing::Test {
 protected:
  struct Outcome {
    std::vector<Fault> schedule = {};
    int64_t old_reads = 0;
    int64_t other_violations = 0;
    int64_t operations = 0;
  };

  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    STOCKADE_NEEDS_NETWORK();
  }

  // The members have a strict cache, with locks on the same servers.
  static FleetRun::Options StrictMembers() {
    return {.judged = false,
            .settings = {.ttl = 60'000 * kMillisecond, .bound = 300 * kMillisecond},
            .program = FLEET_STRICT_MEMBER};
  }

  // One server behind a proxy, and the faults of `schedule`; if it is empty, those of the seed. If reads may be old, it
  // ends at the first one that is.
  static Outcome RunOneServer(uint64_t seed, FleetRun::Options options, std::vector<Fault> schedule = {}) {
    Network network(1 + kFleetMembers);
    RedisServer server({.host = network.host(0)});
    TcpProxy proxy(server.port(), network.host(0));
    const std::vector<TcpProxy*> proxies = {&proxy};
    const std::string url = base_internal::Concat("redis://", network.host(0).address(), ":", proxy.port());
    options.places = PlacesOn(network, 1, url);
    options.seed = seed;
    const bool ends_early = options.reads_may_be_old;
    FleetRun run(std::move(options));
    FaultDriver::Kinds kinds = Together(NetworkFaults(network, 1, PassMilliseconds, kLongestCutOff),
                                        Together(run.MemberFaults(), run.ServerFaults(server)));
    kinds = Together(std::move(kinds), ProxyFaults(proxies, PassMilliseconds, kLongestFault));
    kinds.push_back(Pausing("pause-server", 2 * kLongestFault, [&]() -> RedisServer& { return server; }));
    const FaultDriver driver(std::move(kinds), PassMilliseconds);
    if (schedule.empty()) {
      schedule = driver.Draw(seed, 12, 700);
      schedule.insert(schedule.begin(), {.after = 500, .kind = "cut-off", .numbers = {0, kLongestCutOff - 1}});
    }
    FleetTables& tables = run.tables();
    run.Make(driver, FaultsToRun(std::move(schedule), seed), [&] { return ends_early && tables.old_reads > 0; });
    network.Heal();
    PassMilliseconds(2 * kFleetStaleness / kMillisecond);
    const int64_t violations = run.Finish();
    return {{}, tables.old_reads, violations - tables.old_reads, tables.operations};
  }
  static void ExpectNothingOld(const Outcome& outcome, uint64_t seed, int64_t& operations) {
    EXPECT_EQ(outcome.old_reads, 0) << "seed " << seed;
    EXPECT_EQ(outcome.other_violations, 0) << "seed " << seed;
    operations += outcome.operations;
  }
};

TEST_F(CachePartitionTest, OneServer_NothingOldIsSeenAndEachLoadHasAReason) {
  int64_t operations = 0;
  const auto seeds = static_cast<uint64_t>(Scaled(1, 20));
  for (uint64_t seed = Seed(); seed < Seed() + seeds; ++seed)
    ExpectNothingOld(RunOneServer(seed, {}), seed, operations);
  EXPECT_GT(operations, 1000);
}

// The cache equals its database: after a settled update, nobody reads an older version.
TEST_F(CachePartitionTest, Strict_OneServer_NoReadIsOlderThanASettledUpdate) {
  int64_t operations = 0;
  const auto seeds = static_cast<uint64_t>(Scaled(1, 20));
  for (uint64_t seed = Seed(); seed < Seed() + seeds; ++seed) {
    ExpectNothingOld(RunOneServer(seed, StrictMembers()), seed, operations);
  }
  EXPECT_GT(operations, Scaled(2000, 100'000));
}

// Marks are lost with the state of the server. Then a member that is cut off has what it got in between.
TEST_F(CachePartitionTest, Strict_UpdatesWaitOnce_AReadThatIsTooOldIsFound) {
  FleetRun::Options once = StrictMembers();
  once.breakage = Breakage::kWaitsOnce;
  once.reads_may_be_old = true;
  std::vector<Fault> schedule;
  for (int64_t n = 0; n < 100; ++n) {
    schedule.push_back({.after = 200, .kind = "flush"});
    schedule.push_back({.after = 150, .kind = "cut-off", .numbers = {n % kFleetMembers, 400}});
  }
  EXPECT_GT(RunOneServer(Seed(), once, std::move(schedule)).old_reads, 0);
}

// A master on a host, a replica on each of two more, and a Sentinel on each of the three.
class CacheSentinelPartitionTest : public CachePartitionTest {
 protected:
  static constexpr int kServers = 3;

  // A master that has lost its replicas accepts writes until it has noticed that. With `min-replicas-max-lag 1` it
  // looks once a second whether the last acknowledgement is two seconds old, by a clock that counts whole seconds. If
  // packets are lost in one direction only, an acknowledgement may come a second after the cut. It must have noticed
  // before another master is chosen.
  static constexpr absl::Duration kDownAfter = absl::Seconds(5);

  // The usual run has the first one only: with it, reads beyond the bound are found without `min_replicas`.
  static constexpr std::array<uint64_t, 20> kSeeds = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                      11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

  // Values live for long, and are changed so rarely that they can become older than the bound.
  static FleetRun::Options Members() { return {.settings = {.ttl = 60'000 * kMillisecond, .batches_per_write = 3000}}; }
  // Makes the faults of `schedule`; if it is empty, those of the seed. Without `min_replicas` it ends at the first read
  // beyond the bound.
  static Outcome Run(uint64_t seed, bool min_replicas, std::vector<Fault> schedule = {},
                     FleetRun::Options options_of_run = Members(), int64_t faults = 6) {
    Network network(kServers + kFleetMembers);
    SentinelSetOptions options = {.down_after = kDownAfter,
                                  .hosts = {network.host(0), network.host(1), network.host(2)}};
    if (min_replicas) options.server.config = {"min-replicas-to-write 1", "min-replicas-max-lag 1"};
    SentinelSet set(options);
    options_of_run.places = PlacesOn(network, kServers, set.url());
    // A failover is a reason for loads, but nobody knows when a process notices it, and two masters each grant a lease.
    options_of_run.judged = false;
    options_of_run.reads_may_be_old = !min_replicas;
    options_of_run.seed = seed;
    FleetRun run(std::move(options_of_run));
    const FaultDriver driver(Together(Partitions(network, set), run.MemberFaults()), PassMilliseconds);
    if (schedule.empty()) schedule = driver.Draw(seed, faults, 1000);
    schedule = FaultsToRun(std::move(schedule), seed);
    FleetTables& tables = run.tables();
    run.Make(driver, schedule, [&] { return !min_replicas && tables.old_reads > 0; });
    network.Heal();
    set.AwaitSettled();
    PassMilliseconds(2 * kFleetStaleness / kMillisecond);
    const int64_t violations = run.Finish();
    return {std::move(schedule), tables.old_reads, violations - tables.old_reads, tables.operations};
  }

 private:
  static FaultDriver::Kinds Partitions(Network& network, SentinelSet& set) {
    FaultDriver::Kinds kinds = NetworkFaults(network, kServers, PassMilliseconds, kLongestCutOff);
    const auto heal = [&] {
      network.Heal();
      set.AwaitSettled();
    };
    for (FaultDriver::Kind& kind : kinds) {
      if (kind.name == "heal") kind.make = [heal](std::span<const int64_t>) { heal(); };
    }
    kinds.push_back(Pausing("pause-master", 9'000, [&set]() -> RedisServer& { return set.master(); }));
    // The master and the members of a mask are on one side. It stays so for a while after the other side has a master.
    kinds.push_back({"isolate",
                     {1 << kFleetMembers, 4'000},
                     [&network, &set, heal](std::span<const int64_t> numbers) {
                       heal();
                       const std::string old = std::to_string(set.master_port());
                       int master = 0;
                       while (std::to_string(set.server(static_cast<size_t>(master)).port()) != old) ++master;
                       network.Split(uint64_t{1} << master | static_cast<uint64_t>(numbers[0]) << kServers);
                       const RedisServer& sentinel = set.sentinel(static_cast<size_t>(master + 1) % kServers);
                       Await("another master", [&] {
                         const RawReply named = sentinel.Call({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"});
                         return named.items.size() == 2 && named.items[1].text != old;
                       });
                       PassMilliseconds(numbers[1]);
                     },
                     6});
    return kinds;
  }
};

TEST_F(CacheSentinelPartitionTest, MinReplicasToWrite_NoReadIsBeyondTheBound) {
  int64_t operations = 0;
  const auto seeds = static_cast<size_t>(Scaled(1, kSeeds.size()));
  for (const uint64_t seed : SeedsOr(std::vector<uint64_t>(kSeeds.begin(), kSeeds.begin() + seeds))) {
    ExpectNothingOld(Run(seed, true), seed, operations);
  }
  EXPECT_GT(operations, 1000);
}

// What docs/CACHE.md does not promise; other violations are found, too, because what is invalidated at the old master
// is lost. It also shows that the other test would find such reads.
TEST_F(CacheSentinelPartitionTest, NoMinReplicas_AReadBeyondTheBoundIsFoundAndItsScheduleFindsItAgain) {
  std::string found;
  for (const uint64_t seed : SeedsOr({kSeeds.begin(), kSeeds.end()})) {
    const Outcome outcome = Run(seed, false);
    if (outcome.old_reads == 0) continue;
    std::cout << "found with seed " << seed << std::endl;
    found = ToText(outcome.schedule);
    break;
  }
  ASSERT_NE(found, "");
  // The schedule does not decide which member writes which key at which moment.
  int64_t again = 0;
  const int64_t attempts = Scaled(0, 5);
  for (int64_t n = 0; n < attempts && again == 0; ++n) again = Run(Seed(), false, ParseFaults(found)).old_reads;
  EXPECT_TRUE(again > 0 || attempts == 0);
}

TEST_F(CacheSentinelPartitionTest, Strict_MinReplicasToWrite_NoReadIsOlderThanASettledUpdate) {
  int64_t operations = 0;
  const auto seeds = static_cast<size_t>(Scaled(1, kSeeds.size()));
  for (const uint64_t seed : SeedsOr(std::vector<uint64_t>(kSeeds.begin(), kSeeds.begin() + seeds))) {
    ExpectNothingOld(Run(seed, true, {}, StrictMembers(), Scaled(3, 6)), seed, operations);
  }
  EXPECT_GT(operations, Scaled(2000, 100'000));
}

// Two masters each have the marks of the updates of their side only.
TEST_F(CacheSentinelPartitionTest, Strict_NoMinReplicas_AReadThatIsTooOldIsFound) {
  for (const uint64_t seed : SeedsOr({kSeeds.begin(), kSeeds.end()})) {
    if (Run(seed, false, {}, StrictMembers()).old_reads > 0) return;
  }
  ADD_FAILURE() << "none was found";
}

}  // namespace
}  // namespace stockade::testing
