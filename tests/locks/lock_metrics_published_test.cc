// What the metrics say of holds that the lock's word does not know of.
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#include "lock_condition.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {
namespace {

using testing::kManyReads;
using testing::kManyWrites;
using testing::LocksFavourThreads;
using testing::ReadsPublished;
using testing::WritesPublished;

constexpr char kWriteCount[] = R"(stockade_lock_acquisitions_total{lock="orders",mode="exclusive"})";
constexpr char kReadCount[] = R"(stockade_lock_acquisitions_total{lock="orders",mode="shared"})";
constexpr char kRevocations[] = R"(stockade_lock_revocations_total{lock="orders"})";
constexpr char kHoldCount[] = R"(stockade_lock_hold_seconds_count{lock="orders"})";
constexpr int kSampling = 256;

class LockMetricsPublishedTest : public ::testing::Test {
 protected:
  double Value(const std::string& series) const {
    const std::string text = "\n" + prometheus::TextSerializer().Serialize(registry_.Collect());
    const size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + series.size() + 2);
  }

  MetricsRegistry registry_;
  ReentrantSharedMutex mutex_{{.name = "orders", .metrics = &registry_}};
};

TEST_F(LockMetricsPublishedTest, Reads_Published_AreCountedAndSampledAsOthersAre) {
  testing::ReadOften(mutex_);
  ASSERT_TRUE(ReadsPublished(mutex_));
  const double reads = Value(kReadCount);
  EXPECT_EQ(reads, kManyReads + 1);
  const double holds = Value(kHoldCount);
  for (int i = 0; i < 4 * kSampling; ++i) {
    std::shared_lock read(mutex_);
    std::shared_lock nested(mutex_);
  }
  EXPECT_EQ(Value(kReadCount), reads + 4 * kSampling);
  EXPECT_EQ(Value(kHoldCount), holds + 4);
  EXPECT_EQ(Value(kRevocations), 0);
}

TEST_F(LockMetricsPublishedTest, Writes_OfTheFavouredThread_AreCountedAndSampledAsOthersAre) {
  testing::WriteOften(mutex_);
  ASSERT_EQ(WritesPublished(mutex_), LocksFavourThreads());
  const double writes = Value(kWriteCount);
  EXPECT_EQ(writes, kManyWrites + 1);
  const double holds = Value(kHoldCount);
  for (int i = 0; i < 4 * kSampling; ++i) {
    std::lock_guard write(mutex_);
    std::lock_guard nested(mutex_);
  }
  EXPECT_EQ(Value(kWriteCount), writes + 4 * kSampling);
  EXPECT_EQ(Value(kHoldCount), holds + 4);
}

// A sampled hold is still one after it has changed its mode, whether it was published or not.
TEST_F(LockMetricsPublishedTest, Holds_UpgradedAndDowngraded_AreSampledOnce) {
  testing::ReadOften(mutex_);
  double holds = Value(kHoldCount);
  for (int i = 0; i < 4 * kSampling; ++i) {
    mutex_.lock_shared();
    ASSERT_TRUE(mutex_.try_upgrade());
    mutex_.downgrade();
    ASSERT_TRUE(mutex_.try_upgrade());
    mutex_.unlock();
  }
  EXPECT_EQ(Value(kHoldCount), holds + 4);
  testing::WriteOften(mutex_);
  holds = Value(kHoldCount);
  for (int i = 0; i < 4 * kSampling; ++i) {
    mutex_.lock();
    mutex_.downgrade();
    mutex_.unlock_shared();
  }
  EXPECT_EQ(Value(kHoldCount), holds + 4);
}

// In the condition itself: the hold that is sampled is a published one, and the first call after it ends that.
TEST_F(LockMetricsPublishedTest, Holds_PublishedWhenUpgradedOrDowngraded_AreSampledOnce) {
  const double holds = Value(kHoldCount);
  int rounds = 0;
  int sampled = 0;
  for (; sampled < 3; ++rounds) {
    testing::ReadOften(mutex_, kManyReads + rounds % 7);
    mutex_.lock_shared();
    ASSERT_TRUE(testing::IsPublished(mutex_));
    sampled += testing::EntryWithHold(mutex_)->is_sampled() ? 1 : 0;
    ASSERT_TRUE(mutex_.try_upgrade());
    mutex_.unlock();
  }
  const double acquired = Value(kReadCount);
  EXPECT_GE(acquired, rounds * kManyReads);
  EXPECT_EQ(Value(kHoldCount) - holds, static_cast<int>((acquired - 1) / kSampling) + 1);
}

TEST_F(LockMetricsPublishedTest, Revocations_AWriterAfterManyReads_IsOne) {
  testing::ReadOften(mutex_);
  EXPECT_EQ(Value(kRevocations), 0);
  std::thread([&] { std::lock_guard write(mutex_); }).join();
  EXPECT_EQ(Value(kRevocations), 1);
  std::thread([&] { std::lock_guard write(mutex_); }).join();
  EXPECT_EQ(Value(kRevocations), 1);
}

TEST_F(LockMetricsPublishedTest, Revocations_AnotherThreadAfterManyWrites_IsOne) {
  testing::WriteOften(mutex_);
  std::thread([&] { std::shared_lock read(mutex_); }).join();
  EXPECT_EQ(Value(kRevocations), LocksFavourThreads() ? 1 : 0);
  std::thread([&] { std::lock_guard write(mutex_); }).join();
  EXPECT_EQ(Value(kRevocations), LocksFavourThreads() ? 1 : 0);
}

}  // namespace
}  // namespace stockade
