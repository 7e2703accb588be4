#include "stockade/base/asymmetric_fence.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "base/refuse_membarrier.h"
#include "stockade/base/cpu_relax.h"
#include "support/forked_child.h"
#include "support/scale.h"

namespace stockade::base_internal {
namespace {

using testing::InForkedChild;
using testing::Scaled;

// Lets two threads go on together: spins, but gives a busy machine's core away after a while.
class Rendezvous {
 public:
  void Meet() {
    const uint64_t meeting = meetings_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == 1) {
      arrived_.store(0, std::memory_order_relaxed);
      meetings_.store(meeting + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; meetings_.load(std::memory_order_acquire) == meeting; ++spins) {
      if (spins < 2000) {
        CpuRelax();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<uint64_t> meetings_{0};
};

// The cores that this process may use.
std::vector<int> Cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}
void MoveThisThreadTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// On a cache line of its own, which the other side had last: a store to it waits in the store buffer.
struct alignas(64) Variable {
  std::atomic<int64_t> value{0};
};

// The light side goes through many pairs of a store and a load while the heavy side stores, fences and then loads all:
// so in many rounds the fence falls between two of the pairs, and those just before it are what the fence is for.
class AsymmetricFenceTest : public ::testing::Test {
 protected:
  static constexpr size_t kPairs = 64;

  void LightSide(int64_t rounds) {
    for (int64_t round = 1; round <= rounds; ++round) {
      meet_.Meet();
      for (size_t i = 0; i < kPairs; ++i) {
        LightStore(light_[i].value, round);
        light_is_first_[i] = heavy_.value.load(std::memory_order_seq_cst) != round;
      }
      meet_.Meet();
    }
  }

  void HeavySide(int64_t rounds) {
    std::minstd_rand random(1);
    for (int64_t round = 1; round <= rounds; ++round) {
      const unsigned pauses = random() % 8;
      meet_.Meet();
      for (unsigned i = 0; i < pauses; ++i) CpuRelax();
      heavy_.value.store(round, std::memory_order_seq_cst);
      HeavyFence();
      // The last pair of the light side first: it is the one that most likely is still on its way.
      for (size_t i = kPairs; i-- > 0;) {
        heavy_is_first_[i] = light_[i].value.load(std::memory_order_seq_cst) != round;
      }
      meet_.Meet();
      for (size_t i = 0; i < kPairs; ++i) both_first_ += light_is_first_[i] && heavy_is_first_[i] ? 1 : 0;
      straddled_ += light_is_first_.front() && !light_is_first_.back() ? 1 : 0;
    }
  }

  Rendezvous meet_;
  std::array<Variable, kPairs> light_;
  Variable heavy_;
  // Whether the side saw the other's variable as it was before the round. Handed over by meet_.
  std::array<bool, kPairs> light_is_first_{};
  std::array<bool, kPairs> heavy_is_first_{};
  int64_t both_first_ = 0;
  int64_t straddled_ = 0;  // Rounds in which the heavy side's store fell between two pairs.
};

TEST_F(AsymmetricFenceTest, StoreBuffering_LightAndHeavySideAtOnce_AreNeverBothFirst) {
  InitAsymmetricFence();
  const int64_t rounds = Scaled(50'000, 2'000'000);
  // A busy machine may otherwise keep both threads on one core, where nothing can go wrong.
  const std::vector<int> cores = Cores();
  if (cores.size() < 2) GTEST_SKIP() << "one core has no second store buffer";
  std::thread light([&] {
    MoveThisThreadTo(cores.front());
    LightSide(rounds);
  });
  std::thread heavy([&] {
    MoveThisThreadTo(cores.back());
    HeavySide(rounds);
  });
  light.join();
  heavy.join();
  EXPECT_EQ(both_first_, 0);
  EXPECT_GT(straddled_, 0) << "the sides never overlapped";
  RecordProperty("straddled", std::to_string(straddled_));
}

TEST_F(AsymmetricFenceTest, HeavyFence_InAForkedChild_Works) {
  InitAsymmetricFence();
  const int status = InForkedChild([] { HeavyFence(); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// ctest runs this suite a second time in a process to which the kernel refuses membarrier(2):
// NoMembarrier.AsymmetricFence.
TEST_F(AsymmetricFenceTest, Init_UsesTheKernelsFenceExactlyIfItIsThere) {
  InitAsymmetricFence();
  EXPECT_EQ(InlineLightStoreWorks(), asymmetric_fence_detail::kThreadSanitizer || testing::KernelHasMembarrier());
  HeavyFence();
}

TEST(AsymmetricFenceDeathTest, HeavyFence_RefusedOnlyLater_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  InitAsymmetricFence();
  if (asymmetric_fence_detail::kThreadSanitizer || !InlineLightStoreWorks()) GTEST_SKIP() << "no membarrier(2)";
  EXPECT_DEATH(
      {
        InitAsymmetricFence();
        if (testing::RefuseMembarrier()) HeavyFence();
      },
      "membarrier\\(2\\) fails, although it worked when the process began");
}

}  // namespace
}  // namespace stockade::base_internal
