#include "locks/parked.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

namespace stockade::bench {
namespace {

TEST(ThreadWatchTest, AwaitParked_ReturnsOnlyOnceTheThreadSleeps) {
  std::promise<pid_t> id;
  std::atomic<bool> may_sleep = false;
  std::promise<void> end;
  std::thread sleeper([&] {
    id.set_value(static_cast<pid_t>(syscall(SYS_gettid)));
    while (!may_sleep) std::this_thread::yield();
    end.get_future().wait();
  });
  const ThreadWatch watch(id.get_future().get());
  std::atomic<bool> parked = false;
  std::thread watcher([&] {
    watch.AwaitParked();
    EXPECT_TRUE(may_sleep);
    parked = true;
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(parked);
    std::this_thread::yield();
  }
  may_sleep = true;
  watcher.join();
  end.set_value();
  sleeper.join();
}

TEST(ThreadWatchDeathTest, NoSuchThread_Aborts) {
  EXPECT_DEATH(ThreadWatch(0), "does not show the threads of this process");
}

}  // namespace
}  // namespace stockade::bench
