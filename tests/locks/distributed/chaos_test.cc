// Everything that cases 12 to 19 do one at a time, all together: threads of several services acquire, re-enter, wait,
// give up, lose and release, while the server is killed, paused, emptied and cut off.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <ostream>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lease_witness.h"
#include "locks/distributed/support/lock_suite.h"
#include "locks/distributed/support/lost_signal.h"
#include "locks/distributed/support/one_server.h"
#include "support/await.h"
#include "support/fault_driver.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Await;
using testing::ConnectLockService;
using testing::FaultDriver;
using testing::kPatience;
using testing::LeaseWitness;
using testing::LockSetup;
using testing::LostSignal;
using testing::MustAcquire;
using testing::OneServer;
using testing::Scaled;
using testing::Seed;
using testing::Stopwatch;
using testing::TcpProxy;

constexpr int kServices = 3;
constexpr int kThreads = 4 * kServices;
constexpr absl::Duration kWatchdogLease = absl::Milliseconds(600);
constexpr absl::Duration kLongestLease = absl::Seconds(1);
constexpr absl::Duration kEngineTimeout = absl::Milliseconds(400);
// How long the server may keep a record of a holder beyond his lease.
constexpr absl::Duration kRecordAfterlife = absl::Seconds(20);

struct NamedKinds {
  std::string name;
  std::array<LockKind, 2> kinds;
};
const NamedKinds kLocks[] = {
    {"entered", {LockKind::kReentrant, LockKind::kReentrant}},
    {"again", {LockKind::kReentrant, LockKind::kReentrant}},
    {"queue", {LockKind::kFair, LockKind::kFair}},
    {"shared", {LockKind::kRead, LockKind::kWrite}},
};

struct Server {
  const char* name;
  LockSetup setup;
  bool forgetful;  // All is lost when it is killed.
};

void PrintTo(const Server& server, std::ostream* out) { *out << server.name; }

class ChaosTest : public ::testing::TestWithParam<Server> {
 protected:
  using Random = std::mt19937_64;

  void SetUp() override {
    testing::NeedServersOf(GetParam().setup);
    if (IsSkipped() || HasFatalFailure()) return;
    server_ = testing::NewOneServer(GetParam().setup, GetParam().forgetful);
    const std::vector<LockKind> kinds = server_->kinds();
    for (const NamedKinds& lock : kLocks) {
      if (std::find(kinds.begin(), kinds.end(), lock.kinds[0]) != kinds.end()) locks_.push_back(lock);
    }
    proxy_ = std::make_unique<TcpProxy>(server_->port());
    proxies_ = {proxy_.get()};
    for (auto& service : services_) {
      service = ConnectLockService(server_->UrlOf(proxy_->port()),
                                   {.watchdog_lease = kWatchdogLease, .engine_timeout = kEngineTimeout});
    }
    if (GetParam().setup == LockSetup::kZooKeeper) witness_.LetReadersPassEachOther();
    direct_ = ConnectLockService(server_->url(), {.watchdog_lease = kWatchdogLease, .engine_timeout = kPatience});
  }

  static AcquireOptions RandomOptions(Random& random, const NamedKinds& lock, std::stop_token stop) {
    AcquireOptions options = {.kind = lock.kinds[random() % 2]};
    options.wait = random() % 4 == 0 ? absl::ZeroDuration() : absl::Milliseconds(1 << random() % 10);
    if (random() % 2 == 0) options.lease = absl::Milliseconds(300 + static_cast<int64_t>(random() % 700));
    if (random() % 3 == 0) options.stop = std::move(stop);
    return options;
  }

  // By a blocking call or another. Fails where it does not return in time, or with what nobody can make sense of.
  static absl::StatusOr<LockLease> Acquire(LockService& service, const std::string& name, AcquireOptions options,
                                           bool async) {
    const Stopwatch watch;
    absl::StatusOr<LockLease> lease = absl::UnknownError("not told");
    if (async) {
      std::promise<absl::StatusOr<LockLease>> told;
      service.AcquireAsync(name, options, [&told](absl::StatusOr<LockLease> got) { told.set_value(std::move(got)); });
      lease = told.get_future().get();
    } else {
      lease = service.Acquire(name, options);
    }
    EXPECT_LT(watch.elapsed(), options.wait + 4 * kEngineTimeout + kPatience) << name << ": " << lease.status();
    const absl::StatusCode code = lease.status().code();
    EXPECT_TRUE(lease.ok() || code == absl::StatusCode::kDeadlineExceeded || code == absl::StatusCode::kUnavailable ||
                (code == absl::StatusCode::kCancelled && options.stop.stop_requested()))
        << name << ": " << lease.status();
    return lease;
  }

  static void Release(LockLease& lease) {
    const Stopwatch watch;
    const absl::Status released = lease.Release();
    EXPECT_LT(watch.elapsed(), 4 * kEngineTimeout + kPatience) << released;
    EXPECT_TRUE(released.ok() || absl::IsFailedPrecondition(released) || absl::IsUnavailable(released)) << released;
    EXPECT_FALSE(lease.valid());
  }

  void HoldAndRelease(LockService& service, LockLease lease, const AcquireOptions& options, Random& random,
                      const LeaseWitness::Before& before) {
    ++acquired_;
    witness_.Acquired(lease, before);
    if (lease.kind() != LockKind::kRead && witness_.Write(lease)) ++writes_;
    if (random() % 4 == 0) {
      AcquireOptions inner = options;
      inner.owner = lease.owner();
      HoldAgain(service, std::string(lease.name()), inner);
    }
    if (options.lease > absl::ZeroDuration() && random() % 16 == 0) {
      LostSignal lost(lease.lost());
      EXPECT_TRUE(lost.Await()) << "its time is over, and nobody says so";
      EXPECT_FALSE(lease.valid());
    }
    if (lease.kind() != LockKind::kRead && witness_.Write(lease)) ++writes_;
    witness_.BeforeRelease(lease);
    Release(lease);
  }

  void HoldAgain(LockService& service, const std::string& name, const AcquireOptions& options) {
    const LeaseWitness::Before before = witness_.Look(name);
    absl::StatusOr<LockLease> lease = Acquire(service, name, options, /*async=*/false);
    if (!lease.ok()) return;
    if (server_->counts_reentry()) witness_.Acquired(*lease, before);
    witness_.BeforeRelease(*lease);
    Release(*lease);
  }

  void Work(int thread, uint64_t seed) {
    Random random(seed);
    LockService& service = *services_[static_cast<size_t>(thread % kServices)];
    while (!over_) {
      const NamedKinds& lock = locks_[random() % locks_.size()];
      const AcquireOptions options = RandomOptions(random, lock, NewStop(thread));
      if (random() % 4 == 0) Stop(random() % kThreads);
      const LeaseWitness::Before before = witness_.Look(lock.name);
      absl::StatusOr<LockLease> lease = Acquire(service, lock.name, options, random() % 3 == 0);
      ++attempts_;
      if (lease.ok()) HoldAndRelease(service, *std::move(lease), options, random, before);
    }
  }

  std::stop_token NewStop(int thread) {
    const std::lock_guard lock(stops_mutex_);
    return (stops_[static_cast<size_t>(thread)] = std::stop_source()).get_token();
  }
  void Stop(size_t thread) {
    std::stop_source stop = [&] {
      const std::lock_guard lock(stops_mutex_);
      return stops_[thread];
    }();
    stop.request_stop();
  }

  // Until so many acquires more have come to an end, of whatever kind.
  void Pass(int64_t more) {
    const int64_t until = attempts_ + more;
    Await("acquires to come to an end", [&] { return attempts_ >= until; });
  }

  void KillAndRestart(int64_t attempts) {
    server_->Kill();
    Pass(attempts);
    server_->Restart();
  }
  void ForceRelease(const std::string& name) {
    // A server that has just come back may leave a call unanswered.
    const Stopwatch watch;
    absl::StatusOr<std::optional<LockKind>> forced;
    do {
      forced = direct_->ForceRelease(name);
    } while (absl::IsUnavailable(forced.status()) && watch.elapsed() < kPatience);
    EXPECT_TRUE(forced.ok()) << forced.status();
  }

  // What of this takes a time takes so many acquires.
  FaultDriver Faults() {
    const auto pass = [this](int64_t attempts) { Pass(attempts); };
    const auto forget = [this](auto action) { witness_.ServerForgets(action); };
    FaultDriver::Kinds kinds = {
        {"kill",
         {8},
         [this, forget](auto numbers) {
           if (!GetParam().forgetful) return KillAndRestart(numbers[0]);
           forget([&] { KillAndRestart(numbers[0]); });
         }},
        {"pause",
         {16},
         [this](auto numbers) {
           server_->Pause();
           Pass(1 + numbers[0]);
           server_->Resume();
         }},
        {"empty", {}, [this, forget](auto) { forget([&] { server_->Empty(); }); }},
        {"force-release",
         {std::ssize(locks_)},
         [this, forget](auto numbers) { forget([&] { ForceRelease(locks_[static_cast<size_t>(numbers[0])].name); }); }},
        {"unsettle", {}, [this](auto) { server_->Unsettle(); }},
    };
    return {testing::Together(std::move(kinds), testing::ProxyFaults(proxies_, pass, 16)), pass};
  }

  std::string Remains() { return server_->Remains(kLongestLease + kRecordAfterlife); }

  std::unique_ptr<OneServer> server_;
  std::vector<NamedKinds> locks_;  // What it has of kLocks.
  std::unique_ptr<TcpProxy> proxy_;
  std::vector<TcpProxy*> proxies_;  // This one.
  std::array<std::unique_ptr<LockService>, kServices> services_;
  std::unique_ptr<LockService> direct_;
  LeaseWitness witness_;
  std::atomic<bool> over_{false};
  std::atomic<int64_t> attempts_{0};
  std::atomic<int64_t> acquired_{0};
  std::atomic<int64_t> writes_{0};
  std::mutex stops_mutex_;
  std::array<std::stop_source, kThreads> stops_;  // Guarded by stops_mutex_.
};

TEST_P(ChaosTest, ServerAndNetworkFail_NoTwoHoldersNoHangAndNothingLeft) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("STOCKADE_TEST_SEED=" + std::to_string(seed));
  const FaultDriver faults = Faults();
  const auto schedule = testing::FaultsToRun(faults.Draw(seed, std::max<int64_t>(Scaled(20, 2000), 10), 32));
  testing::RunThreads(kThreads + 1, [&](int thread) {
    if (thread < kThreads) return Work(thread, seed + static_cast<uint64_t>(thread));
    faults.MakeAll(schedule);
    over_ = true;
  });
  EXPECT_GT(writes_, 0);
  RecordProperty("attempts", std::to_string(attempts_));
  RecordProperty("acquired", std::to_string(acquired_));

  Await("the last subscription to end", [&] { return !server_->listened(); });
  for (auto& service : services_) service.reset();
  // A waiter that died in the queue stays there until the next one comes.
  for (const NamedKinds& lock : locks_) EXPECT_TRUE(MustAcquire(*direct_, lock.name, {.kind = lock.kinds[1]}).valid());
  const Stopwatch watch;
  while (!Remains().empty() && watch.elapsed() < kLongestLease) std::this_thread::yield();
  EXPECT_EQ(Remains(), "");
}

std::vector<Server> Servers() {
  std::vector<Server> servers = {{"ServerThatComesBackEmpty", LockSetup::kStandalone, true},
                                 {"ServerWithAppendOnlyFile", LockSetup::kStandalone, false}};
  for (const LockSetup setup : testing::OneServerSetups()) {
    if (setup == LockSetup::kZooKeeper) servers.push_back({"ZooKeeper", setup, false});
    if (setup == LockSetup::kMySql) servers.push_back({"MySql", setup, false});
  }
  return servers;
}

INSTANTIATE_TEST_SUITE_P(, ChaosTest, ::testing::ValuesIn(Servers()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace stockade
