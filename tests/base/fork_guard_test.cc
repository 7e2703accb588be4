#include "stockade/base/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stockade/base/executor.h"
#include "support/forked_child.h"

namespace stockade {
namespace {

using testing::InForkedChild;

TEST(ForkGuardTest, Check_InTheSameProcess_Passes) {
  const base_internal::ForkGuard guard;
  EXPECT_FALSE(guard.InForkedChild());
  guard.Check("Thing", "x");
}

TEST(ForkGuardTest, InForkedChild_InChildAndGrandchild_IsTrue) {
  const base_internal::ForkGuard guard;
  const int status = InForkedChild([&] {
    if (!guard.InForkedChild()) _exit(1);
    const base_internal::ForkGuard own;
    if (own.InForkedChild()) _exit(2);
    const int grandchild = InForkedChild([&] { _exit(own.InForkedChild() && guard.InForkedChild() ? 0 : 3); });
    _exit(WEXITSTATUS(grandchild));
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ForkGuardTest, ThreadPoolDestroyed_InForkedChild_DoesNothing) {
  auto pool = std::make_unique<ThreadPool>(2);
  const int status = InForkedChild([&] { pool.reset(); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ForkGuardDeathTest, Check_InForkedChild_AbortsWithTheName) {
  const base_internal::ForkGuard guard;
  EXPECT_DEATH(
      {
        const int status = InForkedChild([&] { guard.Check("LoadingCache", "products"); });
        if (WIFSIGNALED(status)) abort();
      },
      "LoadingCache 'products' used in a forked child");
}

}  // namespace
}  // namespace stockade
