// A writer that has to call back very many readers who published themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "companion.h"
#include "lock_condition.h"
#include "lock_test_util.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using std::chrono::milliseconds;
using testing::Companion;
using testing::Scaled;
using testing::Seed;

// More than a writer looks at in one go.
constexpr int kReaders = 50;

class ManyReadersTest : public ::testing::TestWithParam<bool> {
 protected:
  ManyReadersTest() {
    for (int i = 0; i < kReaders; ++i) readers_.push_back(std::make_unique<Companion>());
  }

  // Brings all in, by publishing.
  void AllRead() {
    testing::ReadOften(lock_);
    for (const auto& reader : readers_) {
      EXPECT_TRUE(reader->Ask([&] { return lock_.lock_shared(), testing::IsPublished(lock_); }));
    }
  }
  void Leave(size_t reader) {
    readers_[reader]->Do([&] { lock_.unlock_shared(); });
  }

  ReentrantSharedMutex lock_{{.fifo = GetParam()}};
  std::vector<std::unique_ptr<Companion>> readers_;
};
INSTANTIATE_TEST_SUITE_P(Options, ManyReadersTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

// Whichever of them is the last: the writer waits for it, gives up on it, and gets in after it.
TEST_P(ManyReadersTest, AllPublished_TheyLeaveInAnyOrder_TheWriterEntersAfterTheLast) {
  std::minstd_rand random(static_cast<unsigned>(Seed()));
  std::vector<size_t> order(kReaders);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (int64_t round = Scaled(30, 500); round > 0; --round) {
    std::shuffle(order.begin(), order.end(), random);
    AllRead();
    std::atomic<bool> written = false;
    std::thread writer([&] {
      std::lock_guard write(lock_);
      written = true;
    });
    testing::AwaitWaiters(lock_, 1);
    for (size_t i = 0; i + 1 < order.size(); ++i) Leave(order[i]);
    EXPECT_FALSE(written);
    EXPECT_FALSE(testing::OtherGetsIn(lock_));
    Leave(order.back());
    writer.join();
    ASSERT_TRUE(written);
  }
}

TEST_P(ManyReadersTest, OneStaysPublished_ATimedWriterGivesUp_WhicheverItIs) {
  AllRead();
  for (size_t stays : {0, 1, 15, 16, 17, 31, 32, kReaders - 1}) {
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (i != stays) Leave(i);
    }
    EXPECT_FALSE(testing::OtherGetsIn(lock_)) << stays;
    EXPECT_FALSE(std::unique_lock(lock_, milliseconds(2)).owns_lock()) << stays;
    Leave(stays);
    EXPECT_TRUE(std::unique_lock(lock_, milliseconds(0)).owns_lock()) << stays;
    AllRead();
  }
  for (size_t i = 0; i < readers_.size(); ++i) Leave(i);
}

TEST_P(ManyReadersTest, AllButOneLeave_ThatOneUpgrades_WhicheverItIs) {
  AllRead();
  for (size_t stays : {0, 15, 16, 17, kReaders - 1}) {
    EXPECT_FALSE(readers_[stays]->Ask([&] { return lock_.try_upgrade(); }));
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (i != stays) Leave(i);
    }
    EXPECT_TRUE(readers_[stays]->Ask([&] { return lock_.try_upgrade(); }));
    EXPECT_FALSE(testing::OtherReads(lock_));
    readers_[stays]->Do([&] { lock_.unlock(); });
    AllRead();
  }
  for (size_t i = 0; i < readers_.size(); ++i) Leave(i);
}

}  // namespace
}  // namespace stockade
