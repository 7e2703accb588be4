#include "measure/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace stockade::bench {
namespace {

// The result of `work` on thread 0 of a crew.
template <typename Work>
Throughput RunOn(size_t threads, const Work& work) {
  Throughput result;
  RunCrew(threads, [&](Worker& worker) {
    const Throughput mine = work(worker);
    if (worker.thread() == 0) result = mine;
  });
  return result;
}

TEST(WorkerTest, RunOps_EachThreadRunsItsShareOnce) {
  std::atomic<int64_t> done = 0;
  std::atomic<uint32_t> threads_seen = 0;
  const Throughput throughput = RunOn(3, [&](Worker& worker) {
    return worker.RunOps(1000, [&](size_t thread, int64_t ops) {
      done += ops;
      threads_seen |= 1u << thread;
    });
  });
  EXPECT_EQ(done, 3000);
  EXPECT_EQ(threads_seen, 0b111u);
  EXPECT_EQ(throughput.ops, 3000);
  EXPECT_GT(throughput.seconds, 0);
}

TEST(WorkerTest, RunOps_ThreadsRunAtTheSameTime) {
  // Each waits for the other: one after the other they would hang.
  std::atomic<int> inside = 0;
  RunOn(2, [&](Worker& worker) {
    return worker.RunOps(1, [&](size_t, int64_t) {
      ++inside;
      while (inside < 2) std::this_thread::yield();
    });
  });
  EXPECT_EQ(inside, 2);
}

TEST(WorkerTest, RunFor_CountsWholeBatchesAndRunsForItsSpan) {
  std::atomic<int64_t> done = 0;
  const Throughput throughput = RunOn(2, [&](Worker& worker) {
    return worker.RunFor(absl::Milliseconds(5), 16, [&](size_t, int64_t ops) { done += ops; });
  });
  EXPECT_EQ(throughput.ops, done);
  EXPECT_EQ(done % 16, 0);
  EXPECT_GE(throughput.seconds, 0.005);
}

TEST(WorkerTest, RunFor_OpsOfEachThreadAreKeptApart) {
  std::atomic<int64_t> done[2] = {0, 0};
  const Throughput throughput = RunOn(2, [&](Worker& worker) {
    return worker.RunFor(absl::Milliseconds(1), 16, [&](size_t thread, int64_t ops) {
      done[thread] += ops;
      if (thread == 1) std::this_thread::yield();
    });
  });
  ASSERT_EQ(throughput.ops_by_thread.size(), 2u);
  EXPECT_EQ(throughput.ops_by_thread[0], done[0]);
  EXPECT_EQ(throughput.ops_by_thread[1], done[1]);
}

TEST(WorkerTest, Once_IsDoneBeforeAnyThreadGoesOn) {
  int done = 0;
  RunCrew(3, [&](Worker& worker) {
    worker.Once([&] { ++done; });
    EXPECT_EQ(done, 1);
  });
}

TEST(WorkerTest, Gather_GivesThreadZeroTheValuesOfAll) {
  std::vector<size_t> gathered;
  RunCrew(3, [&](Worker& worker) {
    const size_t mine = 10 * worker.thread();
    worker.Gather(mine, [&](size_t value) { gathered.push_back(value); });
    EXPECT_EQ(gathered, (std::vector<size_t>{0, 10, 20}));
  });
}

TEST(ThroughputTest, SlowestShare_IsOneWhereAllDidTheSame) {
  EXPECT_EQ((Throughput{.ops = 30, .seconds = 1, .ops_by_thread = {10, 10, 10}}).SlowestShare(), 1);
  EXPECT_EQ((Throughput{.ops = 40, .seconds = 1, .ops_by_thread = {25, 5, 10, 0}}).SlowestShare(), 0);
  EXPECT_EQ((Throughput{.ops = 40, .seconds = 1, .ops_by_thread = {35, 5}}).SlowestShare(), 0.25);
}

TEST(ThroughputTest, FiguresAreOfAllThreadsTogether) {
  const Throughput throughput{.ops = 4'000'000, .seconds = 2};
  EXPECT_EQ(throughput.NsPerOp(), 500);
  EXPECT_EQ(throughput.PerSecond(), 2e6);
  EXPECT_EQ(throughput.MillionsPerSecond(), 2);
}

}  // namespace
}  // namespace stockade::bench
