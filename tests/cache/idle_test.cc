// idle_ttl: an entry leaves when nobody has asked for it for so long, and hits write nothing.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "cache/subject.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

constexpr absl::Duration kIdle = absl::Seconds(80);
// The longest time after which an idle entry leaves: an eighth and two ticks.
const absl::Duration kLate = absl::Seconds(10) + absl::Nanoseconds(2 << 24);

class IdleTest : public ShapeTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, IdleTest, ::testing::ValuesIn(Shapes()), NameOf);

TEST_P(IdleTest, Entry_NobodyAsks_LeavesNeitherEarlyNorMoreThanAnEighthLate) {
  for (const absl::Duration used_after :
       {absl::ZeroDuration(), absl::Seconds(5), absl::Seconds(10), absl::Seconds(79)}) {
    Subject subject(GetParam(), {.idle_ttl = kIdle});
    EXPECT_EQ(subject.Ask(), 1);
    subject.Advance(used_after);
    EXPECT_EQ(subject.Ask(), 1) << "a use";
    subject.Advance(kIdle - absl::Nanoseconds(1));
    EXPECT_EQ(subject.Peek().first, 1) << "not early, " << used_after;
    subject.Advance(kLate);
    EXPECT_EQ(subject.Peek().first, "nothing") << "late, " << used_after;
    EXPECT_EQ(subject.Present(), "nothing");
    EXPECT_EQ(subject.Ask(), 2);
    EXPECT_EQ(subject.Stats().expired, GetParam().asker == Asker::kGetAllOfThree ? 3u : 1u);
  }
}

TEST_P(IdleTest, Entry_IsUsed_StaysUntilItsTtl) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(1'000), .idle_ttl = kIdle});
  EXPECT_EQ(subject.Ask(), 1);
  for (int i = 0; i < 99; ++i) {
    subject.Advance(absl::Seconds(10));
    EXPECT_EQ(subject.Ask(), 1) << i;
  }
  subject.Advance(absl::Seconds(10));
  EXPECT_EQ(subject.Ask(), 2) << "its time to live";
}

// Each request counts, also one that has to load and gets the old value because that fails.
TEST_P(IdleTest, Entry_HasExpiredAndIsUsedWhileLoadsFail_IsServedAsStale) {
  Subject subject(GetParam(), {.ttl = absl::Seconds(2), .idle_ttl = kIdle, .stale_if_error = absl::Hours(1)});
  EXPECT_EQ(subject.Ask(), 1);
  subject.outcome = absl::UnavailableError("down");
  for (int i = 0; i < 10; ++i) {
    subject.Advance(kIdle / 2);
    subject.AskNeighbours();
    EXPECT_EQ(subject.Ask(), 1) << i;
  }
}

TEST_P(IdleTest, Put_BeginsItsTimeAgainAndARefreshDoesNot) {
  Subject subject(GetParam(), {.idle_ttl = kIdle});
  subject.Put(1, 10);
  subject.Put(2, 20);
  subject.Advance(absl::Seconds(60));
  subject.Put(1, 11);
  subject.Refresh(2);
  subject.RunBackground().get();
  EXPECT_EQ(subject.Peek(2).first, 1);
  subject.Advance(absl::Seconds(60));
  EXPECT_EQ(subject.Peek(1).first, 11);
  EXPECT_EQ(subject.Peek(2).first, "nothing");
}

TEST_P(IdleTest, Entry_IsIdleAndNotYetRemoved_PutAndRefreshStoreAsIfItWereNot) {
  Subject subject(GetParam(), {.idle_ttl = kIdle});
  subject.Put(1, 10);
  subject.Put(2, 20);
  subject.Advance(kIdle + kLate);
  subject.Put(1, 11);
  subject.Refresh(2);
  subject.RunBackground().get();
  subject.Advance(kIdle - absl::Nanoseconds(1));
  EXPECT_EQ(subject.Peek(1).first, 11);
  EXPECT_EQ(subject.Peek(2).first, 1);
  EXPECT_EQ(subject.Stats().expired, 2u);
}

TEST_P(IdleTest, Entry_IsIdleAndTheLoadFails_IsNotServedAsStale) {
  Subject subject(GetParam(), {.idle_ttl = kIdle, .stale_if_error = absl::Hours(1)});
  EXPECT_EQ(subject.Ask(), 1);
  subject.Advance(kIdle + kLate);
  subject.outcome = absl::UnavailableError("down");
  EXPECT_EQ(subject.Ask(), subject.outcome);
}

TEST(IdleSweepTest, Sweep_NothingIsStored_RemovesWhatIsIdle) {
  ManualClock clock;
  IntCache cache({.idle_ttl = kIdle, .sweep_interval = absl::Seconds(1), .clock = &clock, .metrics = nullptr}, ItsKey);
  for (int key = 0; key < 1'000; ++key) cache.Put(key, key);
  clock.Advance(absl::Seconds(50));
  for (int key = 0; key < 500; ++key) EXPECT_EQ(**cache.Get(key), key);
  clock.Advance(absl::Seconds(41));
  SpinUntil([&] {
    clock.Advance(absl::Milliseconds(1));
    return cache.size() == 500;
  });
}

TEST(IdleEvictionTest, SetMaxWeight_EvictsWhatIsIdle_CountsAsExpired) {
  ManualClock clock;
  MetricsRegistry registry;
  IntCache cache({.idle_ttl = kIdle, .clock = &clock, .metrics = &registry}, ItsKey);
  for (int key = 0; key < 10; ++key) cache.Put(key, key);
  clock.Advance(kIdle + kLate);
  EXPECT_EQ(cache.SetMaxWeight(1), absl::OkStatus());
  EXPECT_EQ(cache.Stats().evicted, 0u);
  EXPECT_GE(cache.Stats().expired, 9u);
}

TEST(IdleOptionsTest, IdleTtl_Bounds) {
  for (const absl::Duration valid : {absl::Milliseconds(150), absl::Hours(2'400), absl::InfiniteDuration()}) {
    EXPECT_EQ((LoadingCacheOptions{.idle_ttl = valid}.Validate()), absl::OkStatus());
  }
  for (const absl::Duration invalid : {absl::Milliseconds(150) - absl::Nanoseconds(1),
                                       absl::Hours(2'400) + absl::Nanoseconds(1), absl::ZeroDuration()}) {
    const absl::Status refused = LoadingCacheOptions{.name = "idle", .idle_ttl = invalid}.Validate();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.ToString().find("'idle': idle_ttl = "), std::string::npos);
  }
}

// A slot that gets another entry must not lend it its last use, nor take that of the other.
TEST(IdleStressTest, Hits_BesideEvictionAndInvalidation_NeverAnotherKeysValue) {
  ManualClock clock;
  LoadingCache<int, int> cache(
      {.max_weight = 64, .idle_ttl = absl::Milliseconds(150), .clock = &clock, .metrics = nullptr},
      [](const int& key) -> absl::StatusOr<int> { return key; });
  const int64_t steps = Scaled(20'000, 500'000);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < steps; ++i) {
        const int key = static_cast<int>((i * 7 + thread) % 128);
        if (i % 50 == 0) clock.Advance(absl::Milliseconds(5));
        if (i % 31 == 0) cache.Invalidate(key);
        EXPECT_EQ(**cache.Get(key), key);
      }
    });
  }
}

}  // namespace
}  // namespace stockade::testing
