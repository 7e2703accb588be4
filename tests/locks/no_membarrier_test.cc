// Which fences the lock core uses. ctest runs parts of this program a second time, as NoMembarrier.<part>, in a process
// to which the kernel refuses membarrier(2): there each thread that publishes itself fences on its own, and no fast
// path is taken.
#include <gtest/gtest.h>

#include "base/refuse_membarrier.h"
#include "lock_condition.h"
#include "stockade/base/asymmetric_fence.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade {
namespace {

TEST(FenceModeTest, LockCore_TakesTheFastPathExactlyIfTheKernelHasMembarrier) {
  const bool fast = base_internal::asymmetric_fence_detail::kThreadSanitizer || testing::KernelHasMembarrier();
  ReentrantSharedMutex lock;
  testing::ReadOften(lock);
  EXPECT_TRUE(testing::ReadsPublished(lock));
  testing::WriteOften(lock);
  EXPECT_EQ(testing::WritesPublished(lock), fast);
  EXPECT_EQ(testing::LocksFavourThreads(), fast);
  EXPECT_EQ(locks_internal::ThreadRecord::Fast() != nullptr, fast);
}

}  // namespace
}  // namespace stockade
