#include "harness/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace stockade::bench {
namespace {

TEST(RunOpsTest, EachThreadRunsItsShareOnce) {
  std::atomic<int64_t> done = 0;
  std::atomic<uint32_t> threads_seen = 0;
  const Throughput throughput = RunOps(3, 1000, [&](size_t thread, int64_t ops) {
    done += ops;
    threads_seen |= 1u << thread;
  });
  EXPECT_EQ(done, 3000);
  EXPECT_EQ(threads_seen, 0b111u);
  EXPECT_EQ(throughput.ops, 3000);
  EXPECT_GT(throughput.seconds, 0);
}

TEST(RunOpsTest, ThreadsRunAtTheSameTime) {
  // Each waits for the other: one after the other they would hang.
  std::atomic<int> inside = 0;
  RunOps(2, 1, [&](size_t, int64_t) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
}

TEST(RunForTest, CountsWholeBatches_AndRunsForItsSpan) {
  std::atomic<int64_t> done = 0;
  const Throughput throughput = RunFor(2, absl::Milliseconds(5), 16, [&](size_t, int64_t ops) { done += ops; });
  EXPECT_EQ(throughput.ops, done);
  EXPECT_EQ(done % 16, 0);
  EXPECT_GE(throughput.seconds, 0.005);
}

TEST(RunForTest, EachThreadsOps_AreKeptApart) {
  std::atomic<int64_t> done[2] = {0, 0};
  const Throughput throughput = RunFor(2, absl::Milliseconds(1), 16, [&](size_t thread, int64_t ops) {
    done[thread] += ops;
    if (thread == 1) std::this_thread::yield();
  });
  ASSERT_EQ(throughput.ops_by_thread.size(), 2u);
  EXPECT_EQ(throughput.ops_by_thread[0], done[0]);
  EXPECT_EQ(throughput.ops_by_thread[1], done[1]);
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
