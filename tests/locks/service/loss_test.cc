// Loss is never silent, and one lease's end is no other's.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "locks/service/service_fixture.h"
#include "stockade/base/log.h"
#include "support/await.h"

namespace stockade {
namespace {

using ::testing::ElementsAre;
using testing::Fault;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ServiceTest;

class LossTest : public ServiceTest {};

constexpr absl::Duration kLease = absl::Seconds(1);
// The engine frees it after kLease; here it is over 1 % and 2 ms before.
constexpr absl::Duration kValidFor = absl::Milliseconds(988);

TEST_F(LossTest, LeaseOver_IsInvalidBeforeTheEngineFreesIt) {
  LockLease lease = Must(service_->Acquire("a", {.lease = kLease}));
  EXPECT_EQ(lease.remaining(), kValidFor);
  clock_.Advance(kValidFor - absl::Nanoseconds(1));
  EXPECT_TRUE(lease.valid());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1) << "the engine has it still";
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.Release()));
  EXPECT_EQ(world_->releases, 0);
}

TEST_F(LossTest, LeaseOver_CallbacksAreCalledByTheClockAlone) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = kLease}));
  std::atomic<bool> lost = false;
  const std::stop_callback on_lost(lease.lost(), [&lost] {
    lost = true;
    lost.notify_all();
  });
  clock_.AwaitWaiters(1);
  clock_.Advance(kValidFor);
  lost.wait(false);
}

TEST_F(LossTest, LostAlready_CallbackIsCalledAtOnce) {
  const LockLease lease = Must(service_->Acquire("a", {.lease = kLease}));
  clock_.Advance(kLease);
  bool lost = false;
  const std::stop_callback on_lost(lease.lost(), [&lost] { lost = true; });
  EXPECT_TRUE(lost);
}

TEST_F(LossTest, Released_CallbacksAreNotCalled) {
  LockLease lease = Must(service_->Acquire("a", {.lease = kLease}));
  bool lost = false;
  const std::stop_callback on_lost(lease.lost(), [&lost] { lost = true; });
  ASSERT_TRUE(lease.Release().ok());
  clock_.Advance(2 * kLease);
  service_.reset();
  EXPECT_FALSE(lost);
}

TEST_F(LossTest, CallbackRunning_ReleaseWaitsForIt) {
  ThreadPool pool(1);
  absl::StatusOr<std::unique_ptr<LockService>> service = EngineLockService::Create(
      std::make_unique<testing::FlakyEngine>(world_), {.clock = &clock_, .executor = &pool, .metrics = nullptr});
  ASSERT_TRUE(service.ok());
  LockLease lease = Must((*service)->Acquire("a", {.lease = kLease}));
  std::atomic<bool> begun = false;
  std::atomic<bool> ended = false;
  const std::stop_callback on_lost(lease.lost(), [&] {
    begun = true;
    begun.notify_all();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    ended = true;
  });
  clock_.Advance(kLease);
  EXPECT_FALSE(lease.valid());
  begun.wait(false);
  EXPECT_FALSE(lease.Release().ok());
  EXPECT_TRUE(ended);
}

TEST_F(LossTest, ReleasedByItsOwnCallback_Returns) {
  LockLease lease = Must(service_->Acquire("a", {.lease = kLease}));
  absl::Status released = absl::OkStatus();
  std::atomic<bool> returned = false;
  const std::stop_callback on_lost(lease.lost(), [&] {
    released = lease.Release();
    returned = true;
    returned.notify_all();
  });
  clock_.AwaitWaiters(1);
  clock_.Advance(kLease);
  returned.wait(false);
  EXPECT_TRUE(absl::IsFailedPrecondition(released)) << released;
}

TEST_F(LossTest, TakenAgainByItsOwner_TheOlderLeaseDoesNotReleaseIt) {
  LockLease older = Must(service_->Acquire("a", {.lease = kLease}));
  clock_.Advance(2 * kLease);
  const LockLease newer = Must(service_->Acquire("a"));
  EXPECT_FALSE(older.valid());
  EXPECT_TRUE(absl::IsFailedPrecondition(older.Release()));
  EXPECT_TRUE(newer.valid());
  EXPECT_EQ(newer.hold_count(), 1);
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
}

// The engine lost it without our knowing, and counts from one again.
TEST_F(LossTest, EngineCountsAnew_TheOuterLeaseIsLost) {
  LockLease outer = Must(service_->Acquire("a"));
  ASSERT_TRUE(*service_->ForceRelease("a"));
  EXPECT_TRUE(outer.valid()) << "nobody has looked";
  bool lost = false;
  const std::stop_callback on_lost(outer.lost(), [&lost] { lost = true; });
  LockLease inner = Must(service_->Acquire("a"));
  EXPECT_TRUE(lost);
  EXPECT_FALSE(outer.valid());
  EXPECT_FALSE(outer.Release().ok());
  EXPECT_TRUE(inner.valid());
  EXPECT_TRUE(inner.Release().ok());
}

// The callback of the loss takes its time: a lease that was granted before it has expired when it would be handed out.
TEST_F(LossTest, EngineCountsAnewAndTellingTakesLong_TheNewLeaseIsNotHandedOut) {
  const LockLease outer = Must(service_->Acquire("a"));
  ASSERT_TRUE(*service_->ForceRelease("a"));
  const std::stop_callback on_lost(outer.lost(), [this] { clock_.Advance(kLease); });
  const absl::StatusOr<LockLease> inner = service_->Acquire("a", {.lease = kLease});
  EXPECT_TRUE(absl::IsUnavailable(inner.status())) << inner.status();
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0) << "and the engine has it no longer";
}

// An engine that gives no new token to a re-entry must not let in by what its owner has lost.
TEST_F(LossTest, LostBeforeTheEngineFreesIt_WhoComesBackIsTheFirst) {
  std::vector<bool> first, outside_write;
  world_->on_try = [&](const LockTry& step) {
    first.push_back(step.first);
    outside_write.push_back(step.outside_write);
    return Fault::kNone;
  };
  const LockLease over = Must(service_->Acquire("a", {.kind = LockKind::kWrite, .lease = kLease}));
  LockLease within = Must(service_->Acquire("a", {.kind = LockKind::kRead, .lease = kLease}));
  EXPECT_TRUE(within.Release().ok());
  clock_.Advance(kValidFor);
  const LockLease read = Must(service_->Acquire("a", {.kind = LockKind::kRead}));
  const LockLease again = Must(service_->Acquire("a", {.kind = LockKind::kRead}));
  EXPECT_EQ(first, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(outside_write, (std::vector<bool>{false, false, true, true}));
}

TEST_F(LossTest, LostWhileItIsReentered_IsTriedAnew) {
  const LockLease outer = Must(service_->Acquire("a", {.lease = kLease}));
  std::vector<bool> first;
  world_->on_try = [&](const LockTry& step) {
    if (first.empty()) clock_.Advance(kValidFor);
    first.push_back(step.first);
    return Fault::kNone;
  };
  const LockLease inner = Must(service_->Acquire("a"));
  EXPECT_EQ(first, (std::vector<bool>{false, true}));
  EXPECT_FALSE(outer.valid());
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
}

// The engine has what its owner has not: a release that it never heard of.
TEST_F(LossTest, ReleaseOfAReadUnheard_ItsWriteWaitsUntilThatIsOver) {
  LockLease read = Must(service_->Acquire("a", {.kind = LockKind::kRead, .lease = 1000 * kLease}));
  world_->on_release = [](const LockRelease&) { return Fault::kRequestLost; };
  const absl::Status released = Finish(std::async(std::launch::async, [&read] { return read.Release(); }));
  EXPECT_TRUE(absl::IsUnavailable(released)) << released;
  const AcquireOptions write = {.kind = LockKind::kWrite, .owner = LockOwner::ThisThread()};
  const absl::Status busy = service_->Acquire("a", {.kind = LockKind::kWrite, .wait = absl::ZeroDuration()}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(busy)) << busy;
  {
    // From here on the service, which goes on to release the read, may be heard.
    const std::lock_guard lock(world_->mutex);
    world_->on_release = nullptr;
  }
  const absl::StatusOr<LockLease> lease = Finish(AcquireInThread("a", write));
  EXPECT_TRUE(lease.ok()) << lease.status();
}

TEST_F(LossTest, TakenByForce_ReleaseSaysSo) {
  LockLease lease = Must(service_->Acquire("a"));
  ASSERT_TRUE(*service_->ForceRelease("a"));
  const LockLease other = Must(service_->Acquire("a", {.owner = LockOwner::New()}));
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.Release()));
  EXPECT_TRUE(other.valid());
  EXPECT_EQ(HoldsOf("a", other.owner()), 1);
}

TEST_F(LossTest, ReenteredForLess_TheOuterLeaseIsNotShortened) {
  const LockLease outer = Must(service_->Acquire("a", {.lease = 10 * kLease}));
  LockLease inner = Must(service_->Acquire("a", {.lease = kLease}));
  clock_.Advance(5 * kLease);
  EXPECT_TRUE(outer.valid());
  EXPECT_TRUE(inner.valid()) << "they stand on one hold";
  EXPECT_TRUE(inner.Release().ok());
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
}

TEST_F(LossTest, AnswerLaterThanTheLease_IsNotGiven) {
  world_->on_try = [this](const LockTry&) {
    clock_.Advance(2 * kLease);
    return Fault::kNone;
  };
  const absl::StatusOr<LockLease> lease = service_->Acquire("a", {.lease = kLease});
  // The engine gave it when it ran the try, after the pause of this test; the caller cannot know.
  EXPECT_TRUE(absl::IsUnavailable(lease.status())) << lease.status();
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 0);
}

// On an executor that runs it at once, it runs within the acquire that found the loss.
TEST_F(LossTest, CallbackWithinAnAcquireOfTheSameOwner_MayRelease) {
  LockLease before = Must(service_->Acquire("a"));
  absl::Status released;
  const auto release = [&] { released = before.Release(); };
  const std::stop_callback lost(before.lost(), release);
  ASSERT_TRUE(service_->ForceRelease("a").value());
  const LockLease now = Must(service_->Acquire("a"));
  EXPECT_TRUE(absl::IsFailedPrecondition(released)) << released;
  EXPECT_TRUE(now.valid());
  EXPECT_EQ(HoldsOf("a", LockOwner::ThisThread()), 1);
}

// What the library logs, from the beginning of a second on, so that the limit of messages leaves none out.
class Logged {
 public:
  Logged() {
    SetLogSink([this](LogSeverity, std::string_view message) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(message);
    });
    const auto passes = [this] {
      Take();
      base_internal::Log(LogSeverity::kInfo, "marker");
      return !Take().empty();
    };
    while (passes()) {
    }
    testing::Await("the next second of the log", passes);
  }
  ~Logged() { SetLogSink(nullptr); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;

  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(LossTest, Expired_IsLoggedOnceByItsNameKindReasonAndToken) {
  Logged log;
  {
    LockLease lease = Must(service_->Acquire("a", {.kind = LockKind::kWrite, .lease = kLease}));
    const std::string token = std::to_string(lease.fencing_token().value());
    clock_.Advance(kLease);
    EXPECT_FALSE(lease.valid());
    EXPECT_THAT(log.Take(),
                ElementsAre("lock service 'default': lock 'a' (write) was lost: its time was over before it "
                            "was renewed or released (token " +
                            token + ")"));
    EXPECT_TRUE(absl::IsFailedPrecondition(lease.Release()));
    const LockLease other = Must(service_->Acquire("b", {.lease = kLease}));
    clock_.Advance(kLease);
    EXPECT_FALSE(other.valid());
    EXPECT_THAT(log.Take(), ElementsAre(HasSubstr("lock 'b' (reentrant) was lost")));
  }
  EXPECT_THAT(log.Take(), IsEmpty());
}

TEST_F(LossTest, Gone_AReleaseThatFindsItLogsItOnce) {
  Logged log;
  {
    const LockLease outer = Must(service_->Acquire("a"));
    LockLease inner = Must(service_->Acquire("a"));
    ASSERT_TRUE(service_->ForceRelease("a").ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(inner.Release()));
    EXPECT_THAT(log.Take(), ElementsAre(HasSubstr("lock 'a' (reentrant) was lost: the engine no longer has it")));
  }
  {
    const LockLease released = Must(service_->Acquire("b"));
    ASSERT_TRUE(service_->ForceRelease("b").ok());
  }
  EXPECT_THAT(log.Take(), ElementsAre(HasSubstr("lock 'b' (reentrant) was lost: the engine no longer has it")));
}

TEST_F(LossTest, ManyAreGoneAtOneRenewal_TenHaveALineAndOneIsForTheRest) {
  for (const size_t lost : {size_t{10}, size_t{11}, size_t{14}}) {
    Logged log;
    std::vector<LockLease> leases;
    for (size_t i = 0; i < lost; ++i) leases.push_back(Must(service_->Acquire("n" + std::to_string(i))));
    for (const LockLease& lease : leases) ASSERT_TRUE(service_->ForceRelease(lease.name()).ok());
    clock_.Advance(kWatchdogLease / 3);
    testing::Await("the losses",
                   [&] { return std::ranges::none_of(leases, [](const LockLease& lease) { return lease.valid(); }); });
    std::vector<std::string> lines;
    testing::Await("the lines", [&] {
      for (std::string& line : log.Take()) lines.push_back(std::move(line));
      return lines.size() == std::min<size_t>(lost, 11);
    });
    if (lost == 11) EXPECT_THAT(lines.back(), HasSubstr(": 1 more were lost: lock 'n"));
    if (lost == 14) {
      EXPECT_THAT(lines.back(), HasSubstr(": 4 more were lost: lock 'n"));
      EXPECT_THAT(lines.back(), ::testing::EndsWith(", ..."));
      EXPECT_EQ(std::ranges::count(lines.back(), '('), 3);
    }
  }
}

}  // namespace
}  // namespace stockade
