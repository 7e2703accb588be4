#include "ledger/order_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/request_ids.h"

namespace stockade::bench {
namespace {

using Done = absl::AnyInvocable<void()>;

TEST(OrderRunsTest, RunAsyncOrders_KeepsThatManyOutstandingUntilAllAreDone) {
  std::vector<Done> outstanding;
  size_t most = 0;
  int64_t started = 0;
  // The run hands out all that it may before anything is done; each is then done within the start of another.
  const OrderRun run = RunAsyncOrders(
      3, absl::Hours(1),
      [&](Done done) {
        ++started;
        outstanding.push_back(std::move(done));
        most = std::max(most, outstanding.size());
        if (outstanding.size() < 3 && started < 10) return;
        while (!outstanding.empty()) {
          Done first = std::move(outstanding.front());
          outstanding.erase(outstanding.begin());
          first();
        }
      },
      10);
  EXPECT_EQ(started, 10);
  EXPECT_EQ(most, 3);
  EXPECT_EQ(run.durations.count(), 10);
  EXPECT_GT(run.per_second, 0);
}

TEST(OrderRunsTest, RunAsyncOrders_DoneOnAnotherThread_EndsWithTheSpan) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::atomic<int64_t> started = 0;
  const OrderRun run = RunAsyncOrders(2, absl::Milliseconds(5), [&](Done done) {
    ++started;
    const std::lock_guard own(mutex);
    threads.emplace_back([done = std::move(done)]() mutable { done(); });
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(run.durations.count(), static_cast<uint64_t>(started.load()));
}

TEST(OrderRunsTest, RunOrders_MoreOutstandingThanThreads_EachWaitsForThoseBeforeIt) {
  std::atomic<int64_t> orders = 0;
  std::set<size_t> threads;
  std::mutex mutex;
  uint64_t durations = 0;
  RunCrew(2, [&](Worker& worker) {
    const OrderRun run = RunOrders(worker, 8, absl::Milliseconds(5), [&](size_t thread) {
      ++orders;
      const std::lock_guard own(mutex);
      threads.insert(thread);
    });
    if (worker.thread() == 0) durations = run.durations.count();
  });
  EXPECT_EQ(threads, (std::set<size_t>{0, 1}));
  EXPECT_EQ(durations, static_cast<uint64_t>(orders.load()));
}

TEST(RequestIdsTest, Next_GivesUuidsOfVersion4_NoTwoAlike_TheSameAtEachRun) {
  RequestIds ids;
  RequestIds again;
  std::set<std::string> seen;
  for (int i = 0; i < 10'000; ++i) {
    const std::string id = ids.Next();
    EXPECT_EQ(id, again.Next());
    ASSERT_EQ(id.size(), 36);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos) << id;
    for (const size_t dash : {8, 13, 18, 23}) EXPECT_EQ(id[dash], '-') << id;
    EXPECT_EQ(id[14], '4') << id;
    EXPECT_TRUE(seen.insert(id).second) << id;
  }
}

}  // namespace
}  // namespace stockade::bench
