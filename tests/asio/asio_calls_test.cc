// What all calls of stockade/asio/ have in common: where handlers run, their memory, and their end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "asio/net.h"
#include "coroutine/coroutines.h"
#include "locks/service/service_fixture.h"
#include "stockade/base/log.h"
#include "stockade/locks/local_lock_service.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using Lease = absl::StatusOr<LockLease>;

class AsioCallsTest : public ::testing::Test {
 protected:
  AsioLocks Locks(net::io_context& io) { return AsioLocks(io.get_executor(), *locks_); }
  LockLease Hold() { return locks_->Acquire("a", {.owner = LockOwner::New()}).value(); }

  std::unique_ptr<LockService> locks_ = LocalLockService::Create({.metrics = nullptr}).value();
};

TEST_F(AsioCallsTest, AHandlerRunsOnItsOwnExecutorAndNeverWithinTheCall) {
  net::io_context io, other;
  const auto work = net::make_work_guard(io);  // Otherwise the first answer leaves it none, which stops it.
  bool on_other = false, on_io = false;
  Locks(io).AsyncRelease(LockLease(), net::bind_executor(other, [&](const absl::Status&) { on_other = true; }));
  Locks(io).AsyncRelease(LockLease(), [&](const absl::Status&) { on_io = true; });
  EXPECT_FALSE(on_other || on_io);
  io.poll();
  EXPECT_TRUE(on_io);
  EXPECT_FALSE(on_other);
  other.run();
  EXPECT_TRUE(on_other);
}

// From a handler as well, where an executor that dispatches would run it at once.
TEST_F(AsioCallsTest, AHandlerOfACallWithinAHandler_RunsAfterIt) {
  net::io_context io;
  std::vector<std::string> order;
  net::post(io, [&] {
    Locks(io).AsyncRelease(LockLease(), [&](const absl::Status&) { order.push_back("handler"); });
    order.push_back("call");
  });
  io.run();
  EXPECT_THAT(order, ::testing::ElementsAre("call", "handler"));
}

TEST_F(AsioCallsTest, AStrandRunsHandlersOneAtATime) {
  net::io_context io;
  auto strand = net::make_strand(io);
  std::atomic<int> inside = 0, most = 0, ended = 0;
  for (int i = 0; i < 100; ++i) {
    AsioLocks(strand, *locks_).AsyncAcquire(std::to_string(i), absl::ZeroDuration(), [&](const Lease&) {
      most = std::max<int>(most, ++inside);
      std::this_thread::yield();
      --inside;
      ++ended;
    });
  }
  std::thread second([&] { io.run(); });
  io.run();
  second.join();
  EXPECT_EQ(ended, 100);
  EXPECT_EQ(most, 1);
}

TEST_F(AsioCallsTest, RunLastsUntilTheAnswer_OnBothExecutors) {
  net::io_context io, other;
  LockLease held = Hold();
  std::optional<Lease> got;
  Locks(io).AsyncAcquire("a", absl::InfiniteDuration(),
                         net::bind_executor(other, [&](Lease lease) { got = std::move(lease); }));
  for (net::io_context* const context : {&io, &other}) {
    context->poll();
    EXPECT_FALSE(context->stopped());  // As it were without work.
  }
  std::latch running(2);
  const auto run = [&running](net::io_context& context) {
    net::post(context, [&] { running.count_down(); });
    context.run();
  };
  std::thread one([&] { run(io); }), two([&] { run(other); });
  running.wait();
  EXPECT_TRUE(held.Release().ok());
  one.join();
  two.join();
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(got->ok()) << got->status();
}

// Counts what it has given out.
template <typename T>
class CountingAllocator {
 public:
  using value_type = T;
  CountingAllocator(int& live, int& total) : live_(&live), total_(&total) {}
  template <typename U>
  CountingAllocator(const CountingAllocator<U>& other)  // NOLINT(google-explicit-constructor)
      : live_(other.live_), total_(other.total_) {}

  T* allocate(size_t n) {
    ++*live_;
    ++*total_;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* memory, size_t n) {
    --*live_;
    std::allocator<T>().deallocate(memory, n);
  }
  friend bool operator==(const CountingAllocator&, const CountingAllocator&) = default;

  int* live_;
  int* total_;
};

struct CountingHandler {
  using allocator_type = CountingAllocator<std::byte>;
  allocator_type get_allocator() const noexcept { return {*live, *total}; }
  // Not an any_io_executor, which ignores allocators.
  using executor_type = net::io_context::executor_type;
  executor_type get_executor() const noexcept { return executor; }
  void operator()(const absl::Status&) const { live_within = *live; }

  net::io_context::executor_type executor;
  int* live;
  int* total;
  int& live_within;
};

TEST_F(AsioCallsTest, MemoryIsOfTheHandlersAllocator_AndIsFreedBeforeItRuns) {
  net::io_context io;
  int live = 0, total = 0, live_within = -1;
  Locks(io).AsyncRelease(LockLease(), CountingHandler{io.get_executor(), &live, &total, live_within});
  EXPECT_EQ(live, 1);  // In the queue.
  EXPECT_EQ(total, 2);
  io.run();
  EXPECT_EQ(live_within, 0);
  EXPECT_EQ(live, 0);
}

TEST_F(AsioCallsTest, AContextEnds_TheMemoryOfWaitingHandlersIsFreed) {
  int live = 0, total = 0;
  LockLease held = Hold();
  {
    net::io_context io;
    struct Handler : CountingHandler {
      void operator()(const Lease&) const {}
    };
    int live_within = 0;
    Locks(io).AsyncAcquire("a", absl::InfiniteDuration(), Handler{{io.get_executor(), &live, &total, live_within}});
    EXPECT_EQ(live, 1);
  }
  EXPECT_EQ(live, 0);
}

// An executor that cannot take any more.
struct FullExecutor {
  net::io_context* io;

  net::execution_context& query(net::execution::context_t) const noexcept { return *io; }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  FullExecutor require(net::execution::blocking_t::never_t) const noexcept { return *this; }
  template <typename Function>
  void execute(Function&&) const {
    throw std::runtime_error("full");
  }
  friend bool operator==(const FullExecutor&, const FullExecutor&) noexcept = default;
};

TEST_F(AsioCallsTest, TheServicesExecutorDropsTheAnswer_TheHandlerIsTold) {
  FaultyExecutor drops(/*throws=*/false);
  const std::unique_ptr<LockService> locks = LocalLockService::Create({.executor = &drops, .metrics = nullptr}).value();
  net::io_context io;
  std::optional<Lease> got;
  std::optional<absl::Status> released;
  AsioLocks(io.get_executor(), *locks).AsyncAcquire("a", absl::ZeroDuration(), [&](Lease lease) {
    got = std::move(lease);
  });
  AsioLocks(io.get_executor(), *locks).AsyncRelease(locks->Acquire("b").value(), [&](absl::Status status) {
    released = std::move(status);
  });
  io.run();
  EXPECT_TRUE(absl::IsResourceExhausted(got->status())) << got->status();
  EXPECT_TRUE(absl::IsResourceExhausted(*released)) << *released;
}

class AsioLeaseTest : public ServiceTest {
 protected:
  // The engine hangs in releases until then.
  void AnswerReleasesAfter(std::latch& answer) {
    const std::lock_guard lock(world_->mutex);
    world_->on_release = [&answer](const LockRelease&) {
      answer.wait();
      return Fault::kNone;
    };
  }
};

TEST_F(AsioLeaseTest, ItsDestructorDoesNotWaitForTheEngine) {
  std::latch answer(1);
  net::io_context io;
  const AsioLocks locks(io.get_executor(), *service_);
  std::optional<Lease> lease;
  locks.AsyncAcquire("a", absl::ZeroDuration(), [&](Lease got) { lease = std::move(got); });
  io.run();
  EXPECT_TRUE(lease->ok()) << lease->status();
  AnswerReleasesAfter(answer);
  lease.reset();
  answer.count_down();
  Await("the release", [&] { return !service_->Inspect("a")->locked; });
}

TEST_F(AsioLeaseTest, AReleaseThatNeverBegins_DoesNotWaitEither) {
  std::latch answer(1);
  net::io_context io;
  LockLease lease = Must(service_->Acquire("a"));
  AnswerReleasesAfter(answer);
  {
    const auto never_awaited =
        AsioLocks(io.get_executor(), *service_).AsyncRelease(std::move(lease), net::use_awaitable);
  }
  answer.count_down();
  Await("the release", [&] { return !service_->Inspect("a")->locked; });
}

TEST_F(AsioCallsTest, AnEmptyExecutor_IsRefused) {
  EXPECT_THROW(AsioLocks(net::any_io_executor(), *locks_), net::execution::bad_executor);
}

TEST_F(AsioCallsTest, APostThatThrows_DestroysTheHandlerAndSaysSo) {
  static std::atomic<bool> logged = false;
  SetLogSink([](LogSeverity, std::string_view text) {
    if (text == "a handler is lost: its post threw: full") logged = true;
  });
  net::io_context io;
  const auto alive = std::make_shared<int>();
  Locks(io).AsyncAcquire("a", absl::ZeroDuration(),
                         net::bind_executor(FullExecutor{&io}, [alive](const Lease&) { FAIL() << "it ran"; }));
  Await("the line of the log", [] { return logged.load(); });
  EXPECT_EQ(alive.use_count(), 1);
  io.run();
  const auto next = locks_->Acquire("a", {.wait = absl::Seconds(20), .owner = LockOwner::New()});
  EXPECT_TRUE(next.ok()) << next.status();
  SetLogSink(nullptr);
}

// Its moves throw once there have been so many.
struct MovedTooOften {
  MovedTooOften(int moves, std::shared_ptr<int> alive) : left(std::make_shared<int>(moves)), token(std::move(alive)) {}
  MovedTooOften(const MovedTooOften&) = delete;
  MovedTooOften(MovedTooOften&& other) : left(other.left), token(other.token) {
    if ((*left)-- == 0) throw std::runtime_error("moved");
  }
  void operator()(const absl::Status&) const {}

  std::shared_ptr<int> left;
  std::shared_ptr<int> token;
};

TEST_F(AsioCallsTest, AMoveThatThrows_DestroysTheHandler) {
  SetLogSink([](LogSeverity, std::string_view) {});
  int thrown = 0;
  for (int moves = 0; moves < 20; ++moves) {
    const auto alive = std::make_shared<int>();
    net::io_context io;
    try {
      Locks(io).AsyncRelease(LockLease(), MovedTooOften(moves, alive));
      io.run();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
    EXPECT_EQ(alive.use_count(), 1) << moves;
  }
  SetLogSink(nullptr);
  EXPECT_GT(thrown, 0);
}

// Runs what it is given when it is destroyed.
struct AtEnd {
  explicit AtEnd(std::function<void()> function) : run(std::move(function)) {}
  AtEnd(AtEnd&& other) noexcept : run(std::exchange(other.run, nullptr)) {}
  ~AtEnd() {
    if (run) run();
  }
  void operator()(const Lease&) const {}

  std::function<void()> run;
};

TEST_F(AsioCallsTest, ACallThatAnEndingHandlerMakes_DoesNotBegin) {
  LockLease held = Hold();
  const auto alive = std::make_shared<int>();
  {
    net::io_context io;
    const AsioLocks locks = Locks(io);
    const auto again = [locks, alive] {
      locks.AsyncAcquire("b", absl::ZeroDuration(), [alive](const Lease&) { FAIL() << "it ran"; });
    };
    locks.AsyncAcquire("a", absl::InfiniteDuration(), AtEnd(again));
    net::post(io, [end = AtEnd(again)] {});  // Ends later than the calls.
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_TRUE(locks_->Acquire("b", {.wait = absl::ZeroDuration(), .owner = LockOwner::New()}).ok());
}

// The first call of a context, made by what the context destroys, has a service that is not shut down any more.
TEST_F(AsioCallsTest, TheFirstCall_OfAnEndingContext_EndsWithIt) {
  LockLease held = Hold();
  const auto alive = std::make_shared<int>();
  {
    net::io_context io;
    net::post(io, [end = AtEnd([&, alive] {
                     Locks(io).AsyncAcquire("a", absl::InfiniteDuration(),
                                            [alive](const Lease&) { FAIL() << "it ran"; });
                   })] {});
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_TRUE(held.Release().ok());
  EXPECT_TRUE(locks_->Acquire("a", {.wait = absl::Seconds(20), .owner = LockOwner::New()}).ok());
}

// Of a handler that is called with what comes first: the beginning of its call.
struct RecordingExecutor {
  net::io_context* io;
  std::vector<std::string>* order;

  net::execution_context& query(net::execution::context_t) const noexcept { return *io; }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  RecordingExecutor require(net::execution::blocking_t::never_t) const noexcept { return *this; }
  template <typename Function>
  void execute(Function&& function) const {
    order->emplace_back("posted");
    net::post(*io, std::forward<Function>(function));
  }
  friend bool operator==(const RecordingExecutor&, const RecordingExecutor&) noexcept = default;
};
struct RecordingHash {
  static inline std::vector<std::string>* order = nullptr;
  size_t operator()(int key) const {
    if (order != nullptr) order->emplace_back("begun");
    return static_cast<size_t>(key);
  }
};

// The handler may destroy the cache.
TEST_F(AsioCallsTest, StopRequestedBefore_TheHandlerIsPostedAfterTheCallHasBegun) {
  net::io_context io;
  std::vector<std::string> order;
  LoadingCache<int, int, RecordingHash> cache({.name = "c", .metrics = nullptr},
                                              [](int key) -> absl::StatusOr<int> { return key; });
  RecordingHash::order = &order;
  std::stop_source stop;
  stop.request_stop();
  CacheGetOptions options;
  options.stop = stop.get_token();
  AsioCache(io.get_executor(), cache)
      .AsyncGet(1, options, net::bind_executor(RecordingExecutor{&io, &order}, [](const auto&) {}));
  ASSERT_FALSE(order.empty());
  EXPECT_EQ(order.front(), "begun");
  io.run();
  EXPECT_EQ(order.back(), "posted");
  RecordingHash::order = nullptr;
}

// An answer that comes while the context ends is neither delivered nor posted to what is gone.
TEST_F(AsioCallsTest, AnswersThatComeWhileAContextEnds_AreDropped) {
  for (int round = 0; round < 200; ++round) {
    LockLease held = Hold();
    auto io = std::make_unique<net::io_context>();
    const auto alive = std::make_shared<int>();
    Locks(*io).AsyncAcquire("a", absl::InfiniteDuration(), [alive](const Lease&) { FAIL() << "it ran"; });
    std::latch start(2);
    std::thread releases([&] {
      start.arrive_and_wait();
      EXPECT_TRUE(held.Release().ok());
    });
    start.arrive_and_wait();
    io.reset();
    EXPECT_EQ(alive.use_count(), 1);
    releases.join();
    EXPECT_TRUE(locks_->Acquire("a", {.wait = absl::Seconds(20), .owner = LockOwner::New()}).ok());
  }
}

}  // namespace
}  // namespace stockade::testing
