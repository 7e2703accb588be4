// Counts the queries for one hot key of 4 processes: without a cache, with a cache in each process, and with caches
// that share a second level in Redis, whose loader and server are killed.

#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/or_throw.h"
#include "common/own_redis.h"
#include "common/process.h"
#include "common/temp_directory.h"
#include "database.h"
#include "reader.h"

namespace fleet {
namespace {

using examples::OrThrow;
using examples::OwnRedis;
using examples::Process;
using examples::TempDirectory;

constexpr int kProcesses = 4;
constexpr absl::Duration kPatience = absl::Minutes(2);

// The processes that read the hot key, and the database that they query.
class Fleet {
 public:
  Fleet(How how, const std::string& directory, const std::string& redis_url)
      : plan_{.how = how,
              .database = absl::StrCat(directory, "/database-", static_cast<int>(how)),
              .redis_url = redis_url},
        database_(OrThrow(Database::Open(plan_.database))) {
    database_.SetPrice(100);
    for (int i = 0; i < kProcesses; ++i) StartOne();
  }
  ~Fleet() {
    database_.stop() = true;
    for (Process& process : processes_) {
      if (!process.ended()) process.Await();
    }
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  Database& database() { return database_; }

  void Await(const std::function<bool()>& is_so) {
    for (const absl::Time limit = absl::Now() + kPatience; !is_so(); absl::SleepFor(absl::Milliseconds(1))) {
      if (absl::Now() > limit) OrThrow(absl::DeadlineExceededError("the fleet makes no progress"));
    }
  }
  void AwaitExpiry(int64_t number) {
    Await([&] { return database_.expiry() >= number; });
  }
  // Waits until the present expiry has a value.
  void AwaitAnswer() {
    Await([&] { return database_.answered(); });
  }

  // Waits until one has died in a query, and starts another in its place.
  void KillLoader() {
    database_.Give(Database::Order::kDieInAQuery);
    const auto ended = [&] {
      for (Process& process : processes_) {
        if (process.HasEnded()) return true;
      }
      return false;
    };
    Await(ended);
    std::erase_if(processes_, [](const Process& process) { return process.ended(); });
    StartOne();
  }

  // Waits until the process that was started last can ask Redis.
  void AwaitNewest() {
    Await([&] { return database_.row(started_ - 1).trusted.load(); });
  }
  bool all_trusted() {
    int count = 0;
    for (int n = 0; n < started_; ++n) count += database_.row(n).trusted;
    return count >= static_cast<int>(processes_.size());
  }
  // The loads so far without a lease. Waits until all queries so far are reported.
  int64_t LoadsWhileAway() {
    int64_t away = 0;
    Await([&] {
      const int64_t queries = database_.total_queries();
      away = 0;
      int64_t granted = 0;
      for (int n = 0; n < started_; ++n) {
        away += database_.row(n).away;
        granted += database_.row(n).granted;
      }
      return away + granted >= queries;
    });
    return away;
  }

 private:
  void StartOne() {
    if (started_ == kMaxProcesses) OrThrow(absl::InternalError("too many processes"));
    processes_.push_back(OrThrow(Process::Start({"/proc/self/exe", "reader", absl::StrCat(static_cast<int>(plan_.how)),
                                                 absl::StrCat(started_), plan_.database, plan_.redis_url})));
    ++started_;
  }

  const ReaderPlan plan_;
  Database database_;
  std::vector<Process> processes_;
  int started_ = 0;
};

// Prints the row of the expiries from `first` to `last`, of which `away` queries were made without a lease.
void Print(const char* what, Database& database, int64_t first, int64_t last, int64_t away) {
  int64_t queries = 0;
  for (int64_t expiry = first; expiry <= last; ++expiry) queries += database.queries(expiry);
  const int64_t expiries = last - first + 1;
  std::printf("%-46s %8lld  %7lld  %10.2f  %4lld\n", what, static_cast<long long>(expiries),
              static_cast<long long>(queries), static_cast<double>(queries) / static_cast<double>(expiries),
              static_cast<long long>(away));
  std::fflush(stdout);
}

void Print(const char* what, Fleet& fleet, int64_t expiries) {
  // The first one is the cold start.
  fleet.AwaitExpiry(expiries + 2);
  Print(what, fleet.database(), 2, expiries + 1, 0);
}

void RunFleet(const std::string& directory, OwnRedis& redis) {
  Fleet fleet(How::kFleet, directory, redis.url());
  Database& database = fleet.database();
  fleet.Await([&] { return fleet.all_trusted(); });
  int64_t away = 0;
  // Ends a phase, in which all queries before the present expiry were made.
  const auto print = [&](const char* what, int64_t first, int64_t last) {
    const int64_t before = std::exchange(away, fleet.LoadsWhileAway());
    Print(what, database, first, last, away - before);
  };

  fleet.AwaitExpiry(1);
  int64_t first = database.expiry() + 1;
  fleet.AwaitExpiry(first + 4);
  print("fleet: the key expires", first, first + 3);

  fleet.AwaitAnswer();
  first = database.expiry() + 1;
  for (int64_t next = first; next < first + 4; ++next) {
    fleet.AwaitAnswer();
    database.Give(Database::Order::kInvalidate);
    fleet.AwaitExpiry(next);
  }
  fleet.AwaitExpiry(first + 4);
  print("fleet: the key is invalidated", first, first + 3);

  fleet.AwaitAnswer();
  first = database.expiry() + 1;
  fleet.KillLoader();
  fleet.AwaitExpiry(first + 1);
  print("fleet: the loader is killed, its lease lapses", first, first);

  fleet.AwaitNewest();  // One that begins without Redis would load before the first of these expiries.
  fleet.AwaitAnswer();
  first = database.expiry() + 1;
  redis.Kill();
  // The last of these expiries ends as soon as every process has loaded.
  fleet.AwaitExpiry(first + 1);
  fleet.Await([&] { return database.queries(first + 1) >= kProcesses && database.answered(); });
  database.EndExpiry();
  print("fleet: Redis is away, each process loads", first, first + 1);

  first += 2;
  OrThrow(redis.Restart());
  fleet.AwaitExpiry(first + 1);
  print("fleet: Redis is back and empty, a new reign", first, first);

  fleet.Await([&] { return fleet.all_trusted(); });
  first = database.expiry() + 1;
  fleet.AwaitExpiry(first + 4);
  print("fleet: the key expires, as before", first, first + 3);
}

int Run() {
  const TempDirectory directory = OrThrow(TempDirectory::Create("stockade_fleet"));
  const std::unique_ptr<OwnRedis> redis = OrThrow(OwnRedis::Start());
  std::printf("%d processes, %d threads each, one hot key with a TTL of %s; a query takes %s\n\n", kProcesses, kThreads,
              absl::FormatDuration(kTtl).c_str(), absl::FormatDuration(kQueryTime).c_str());
  std::printf("%-46s expiries  queries  per expiry  away\n", "");
  std::fflush(stdout);
  {
    Fleet fleet(How::kNoCache, directory.path(), "");
    Print("no cache", fleet, 1);
  }
  {
    Fleet fleet(How::kOwnCache, directory.path(), "");
    Print("a cache in each process", fleet, 3);
  }
  RunFleet(directory.path(), *redis);
  std::printf("\naway: queries without a lease, because Redis could not be asked\n");
  return 0;
}

}  // namespace
}  // namespace fleet

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "reader") {
    fleet::RunReader({.how = static_cast<fleet::How>(std::atoi(argv[2])),
                      .number = std::atoi(argv[3]),
                      .database = argv[4],
                      .redis_url = argv[5]});
    return 0;
  }
  if (argc > 1) {
    std::fprintf(stderr, "fleet: unknown option '%s'; it has no options\n", argv[1]);
    return 2;
  }
  try {
    return fleet::Run();
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "fleet: %s\n", error.what());
    return 2;
  }
}
