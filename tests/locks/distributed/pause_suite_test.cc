// Case 15: a holder that sleeps past its lease.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "locks/distributed/support/lock_suite.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using testing::AgentProcess;
using testing::kShortLease;
using testing::MustAcquire;
using testing::MustInspect;

class PauseSuiteTest : public testing::ServerLockSuiteTest {};

INSTANTIATE_TEST_SUITE_P(Locks, PauseSuiteTest, ::testing::ValuesIn(testing::ServerSetups()), testing::LockSetupName);

// A store as users have to build it.
class TokenCheckingStore {
 public:
  bool Write(int64_t token) {
    if (token < newest_) return false;
    newest_ = token;
    return true;
  }

 private:
  int64_t newest_ = 0;
};

int64_t TokenOf(const std::string& held) {
  std::istringstream words(held);
  std::string skipped;
  int64_t token = -1;
  words >> skipped >> skipped >> skipped >> token;
  return token;
}

void ExpectStoreRefuses(int64_t old_token, const LockLease& next) {
  const absl::StatusOr<int64_t> token = next.fencing_token();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_GT(*token, old_token) << LockKindName(next.kind());
  TokenCheckingStore store;
  EXPECT_TRUE(store.Write(old_token));
  EXPECT_TRUE(store.Write(*token));
  EXPECT_FALSE(store.Write(old_token));
}

TEST_P(PauseSuiteTest, Holder_SleepsPastItsLease_LearnsItAtTheFirstLook) {
  const auto others = NewClient();
  for (const LockKind kind : ExclusiveKinds()) {
    const std::string name = NewName();
    const std::unique_ptr<AgentProcess> agent = NewAgent(kShortLease);
    const std::string held = agent->Acquire(name, LockKindName(kind));
    ASSERT_TRUE(absl::StartsWith(held, "held 0 1 ")) << held;

    agent->Kill(SIGSTOP);
    LockLease next = MustAcquire(*others, name, {.kind = kind});
    agent->Kill(SIGCONT);

    EXPECT_EQ(agent->Do("valid 0"), "false") << LockKindName(kind);
    if (HasTokens()) ExpectStoreRefuses(TokenOf(held), next);
    EXPECT_EQ(agent->Do("await-lost 0"), "lost") << LockKindName(kind);
    const std::string released = agent->Do("release 0");
    EXPECT_TRUE(absl::StartsWith(released, "FAILED_PRECONDITION")) << released;
    EXPECT_TRUE(next.valid());
    EXPECT_EQ(MustInspect(*others, name).owner_holds, 1) << LockKindName(kind);
    EXPECT_TRUE(next.Release().ok());
  }
}

}  // namespace
}  // namespace stockade
