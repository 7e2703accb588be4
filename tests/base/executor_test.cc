#include "stockade/base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "stockade/base/log.h"
#include "stockade/base/start_thread.h"

namespace stockade {
namespace {

TEST(InlineExecutorTest, Schedule_RunsTheTaskBeforeItReturns) {
  InlineExecutor executor;
  bool ran = false;
  executor.Schedule([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(ThreadPoolTest, Schedule_TwoBlockedTasks_RunAtOnceOnTwoThreads) {
  std::latch both(2);
  std::latch done(2);
  ThreadPool pool(2);
  for (int i = 0; i < 2; ++i) {
    pool.Schedule([&] {
      both.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
}

TEST(ThreadPoolTest, Destroyed_WithQueuedTasks_RunsThemAndWhatTheyAdd) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool(2);
    for (int i = 0; i < 100; ++i) {
      pool.Schedule([&] {
        pool.Schedule([&] { ++ran; });
        ++ran;
      });
    }
  }
  EXPECT_EQ(ran, 200);
}

TEST(ThreadPoolTest, TaskThrows_LogsAndGoesOn) {
  std::string logged;
  SetLogSink([&](LogSeverity, std::string_view message) { logged = message; });
  std::atomic<bool> ran = false;
  {
    ThreadPool pool(1);
    pool.Schedule([] { throw std::runtime_error("out of paper"); });
    pool.Schedule([&] { ran = true; });
  }
  SetLogSink({});
  EXPECT_TRUE(ran);
  EXPECT_EQ(logged, "a task on an Executor threw: out of paper");
}

TEST(ThreadPoolTest, RunningInThisThread_SaysItOnThePoolsOwnThreadsOnly) {
  std::atomic<bool> here{false}, elsewhere{true};
  ThreadPool other(1);
  {
    ThreadPool pool(1);
    EXPECT_FALSE(pool.RunningInThisThread());
    pool.Schedule([&] {
      here = pool.RunningInThisThread();
      elsewhere = other.RunningInThisThread();
    });
  }
  EXPECT_TRUE(here);
  EXPECT_FALSE(elsewhere);
  EXPECT_FALSE(InlineExecutor().RunningInThisThread());
}

TEST(ThreadPoolDeathTest, NoThreads_Aborts) { EXPECT_DEATH(ThreadPool(0), "threads = 0"); }

TEST(ExecutorDeathTest, Schedule_WithoutATask_Aborts) {
  EXPECT_DEATH(ThreadPool(1).Schedule(nullptr), "ThreadPool: Schedule\\(\\) was called without a task");
  EXPECT_DEATH(InlineExecutor().Schedule(nullptr), "InlineExecutor: Schedule\\(\\) was called without a task");
}

TEST(StartThreadTest, WithoutAFunction_IsInvalid) {
  std::thread thread;
  EXPECT_EQ(base_internal::StartThread(thread, nullptr).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(thread.joinable());
}

}  // namespace
}  // namespace stockade
