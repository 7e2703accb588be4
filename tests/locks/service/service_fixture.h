#ifndef STOCKADE_TESTS_LOCKS_SERVICE_SERVICE_FIXTURE_H_
#define STOCKADE_TESTS_LOCKS_SERVICE_SERVICE_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <utility>

#include "locks/service/flaky_engine.h"
#include "stockade/base/manual_clock.h"
#include "stockade/locks/engine_lock_service.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::testing {

// Services on one engine in memory, on a clock that the test moves.
class ServiceTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kWatchdogLease = absl::Seconds(30);

  std::unique_ptr<LockService> NewService(absl::Duration engine_timeout = absl::Seconds(3)) {
    absl::StatusOr<std::unique_ptr<LockService>> service =
        EngineLockService::Create(std::make_unique<FlakyEngine>(world_), {.watchdog_lease = kWatchdogLease,
                                                                          .engine_timeout = engine_timeout,
                                                                          .clock = &clock_,
                                                                          .executor = &executor_,
                                                                          .metrics = &registry_});
    EXPECT_TRUE(service.ok()) << service.status();
    return *std::move(service);
  }

  static LockLease Must(absl::StatusOr<LockLease> lease) {
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease.ok() ? *std::move(lease) : LockLease();
  }

  // In a thread of its own, as somebody new.
  std::future<absl::StatusOr<LockLease>> AcquireInThread(std::string name, AcquireOptions options = {}) {
    return std::async(std::launch::async, [this, name = std::move(name), options = std::move(options)] {
      return service_->Acquire(name, options);
    });
  }

  // The engine hangs in tries until then. For a test that makes no try once `answer` is gone.
  void AnswerTriesAfter(std::latch& answer) {
    const std::lock_guard lock(world_->mutex);
    world_->on_try = [&answer](const LockTry&) {
      answer.wait();
      return Fault::kNone;
    };
  }

  // Moves the clock on whenever somebody waits for it, until the future is there.
  template <typename T>
  T Finish(std::future<T> future) {
    while (future.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      clock_.Advance(absl::Milliseconds(10));
    }
    return future.get();
  }

  int64_t HoldsOf(std::string_view name, LockOwner owner) {
    const absl::StatusOr<LockState> state = service_->Inspect(name, owner);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? state->owner_holds : -1;
  }

  // Blocks until so many acquisitions wait in a queue, each with a watch where its queue is its own.
  void AwaitTries(int tries) {
    while (world_->tries < tries) std::this_thread::yield();
  }

  ManualClock clock_;
  InlineExecutor executor_;
  MetricsRegistry registry_;
  const std::shared_ptr<FlakyWorld> world_ = std::make_shared<FlakyWorld>(&clock_);
  std::unique_ptr<LockService> service_ = NewService();
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_SERVICE_SERVICE_FIXTURE_H_
