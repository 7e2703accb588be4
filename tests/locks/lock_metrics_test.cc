#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "lock_test_util.h"
#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/needs_program.h"

namespace stockade {
namespace {

using testing::AwaitWaiters;
using testing::OnOtherThread;

class LockMetricsTest : public ::testing::Test {
 protected:
  std::string Text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

  // The value of the sample whose name and labels are `series` as exported; -1 where there is none.
  double Value(const std::string& series) const {
    const std::string text = "\n" + Text();
    const size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + series.size() + 2);
  }

  MetricsRegistry registry_;
};

constexpr char kExclusive[] = R"(stockade_lock_acquisitions_total{lock="orders",mode="exclusive"})";
constexpr char kShared[] = R"(stockade_lock_acquisitions_total{lock="orders",mode="shared"})";
constexpr char kContended[] = R"(stockade_lock_contended_acquisitions_total{lock="orders",mode="exclusive"})";
constexpr char kContendedShared[] = R"(stockade_lock_contended_acquisitions_total{lock="orders",mode="shared"})";
constexpr char kWaits[] = R"(stockade_lock_wait_seconds_count{lock="orders"})";
constexpr char kHolds[] = R"(stockade_lock_hold_seconds_count{lock="orders"})";
constexpr char kWaiters[] = R"(stockade_lock_waiters{lock="orders"})";

TEST_F(LockMetricsTest, Acquisitions_ReentriesAndFailures_OnlyTheOutermostCount) {
  ReentrantSharedMutex mutex({.name = "orders", .metrics = &registry_});
  mutex.lock();
  mutex.lock();
  mutex.lock_shared();
  EXPECT_FALSE(OnOtherThread([&] { return mutex.try_lock(); }));
  mutex.unlock_shared();
  mutex.unlock();
  mutex.unlock();
  mutex.lock_shared();
  mutex.unlock_shared();
  ASSERT_TRUE(mutex.try_lock_shared());
  mutex.unlock_shared();
  EXPECT_EQ(Value(kExclusive), 1);
  EXPECT_EQ(Value(kShared), 2);
  EXPECT_EQ(Value(kContended), 0);
  EXPECT_EQ(Value(kWaits), 0);
}

TEST_F(LockMetricsTest, Contended_OneWaitsAndOneGivesUp_OnlyTheFirstCounts) {
  ReentrantSharedMutex mutex({.name = "orders", .metrics = &registry_});
  mutex.lock();
  EXPECT_FALSE(OnOtherThread([&] { return mutex.try_lock_for(std::chrono::milliseconds(1)); }));
  std::thread writer([&] { std::lock_guard lock(mutex); });
  AwaitWaiters(mutex, 1);
  std::thread reader([&] {
    mutex.lock_shared();
    mutex.unlock_shared();
  });
  AwaitWaiters(mutex, 2);
  EXPECT_EQ(Value(kWaiters), 2);
  mutex.unlock();
  writer.join();
  reader.join();
  EXPECT_EQ(Value(kContended), 1);
  EXPECT_EQ(Value(kContendedShared), 1);
  EXPECT_EQ(Value(kWaits), 2);
  EXPECT_EQ(Value(kWaiters), 0);
}

TEST_F(LockMetricsTest, Holds_Of768OfAFreshThread_ThreeAreSampled) {
  ReentrantMutex mutex({.name = "orders", .metrics = &registry_});
  std::thread([&] {
    for (int i = 0; i < 3 * 256; ++i) std::lock_guard lock(mutex);
  }).join();
  EXPECT_EQ(Value(kExclusive), 768);
  EXPECT_EQ(Value(kHolds), 3);
}

TEST_F(LockMetricsTest, Name_SharedByLocksOfEveryKind_IsOneSeriesAndOutlivesThem) {
  {
    ReentrantMutex mutex({.name = "orders", .metrics = &registry_});
    KeyedMutex<int> keyed({.name = "orders", .metrics = &registry_});
    std::lock_guard lock(mutex);
    const auto guards = keyed.LockAll({1, 2, 3});
  }
  EXPECT_EQ(Value(kExclusive), 4);
}

TEST_F(LockMetricsTest, NoNameOrNoRegistry_ExportNothing) {
  ReentrantMutex unnamed({.metrics = &registry_});
  std::lock_guard lock(unnamed);
  ReentrantMutex off({.name = "off-by-option", .metrics = nullptr});
  std::lock_guard other(off);
  EXPECT_EQ(Text(), "");
}

TEST_F(LockMetricsTest, Promtool_ChecksWhatIsExported_IsSilent) {
  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  ReentrantMutex mutex({.name = "quote \" and backslash \\", .metrics = &registry_});
  std::lock_guard lock(mutex);
  std::FILE* const promtool = popen("promtool check metrics 2>&1 | { ! grep .; }", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string text = Text();
  EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), promtool), text.size());
  EXPECT_EQ(pclose(promtool), 0);
}

}  // namespace
}  // namespace stockade
