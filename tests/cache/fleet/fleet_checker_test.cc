// Several processes with one cache in Redis over a versioned database, while processes, connections and the server
// fail. The members check each answer (member.cc); the loads are judged afterwards (load_judge.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cache/fleet/fleet_run.h"
#include "cache/fleet/fleet_tables.h"
#include "cache/fleet/load_judge.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/fault_driver.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/temp_dir.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

// A run over one server, to which each member has a way of its own.
class ProxiedFleet {
 public:
  explicit ProxiedFleet(Breakage breakage = Breakage::kNone, bool sizes = false) {
    std::vector<FleetPlace> places;
    for (int member = 0; member < kFleetMembers; ++member) {
      owned_.push_back(std::make_unique<TcpProxy>(server_.port()));
      proxies_.push_back(owned_.back().get());
      places.push_back({.url = RedisUrl(proxies_.back()->port())});
    }
    run_.emplace(FleetRun::Options{.places = places, .breakage = breakage, .sizes = sizes, .judged = !sizes});
  }

  FleetRun& operator*() { return *run_; }
  FleetRun* operator->() { return &*run_; }

  void MakeFaults(int64_t faults, int64_t longest_pause) {
    const FaultDriver driver(Together(Together(run_->MemberFaults(), run_->ServerFaults(server_)),
                                      ProxyFaults(proxies_, PassMilliseconds, kLongestFault)),
                             PassMilliseconds);
    run_->Make(driver, FaultsToRun(driver.Draw(Seed() + 1, faults, longest_pause)));
  }

 private:
  RedisServer server_;
  std::vector<std::unique_ptr<TcpProxy>> owned_;
  std::vector<TcpProxy*> proxies_;
  std::optional<FleetRun> run_;
};

TEST(FleetCheckerTest, Faults_NothingOldIsSeenAndEachLoadHasAReason) {
  STOCKADE_NEEDS_REDIS();
  ProxiedFleet run;
  run.MakeFaults(std::max<int64_t>(Scaled(15, 180), 3), 200);
  PassMilliseconds(2 * kFleetStaleness / kMillisecond);
  EXPECT_EQ(run->Finish(), 0);
  EXPECT_GT(run->tables().operations, 1000);
  EXPECT_GT(run->tables().hits, 0);
  EXPECT_GT(run->tables().granted, 0);
}

// Keys and tags of up to 1 MB, values around every bound, calls for 20,000 keys, and a codec that throws.
TEST(FleetCheckerTest, SizesAroundEachBound_NothingOldIsSeen) {
  STOCKADE_NEEDS_REDIS();
  ProxiedFleet run(Breakage::kNone, true);
  run.MakeFaults(std::max<int64_t>(Scaled(8, 150), 3), 400);
  PassMilliseconds(2 * kFleetStaleness / kMillisecond);
  EXPECT_EQ(run->Finish(), 0);
  EXPECT_GT(run->tables().operations, 100);
  EXPECT_GT(run->tables().hits, 0);
}

TEST(FleetCheckerTest, NoFaults_OneLoadPerReason) {
  STOCKADE_NEEDS_REDIS();
  ProxiedFleet run;
  PassMilliseconds(Scaled(2, 10) * 1000);
  EXPECT_EQ(run->Finish(), 0);
}

TEST(FleetCheckerTest, InvalidationsAreNotReported_IsFound) {
  STOCKADE_NEEDS_REDIS();
  ProxiedFleet run(Breakage::kDeaf);
  Await("a violation", [&] { return run->tables().violations > 0; });
  EXPECT_GT(run->Finish(), 0);
}

TEST(FleetCheckerTest, AProcessLoadsTooOftenWhileRedisIsAway_IsFound) {
  STOCKADE_NEEDS_REDIS();
  ProxiedFleet run(Breakage::kImpatient);
  Await("a violation", [&] { return run->tables().violations > 0; });
  EXPECT_GT(run->Finish(), 0);
}

TEST(FleetCheckerTest, TwoProcessesLoadAKey_IsFound) {
  STOCKADE_NEEDS_REDIS();
  ProxiedFleet run(Breakage::kGreedy);
  Await("a load without a reason", [&] { return run->JudgeAllLoads() > 0; });
  EXPECT_GT(run->Finish() - run->tables().violations, 0);
}

constexpr int64_t kSecond = 1000 * kMillisecond;

TEST(LoadJudgeTest, EachReason_ExplainsOneLoad) {
  const LeasedLoad first = {.asked = 10, .answered = 11, .fill_begin = 20, .end = 21};
  const LeasedLoad second = {.asked = 100, .answered = 101, .fill_begin = 120, .end = 121};
  const LeasedLoad third = {.asked = 200, .answered = 201, .fill_begin = 220, .end = 221};
  EXPECT_TRUE(JudgeLoads({.loads = {first}}).unexplained.empty()) << "cold";
  EXPECT_EQ(JudgeLoads({.loads = {first, second}}).unexplained, std::vector<int64_t>{100});
  EXPECT_TRUE(JudgeLoads({.loads = {first, second}, .causes = {{50, 60}}}).unexplained.empty());
  EXPECT_EQ(JudgeLoads({.loads = {first, second, third}, .causes = {{50, 60}}}).unexplained, std::vector<int64_t>{200});
  EXPECT_EQ(JudgeLoads({.loads = {first, second}, .causes = {{150, 160}}}).unexplained, std::vector<int64_t>{100})
      << "it came later";
  EXPECT_EQ(JudgeLoads({.loads = {first, second}, .causes = {{1, 2}}}).unexplained, std::vector<int64_t>{100})
      << "the first load took account of it";
  EXPECT_TRUE(JudgeLoads({.loads = {first, second}, .causes = {{1, kNever}}}).unexplained.empty())
      << "it may take effect at any time";
}

TEST(LoadJudgeTest, LeaseEndsWithoutAValue_ExplainsOneLoad) {
  const LeasedLoad lapsed = {.asked = 10, .answered = 11, .end = 50};
  const LeasedLoad second = {.asked = 60, .answered = 61, .fill_begin = 70, .end = 71};
  const LeasedLoad third = {.asked = 80, .answered = 81, .fill_begin = 90, .end = 91};
  const LoadVerdict verdict = JudgeLoads({.loads = {lapsed, second}});
  EXPECT_TRUE(verdict.unexplained.empty());
  EXPECT_EQ(verdict.lapses, 1);
  EXPECT_EQ(JudgeLoads({.loads = {lapsed, second, third}}).unexplained, std::vector<int64_t>{80});
  EXPECT_EQ(JudgeLoads({.loads = {second, lapsed}}).unexplained.size(), 0u) << "the order does not matter";
  EXPECT_EQ(JudgeLoads({.loads = {second, {.asked = 80, .answered = 81, .end = 90}}}).unexplained,
            std::vector<int64_t>{80})
      << "it does not explain itself";
}

TEST(LoadJudgeTest, LoadsAndCausesOverlap_EachLoadGetsTheCauseThatFits) {
  const LeasedLoad first = {.asked = 10, .answered = 11, .fill_begin = 20, .end = 21};
  const LeasedLoad slow = {.asked = 100, .answered = 130, .fill_begin = 180, .end = 190};
  const LeasedLoad quick = {.asked = 105, .answered = 110, .fill_begin = 112, .end = 120};
  EXPECT_TRUE(JudgeLoads({.loads = {first, slow, quick}, .causes = {{95, 115}, {116, 125}}}).unexplained.empty())
      << "the second cause comes too late for the quick load";

  const LeasedLoad lapsed = {.asked = 100, .answered = 120, .end = 150};
  const LeasedLoad later = {.asked = 116, .answered = 117, .fill_begin = 118, .end = 140};
  EXPECT_TRUE(
      JudgeLoads({.loads = {first, quick, lapsed, later}, .causes = {{95, 115}, {116, 117}}}).unexplained.empty())
      << "the lapse can explain the quick load only";
}

TEST(LoadJudgeTest, Expiry_ExplainsALoadThatBeginsAfterIt) {
  const auto later = [](int64_t by) {
    const int64_t at = kSecond + by;
    return LeasedLoad{.asked = at, .answered = at + 1, .fill_begin = at + 2, .end = at + 3};
  };
  const LeasedLoad first = later(0);
  EXPECT_TRUE(JudgeLoads({.loads = {first, later(kFleetTtl)}}).unexplained.empty());
  EXPECT_EQ(JudgeLoads({.loads = {first, later(kFleetTtl / 2)}}).unexplained.size(), 1u);
  EXPECT_EQ(JudgeLoads({.loads = {first, later(kFleetTtl), later(kFleetTtl + 10)}}).unexplained.size(), 1u);
}

TEST(LoadJudgeTest, InvalidationWasSentAgain_MayTakeEffectAfterItWasAccepted) {
  const TempDir dir;
  FleetTables& tables = *FleetTables::Map(dir.File("tables"));
  for (const int64_t took : {kFleetTimeout - 1, kFleetTimeout}) {
    tables.Add(FleetRecord::Kind::kInvalidation, 3, 0, kSecond).end = kSecond + took;
  }
  const std::vector<LoadCause> causes = HistoriesOf(tables, {})[3].causes;
  EXPECT_EQ(causes.at(0).end, kSecond + kFleetTimeout - 1);
  EXPECT_GT(causes.at(1).end, kSecond + kFleetTimeout);
}

TEST(AwayLoadsTest, SecondLoadWhileTheValueIsKept_IsFound) {
  AwayLoads loads;
  const auto load = [&](int64_t lookup, int64_t asked) {
    loads.NoteAway(asked);
    return loads.NoteLoad(lookup);
  };
  EXPECT_TRUE(load(kSecond, kSecond + 50 * kMillisecond));
  EXPECT_FALSE(load(kSecond, kSecond + kFleetStaleness / 2));
  EXPECT_TRUE(load(kSecond, kSecond + kFleetStaleness)) << "it is kept from the lookup on";
  loads.NoteAnswer();
  EXPECT_TRUE(load(2 * kSecond, 2 * kSecond));
  EXPECT_TRUE(loads.NoteLoad(2 * kSecond)) << "with a lease";
}

TEST(AwayLoadsTest, ValueIsDropped_LoadsThatRanAreNotCounted) {
  AwayLoads loads;
  const auto load = [&](int64_t at) {
    loads.NoteAway(at);
    return loads.NoteLoad(at);
  };
  EXPECT_TRUE(load(kSecond));
  loads.NoteDrop();
  for (int n = 1; n <= 3; ++n) EXPECT_TRUE(load(kSecond + n)) << "two that ran, and one that is kept: " << n;
  EXPECT_FALSE(load(kSecond + 4));
}

TEST(LoadJudgeTest, OldVersionAfterTheBound_IsFound) {
  const TempDir dir;
  FleetTables& tables = *FleetTables::Map(dir.File("tables"));
  tables.settings = {};
  tables.version[3] = 7;
  tables.invalidated_at[3][6] = kSecond;
  const int64_t bound = kFleetStaleness + kFleetTick;
  EXPECT_EQ(tables.AgeOf(3, 6, kSecond + bound), 0);
  EXPECT_EQ(tables.AgeOf(3, 7, kSecond + bound), 0);
  EXPECT_EQ(tables.AgeOf(3, 5, kSecond + bound), bound);
  EXPECT_TRUE(tables.NoteAge(bound - 1));
  EXPECT_FALSE(tables.NoteAge(bound));
  EXPECT_EQ(tables.old_reads, 1);
  EXPECT_EQ(tables.oldest, bound);
}

}  // namespace
}  // namespace stockade::testing
