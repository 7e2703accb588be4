#ifndef STOCKADE_TESTS_CACHE_FLEET_FLEET_RUN_H_
#define STOCKADE_TESTS_CACHE_FLEET_FLEET_RUN_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "cache/fleet/load_judge.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/fault_driver.h"
#include "support/network.h"
#include "support/subprocess.h"
#include "support/temp_dir.h"
#include "support/test_seed.h"

namespace stockade::testing {

inline constexpr int kFleetMembers = 4;
inline constexpr int64_t kLongestFault = 1500;  // In milliseconds.

inline void PassMilliseconds(int64_t ms) { poll(nullptr, 0, static_cast<int>(ms)); }

// The host of a member, and its URL of Redis.
struct FleetPlace {
  NetworkHost host = {};
  std::string url = {};
};

// A run of four processes. Their database is a file that they map, which no fault of a network reaches. For one thread.
class FleetRun {
 public:
  struct Options {
    std::vector<FleetPlace> places;  // One per member.
    Breakage breakage = Breakage::kNone;
    bool sizes = false;             // As the members have it (member.cc).
    bool judged = true;             // Whether each load must have a reason.
    bool reads_may_be_old = false;  // Then violations are not printed.
    FleetSettings settings = {};
    std::string program = FLEET_MEMBER;
    uint64_t seed = Seed();
  };

  explicit FleetRun(Options options) : options_(std::move(options)), random_(options_.seed) {
    tables_->settings = options_.settings;
    for (int slot = 0; slot < kFleetMembers; ++slot) Start(slot);
    Await("the members", [&] { return tables_->ready == kFleetMembers; });
  }

  // Of the members: each fault names its member first.
  FaultDriver::Kinds MemberFaults() {
    return {
        {"kill", {kFleetMembers}, [this](std::span<const int64_t> numbers) { Kill(static_cast<int>(numbers[0])); }, 2},
        {"stop",
         {kFleetMembers, kLongestFault},
         [this](std::span<const int64_t> numbers) {
           ++stops_;
           const Slot& member = slots_.at(static_cast<size_t>(numbers[0]));
           member.program->Kill(SIGSTOP);
           PassMilliseconds(numbers[1]);
           member.program->Kill(SIGCONT);
         },
         3},
    };
  }

  // Of their server. Those that destroy its state are reasons for loads.
  FaultDriver::Kinds ServerFaults(RedisServer& server) {
    return {
        {"kill-connections", {}, [&server](std::span<const int64_t>) { server.KillConnections(); }, 2},
        {"flush", {}, [&](std::span<const int64_t>) { NewReign([&] { server.Call({"FLUSHALL"}); }); }, 2},
        {"delete-state",
         {},
         [&](std::span<const int64_t>) { NewReign([&] {
                                           server.Call({"DEL", "sc1:{fleet}:s"});
                                         }); },
         2},
        {"kill-server",
         {kLongestFault},
         [&](std::span<const int64_t> numbers) {
           NewReign([&] {
             server.Kill();
             PassMilliseconds(numbers[0]);
             server.Restart();
           });
         },
         2},
    };
  }

  // `until`: when it is true, the rest is not made.
  void Make(
      const FaultDriver& driver, std::span<const Fault> schedule,
      const std::function<bool()>& until = [] { return false; }) {
    for (const Fault& fault : schedule) {
      if (until()) return;
      driver.Make(fault);
      ++faults_;
    }
  }

  // Ends the run. Returns the number of violations.
  int64_t Finish() {
    tables_->stop = true;
    for (Slot& slot : slots_) {
      Finish(slot);
      EXPECT_EQ(slot.status, 0) << slot.program->err();
    }
    const int64_t unexplained = options_.judged ? JudgeAllLoads(true) : 0;
    std::cout << "seed " << options_.seed << ": " << tables_->operations << " operations, " << tables_->loads
              << " loads (" << tables_->granted << " with a lease, " << tables_->away << " while Redis was away, "
              << lapses_ << " after a lease that ended without a value), " << tables_->hits
              << " hits of the second level, " << faults_ << " faults, " << kills_ << " kills, " << stops_ << " stops, "
              << reigns_ << " lost states, the oldest read " << tables_->oldest / kMillisecond
              << " ms after an invalidation, " << tables_->updates << " settled updates, " << tables_->marks_lost
              << " lost marks" << std::endl;
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
      lapses_ += verdict.lapses;
      for (const int64_t at : verdict.unexplained) {
        if (options_.breakage != Breakage::kNone) break;
        std::cout << "k" << key << " was loaded at " << at << " without a reason" << std::endl;
        PrintHistory(static_cast<int>(key), at);
      }
    }
    return unexplained;
  }

  FleetTables& tables() { return *tables_; }

 private:
  struct Slot {
    std::unique_ptr<Subprocess> program = {};
    int process = 0;
    int status = 0;
    int starts = 0;
  };

  void Start(int slot) {
    Slot& member = slots_[static_cast<size_t>(slot)];
    const FleetPlace& place = options_.places.at(static_cast<size_t>(slot));
    member.process = slot + kFleetMembers * member.starts++;
    const NetworkHost::Scope there = place.host.Enter();
    member.program = std::make_unique<Subprocess>(std::vector<std::string>{
        options_.program, file_, std::to_string(member.process), place.url, std::to_string(random_()),
        std::to_string(static_cast<int>(options_.breakage)), options_.sizes ? "1" : "0"});
  }
  void Finish(Slot& member) {
    Await("the member to end", [&] { return member.program->ended(); });
    member.status = member.program->Wait();
    if (member.program->err().find("VIOLATION") != std::string::npos && options_.breakage == Breakage::kNone &&
        !options_.reads_may_be_old) {
      std::cout << member.program->err();
    }
  }
  void Kill(int slot) {
    ++kills_;
    Slot& member = slots_.at(static_cast<size_t>(slot));
    killed_at_[member.process] = FleetNow();
    member.program->Kill(SIGKILL);
    Finish(member);
    killed_at_[member.process] = FleetNow();
    Start(slot);
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
      const int64_t end = record.end;
      if (record.begin > at + 2 * kFleetTtl || (end != 0 && end < at - 2 * kFleetTtl)) continue;
      std::cout << "  " << FleetRecord::NameOf(record.kind) << " by process " << record.process << ": "
                << ms(record.begin) << ", answered " << ms(record.answered) << ", filled " << ms(record.fill_begin)
                << ", ended " << ms(end) << std::endl;
    }
  }
  template <typename Body>
  void NewReign(const Body& body) {
    ++reigns_;
    FleetRecord& record = tables_->Add(FleetRecord::Kind::kReign, FleetRecord::kAllKeys, -1, FleetNow());
    body();
    record.end = FleetNow();
  }

  const Options options_;
  std::mt19937_64 random_;
  const TempDir dir_;
  const std::string file_ = dir_.File("tables");
  FleetTables* const tables_ = FleetTables::Map(file_);
  std::array<Slot, kFleetMembers> slots_;
  std::map<int, int64_t> killed_at_;
  int64_t faults_ = 0, kills_ = 0, stops_ = 0, reigns_ = 0, lapses_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_FLEET_FLEET_RUN_H_
