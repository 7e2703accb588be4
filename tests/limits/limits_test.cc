// The library where the process may have no more threads, file descriptors or memory for threads: calls end with a
// status, nothing aborts or hangs, and all works again as soon as the limit is lifted.

#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "limits/refused_calls.h"
#include "redis/support/redis_cluster.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/base/log.h"
#include "stockade/base/manual_clock.h"
#include "stockade/base/strings.h"
#include "stockade/base/timer_queue.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/locks/redis_lock_service.h"
#include "stockade/metrics/metrics_server.h"
#include "stockade/redis/redis_client.h"
#include "support/await.h"
#include "support/temp_dir.h"
#ifdef STOCKADE_ALL_LOCK_ENGINES
#include "mysql/support/mariadb_server.h"
#include "stockade/locks/mysql_lock_service.h"
#include "stockade/locks/zookeeper_lock_service.h"
#include "zookeeper/support/zookeeper_server.h"
#endif

namespace stockade {
namespace {

using base_internal::Concat;
using testing::RefusedCalls;
using testing::Scarce;

// How long calls of a scenario wait: for what will come, and for what may never come.
constexpr absl::Duration kUntilItComes = absl::Minutes(1);
constexpr absl::Duration kInVain = absl::Milliseconds(200);

// What one run of a scenario's calls came to, by the calls' names.
class Outcomes {
 public:
  // Whether it was OK.
  bool Add(std::string_view call, const absl::Status& status) {
    all_.emplace_back(call, status);
    return status.ok();
  }
  void ExpectOk() const {
    for (const auto& [call, status] : all_) EXPECT_EQ(status, absl::OkStatus()) << call;
  }
  // What a scarce system may come to: a reason to try again later. (SQLite tries once more for reading only, and tells
  // of that alone.) How many calls failed.
  int ExpectHonest() const {
    int failed = 0;
    for (const auto& [call, status] : all_) {
      if (status.ok()) continue;
      ++failed;
      EXPECT_TRUE(absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
                  absl::IsDeadlineExceeded(status) || status.message().find("SQLite error 14") != std::string::npos)
          << call << ": " << status;
      EXPECT_FALSE(status.message().empty()) << call;
    }
    return failed;
  }

 private:
  std::vector<std::pair<std::string, absl::Status>> all_;
};

using Scenario = std::function<Outcomes(absl::Duration patience)>;

// The lowest number that a new descriptor would get: those below it are in use.
int FirstFreeDescriptor() {
  const int fd = dup(0);
  close(fd);
  return fd;
}

size_t AddressSpace() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Lowers the soft limit while it lives.
class LoweredLimit {
 public:
  LoweredLimit(int resource, rlim_t to) : resource_(resource) {
    getrlimit(RLIMIT(resource), &before_);
    const rlimit lowered{to, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT(resource), &lowered), 0);
  }
  ~LoweredLimit() { setrlimit(RLIMIT(resource_), &before_); }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;

 private:
  static __rlimit_resource_t RLIMIT(int resource) { return static_cast<__rlimit_resource_t>(resource); }

  const int resource_;
  rlimit before_ = {};
};

// Of each kind of call that makes a thread or a descriptor: every single one fails once, and every one from one on.
void RefuseEachCall(Scarce what, const Scenario& scenario) {
  for (const int count : {1, INT_MAX}) {
    int late = 0;
    for (int first = 1;; ++first) {
      SCOPED_TRACE(Concat("call ", first, count == 1 ? " fails" : " and all after it fail"));
      int calls = 0;
      Outcomes outcomes;
      {
        const RefusedCalls refused(what, first, count);
        outcomes = scenario(kInVain);
        calls = refused.calls();
      }
      const int failed = outcomes.ExpectHonest();
      if (calls < first) {
        // A busy server may have answered too late for the scenario to come to such a call.
        if (first == 1 && ++late < 50) {
          first = 0;
          continue;
        }
        EXPECT_GT(first, 1) << "the scenario makes no such call";
        break;
      }
      if (count != 1 && first == 1) {
        EXPECT_GT(failed, 0);
      }
    }
  }
  scenario(kUntilItComes).ExpectOk();
}

void LowerDescriptors(const Scenario& scenario) {
  const int used = FirstFreeDescriptor();
  for (int more = 24; more >= 0; --more) {
    SCOPED_TRACE(Concat(more, " descriptors more"));
    Outcomes outcomes;
    {
      const LoweredLimit limit(RLIMIT_NOFILE, static_cast<rlim_t>(used + more));
      outcomes = scenario(kInVain);
    }
    const int failed = outcomes.ExpectHonest();
    if (more == 0) {
      EXPECT_GT(failed, 0);
    }
  }
  scenario(kUntilItComes).ExpectOk();
}

// A thread takes so much of the address space, which is more than the system keeps of ended threads for new ones.
constexpr size_t kStack = size_t{64} << 20;

void LowerAddressSpace(const Scenario& scenario) {
  for (int threads = 12; threads >= 0; --threads) {
    SCOPED_TRACE(Concat("memory for ", threads, " threads more"));
    Outcomes outcomes;
    {
      const LoweredLimit limit(RLIMIT_AS, AddressSpace() + static_cast<size_t>(threads) * kStack + kStack / 2);
      outcomes = scenario(kInVain);
    }
    const int failed = outcomes.ExpectHonest();
    if (threads == 0) {
      EXPECT_GT(failed, 0);
    }
  }
  scenario(kUntilItComes).ExpectOk();
}

// Objects find memory in what is set aside here, and only threads do not.
class MemoryForObjects : public ::testing::Environment {
 public:
  void SetUp() override {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, INT_MAX);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    free(malloc(size_t{512} << 20));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStack);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    // What libraries say of each refused call is not of interest.
    SetLogSink([](LogSeverity severity, std::string_view message) {
      if (severity == LogSeverity::kFatal) fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
    });
  }
};

[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new MemoryForObjects);

// A callback's status, for a call that has begun.
class Answer {
 public:
  auto callback() {
    return [this](const auto& result) { promise_.set_value(result.status()); };
  }
  absl::Status Get() { return promise_.get_future().get(); }

 private:
  std::promise<absl::Status> promise_;
};

std::string Unique(std::string_view what) {
  static int number = 0;
  return Concat(what, " ", ++number);
}

// ---- The scenarios: one run of each module's calls.

Outcomes UseThreadPools(absl::Duration /*patience*/) {
  Outcomes outcomes;
  try {
    ThreadPool pool(3);
    outcomes.Add("ThreadPool()", absl::OkStatus());
    std::promise<absl::Status> ran;
    pool.Schedule([&ran] { ran.set_value(absl::OkStatus()); });
    outcomes.Add("Schedule", ran.get_future().get());
  } catch (const std::system_error& error) {
    outcomes.Add("ThreadPool()", absl::ResourceExhaustedError(error.what()));
  }
  return outcomes;
}

Outcomes UseRedis(const std::string& url, absl::Duration patience) {
  Outcomes outcomes;
  for (const bool wait : {true, false}) {
    absl::StatusOr<std::unique_ptr<RedisClient>> client =
        RedisClient::Connect(url, {.connect_timeout = patience,
                                   .wait_for_connection = wait,
                                   .command_timeout = patience,
                                   .min_backoff = absl::Milliseconds(1),
                                   .max_backoff = absl::Milliseconds(5),
                                   .metrics = nullptr});
    if (!outcomes.Add("Connect", client.status())) continue;
    outcomes.Add("Run", (*client)->Run(RedisCommand("PING")).status());
    Answer answer;
    (*client)->RunAsync(RedisCommand("PING"), answer.callback());
    outcomes.Add("RunAsync", answer.Get());
    outcomes.Add("RunFuture", (*client)->RunFuture(RedisCommand("PING")).get().status());
    for (const auto& reply : (*client)->RunMany(std::vector<RedisCommand>(2, RedisCommand("PING")))) {
      outcomes.Add("RunMany", reply.status());
    }
    absl::StatusOr<RedisSubscription> subscription = (*client)->Subscribe("news", {});
    if (!outcomes.Add("Subscribe", subscription.status())) continue;
    outcomes.Add("AwaitSubscribed", subscription->AwaitSubscribed(patience));
  }
  return outcomes;
}

// Commands to all nodes of a cluster, to each for the first time.
Outcomes UseCluster(const std::string& url, absl::Duration patience) {
  Outcomes outcomes;
  absl::StatusOr<std::unique_ptr<RedisClient>> client = RedisClient::Connect(url, {.connect_timeout = patience,
                                                                                   .command_timeout = patience,
                                                                                   .min_backoff = absl::Milliseconds(1),
                                                                                   .max_backoff = absl::Milliseconds(5),
                                                                                   .metrics = nullptr});
  if (!outcomes.Add("Connect", client.status())) return outcomes;
  std::vector<RedisCommand> commands;
  for (const char* key : {"foo", "bar", "hello", "a", "b", "c"}) {
    commands.push_back(RedisCommand("GET").Key(key));
    outcomes.Add("Run", (*client)->Run(commands.back()).status());
  }
  for (const auto& reply : (*client)->RunMany(commands)) outcomes.Add("RunMany", reply.status());
  return outcomes;
}

Outcomes UseLocks(absl::Duration patience,
                  const std::function<absl::StatusOr<std::unique_ptr<LockService>>()>& connect) {
  Outcomes outcomes;
  absl::StatusOr<std::unique_ptr<LockService>> service = connect();
  if (!outcomes.Add("Connect", service.status())) return outcomes;
  const auto hold = [&](std::string_view call, AcquireOptions options) {
    options.wait = patience;
    absl::StatusOr<LockLease> lease = (*service)->Acquire(Unique("limits"), options);
    if (outcomes.Add(call, lease.status())) outcomes.Add("Release", lease->Release());
  };
  hold("Acquire", {});
  hold("Acquire for a time", {.lease = absl::Minutes(1)});
  std::stop_source stop;
  hold("Acquire with a stop token", {.stop = stop.get_token()});
  Answer answer;
  (*service)->AcquireAsync(Unique("limits"), {.wait = patience}, answer.callback());
  outcomes.Add("AcquireAsync", answer.Get());
  // Two that want one lock at the same time.
  const std::string name = Unique("limits");
  absl::StatusOr<LockLease> first = (*service)->Acquire(name, {.wait = patience, .owner = LockOwner::New()});
  if (!outcomes.Add("Acquire", first.status())) return outcomes;
  Answer second;
  (*service)->AcquireAsync(name, {.wait = patience}, second.callback());
  outcomes.Add("Release", first->Release());
  outcomes.Add("AcquireAsync of what is held", second.Get());
  return outcomes;
}

Outcomes UseCaches(absl::Duration /*patience*/) {
  Outcomes outcomes;
  InlineExecutor here;
  for (const bool strict : {false, true}) {
    LoadingCache<int, int> cache({.ttl = absl::Milliseconds(10),
                                  .refresh_ahead = 0.01,
                                  .stale_if_error = absl::Hours(1),
                                  .load_soft_timeout = absl::Minutes(1),
                                  .load_hard_timeout = absl::Minutes(1),
                                  .strict = strict,
                                  .sweep_interval = absl::Milliseconds(1),
                                  .metrics = nullptr},
                                 [](int key, LoadContext&) -> absl::StatusOr<int> { return key; });
    for (int key = 0; key < 3; ++key) {
      Answer answer;
      cache.GetAsync(key, here, answer.callback(), {.timeout = absl::Minutes(1)});
      outcomes.Add("GetAsync", answer.Get());
    }
    outcomes.Add("Get", cache.Get(1).status());
    outcomes.Add("Get again", cache.Get(1).status());
    cache.Refresh(2);
    outcomes.Add("WarmUp", cache.WarmUp({10, 11, 12, 13}, {.parallelism = 3}).status());
  }
  return outcomes;
}

Outcomes UseInventory(const testing::TempDir& dir) {
  Outcomes outcomes;
  absl::StatusOr<std::unique_ptr<SqliteLedger>> ledger =
      SqliteLedger::Open(dir.File(Unique("ledger")), {.lock_wait = absl::ZeroDuration(), .metrics = nullptr});
  if (!outcomes.Add("Open", ledger.status())) return outcomes;
  absl::StatusOr<std::unique_ptr<Inventory>> shop =
      Inventory::Create({.ledger = *std::move(ledger), .metrics = nullptr});
  if (!outcomes.Add("Create", shop.status())) return outcomes;
  if (!outcomes.Add("AddSku", (*shop)->AddSku("sneaker", {.stock = 10}))) return outcomes;
  outcomes.Add("Reserve", (*shop)->Reserve({.sku = "sneaker", .request_id = "1", .ttl = absl::Minutes(1)}).status());
  Answer answer;
  InlineExecutor here;
  (*shop)->TakeAsync({.sku = "sneaker", .request_id = "2"}, here, answer.callback());
  outcomes.Add("TakeAsync", answer.Get());
  return outcomes;
}

Outcomes UseMetricsServer(absl::Duration /*patience*/) {
  Outcomes outcomes;
  outcomes.Add("Start", MetricsServer::Start({.port = 0}).status());
  return outcomes;
}

// ---- The tests: each scenario under each scarcity.

struct Module {
  std::string name;
  // Starts what it needs, whose end is that of the scenario.
  std::function<Scenario()> prepare;
  std::function<bool()> missing = [] { return false; };  // What it needs is not installed.
  bool descriptors = true;                               // It makes some.
  // False: a library that it uses aborts if it cannot start a thread. We look for threads before; a refusal right
  // between the two it does not survive.
  bool survives_each_refusal = true;

  friend void PrintTo(const Module& module, std::ostream* out) { *out << module.name; }
};

LockServiceOptions ServiceOptions(absl::Duration patience) {
  return {.watchdog_lease = absl::Seconds(5), .engine_timeout = patience, .metrics = nullptr};
}

Scenario RedisLockScenario() {
  return [server = std::make_shared<testing::RedisServer>()](absl::Duration patience) {
    return UseLocks(patience, [&] {
      return RedisLockService::Connect(server->url(), {.service = ServiceOptions(patience),
                                                       .redis = {.connect_timeout = patience,
                                                                 .command_timeout = patience,
                                                                 .min_backoff = absl::Milliseconds(1),
                                                                 .max_backoff = absl::Milliseconds(5),
                                                                 .metrics = nullptr}});
    });
  };
}

#ifdef STOCKADE_ALL_LOCK_ENGINES
Scenario ZooKeeperLockScenario() {
  return [server = std::make_shared<testing::ZooKeeperServer>()](absl::Duration patience) {
    const uint16_t port = server->port();
    return UseLocks(patience, [&] {
      return ZooKeeperLockService::Connect(testing::ZooKeeperUrl({&port, 1}, server->tick()),
                                           {.service = ServiceOptions(patience), .connect_timeout = patience});
    });
  };
}

Scenario MySqlLockScenario() {
  return [server = std::make_shared<testing::MariaDbServer>()](absl::Duration patience) {
    return UseLocks(patience, [&] {
      return MySqlLockService::Connect(
          testing::MariaDbServer::UrlOf(server->port()),
          {.service = ServiceOptions(patience), .create_schema = true, .connect_timeout = patience});
    });
  };
}
#endif

bool NoRedis() { return !testing::InPath("redis-server"); }

std::vector<Module> Modules() {
  std::vector<Module> modules = {
      {.name = "ThreadPool", .prepare = [] { return UseThreadPools; }, .descriptors = false},
      {.name = "Redis",
       .prepare =
           [] {
             auto server = std::make_shared<testing::RedisServer>();
             return [server](absl::Duration patience) { return UseRedis(server->url(), patience); };
           },
       .missing = NoRedis},
      {.name = "RedisCluster",
       .prepare =
           [] {
             auto cluster = std::make_shared<testing::RedisCluster>();
             return [cluster](absl::Duration patience) { return UseCluster(cluster->url(), patience); };
           },
       .missing = NoRedis},
      {.name = "LocalLocks",
       .prepare =
           [] {
             return [](absl::Duration patience) {
               return UseLocks(patience, [] { return LocalLockService::Create({.metrics = nullptr}); });
             };
           },
       .descriptors = false},
      {.name = "RedisLocks", .prepare = RedisLockScenario, .missing = NoRedis},
#ifdef STOCKADE_ALL_LOCK_ENGINES
      {.name = "ZooKeeperLocks",
       .prepare = ZooKeeperLockScenario,
       .missing = [] { return !testing::ZooKeeperServer::Installed(); },
       .survives_each_refusal = false},
      {.name = "MySqlLocks",
       .prepare = MySqlLockScenario,
       .missing = [] { return !testing::MariaDbServer::Installed(); }},
#endif
      {.name = "Cache", .prepare = [] { return UseCaches; }, .descriptors = false},
      {.name = "Inventory",
       .prepare =
           [] {
             auto dir = std::make_shared<testing::TempDir>();
             return [dir](absl::Duration) { return UseInventory(*dir); };
           }},
      {.name = "MetricsServer", .prepare = [] { return UseMetricsServer; }},
  };
  return modules;
}

class LimitsTest : public ::testing::TestWithParam<Module> {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS(!GetParam().missing(), GetParam().name, "redis-server, zookeeper or mariadb-server");
    scenario_ = GetParam().prepare();
    scenario_(kUntilItComes).ExpectOk();  // Also loads what is loaded once.
  }

  Scenario scenario_;
};

TEST_P(LimitsTest, Threads_RefusedByTurns_AreAStatus) {
  if (!GetParam().survives_each_refusal) return;
  RefuseEachCall(Scarce::kThread, scenario_);
}

TEST_P(LimitsTest, Descriptors_RefusedByTurns_AreAStatus) {
  if (!GetParam().descriptors) return;
  RefuseEachCall(Scarce::kDescriptor, scenario_);
}

TEST_P(LimitsTest, DescriptorLimit_Falls_IsAStatus) {
  if (!GetParam().descriptors) return;
  LowerDescriptors(scenario_);
}

TEST_P(LimitsTest, AddressSpaceLimit_Falls_IsAStatus) { LowerAddressSpace(scenario_); }

INSTANTIATE_TEST_SUITE_P(, LimitsTest, ::testing::ValuesIn(Modules()),
                         [](const auto& module) { return module.param.name; });

TEST(ThreadLimitsTest, TimerQueue_WithoutAThread_RunsItsTaskOnceThereIsOne) {
  base_internal::TimerQueue timers(Clock::System());
  std::promise<void> ran;
  {
    const RefusedCalls refused(Scarce::kThread, 1, INT_MAX);
    EXPECT_TRUE(absl::IsResourceExhausted(timers.Start()));
    timers.Schedule(Instant::InfinitePast(), [&ran] { ran.set_value(); });
  }
  EXPECT_EQ(timers.Start(), absl::OkStatus());
  ran.get_future().get();
}

TEST(ThreadLimitsTest, LazyThreadPool_WithoutAThread_RunsItsTaskWithinTheCall) {
  base_internal::LazyThreadPool pool(2);
  std::promise<std::thread::id> ran;
  {
    const RefusedCalls refused(Scarce::kThread, 2, INT_MAX);
    EXPECT_TRUE(absl::IsResourceExhausted(pool.Start()));
    std::thread::id here;
    pool.Schedule([&here] { here = std::this_thread::get_id(); });
    EXPECT_EQ(here, std::this_thread::get_id());
  }
  pool.Schedule([&ran] { ran.set_value(std::this_thread::get_id()); });
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
}

TEST(ThreadLimitsTest, ThreadPool_OneOfItsThreadsRefused_ThrowsAndLeavesNone) {
  {
    const RefusedCalls refused(Scarce::kThread, 3, 1);
    EXPECT_THROW(ThreadPool(3), std::system_error);
  }
  {
    const RefusedCalls refused(Scarce::kThread, 3, 1);
    EXPECT_TRUE(absl::IsResourceExhausted(ThreadPool::Create(3).status()));
  }
}

// An acquire that a stop token may end needs a thread only to leave an engine that hangs.
TEST(ThreadLimitsTest, StoppableAcquire_WithoutAThread_RunsOnItsCallers) {
  const absl::StatusOr<std::unique_ptr<LockService>> service = LocalLockService::Create({.metrics = nullptr});
  ASSERT_TRUE(service.ok()) << service.status();
  ASSERT_TRUE((*service)->Acquire("first").ok());  // Starts the threads of leases.
  const RefusedCalls refused(Scarce::kThread, 1, INT_MAX);
  std::stop_source stop;
  const absl::StatusOr<LockLease> lease = (*service)->Acquire("second", {.stop = stop.get_token()});
  EXPECT_TRUE(lease.ok()) << lease.status();
  EXPECT_GT(refused.calls(), 0);
}

// A hit whose refresh cannot begin is a hit, and the next one tries again.
TEST(ThreadLimitsTest, Refresh_WithoutAThread_IsLeftToALaterHit) {
  ManualClock clock;
  std::atomic<int> loads = 0;
  LoadingCache<int, int> cache({.ttl = absl::Seconds(10), .refresh_ahead = 0.5, .clock = &clock, .metrics = nullptr},
                               [&loads](int, LoadContext&) -> absl::StatusOr<int> { return ++loads; });
  ASSERT_TRUE(cache.Get(1).ok());
  clock.Advance(absl::Seconds(6));
  {
    const RefusedCalls refused(Scarce::kThread, 1, INT_MAX);
    EXPECT_EQ(**cache.Get(1), 1);
    EXPECT_GT(refused.calls(), 0);
    EXPECT_EQ(loads, 1);
  }
  EXPECT_EQ(**cache.Get(1), 1);
  testing::Await("the refresh", [&loads] { return loads == 2; });
}

// A client that runs, and whose slot moves to a node that it has not talked to.
TEST(ClusterLimitsTest, Moved_ToANewNodeWithoutADescriptor_IsAStatusUntilThereIsOne) {
  STOCKADE_NEEDS_REDIS();
  testing::RedisCluster cluster;
  absl::StatusOr<std::unique_ptr<RedisClient>> client =
      RedisClient::Connect(cluster.url(), {.command_timeout = absl::Seconds(30), .metrics = nullptr});
  ASSERT_TRUE(client.ok()) << client.status();
  const std::string key = "foo";
  const RedisCommand get = RedisCommand("GET").Key(key);
  ASSERT_EQ((*client)->Run(get).status(), absl::OkStatus());
  const int slot = cluster.SlotOf(key);
  const size_t from = cluster.OwnerOf(slot);
  cluster.MoveSlot(slot, from, (from + 1) % testing::RedisCluster::kMasters);
  for (const Scarce what : {Scarce::kDescriptor, Scarce::kThread}) {
    const RefusedCalls refused(what, 1, INT_MAX);
    const absl::Status status = (*client)->Run(get).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    const char* const why =
        what == Scarce::kThread ? "Resource temporarily unavailable" : "cannot create an eventfd: Too many open files";
    EXPECT_NE(status.message().find(why), std::string::npos) << status;
  }
  EXPECT_EQ((*client)->Run(get).status(), absl::OkStatus());
}

}  // namespace
}  // namespace stockade
