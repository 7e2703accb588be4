// Partitions between real hosts: services on three hosts acquire, hold and release, while the ways between them and the
// servers, and between the servers, are cut, healed, reset and delayed, and servers are paused and killed.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lease_witness.h"
#include "locks/distributed/support/lock_site.h"
#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "stockade/base/strings.h"
#include "stockade/locks/redlock_service.h"
#include "support/fault_driver.h"
#include "support/network.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Fault;
using testing::FaultDriver;
using testing::kPatience;
using testing::LeaseWitness;
using testing::LockSetup;
using testing::LockSite;
using testing::Network;
using testing::NetworkHost;
using testing::Scaled;
using testing::Stopwatch;
using testing::TcpProxy;

constexpr int kServices = 3;  // Each on a host.
constexpr absl::Duration kWatchdogLease = absl::Milliseconds(600);
constexpr absl::Duration kEngineTimeout = absl::Milliseconds(400);
constexpr int64_t kLongestMs = 800;         // Of a pause of a server, and before the next fault.
constexpr int64_t kFailoverMs = 2500;       // The same before a fault where Sentinels have to act.
constexpr int64_t kLongestCutOffMs = 2000;  // Several leases.
constexpr int kFaults = 6;                  // Of each schedule.

void PassMs(int64_t ms) { poll(nullptr, 0, static_cast<int>(ms)); }

struct Load {
  int threads;
  int locks;                // Every second one is read-write, except with RedLock.
  uint64_t one_holds_long;  // One of so many acquires holds for up to the next.
  uint64_t longest_hold_ms;
  absl::Duration lease;
  bool watchdog;  // Half of the acquires leave the lease to it.
};

constexpr Load kJobs = {.threads = 12,
                        .locks = 2,
                        .one_holds_long = 16,
                        .longest_hold_ms = 1200,
                        .lease = absl::Milliseconds(300),
                        .watchdog = true};
// They outlast a failover, and many begin just before one.
constexpr Load kLongJobs = {.threads = 24,
                            .locks = 48,
                            .one_holds_long = 2,
                            .longest_hold_ms = 8000,
                            .lease = absl::Seconds(10),
                            .watchdog = false};

// A site, three services on hosts of their own, and threads that work with them. New for each schedule, which would
// mean something else where another server is the master.
class LockRun {
 public:
  LockRun(LockSetup setup, Load load) : setup_(setup), load_(load) {
    for (const auto& proxy : site_->proxies) proxies_.push_back(proxy.get());
    for (int i = 0; i < kServices; ++i) {
      const NetworkHost::Scope there = HostOf(i).Enter();
      services_[static_cast<size_t>(i)] = Connect();
    }
    if (setup == LockSetup::kZooKeeper) witness_.LetReadersPassEachOther();
    if (setup == LockSetup::kRedlock) witness_.ExpectNoTokens();
    if (setup == LockSetup::kSentinel) witness_.CountTwoOwners();
  }
  ~LockRun() {
    for (int i = 0; i < kServices; ++i) {
      const NetworkHost::Scope there = HostOf(i).Enter();
      services_[static_cast<size_t>(i)].reset();
    }
  }
  LockRun(const LockRun&) = delete;
  LockRun& operator=(const LockRun&) = delete;

  FaultDriver AllFaults() {
    FaultDriver::Kinds kinds = testing::Together(
        testing::NetworkFaults(network_, LockSite::HostsOf(setup_), PassMs, kLongestCutOffMs), ServerFaults());
    if (!proxies_.empty()) {
      kinds = testing::Together(std::move(kinds), testing::ProxyFaults(proxies_, PassMs, kLongestMs));
    }
    return {std::move(kinds), PassMs};
  }
  // Of a master that is cut off together with a process: until a lock has two owners, or for a minute, because a
  // failover takes long on a busy machine.
  FaultDriver MastersCutOff() {
    const auto cut_off = [this](std::span<const int64_t> numbers) {
      network_.Split(uint64_t{1} << site_->master() | uint64_t{1} << (LockSite::HostsOf(setup_) + numbers[0]));
      for (const Stopwatch watch; two_owners() == 0 && watch.elapsed() < absl::Minutes(1);) PassMs(50);
      network_.Heal();
    };
    return {{{"cut-off-master", {kServices}, cut_off}}, PassMs};
  }
  // Of a server whose last writes its replicas do not have.
  FaultDriver Deaths() {
    // Less than the time, by 100 ms, after which a Sentinel takes a server for dead.
    constexpr int64_t kLagMs = 200;
    const auto lag_and_kill = [this](std::span<const int64_t> numbers) {
      const size_t master = site_->master();
      for (int other = 0; other < 3; ++other) network_.Cut(static_cast<int>(master), other);
      PassMs(100 + numbers[0]);
      site_->servers[master].kill();
      // With its machine, whose kernel would still send what is in its buffers.
      network_.Split(uint64_t{1} << master);
      PassMs(kFailoverMs + numbers[1]);
      network_.Heal();
      site_->servers[master].restart();
    };
    return {{{"lag-and-kill", {kLagMs, kFailoverMs}, lag_and_kill}}, PassMs};
  }

  // Makes the faults while the threads work, until `enough`.
  template <typename Enough>
  void Make(const FaultDriver& driver, std::span<const Fault> schedule, uint64_t seed, const Enough& enough) {
    testing::RunThreads(load_.threads + 1, [&](int thread) {
      if (thread < load_.threads) return Work(thread, std::mt19937_64(seed + static_cast<uint64_t>(thread)));
      for (const Fault& fault : schedule) {
        if (enough()) break;
        driver.Make(fault);
      }
      over_ = true;
    });
    network_.Heal();
    site_->await_settled();
  }

  // Whether each service gets each lock, now that all is well.
  void ExpectAllServe() {
    for (int i = 0; i < kServices; ++i) {
      const NetworkHost::Scope there = HostOf(i).Enter();
      for (int lock = 0; lock < load_.locks; ++lock) {
        const AcquireOptions options = {.kind = IsShared(lock) ? LockKind::kWrite : ExclusiveKind(), .wait = kPatience};
        EXPECT_TRUE(testing::MustAcquirePatiently(*services_[static_cast<size_t>(i)], NameOf(lock), options).valid());
      }
    }
  }

  // What the service of one host sees while it is cut off from all servers, and what the others do meanwhile. `way`: 0
  // what the servers send it is lost, 1 what it sends them, 2 both.
  void CutOffAHolder(int way) {
    const std::string seat = base_internal::Concat("seat-", way);
    LockLease held = On(0, [&](LockService& locks) { return testing::MustAcquirePatiently(locks, seat); });
    testing::LostSignal lost(held.lost());
    const int client = LockSite::HostsOf(setup_);
    for (int server = 0; server < client; ++server) {
      if (way != 1) network_.Cut(server, client);
      if (way != 0) network_.Cut(client, server);
    }
    const Stopwatch watch;
    const absl::Status status =
        On(0, [](LockService& locks) { return locks.Acquire("other", {.wait = testing::kLongLease}).status(); });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_LT(watch.elapsed(), testing::kSlack);
    const LockLease next = On(1, [&](LockService& locks) {
      return testing::MustAcquirePatiently(locks, seat, {.lease = testing::kLongLease});
    });
    // Sentinels of a busy machine may have chosen another master.
    if (setup_ != LockSetup::kSentinel) EXPECT_FALSE(held.valid()) << "two owners";
    EXPECT_TRUE(lost.Await());
    EXPECT_TRUE(next.valid());
    if (setup_ != LockSetup::kRedlock) {
      EXPECT_GT(next.fencing_token().value_or(0), held.fencing_token().value_or(0));
    }
    network_.Heal();
    EXPECT_TRUE(On(0, [](LockService& locks) { return testing::MustAcquirePatiently(locks, "other"); }).valid());
  }

  int64_t attempts() const { return attempts_; }
  int64_t acquired() const { return acquired_; }
  int64_t two_owners() const { return witness_.two_owners(); }

 private:
  using Random = std::mt19937_64;
  // Clients are on the last hosts.
  const NetworkHost& HostOf(int service) const { return network_.host(LockSite::HostsOf(setup_) + service); }
  template <typename Call>
  std::invoke_result_t<Call, LockService&> On(int service, const Call& call) {
    const NetworkHost::Scope there = HostOf(service).Enter();
    return call(*services_[static_cast<size_t>(service)]);
  }
  std::string NameOf(int lock) const { return base_internal::Concat("lock-", lock); }
  bool IsShared(int lock) const { return lock % 2 == 1 && setup_ != LockSetup::kRedlock; }

  FaultDriver::Kinds ServerFaults() {
    const auto servers = std::ssize(site_->servers);
    const auto server = [this](int64_t number) { return site_->servers[static_cast<size_t>(number)]; };
    return {
        {"kill",
         {servers, kLongestMs},
         [server](auto numbers) {
           server(numbers[0]).kill();
           PassMs(numbers[1]);
           server(numbers[0]).restart();
         }},
        {"pause",
         {servers, kLongestMs},
         [server](auto numbers) {
           server(numbers[0]).pause();
           PassMs(numbers[1]);
           server(numbers[0]).resume();
         }},
    };
  }

  std::unique_ptr<LockService> Connect() const {
    LockServiceOptions options = {.watchdog_lease = kWatchdogLease, .engine_timeout = kEngineTimeout};
    if (setup_ != LockSetup::kRedlock) return testing::ConnectLockService(site_->url, std::move(options));
    // Here servers do stand still, and a step must not wait for them for a lease.
    const std::vector<std::string> urls = absl::StrSplit(site_->url.substr(testing::kRedlockScheme.size()), ',');
    auto service = RedlockService::Connect(urls, {.service = std::move(options),
                                                  .redis = {.max_backoff = absl::Milliseconds(50)},
                                                  .node_timeout = absl::Milliseconds(100)});
    EXPECT_TRUE(service.ok()) << service.status();
    return *std::move(service);
  }

  // Of the lock that is not for readers.
  LockKind ExclusiveKind() const {
    const bool has_fair = setup_ == LockSetup::kStandalone || setup_ == LockSetup::kZooKeeper;
    return has_fair ? LockKind::kFair : LockKind::kReentrant;
  }

  void Work(int thread, Random random) {
    const NetworkHost::Scope there = HostOf(thread % kServices).Enter();
    LockService& service = *services_[static_cast<size_t>(thread % kServices)];
    while (!over_) {
      const auto lock = static_cast<int>(random() % static_cast<uint64_t>(load_.locks));
      AcquireOptions options = {.kind = ExclusiveKind(), .wait = absl::Milliseconds(1 << random() % 9)};
      if (IsShared(lock)) options.kind = random() % 2 == 0 ? LockKind::kRead : LockKind::kWrite;
      // Many leases are over before their holders are.
      const absl::Duration held =
          absl::Milliseconds(random() % load_.one_holds_long == 0 ? random() % load_.longest_hold_ms : 0);
      if (!load_.watchdog || random() % 2 == 0) options.lease = load_.lease;
      const LeaseWitness::Before before = witness_.Look(NameOf(lock));
      const Stopwatch watch;
      absl::StatusOr<LockLease> lease = service.Acquire(NameOf(lock), options);
      ++attempts_;
      EXPECT_LT(watch.elapsed(), options.wait + 4 * kEngineTimeout + kPatience) << lease.status();
      if (lease.ok()) {
        Hold(*lease, held, before);
      } else {
        EXPECT_TRUE(absl::IsDeadlineExceeded(lease.status()) || absl::IsUnavailable(lease.status())) << lease.status();
      }
    }
  }

  void Hold(LockLease& lease, absl::Duration time, const LeaseWitness::Before& before) {
    ++acquired_;
    witness_.Acquired(lease, before);
    const bool writes = lease.kind() != LockKind::kRead && setup_ != LockSetup::kRedlock;
    if (writes) (void)witness_.Write(lease);
    for (const Stopwatch watch; watch.elapsed() < time && !over_;) PassMs(1);
    if (writes) (void)witness_.Write(lease);
    witness_.BeforeRelease(lease);
    const Stopwatch watch;
    const absl::Status released = lease.Release();
    EXPECT_LT(watch.elapsed(), 4 * kEngineTimeout + kPatience) << released;
    EXPECT_TRUE(released.ok() || absl::IsFailedPrecondition(released) || absl::IsUnavailable(released)) << released;
  }

  const LockSetup setup_;
  const Load load_;
  Network network_{LockSite::HostsOf(setup_) + kServices};
  const std::unique_ptr<LockSite> site_ = LockSite::On(network_, setup_);
  std::vector<TcpProxy*> proxies_;
  std::array<std::unique_ptr<LockService>, kServices> services_;
  LeaseWitness witness_;
  std::atomic<bool> over_{false};
  std::atomic<int64_t> attempts_{0};
  std::atomic<int64_t> acquired_{0};
};

class LockPartitionTest : public ::testing::TestWithParam<LockSetup> {
 protected:
  void SetUp() override {
    testing::NeedServersOf(GetParam());
    if (IsSkipped() || HasFatalFailure()) return;
    STOCKADE_NEEDS_NETWORK();
  }
};

TEST_P(LockPartitionTest, HostsAreCutOff_NoTwoOwnersPassTheStoreAndAllServeOnceItIsHealed) {
  const int64_t longest = GetParam() == LockSetup::kSentinel ? kFailoverMs : kLongestMs;
  int64_t attempts = 0;
  for (int64_t n = 0; n < Scaled(1, 20) && !HasFailure(); ++n) {
    // Each set-up has other schedules.
    const uint64_t seed = testing::Seed() + static_cast<uint64_t>(n) + 100 * static_cast<uint64_t>(GetParam());
    LockRun run(GetParam(), kJobs);
    const FaultDriver driver = run.AllFaults();
    std::vector<Fault> schedule = driver.Draw(seed, kFaults, longest);
    schedule.insert(schedule.begin(), {.after = 300, .kind = "cut-off", .numbers = {0, kLongestCutOffMs - 1}});
    schedule = testing::FaultsToRun(std::move(schedule), seed);
    run.Make(driver, schedule, seed, [] { return HasFailure(); });
    run.ExpectAllServe();
    EXPECT_GT(run.acquired(), 0);
    attempts += run.attempts();
  }
  std::cout << attempts << " acquires" << std::endl;
}

TEST_P(LockPartitionTest, ProcessIsCutOff_ItsCallsAreUnavailableAndOthersEnterMeanwhile) {
  LockRun run(GetParam(), kJobs);
  for (const int way : {0, 1, 2}) {
    SCOPED_TRACE(way);
    run.CutOffAHolder(way);
  }
}

std::vector<LockSetup> SetupsWithHosts() {
  std::vector<LockSetup> setups = testing::ServerSetups();
  std::erase(setups, LockSetup::kCluster);
  return setups;
}

INSTANTIATE_TEST_SUITE_P(, LockPartitionTest, ::testing::ValuesIn(SetupsWithHosts()), testing::LockSetupName);

// The two cases of docs/DISTRIBUTED_LOCKS.md in which two owners hold a lock of Redis with replicas. LeaseWitness fails
// if a store that checks tokens takes both.
class TwoOwnersTest : public LockPartitionTest {
 protected:
  // One of 20 schedules makes them; at full size one that makes them again. Pauses are below `longest_ms`.
  template <typename DriverOf>
  void FindAndRepeat(int64_t longest_ms, const DriverOf& driver_of) {
    for (const uint64_t seed : testing::SeedsOr(Seeds())) {
      const std::optional<std::string> found = MakeTwoOwners(longest_ms, driver_of, seed, std::nullopt);
      if (!found) continue;
      const int64_t tries = Scaled(0, 3);
      bool again = tries == 0;
      for (int64_t n = 0; n < tries && !again; ++n) {
        again = MakeTwoOwners(longest_ms, driver_of, seed, found).has_value();
      }
      if (again) return;
    }
    ADD_FAILURE() << "no two owners were found, or not twice";
  }

 private:
  static std::vector<uint64_t> Seeds() {
    std::vector<uint64_t> seeds(20);
    std::iota(seeds.begin(), seeds.end(), 13);
    return seeds;
  }
  // By the seed's schedule, or another. Returns the schedule if it made them.
  template <typename DriverOf>
  static std::optional<std::string> MakeTwoOwners(int64_t longest_ms, const DriverOf& driver_of, uint64_t seed,
                                                  const std::optional<std::string>& schedule) {
    LockRun run(GetParam(), kLongJobs);
    const FaultDriver driver = driver_of(run);
    const std::vector<Fault> faults =
        testing::FaultsToRun(schedule ? testing::ParseFaults(*schedule) : driver.Draw(seed, kFaults, longest_ms), seed);
    run.Make(driver, faults, seed, [&] { return run.two_owners() > 0; });
    return run.two_owners() > 0 ? std::optional(testing::ToText(faults)) : std::nullopt;
  }
};

TEST_P(TwoOwnersTest, MasterIsCutOffFromTheMajority_AreFoundAndTheStoreRefusesTheOlder) {
  FindAndRepeat(4000, [](LockRun& run) { return run.MastersCutOff(); });
}

TEST_P(TwoOwnersTest, MasterDiesBeforeItsReplicasHaveAll_AreFoundAndTheStoreRefusesTheOlder) {
  FindAndRepeat(kFailoverMs, [](LockRun& run) { return run.Deaths(); });
}

INSTANTIATE_TEST_SUITE_P(, TwoOwnersTest, ::testing::Values(LockSetup::kSentinel), testing::LockSetupName);

}  // namespace
}  // namespace stockade
