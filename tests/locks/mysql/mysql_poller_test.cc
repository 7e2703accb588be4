#include "mysql_poller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stockade/base/manual_clock.h"
#include "support/await.h"

namespace stockade::locks_internal {
namespace {

using stockade::testing::Await;

constexpr absl::Duration kMin = absl::Milliseconds(5);
constexpr absl::Duration kMax = absl::Milliseconds(40);
constexpr NameState kHeld = {.held = true, .newest = 1};

// Answers for a database, and notes when it is asked for what.
class Oracle {
 public:
  explicit Oracle(ManualClock& clock) : clock_(clock) {}

  MySqlPoller::Ask Ask() {
    return [this](std::span<const std::string> names) { return Answer(names); };
  }
  void Set(const std::string& name, NameState state) {
    const std::lock_guard lock(mutex_);
    states_[name] = state;
  }
  void SetAway(bool away) {
    const std::lock_guard lock(mutex_);
    away_ = away;
  }
  // Once so many questions have come: when the last one did.
  Instant AwaitQuestion(size_t count) {
    Await("a question", [&] { return times().size() >= count; });
    EXPECT_EQ(times().size(), count);
    return times()[count - 1];
  }
  std::vector<Instant> times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  std::vector<std::string> last_names() const {
    const std::lock_guard lock(mutex_);
    return last_names_;
  }

 private:
  std::optional<std::vector<NameState>> Answer(std::span<const std::string> names) {
    const std::lock_guard lock(mutex_);
    times_.push_back(clock_.Now());
    last_names_.assign(names.begin(), names.end());
    if (away_) return std::nullopt;
    std::vector<NameState> states;
    states.reserve(names.size());
    for (const std::string& name : names) states.push_back(states_[name]);
    return states;
  }

  ManualClock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, NameState> states_;
  bool away_ = false;
  std::vector<Instant> times_;
  std::vector<std::string> last_names_;
};

class MySqlPollerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(poller_.Start(), absl::OkStatus()); }

  std::unique_ptr<LockWatch> Watch(const std::string& name, std::atomic<int>& hints,
                                   LockKind kind = LockKind::kReentrant) {
    return poller_.Watch({.name = name, .kind = kind}, [&hints] { ++hints; });
  }
  // The next question comes exactly so long after the one before.
  void ExpectNextAfter(absl::Duration span) {
    const Instant before = oracle_.times().empty() ? clock_.Now() : oracle_.times().back();
    const size_t count = oracle_.times().size();
    clock_.AwaitWaiters(1);
    clock_.Advance(span - absl::Microseconds(1));
    clock_.AwaitWaiters(1);
    clock_.Advance(absl::Microseconds(1));
    EXPECT_EQ(oracle_.AwaitQuestion(count + 1) - before, span);
  }

  ManualClock clock_;
  Oracle oracle_{clock_};
  std::atomic<int> purges_ = 0;
  MySqlPoller poller_{
      {.interval_min = kMin, .interval_max = kMax, .purge_interval = absl::Hours(1)}, &clock_, oracle_.Ask(), [this] {
        return ++purges_ == 1;
      }};
};

TEST_F(MySqlPollerTest, NothingChanges_AsksHalfAsOftenEachTimeDownToTheBound) {
  std::atomic<int> hints = 0;
  oracle_.Set("stock", kHeld);
  const auto watch = Watch("stock", hints);
  for (const int milliseconds : {5, 5, 10, 20, 40, 40, 40}) ExpectNextAfter(absl::Milliseconds(milliseconds));
  EXPECT_EQ(hints, 0);
}

TEST_F(MySqlPollerTest, HandsChange_AsksOftenAgain) {
  std::atomic<int> hints = 0;
  oracle_.Set("stock", kHeld);
  const auto watch = Watch("stock", hints);
  for (const int milliseconds : {5, 5, 10, 20}) ExpectNextAfter(absl::Milliseconds(milliseconds));
  oracle_.Set("stock", {.held = true, .newest = 2});
  ExpectNextAfter(kMax);
  ExpectNextAfter(kMin);
  EXPECT_EQ(hints, 0);
}

TEST_F(MySqlPollerTest, Free_TellsThoseItIsFreeFor) {
  std::atomic<int> readers = 0;
  std::atomic<int> writers = 0;
  std::atomic<int> others = 0;
  oracle_.Set("stock", {.read = true, .newest = 1});
  oracle_.Set("other", kHeld);
  const auto reader = Watch("stock", readers, LockKind::kRead);
  const auto writer = Watch("stock", writers, LockKind::kWrite);
  const auto other = Watch("other", others);
  clock_.AwaitWaiters(1);
  clock_.Advance(kMin);
  Await("the reader's hint", [&] { return readers > 0; });
  oracle_.Set("stock", {.newest = 1});
  clock_.Advance(kMax);
  Await("the writer's hint", [&] { return writers > 0; });
  EXPECT_EQ(others, 0);
}

TEST_F(MySqlPollerTest, ManyNames_AreOneQuestion) {
  std::atomic<int> hints = 0;
  std::vector<std::unique_ptr<LockWatch>> watches;
  watches.reserve(MySqlPoller::kMostNames + 1);
  for (size_t i = 0; i < MySqlPoller::kMostNames + 1; ++i) {
    oracle_.Set(std::to_string(i), kHeld);
    watches.push_back(Watch(std::to_string(i), hints));
  }
  clock_.AwaitWaiters(1);
  clock_.Advance(kMin);
  oracle_.AwaitQuestion(1);
  EXPECT_EQ(oracle_.last_names().size(), MySqlPoller::kMostNames);
  ExpectNextAfter(kMin);
  EXPECT_EQ(oracle_.last_names().front(), "99") << "the last by name, which was left, comes first";
}

TEST_F(MySqlPollerTest, DatabaseAway_AsksSeldomAndTellsOnceItIsBack) {
  std::atomic<int> hints = 0;
  oracle_.SetAway(true);
  const auto watch = Watch("stock", hints);
  for (const int milliseconds : {5, 10, 20, 40, 40}) ExpectNextAfter(absl::Milliseconds(milliseconds));
  EXPECT_EQ(hints, 0);
  oracle_.SetAway(false);
  ExpectNextAfter(kMax);
  Await("a hint", [&] { return hints == 1; });
}

TEST_F(MySqlPollerTest, NobodyWaits_AsksNothing) {
  std::atomic<int> hints = 0;
  oracle_.Set("stock", kHeld);
  auto watch = Watch("stock", hints);
  ExpectNextAfter(kMin);
  watch.reset();
  clock_.Advance(absl::Seconds(10));
  watch = Watch("stock", hints);
  clock_.AwaitWaiters(1);
  clock_.Advance(kMin);
  oracle_.AwaitQuestion(2);
}

TEST_F(MySqlPollerTest, ReleaseInThisProcess_TellsWithoutAQuestion) {
  std::atomic<int> hints = 0;
  std::atomic<int> others = 0;
  const auto watch = Watch("stock", hints);
  const auto other = Watch("other", others);
  poller_.TellReleased("stock");
  poller_.TellReleased("nobody's");
  EXPECT_EQ(hints, 1);
  EXPECT_EQ(others, 0);
  EXPECT_TRUE(oracle_.times().empty());
}

TEST_F(MySqlPollerTest, ReleasesInThisProcessForLong_LetOthersHaveTheirChance) {
  const absl::Duration pause = MySqlPoller::kMostHanding * 0.6;
  std::atomic<int> hints = 0;
  oracle_.Set("stock", kHeld);
  const auto watch = Watch("stock", hints);
  clock_.Advance(absl::Seconds(1));
  oracle_.AwaitQuestion(1);
  poller_.TellReleased("stock");
  EXPECT_EQ(hints, 1) << "the first for a second";
  clock_.AwaitWaiters(1);  // Its next look is counted from its last answer.
  clock_.Advance(pause);
  oracle_.AwaitQuestion(2);
  poller_.TellReleased("stock");
  EXPECT_EQ(hints, 2);
  clock_.AwaitWaiters(1);
  clock_.Advance(pause);
  oracle_.AwaitQuestion(3);
  oracle_.Set("stock", {.newest = 1});
  poller_.TellReleased("stock");
  EXPECT_EQ(hints, 2);
  ExpectNextAfter(kMin);
  Await("the answer's hint", [&] { return hints == 3; });
  poller_.TellReleased("stock");
  EXPECT_EQ(hints, 4);
}

TEST_F(MySqlPollerTest, WatchEnded_HearsNothing) {
  std::atomic<int> hints = 0;
  auto watch = Watch("stock", hints);
  watch.reset();
  poller_.TellReleased("stock");
  EXPECT_EQ(hints, 0);
}

TEST_F(MySqlPollerTest, Purge_ComesByItself_AndSoonAgainWhereSomethingIsLeft) {
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Hours(1));
  Await("a purge", [&] { return purges_ == 1; });
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Seconds(1));
  Await("the next", [&] { return purges_ == 2; });
}

}  // namespace
}  // namespace stockade::locks_internal
