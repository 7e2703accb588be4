// Several processes with one cache in Redis over a versioned database, while processes, connections and the server
// fail. The members check each answer (member.cc); the loads are judged afterwards (load_judge.h).
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "cache/fleet/load_judge.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/subprocess.h"
#include "support/tcp_proxy.h"
#include "support/temp_dir.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

constexpr int kMembers = 4;

// A run of four processes, each with its own way to Redis.
class FleetRun {
 public:
  // `sizes`: as the members have it (member.cc). Then loads are not judged.
  explicit FleetRun(Breakage breakage = Breakage::kNone, bool sizes = false)
      : breakage_(breakage), sizes_(sizes), random_(Seed()) {
    for (int slot = 0; slot < kMembers; ++slot) {
      proxies_.push_back(std::make_unique<TcpProxy>(server_.port()));
      Start(slot);
    }
    Await("the members", [&] { return tables_->ready == kMembers; });
  }

  void PassTime(int64_t ms) { poll(nullptr, 0, static_cast<int>(ms)); }

  // One fault at random. Each ends before the call returns, except that what it did to the members takes its time.
  void Fault() {
    const int slot = static_cast<int>(random_() % kMembers);
    Slot& member = slots_[static_cast<size_t>(slot)];
    TcpProxy& proxy = *proxies_[static_cast<size_t>(slot)];
    switch (random_() % 12) {
      case 0:
        ++kills;
        killed_at_[member.process] = FleetNow();
        member.program->Kill(SIGKILL);
        Finish(member);
        killed_at_[member.process] = FleetNow();
        Start(slot);
        break;
      case 1:
      case 2:
        ++stops;
        member.program->Kill(SIGSTOP);
        PassTime(static_cast<int64_t>(random_() % 1500));
        member.program->Kill(SIGCONT);
        break;
      case 3:
      case 4: proxy.CutReplyAfter(random_() % 60); break;
      case 5: proxy.CloseAll(); break;
      case 6:
        proxy.Freeze();
        PassTime(static_cast<int64_t>(random_() % 1500));
        proxy.Thaw();
        break;
      case 7:
        proxy.Hold();
        PassTime(static_cast<int64_t>(random_() % 300));
        proxy.Release();
        break;
      case 8: server_.KillConnections(); break;
      case 9: NewReign([&] { server_.Call({"FLUSHALL"}); }); break;
      case 10: NewReign([&] { server_.Call({"DEL", "sc1:{fleet}:s"}); }); break;
      case 11:
        NewReign([&] {
          server_.Kill();
          PassTime(static_cast<int64_t>(random_() % 1500));
          server_.Restart();
        });
        break;
    }
    ++faults;
  }

  // Ends the run. Returns the number of violations.
  int64_t Finish() {
    tables_->stop = true;
    for (Slot& slot : slots_) {
      Finish(slot);
      EXPECT_EQ(slot.status, 0) << slot.program->err();
    }
    const int64_t unexplained = sizes_ ? 0 : JudgeAllLoads(true);
    std::cout << "seed " << Seed() << ": " << tables_->operations << " operations, " << tables_->loads << " loads ("
              << tables_->granted << " with a lease, " << tables_->away << " while Redis was away, " << lapses
              << " after a lease that ended without a value), " << tables_->hits << " hits of the second level, "
              << faults << " faults, " << kills << " kills, " << stops << " stops, " << reigns << " lost states"
              << std::endl;
    return tables_->violations + unexplained;
  }

  // Returns the number of loads without a reason. During the run it does not count those of the last seconds, because
  // what explains them may not have been recorded yet.
  int64_t JudgeAllLoads(bool at_end = false) {
    int64_t unexplained = 0;
    const int64_t recorded = at_end ? kNever : FleetNow() - 2 * kFleetStaleness;
    const std::vector<KeyHistory> histories = HistoriesOf(*tables_, killed_at_);
    for (size_t key = 0; key < histories.size(); ++key) {
      const LoadVerdict verdict = JudgeLoads(histories[key]);
      unexplained += std::count_if(verdict.unexplained.begin(), verdict.unexplained.end(),
                                   [&](int64_t at) { return at < recorded; });
      if (!at_end) continue;
      lapses += verdict.lapses;
      for (const int64_t at : verdict.unexplained) {
        if (breakage_ != Breakage::kNone) break;
        std::cout << "k" << key << " was loaded at " << at << " without a reason" << std::endl;
        PrintHistory(static_cast<int>(key), at);
      }
    }
    return unexplained;
  }

  FleetTables& tables() { return *tables_; }

  int64_t faults = 0, kills = 0, stops = 0, reigns = 0, lapses = 0;

 private:
  struct Slot {
    std::unique_ptr<Subprocess> program;
    int process = 0;
    int status = 0;
  };

  void Start(int slot) {
    Slot& member = slots_[static_cast<size_t>(slot)];
    member.process = slot + kMembers * starts_[static_cast<size_t>(slot)]++;
    member.program = std::make_unique<Subprocess>(std::vector<std::string>{
        FLEET_MEMBER, file_, std::to_string(member.process), RedisUrl(proxies_[static_cast<size_t>(slot)]->port()),
        std::to_string(random_()), std::to_string(static_cast<int>(breakage_)), sizes_ ? "1" : "0"});
  }
  void Finish(Slot& member) {
    member.status = member.program->Wait();
    if (member.program->err().find("VIOLATION") != std::string::npos && breakage_ == Breakage::kNone) {
      std::cout << member.program->err();
    }
  }
  // What was done to the key around a time, in milliseconds from that time.
  void PrintHistory(int key, int64_t at) {
    const auto ms = [&](int64_t time) {
      return time == 0 ? std::string("-") : std::to_string((time - at) / 1000 / 1000.0);
    };
    const uint32_t count = tables_->record_count;
    for (uint32_t n = 0; n < count; ++n) {
      const FleetRecord& record = tables_->records[n];
      if (record.key != FleetRecord::kAllKeys && record.key != key) continue;
      if (std::abs(record.begin - at) > 2 * kFleetTtl) continue;
      std::cout << "  " << FleetRecord::NameOf(record.kind) << " by process " << record.process << ": "
                << ms(record.begin) << ", answered " << ms(record.answered) << ", filled " << ms(record.fill_begin)
                << ", ended " << ms(record.end) << std::endl;
    }
  }
  template <typename Body>
  void NewReign(const Body& body) {
    ++reigns;
    FleetRecord& record = tables_->Add(FleetRecord::Kind::kReign, FleetRecord::kAllKeys, -1, FleetNow());
    body();
    record.end = FleetNow();
  }

  const Breakage breakage_;
  const bool sizes_;
  std::mt19937_64 random_;
  const TempDir dir_;
  const std::string file_ = dir_.File("tables");
  FleetTables* const tables_ = FleetTables::Map(file_);
  RedisServer server_;
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
  std::array<int, kMembers> starts_ = {};
  std::array<Slot, kMembers> slots_;
  std::map<int, int64_t> killed_at_;
};

TEST(FleetCheckerTest, Faults_NothingOldIsSeenAndEachLoadHasAReason) {
  STOCKADE_NEEDS_REDIS();
  FleetRun run;
  std::mt19937_64 random(Seed() + 1);
  const int64_t until = FleetNow() + Scaled(5, 60) * 1000 * kMillisecond;
  while (FleetNow() < until) {
    run.PassTime(static_cast<int64_t>(random() % 200));
    run.Fault();
  }
  run.PassTime(2 * kFleetStaleness / kMillisecond);
  EXPECT_EQ(run.Finish(), 0);
  EXPECT_GT(run.tables().operations, 1000);
  EXPECT_GT(run.tables().hits, 0);
  EXPECT_GT(run.tables().granted, 0);
}

// Keys and tags of up to 1 MB, values around every bound, calls for 20,000 keys, and a codec that throws.
TEST(FleetCheckerTest, SizesAroundEachBound_NothingOldIsSeen) {
  STOCKADE_NEEDS_REDIS();
  FleetRun run(Breakage::kNone, true);
  std::mt19937_64 random(Seed() + 1);
  const int64_t until = FleetNow() + Scaled(3, 60) * 1000 * kMillisecond;
  while (FleetNow() < until) {
    run.PassTime(static_cast<int64_t>(random() % 400));
    run.Fault();
  }
  run.PassTime(2 * kFleetStaleness / kMillisecond);
  EXPECT_EQ(run.Finish(), 0);
  EXPECT_GT(run.tables().operations, 100);
  EXPECT_GT(run.tables().hits, 0);
}

TEST(FleetCheckerTest, NoFaults_OneLoadPerReason) {
  STOCKADE_NEEDS_REDIS();
  FleetRun run;
  run.PassTime(Scaled(2, 10) * 1000);
  EXPECT_EQ(run.Finish(), 0);
}

TEST(FleetCheckerTest, InvalidationsAreNotReported_IsFound) {
  STOCKADE_NEEDS_REDIS();
  FleetRun run(Breakage::kDeaf);
  Await("a violation", [&] { return run.tables().violations > 0; });
  EXPECT_GT(run.Finish(), 0);
}

TEST(FleetCheckerTest, AProcessLoadsTooOftenWhileRedisIsAway_IsFound) {
  STOCKADE_NEEDS_REDIS();
  FleetRun run(Breakage::kImpatient);
  Await("a violation", [&] { return run.tables().violations > 0; });
  EXPECT_GT(run.Finish(), 0);
}

TEST(FleetCheckerTest, TwoProcessesLoadAKey_IsFound) {
  STOCKADE_NEEDS_REDIS();
  FleetRun run(Breakage::kGreedy);
  Await("a load without a reason", [&] { return run.JudgeAllLoads() > 0; });
  EXPECT_GT(run.Finish() - run.tables().violations, 0);
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
  tables.version[3] = 7;
  tables.invalidated_at[3][6] = kSecond;
  const int64_t bound = kSecond + kFleetStaleness + kFleetTick;
  EXPECT_EQ(tables.NewerThan(3, 5, bound - 1), 0);
  EXPECT_EQ(tables.NewerThan(3, 5, bound), 6);
  EXPECT_EQ(tables.NewerThan(3, 6, bound), 0);
  EXPECT_EQ(tables.NewerThan(3, 7, bound), 0);
}

}  // namespace
}  // namespace stockade::testing
