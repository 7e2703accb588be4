// Nobody is in with another, and all get in, however votes are split.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "locks/redlock/five_servers.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

class RedlockContentionTest : public testing::FiveServersTest {
 protected:
  void Contend(int64_t rounds) {
    const std::unique_ptr<LockService> services[] = {Connect(LongLeases(), kHasty), Connect(LongLeases(), kHasty)};
    // Two steps, so that two who are in together lose one.
    std::atomic<int64_t> counter = 0;
    testing::RunThreads(6, [&](int thread) {
      for (int64_t i = 0; i < rounds; ++i) {
        const absl::StatusOr<LockLease> held = services[thread % 2]->Acquire("a");
        ASSERT_TRUE(held.ok()) << held.status();
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      }
    });
    EXPECT_EQ(counter, 6 * rounds);
  }
};

TEST_F(RedlockContentionTest, TwoServices_AllServersThere) { Contend(testing::Scaled(50, 2'000)); }

// Votes are split more often: two must be shared by three, or four by two.
TEST_F(RedlockContentionTest, TwoServices_OneServerAway) {
  server(0).Kill();
  Contend(testing::Scaled(30, 1'000));
}

TEST_F(RedlockContentionTest, TwoServices_TwoServersAway) {
  server(0).Kill();
  server(1).Pause();
  Contend(testing::Scaled(30, 1'000));
}

}  // namespace
}  // namespace stockade
