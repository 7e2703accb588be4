// Processes of a fleet that are killed or stopped while others wait for them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "redis/support/redis_server.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/subprocess.h"
#include "support/temp_dir.h"

namespace stockade::testing {
namespace {

// The numbers after each "<word> " that begins a line.
std::vector<int64_t> NumbersAfter(const std::string& word, const std::string& text) {
  std::vector<int64_t> numbers;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line) && !in.eof();) {  // A line without its end may be a part of one.
    if (line.starts_with(word + " ")) numbers.push_back(std::stoll(line.substr(word.size())));
  }
  return numbers;
}

size_t CountOf(const std::string& line, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(line + "\n"); at != std::string::npos; at = text.find(line + "\n", at + 1)) ++count;
  return count;
}

class StoppedProcessesTest : public ::testing::Test {
 protected:
  void SetUp() override { STOCKADE_NEEDS_REDIS(); }

  std::unique_ptr<Subprocess> Start(int64_t threads, int64_t lease_ms, int64_t staleness_ms) {
    auto process =
        std::make_unique<Subprocess>(std::vector<std::string>{FLEET_CALLER, server.url(), path, std::to_string(threads),
                                                              std::to_string(lease_ms), std::to_string(staleness_ms)},
                                     Subprocess::kInputStaysOpen);
    EXPECT_TRUE(process->AwaitOutput("ready\n")) << process->err();
    return process;
  }
  // The number that it prints after `word` after the command `call`.
  static int64_t Ask(Subprocess& process, const std::string& call, const std::string& word) {
    const size_t known = NumbersAfter(word, process.out()).size();
    process.Send(call + "\n");
    Await("an answer", [&] { return NumbersAfter(word, process.out()).size() > known; });
    return NumbersAfter(word, process.out()).back();
  }
  // What the database has.
  void Write(const std::string& text) {
    std::ofstream(path + ".new") << text;
    ASSERT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
  }

  RedisServer server;
  const TempDir dir;
  const std::string path = dir.File("database");
};

TEST_F(StoppedProcessesTest, LoaderIsKilled_OneOtherTakesOverAndAllWaitersAreAnswered) {
  constexpr int kProcesses = 8;
  constexpr int64_t kLeaseMs = 4000;
  const int64_t threads = std::max<int64_t>(Scaled(8, 63), 2);  // 504 waiters at full size.
  Write("hang");
  const std::unique_ptr<Subprocess> loader = Start(1, kLeaseMs, 10'000);
  std::vector<std::unique_ptr<Subprocess>> others;
  for (int n = 0; n < kProcesses; ++n) others.push_back(Start(threads, kLeaseMs, 10'000));
  loader->Send("get\n");
  ASSERT_TRUE(loader->AwaitOutput("load "));
  const int64_t began = FleetNow();
  for (const auto& process : others) process->Send("get\n");
  for (const auto& process : others) {
    Await("the waiters", [&] {
      // The thread that polls for the others is not one of them.
      return Ask(*process, "waiters", "waiters") >= threads - 1 && Ask(*process, "waiters", "polls") > 0;
    });
  }
  const int64_t killed = FleetNow();
  loader->Kill(SIGKILL);
  Write("value");
  std::vector<int64_t> loads;
  for (const auto& process : others) {
    Await("the answers", [&] { return CountOf("answered value", process->out()) == static_cast<size_t>(threads); });
    for (const int64_t begin : NumbersAfter("load", process->out())) loads.push_back(begin);
  }
  const int64_t answered = FleetNow();
  ASSERT_EQ(loads.size(), 1u);
  const int64_t took_over = (loads[0] - killed) / kMillisecond;
  // Only the full size has the machine for itself.
  EXPECT_LE(took_over, kLeaseMs * 11 / 10 + Scaled(60'000, 200));
  // A poll follows after at least a fifth of the time that the load has taken so far: 6 in the first 25 ms, and 19 more
  // until these are 160 ms each. Close to the end of the lease there may be some more.
  const int64_t most = 2 * (6 + 19) + (answered - began) / (160 * kMillisecond) + 10;
  int64_t polls = 0;
  for (const auto& process : others) {
    const int64_t its_polls = Ask(*process, "waiters", "polls");
    EXPECT_LE(its_polls, most);
    polls += its_polls;
    EXPECT_EQ(process->Wait(), 0) << process->err();
  }
  std::cout << kProcesses * threads << " waiters: the next load began " << took_over << " ms after the kill, "
            << (answered - loads[0]) / kMillisecond << " ms later all were answered; " << polls << " polls"
            << std::endl;
}

TEST_F(StoppedProcessesTest, ProcessIsStopped_ItsFirstHitAfterwardsIsNotTheOldValue) {
  constexpr int64_t kStalenessMs = 400;
  Write("old");
  const std::unique_ptr<Subprocess> stopped = Start(1, 30'000, kStalenessMs);
  stopped->Send("watch\n");
  ASSERT_TRUE(stopped->AwaitOutput("watches old\n"));
  stopped->Kill(SIGSTOP);
  Write("new");
  RedisCacheTierOptions options = {.prefix = "fleet"};
  options.metrics = nullptr;
  options.timeout = absl::Seconds(30);
  const absl::StatusOr<std::shared_ptr<CacheTier>> tier = RedisCacheTier::Connect(server.url(), options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  {
    LoadingCache<std::string, std::string> cache(
        {.name = "keys", .ttl = absl::Hours(1), .tier = *tier, .metrics = nullptr},
        [](const std::string&) -> absl::StatusOr<std::string> { return "unused"; });
    cache.Invalidate("k");
    ASSERT_TRUE(cache.AwaitInvalidations(absl::Minutes(1)).ok());
  }
  const int64_t invalidated = FleetNow();
  Await("time to pass", [&] { return FleetNow() > invalidated + 3 * kStalenessMs * kMillisecond; });
  stopped->Kill(SIGCONT);
  Await("the new value", [&] { return !NumbersAfter("changed", stopped->out()).empty(); });
  EXPECT_LE(NumbersAfter("changed", stopped->out())[0], invalidated + kStalenessMs * kMillisecond + kFleetTick);
  EXPECT_EQ(stopped->Wait(), 0) << stopped->err();
}

}  // namespace
}  // namespace stockade::testing
