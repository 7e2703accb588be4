// The tests of the lock core once more, in a process to which the kernel refuses membarrier(2): there each thread that
// publishes itself fences on its own, and no fast path is taken.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>

#include "lock_condition.h"
#include "stockade/base/asymmetric_fence.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/locks/thread_record.h"
#include "support/subprocess.h"

namespace stockade {
namespace {

constexpr char kRefused[] = "STOCKADE_TEST_MEMBARRIER_REFUSED";

// A part of the suite, small enough for the time that one test has.
struct Part {
  const char* name;
  const char* filter;
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.name; }

class NoMembarrierTest : public ::testing::TestWithParam<Part> {};
INSTANTIATE_TEST_SUITE_P(
    Parts, NoMembarrierTest,
    ::testing::Values(Part{"Contract", "*LockContractTest.*-*Fifo"},
                      Part{"ContractTimed", "*LockContractTimedTest.*:*LockContractUpgradeTest.*-*Fifo"},
                      Part{"ContractDeath", "*LockContractDeathTest.*/Biased:*Lifetime*:*LateUse*:*LockForkTest*"},
                      Part{"TornPair", "*TornPairTest.*:*DestroyAfterUnlockTest.*"},
                      Part{"Many", "*ThreadChurnTest.*:*ManyLocksTest.*:*ManyReadersTest.*"},
                      Part{"Waiting", "*SharedEntryTest.*:*LostWakeUpTest.*"}, Part{"Model", "*LockModel*"},
                      Part{"Fairness", "*LockFairness*:*LockFifo*:*LockRegain*:*LockMetrics*"},
                      Part{"Each", "*ReentrantMutex*:*ReentrantSharedMutex*:*Keyed*-*Model*:*Memory*"}),
    [](const auto& info) { return info.param.name; });

TEST_P(NoMembarrierTest, APartOfTheSuite_WhereTheKernelRefuses_Passes) {
  if (internal::asymmetric_fence_detail::kThreadSanitizer) GTEST_SKIP() << "membarrier(2) is not used";
  const testing::RunResult run =
      testing::RunToEnd({STOCKADE_WITHOUT_MEMBARRIER, "/usr/bin/env", std::string(kRefused) + "=1",
                         std::filesystem::read_symlink("/proc/self/exe"),
                         std::string("--gtest_filter=FenceModeTest.*:") + GetParam().filter});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_NE(run.out.find("OK ] FenceModeTest.LockCore_WhereTheKernelRefuses"), std::string::npos) << run.out;
  const size_t passed = run.out.find("[  PASSED  ] ");
  ASSERT_NE(passed, std::string::npos) << run.out;
  EXPECT_GT(std::atoi(run.out.c_str() + passed + 13), 1) << "no test has this name";
}

TEST(FenceModeTest, LockCore_WhereTheKernelRefuses_PublishesReadsButTakesNoFastPath) {
  if (std::getenv(kRefused) == nullptr) GTEST_SKIP() << "the kernel refuses nothing here";
  ReentrantSharedMutex lock;
  testing::ReadOften(lock);
  EXPECT_TRUE(testing::ReadsPublished(lock));
  testing::WriteOften(lock);
  EXPECT_FALSE(testing::WritesPublished(lock));
  EXPECT_FALSE(testing::LocksFavourThreads());
  EXPECT_EQ(internal::ThreadRecord::Fast(), nullptr);
}

TEST(FenceModeTest, LockCore_WhereTheKernelAllows_TakesTheFastPath) {
  if (std::getenv(kRefused) != nullptr) GTEST_SKIP() << "the kernel refuses it here";
  if (!testing::LocksFavourThreads()) GTEST_SKIP() << "the kernel refuses it everywhere";
  ReentrantSharedMutex lock;
  testing::ReadOften(lock);
  EXPECT_TRUE(testing::ReadsPublished(lock));
  testing::WriteOften(lock);
  EXPECT_TRUE(testing::WritesPublished(lock));
  EXPECT_NE(internal::ThreadRecord::Fast(), nullptr);
}

}  // namespace
}  // namespace stockade
